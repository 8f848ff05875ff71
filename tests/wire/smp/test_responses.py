"""What the core answers and does, as the transmissions of each version."""

from __future__ import annotations

from typing import get_args

import pytest

from headgate.client.smp.recipient import Request
from headgate.core import effects as e
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.reader_effects import ReaderEffect
from headgate.errors import Malformed
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import TRANSMISSION
from headgate.wire.smp.codec.sealed import (
    MESSAGE_SEALED,
    NOTICE_SEALED,
    Body,
    QuotaMarker,
    open_message,
)
from headgate.wire.smp.codec.transmissions import encode_unsigned, parse_reply
from headgate.wire.smp.handshake import Role
from headgate.wire.smp.responses import ENCODERS, Responses, request_of
from tests.support.smp_parties import NOW
from tests.support.smp_session import digest
from tests.support.smp_transcript import SmpTranscript

OTHER_WIRES = {e.PurgeDone, e.Removed, e.GoOn, e.Revoked, *get_args(ReaderEffect)}
"""Effects that only sessions of other wires have."""


# Messages.


def test_a_message_is_sealed_with_the_secret_of_its_queue() -> None:
    """ACC-3, S000-49, S000-51: the time and the flag of the sender are inside; of another queue the
    secret does not open it."""
    play = SmpTranscript()
    play.play("""
        a> NEW q; NEW p
        a< IDS q q.snd; IDS p p.snd
    """)
    play.connect("b").ask(Request(c.SmpSend(True, b"any \0 bytes"), play.queues["q"].sender))
    ((received,),) = play.clients["a"].received
    assert isinstance(received.reply, r.Msg)
    assert len(received.reply.sealed) == MESSAGE_SEALED
    assert play.queues["q"].open(received.reply) == Body(int(NOW), True, b"any \0 bytes")
    with pytest.raises(Malformed):
        play.queues["p"].open(received.reply)
    with pytest.raises(Malformed):
        open_message(play.queues["q"].secret, digest("other id")[:24], received.reply.sealed)


def test_the_same_message_has_the_same_bytes_each_time() -> None:
    """ACC-40, S000-50: to a subscriber, to the next one, to who gets it, of another version too."""
    play = SmpTranscript()
    play.play("""
        a> NEW q only
        a< IDS q q.snd
        a> SEND q one
        a< OK q.snd
    """)
    queue = play.queues["q"]
    asked: list[tuple[int, c.Command]] = [(19, c.Sub()), (7, c.Sub()), (12, c.SmpGet())]
    seen = []
    for version, command in asked:
        replies = play.connect(f"v{version}", version=version).ask(queue.asks(command))
        seen += [reply for reply in replies if isinstance(reply, r.Msg)]
    assert seen == [seen[0]] * 3


def test_a_marker_has_the_time_of_the_message_that_was_too_many() -> None:
    """ACC-45"""
    play = SmpTranscript(quota=1)
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one; SEND q two
        b< OK q.snd; ERR q.snd QUOTA
        a< * MSG q one
    """)
    (marker,) = play.clients["a"].ask(play.request(play.clients["a"], "ACK q one"))
    assert play.queues["q"].open(marker) == QuotaMarker(int(NOW))


def test_a_notice_is_for_the_recipient_and_each_has_a_nonce() -> None:
    """ACC-76, SMP-38: the notifier cannot open it, and two of them have one size."""
    play = SmpTranscript()
    play.play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        n> NSUB q
        n< SOK q.ntf
        b> SEND q one notify; SEND q 'a longer one' notify
        b< OK q.snd; OK q.snd
        a< * MSG q one
    """)
    play.harness.notify()
    ((first, second),) = play.clients["n"].received
    notices = [each.reply for each in (first, second) if isinstance(each.reply, r.NMsg)]
    assert len({notice.nonce for notice in notices}) == 2
    assert {len(notice.sealed) for notice in notices} == {NOTICE_SEALED}
    opened = [play.queues["q"].open_notice(notice) for notice in notices]
    bodies = [play.harness.bodies[MessageId(each.message_id)] for each in opened]
    assert bodies == [b"one", b"a longer one"]
    assert {each.seconds for each in opened} == {int(NOW)}


# What is known of a queue.


def test_a_recipient_asks_about_its_queue() -> None:
    """ACC-33: keys, notifier, size, the first message, and the subscription of who asks."""
    time = "2025-06-15T15:06:40Z"
    play = SmpTranscript(quota=1)
    play.play(f"""
        a> NEW q
        a< IDS q q.snd
        a> QUE q
        a< INFO q {{"qiSnd":false,"qiNtf":false,"qiSub":{{"qSubThread":"subThread"}},"qiSize":0}}
        a> KEY q bob; NKEY q
        a< OK q; NID q q.ntf
        b> QUE q
        b< INFO q {{"qiSnd":true,"qiNtf":true,"qiSize":0}}
        b> SEND q one by bob; SEND q two by bob
        b< OK q.snd; ERR q.snd QUOTA
        a< * MSG q one
        a> QUE q
        a< INFO q {{"qiSnd":true,"qiNtf":true,\
"qiSub":{{"qSubThread":"subThread","qDelivered":"one"}},"qiSize":2,\
"qiMsg":{{"msgId":"one","msgTs":"{time}","msgType":"message"}}}}
        a> ACK q one
        a< MSG q QUOTA
        b> GET q
        b< MSG q QUOTA
        b> QUE q
        b< INFO q {{"qiSnd":true,"qiNtf":true,\
"qiSub":{{"qSubThread":"prohibitSub","qDelivered":"QUOTA"}},"qiSize":1,\
"qiMsg":{{"msgId":"QUOTA","msgTs":"{time}","msgType":"quota"}}}}
    """)


# Versions.


@pytest.mark.parametrize(("version", "word"), [(7, "OK"), (15, "OK"), (16, "SOK"), (19, "SOK")])
def test_a_subscribe_is_answered_in_the_word_of_the_version(version: int, word: str) -> None:
    """S001-4, SMP-40: also that of a notifier."""
    play = SmpTranscript()
    play.play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
    """)
    play.connect("b", version=version)
    play.play(f"""
        b> SUB q; NSUB q
        b< {word} q; {word} q.ntf
    """)


@pytest.mark.parametrize(("version", "word"), [(9, "END"), (10, "DELD")])
def test_a_deleted_queue_is_named_so_from_version_10_on(version: int, word: str) -> None:
    """SMP-9, SMP-40, S000-15, ACC-38: to the subscriber, not to who did it."""
    play = SmpTranscript()
    play.connect("a", version=version)
    play.play(f"""
        a> NEW q
        a< IDS q q.snd
        c> NKEY q
        c< NID q q.ntf
        a> NSUB q
        a< OK q.ntf
        b> DEL q
        b< OK q
        -- flush
        a< * {word} q; * {word} q.ntf
    """)


@pytest.mark.parametrize(("version", "tally"), [(16, "1"), (18, "1"), (19, "q.ntf")])
def test_a_tally_has_a_hash_from_version_19_on(version: int, tally: str) -> None:
    """S001-5, S001-6, S004-10, SMP-33"""
    play = SmpTranscript()
    for name in ("n", "m"):
        play.connect(name, version=version, service="N", role=Role.NOTIFIER)
    play.play(f"""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        n> NSUB q
        n< SOK q.ntf as N
        m> NSUBS
        m< SOKS N {tally}
        -- flush
        n< * ENDS N {tally}
    """)


@pytest.mark.parametrize("version", [7, 9, 14, 15, 16, 17, 19])
def test_the_ids_of_a_queue_are_those_that_the_version_knows(version: int) -> None:
    """ACC-1, ACC-82, ACC-83: purpose from 9 on, link from 15, notifier from 17."""
    play = SmpTranscript()
    play.connect("a", version=version)
    parts = ["IDS q q.snd", "q.lnk" if version >= 15 else "", "q.ntf" if version >= 17 else ""]
    play.play(f"""
        a> NEW q link notifier
        a< {" ".join(filter(None, parts))}
        b> SEND q hello
        b< OK q.snd
        a< * MSG q hello
    """)
    assert (play.queues["q"].ids.purpose is not None) is (version >= 9)


# What does not fit.


def test_an_answer_that_leaves_no_room_for_its_correlation_is_an_error() -> None:
    """ACC-93: the message itself, asked for with a shorter one, comes."""
    play = SmpTranscript()
    play.play("""
        a> NEW q only
        a< IDS q q.snd
        a> SEND q one
        a< OK q.snd
    """)
    client, queue = play.clients["a"], play.queues["q"]
    long, short = (Request(c.SmpGet(), queue.id, queue.key, None, bytes(n)) for n in (255, 24))
    client.ask(long)
    ((received,),) = client.received
    assert received.correlation == bytes(255)
    assert (received.entity, received.reply) == (queue.id, r.Err("LARGE_MSG"))
    (message,) = client.ask(short)
    assert isinstance(message, r.Msg)


def test_a_link_that_leaves_no_room_for_its_correlation_is_an_error() -> None:
    """ACC-93: what fills a block to its last byte still comes."""
    play = SmpTranscript()
    play.play("""
        a> NEW q contact
        a< IDS q q.snd
    """)
    client, queue = play.clients["a"], play.queues["q"]
    user = bytes(16_100)
    assert client.ask(queue.asks(c.LSet(b"link", b"fixed", user))) == [r.Ok()]
    fits, long = (Request(c.LGet(), b"link", correlation=bytes(n)) for n in (218, 219))
    answer = r.Lnk(queue.sender, b"fixed", user)
    assert client.ask(fits) == [answer]
    sent = encode_unsigned(bytes(218), b"link", r.encode_reply(answer, 19))
    assert len(sent) == TRANSMISSION
    assert client.ask(long) == [r.Err("LARGE_MSG")]


# The table.


def test_every_effect_for_this_wire_has_its_words() -> None:
    """What a handshake waits for is no transmission."""
    effects = set(get_args(e.Effect)) - OTHER_WIRES - {e.Identified}
    assert effects == ENCODERS.keys()


def test_a_queue_that_cannot_be_read_is_an_event_of_its_own() -> None:
    """S001-49, S004-7"""
    play = SmpTranscript()
    damaged = e.Damaged(play.client("a").port.id, QueueId(b"q"))
    sent = parse_reply(Responses(19, digest_of_length).encode_effect(damaged))
    assert (sent.correlation, sent.entity, sent.command) == (b"", b"q", b"ERR STORE unreadable")


def digest_of_length(length: int) -> bytes:
    return digest("drawn")[:length]


def test_only_requests_of_this_wire_are_answered() -> None:
    with pytest.raises(AssertionError, match="their own refs"):
        request_of(7)
