"""What a client asks: every command, as it goes to the core and as it is answered."""

from __future__ import annotations

from typing import get_args

import pytest

from headgate.client.smp.recipient import Request, spki
from headgate.core.model.parties import Purpose
from headgate.crypto.proof import link_sender
from headgate.errors import LimitReached, Unauthorised
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.encoding import string
from headgate.wire.smp.codec.sealed import body_max
from headgate.wire.smp.handshake import Role
from headgate.wire.smp.requests import MAKERS, REFUSED, RequestReader, _change
from tests.support.smp_session import SmpHarness, digest, make_key
from tests.support.smp_transcript import SmpTranscript

AUTH = r.Err("AUTH")
PROHIBITED = r.Err("CMD PROHIBITED")
KEY, DH = make_key("k"), digest("dh")
WEAK = spki(DH)[:12] + bytes(32)
"""A key that gives everybody the same secret."""


def new(*, subscribe: bool = True, dh: bytes | None = None, link: c.NewLink | None = None) -> c.New:
    return c.New(spki(KEY), dh or spki(DH), None, subscribe, Purpose.MESSAGING, link)


# Queues.


def test_a_queue_from_its_making_to_its_end() -> None:
    """ACC-1, ACC-2, ACC-3, ACC-4, ACC-5, ACC-28, ACC-29, S000-35, S000-36, SMP-14: every other
    party has an id of its own."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q hello
        b< OK q.snd
        a< * MSG q hello
        a> ACK q hello
        a< OK q
        a> ACK q hello
        a< ERR q NO_MSG
        b> DEL q by bob
        b< ERR q AUTH
        b> DEL q of q.snd
        b< ERR q.snd AUTH
        a> DEL q
        a< OK q
        a> SUB q; GET q; ACK q; OFF q; QUE q; NKEY q; SEND q late; DEL q
        a< ERR q AUTH; ERR q AUTH; ERR q AUTH; ERR q AUTH; ERR q AUTH; ERR q AUTH; \
ERR q.snd AUTH; ERR q AUTH
    """)
    ids = play.queues["q"].ids
    assert len({ids.recipient, ids.sender}) == 2
    assert len(ids.recipient) == len(ids.sender) == 24


def test_a_queue_is_subscribed_by_its_maker_only_if_it_wants_that() -> None:
    """SMP-10, S000-38"""
    SmpTranscript().play("""
        a> NEW q only
        a< IDS q q.snd
        b> SEND q one
        b< OK q.snd
        a> SUB q
        a< SOK q; * MSG q one
    """)


def test_one_message_is_out_until_it_is_acknowledged() -> None:
    """ACC-35, SMP-11, SMP-13, SMP-17, S000-28, S000-34, S000-37: the next one answers, in the order
    they were sent; an empty acknowledgement has the same again."""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one; SEND q two; SEND q three
        b< OK q.snd; OK q.snd; OK q.snd
        a< * MSG q one
        a> ACK q two
        a< ERR q NO_MSG
        a> ACK q
        a< MSG q one
        a> ACK q one
        a< MSG q two
        a> ACK q two; ACK q three
        a< MSG q three; OK q
        b> SEND q four
        b< OK q.snd
        a< * MSG q four
    """)


def test_a_subscribe_answers_and_has_the_first_message_with_it() -> None:
    """SMP-4, SMP-12, S000-14, S000-30, S000-31, S004-1, S004-47, S004-50: again and again; in one
    block twice, two answers and one message."""
    SmpTranscript().play("""
        a> NEW q; NEW p
        a< IDS q q.snd; IDS p p.snd
        b> SEND q one
        b< OK q.snd
        a< * MSG q one
        a> SUB p
        a< SOK p
        a> SUB q
        a< SOK q; * MSG q one
        a> SUB q; SUB q
        a< SOK q; SOK q; * MSG q one
        -- flush
    """)


def test_each_command_of_a_block_knows_those_before_it() -> None:
    """ACC-50, S004-43, S004-46, S004-49"""
    SmpTranscript().play("""
        a> NEW q only
        a< IDS q q.snd
        a> SEND q one; SUB q; RAW q HELLO; SUB q by bob; SUB nowhere; PING
        a< OK q.snd; SOK q; ERR q CMD UNKNOWN; ERR q AUTH; ERR nowhere AUTH; PONG
        a< * MSG q one
        a> ACK q one; SUB q
        a< OK q; SOK q
        a> KEY q bob; SEND q two by bob; SEND q three
        a< OK q; OK q.snd; ERR q.snd AUTH; * MSG q two
        a> DEL q; SUB q; SEND q four by bob
        a< OK q; ERR q AUTH; ERR q.snd AUTH
    """)


def test_the_next_subscriber_takes_the_queue() -> None:
    """ACC-36, ACC-37, SMP-1, SMP-6, S000-1, S000-2, S000-79"""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        c> SEND q one; SEND q two
        c< OK q.snd; OK q.snd
        a< * MSG q one
        b> SUB q
        b< SOK q; * MSG q one
        a> ACK q one
        a< ERR q NO_MSG
        b> ACK q one
        b< MSG q two
        -- flush
        a< * END q
    """)


def test_getting_is_apart_from_subscribing() -> None:
    """ACC-39, ACC-40, ACC-41, ACC-42, SMP-18, SMP-19, SMP-20, S000-23..S000-27: on one connection
    they exclude each other, on two they do not meet; who gets is sent nothing by itself."""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> GET q
        b< OK q
        c> SEND q one; SEND q two
        c< OK q.snd; OK q.snd
        a< * MSG q one
        b> GET q
        b< MSG q one
        b> GET q
        b< MSG q one
        b> SUB q
        b< ERR q CMD PROHIBITED
        a> GET q
        a< ERR q CMD PROHIBITED
        b> ACK q two
        b< ERR q NO_MSG
        b> ACK q one
        b< OK q
        b> GET q
        b< MSG q two
        a> ACK q one
        a< MSG q two
        a> DEL q
        a< OK q
        -- flush
    """)


def test_a_full_queue_is_full_until_it_is_empty() -> None:
    """ACC-45: the marker takes the place of the message that was too many."""
    SmpTranscript(quota=2).play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one; SEND q two; SEND q three
        b< OK q.snd; OK q.snd; ERR q.snd QUOTA
        a< * MSG q one
        b> SEND q four
        b< ERR q.snd QUOTA
        a> ACK q one
        a< MSG q two
        b> SEND q five
        b< ERR q.snd QUOTA
        a> ACK q two
        a< MSG q QUOTA
        a> ACK q QUOTA
        a< OK q
        b> SEND q six
        b< OK q.snd
        a< * MSG q six
    """)


@pytest.mark.parametrize("version", [7, 8, 10, 11, 19])
def test_the_longest_body_is_that_of_the_version(version: int) -> None:
    """ACC-14, ACC-15: a longer one never comes to the core."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
    """)
    queue, sender = play.queues["q"], play.connect("b", version=version)
    longest = bytes(body_max(version))
    assert sender.ask(Request(c.SmpSend(False, longest + b"x"), queue.sender)) == [
        r.Err("LARGE_MSG")
    ]
    assert not play.harness.bodies
    assert sender.ask(Request(c.SmpSend(False, longest), queue.sender)) == [r.Ok()]
    (message,) = play.clients["a"].replies()
    assert getattr(queue.open(message), "body", None) == longest


# Keys.


def test_a_recipient_secures_its_queue_once() -> None:
    """ACC-6, ACC-7, ACC-8, ACC-9, ACC-10, ACC-11, ACC-12, ACC-13"""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q early by bob
        b< ERR q.snd AUTH
        a> KEY q bob by eve
        a< ERR q AUTH
        a> KEY q bob of q.snd
        a< ERR q.snd AUTH
        a> KEY q bob
        a< OK q
        a> KEY q bob
        a< OK q
        a> KEY q eve
        a< ERR q AUTH
        b> SEND q hello
        b< ERR q.snd AUTH
        b> SEND q hello by eve
        b< ERR q.snd AUTH
        b> SEND q hello by bob
        b< OK q.snd
        a< * MSG q hello
    """)


def test_a_sender_secures_a_queue_for_messaging_itself() -> None:
    """ACC-17, ACC-18, ACC-19, ACC-20, ACC-21: of a contact's queue it may not."""
    SmpTranscript().play("""
        a> NEW q; NEW p contact
        a< IDS q q.snd; IDS p p.snd
        b> SKEY q bob by eve
        b< ERR q.snd AUTH
        b> SKEY q bob of q
        b< ERR q AUTH
        b> SKEY q bob
        b< OK q.snd
        b> SKEY q bob; SKEY q eve; SKEY p bob
        b< OK q.snd; ERR q.snd AUTH; ERR p.snd AUTH
        b> SEND q hello by bob
        b< OK q.snd
        a< * MSG q hello
    """)


def test_the_keys_of_a_recipient_are_replaced() -> None:
    """ACC-22, ACC-23, ACC-24: both of two work, one that is left out does not, and one may remove
    itself."""
    SmpTranscript().play("""
        a> NEW q contact
        a< IDS q q.snd
        a> RKEY q q.key bob
        a< OK q
        a> SUB q; SUB q by bob
        a< SOK q; SOK q
        a> RKEY q bob by bob
        a< OK q
        a> SUB q; SUB q by bob
        a< ERR q AUTH; SOK q
        a> RKEY q eve by bob
        a< OK q
        a> SUB q by bob; SUB q by eve
        a< ERR q AUTH; SOK q
    """)


def test_a_queue_that_is_off_takes_nothing_and_gives_what_it_has() -> None:
    """ACC-25, ACC-26, ACC-27"""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one; SEND q two
        b< OK q.snd; OK q.snd
        a< * MSG q one
        b> OFF q by bob; OFF q of q.snd
        b< ERR q AUTH; ERR q.snd AUTH
        a> OFF q; OFF q
        a< OK q; OK q
        b> SEND q three
        b< ERR q.snd AUTH
        a> ACK q one
        a< MSG q two
    """)


def test_who_may_make_queues_is_asked_of_the_shell() -> None:
    """ACC-31, ACC-32: after the signature, so that a stranger learns nothing of it."""
    play = SmpTranscript()
    play.play("""
        a> NEW q password=sesame
        a< IDS q q.snd
    """)
    play.harness.creating_error = Unauthorised()
    play.play("""
        a> NEW p
        a< ERR AUTH
    """)
    play.harness.creating_error = LimitReached("creations_per_minute", 3)
    play.play("""
        a> NEW p
        a< ERR STORE limit creations_per_minute
        a> NEW o by eve
        a< ERR AUTH
    """)
    assert play.harness.passwords == [b"sesame", None, None]


# Links.


def test_an_invitation_is_read_by_who_secures_the_queue() -> None:
    """ACC-83: once; it is changed only before, and dropped at any time."""
    SmpTranscript().play("""
        a> NEW q link
        a< IDS q q.snd q.lnk
        a> LSET q later
        a< OK q
        b> LGET q
        b< ERR q.lnk AUTH
        b> LKEY q bob by eve; LKEY q bob of q; LKEY q bob of nowhere
        b< ERR q.lnk AUTH; ERR q AUTH; ERR nowhere AUTH
        b> LKEY q bob; LKEY q bob; LKEY q eve
        b< LNK q.lnk q.snd fixed later; LNK q.lnk q.snd fixed later; ERR q.lnk AUTH
        a> LSET q more
        a< ERR q AUTH
        b> SEND q hello; SEND q hello by bob
        b< ERR q.snd AUTH; OK q.snd
        a< * MSG q hello
        a> LDEL q; LDEL q
        a< OK q; OK q
        b> LKEY q bob
        b< ERR q.lnk AUTH
    """)


def test_a_contact_is_read_by_everybody() -> None:
    """ACC-84, ACC-85: unsigned and by its link; its user data may change; no other queue has it."""
    SmpTranscript().play("""
        a> NEW q contact link
        a< IDS q q.snd q.lnk
        b> LGET q; LGET q of q; LGET q of nowhere
        b< LNK q.lnk q.snd fixed user; ERR q AUTH; ERR nowhere AUTH
        b> LKEY q bob
        b< ERR q.lnk AUTH
        a> LSET q news; KEY q bob
        a< OK q; OK q
        b> LGET q
        b< LNK q.lnk q.snd fixed news
        a> NEW p contact
        a< IDS p p.snd
        a> LSET q stolen of p by p.key
        a< ERR p AUTH
        a> LDEL q; LDEL q
        a< OK q; OK q
        b> LGET q
        b< ERR q.lnk AUTH
    """)


def test_a_queue_gets_a_link_later() -> None:
    """ACC-83, ACC-84: one without a purpose is read like a contact."""
    SmpTranscript().play("""
        a> NEW q plain
        a< IDS q q.snd
        a> LSET q user
        a< OK q
        b> LGET q
        b< LNK q.lnk q.snd fixed user
    """)


def test_who_makes_a_link_does_not_choose_the_id_of_its_sender() -> None:
    """ACC-83: it is made of the correlation."""
    harness = SmpHarness()
    client = harness.connect("a")
    wrong, right = (c.NewLink(link_sender(of), b"fixed", b"user") for of in (b"other", b"mine"))
    assert client.ask(Request(new(link=wrong), key=KEY, correlation=b"mine")) == [PROHIBITED]
    (ids,) = client.ask(Request(new(link=right), key=KEY, correlation=b"mine"))
    assert isinstance(ids, r.Ids)
    assert ids.sender == right.sender
    assert ids.link is not None
    assert len(ids.link) == 24


# Notifiers.


def test_a_notifier_learns_of_messages_that_ask_for_it() -> None:
    """ACC-76, ACC-82, SMP-38, SMP-39, SMP-40: on the clock of the notices, delivered or not; NSUB
    delivers nothing and displaces no reader."""
    SmpTranscript().play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        n> NSUB q
        n< SOK q.ntf
        b> SEND q one notify; SEND q two; SEND q three notify
        b< OK q.snd; OK q.snd; OK q.snd
        a< * MSG q one
        -- notify
        n< * NMSG q.ntf one; * NMSG q.ntf three
        -- notify
        -- flush
    """)


def test_each_key_makes_another_notifier() -> None:
    """ACC-74, ACC-79, SMP-9: the id of before is nobody's, and who had it learns so."""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        n> NSUB q
        n< ERR q.ntf AUTH
        a> NKEY q
        a< NID q q.ntf2
        n> NSUB q
        n< SOK q.ntf2
        a> NKEY q
        a< NID q q.ntf3
        -- flush
        n< * DELD q.ntf2
        n> NSUB q of q.ntf2; NSUB q by eve; NSUB q
        n< ERR q.ntf2 AUTH; ERR q.ntf3 AUTH; SOK q.ntf3
    """)


def test_the_second_notifier_displaces_the_first() -> None:
    """ACC-77, SMP-40"""
    SmpTranscript().play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        n> NSUB q
        n< SOK q.ntf
        m> NSUB q
        m< SOK q.ntf
        b> SEND q one notify
        b< OK q.snd
        a< * MSG q one
        -- notify
        m< * NMSG q.ntf one
        -- flush
        n< * END q.ntf
    """)


def test_a_notifier_that_is_dropped_learns_nothing_more() -> None:
    """ACC-78, SMP-9: what waited for it is forgotten; dropping again is fine."""
    SmpTranscript().play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        n> NSUB q
        n< SOK q.ntf
        b> SEND q one notify
        b< OK q.snd
        a< * MSG q one
        a> NDEL q; NDEL q
        a< OK q; OK q
        -- notify
        -- flush
        n< * DELD q.ntf
        n> NSUB q
        n< ERR q.ntf AUTH
    """)


# Services.


def test_a_service_subscribes_to_all_of_its_queues_at_once() -> None:
    """ACC-51, ACC-52, ACC-54, ACC-55, ACC-58, SMP-29, SMP-30, S000-91, S000-96, S000-97, S000-98,
    S001-3, S001-26: the tally, what waits, ALLS; then new messages are pushed."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.play("""
        s> NEW q; NEW p; NEW o
        s< IDS q q.snd as S; IDS p p.snd as S; IDS o o.snd as S
        -- s leaves
        b> SEND q one; SEND o two
        b< OK q.snd; OK o.snd
    """)
    play.connect("t", service="S")
    play.play("""
        t> SUBS q p o
        t< SOKS S q p o
        t< * MSG q one
        t< * MSG o two; * ALLS
        b> SEND p three; SEND q four
        b< OK p.snd; OK q.snd
        t< * MSG p three
        t> ACK q one
        t< MSG q four
    """)


def test_a_service_that_asks_again_is_answered_and_no_more() -> None:
    """SMP-32, S001-42, S001-52, S000-95: whatever it expects."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.play("""
        s> NEW q; NEW p
        s< IDS q q.snd as S; IDS p p.snd as S
        s> SUBS q p
        s< SOKS S q p
        s< * ALLS
        s> SUBS q
        s< SOKS S q p
        s> SUBS
        s< SOKS S q p
    """)


def test_the_second_session_of_a_service_takes_it_over() -> None:
    """ACC-62, SMP-28, S000-22, S001-46, S001-58, S001-60, S001-63: one ENDS with what the first
    had, collected like any loss; and the first may come back."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.connect("t", service="S")
    play.play("""
        s> NEW q; NEW p
        s< IDS q q.snd as S; IDS p p.snd as S
        t> SUBS q p
        t< SOKS S q p
        t< * ALLS
        b> SEND q one
        b< OK q.snd
        t< * MSG q one
        -- flush
        s< * ENDS S q p
        s> SUBS q p
        s< SOKS S q p
        s< * MSG q one; * ALLS
        -- flush
        t< * ENDS S q p
    """)


def test_a_queue_goes_to_a_service_and_back() -> None:
    """ACC-57, ACC-60, SMP-25, SMP-26, S001-2, S001-30, S001-31, S001-32, S001-34: with what waits
    in it, and END for who had it."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.connect("t", service="T")
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one
        b< OK q.snd
        a< * MSG q one
        s> SUB q
        s< SOK q as S; * MSG q one
        -- flush
        a< * END q
        t> SUB q
        t< SOK q as T; * MSG q one
        s> SUBS
        s< * END q; SOKS S 0
        s< * ALLS
        a> SUB q
        a< SOK q; * MSG q one
        -- flush
        t< * END q
        t> SUBS
        t< SOKS T 0
        t< * ALLS
    """)


def test_a_service_is_notified_of_all_its_queues() -> None:
    """ACC-80, ACC-81, SMP-33, S000-99, S001-93, S001-94: neither sweep nor ALLS follows."""
    play = SmpTranscript()
    play.connect("n", service="N", role=Role.NOTIFIER)
    play.connect("m", service="N", role=Role.NOTIFIER)
    play.play("""
        a> NEW q notifier; NEW p notifier
        a< IDS q q.snd q.ntf; IDS p p.snd p.ntf
        n> NSUB q; NSUB p; NSUB q
        n< SOK q.ntf as N; SOK p.ntf as N; SOK q.ntf as N
        m> NSUBS q.ntf p.ntf
        m< SOKS N q.ntf p.ntf
        b> SEND q one notify; SEND p two notify
        b< OK q.snd; OK p.snd
        a< * MSG q one
        a< * MSG p two
        -- notify
        m< * NMSG q.ntf one; * NMSG p.ntf two
        -- flush
        n< * ENDS N q.ntf p.ntf
    """)


def test_a_service_makes_no_queue_without_subscribing_to_it() -> None:
    """S001-26"""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.play("""
        s> NEW q only
        s< ERR CMD PROHIBITED
        s> SUBS
        s< SOKS S 0
        s< * ALLS
    """)


# What cannot be read.


@pytest.mark.parametrize(
    "word", ["", "HELLO", "HELLO there", "SUB=", "sub", "SUBSUBSUBSUB", "OK", "MSG x", "ERR AUTH"]
)
def test_words_that_are_no_commands_are_unknown(word: str) -> None:
    """ACC-86"""
    client = SmpHarness().connect("a")
    assert client.ask(Request(word.encode(), b"q", KEY)) == [r.Err("CMD UNKNOWN")]


def test_what_a_version_does_not_know_is_unknown_in_it() -> None:
    """ACC-86, S001-4"""
    client = SmpHarness().connect("a", version=8)
    for command in (b"SKEY " + string(spki(KEY)), b"LGET", b"SUBS", b"RSLV x"):
        assert client.ask(Request(command, b"q", KEY)) == [r.Err("CMD UNKNOWN")]


@pytest.mark.parametrize(
    "command",
    [
        *(b"SUB ", b"SUB x", b"KEY", b"KEY \0", b"RKEY \0", b"ACK", b"ACK \5abc", b"SEND"),
        *(b"SEND X body", b"SUBS", b"OFF ", b"DEL x", b"LSET \1x", b"NKEY x", b"NEW", b"NEW x"),
    ],
)
def test_wrong_parameters_are_a_mistake_of_syntax(command: bytes) -> None:
    """ACC-87"""
    client = SmpHarness().connect("a")
    assert client.ask(Request(command, b"q", KEY)) == [r.Err("CMD SYNTAX")]


@pytest.mark.parametrize(
    "request_",
    [
        Request(new(dh=WEAK), key=KEY),
        Request(c.NKey(spki(KEY), WEAK), b"q" * 24, KEY),
    ],
    ids=["new", "nkey"],
)
def test_a_key_that_gives_everybody_the_same_secret_is_one_too(request_: Request) -> None:
    """ACC-87"""
    harness = SmpHarness()
    assert harness.connect("a").ask(request_) == [r.Err("CMD SYNTAX")]


NEED_BOTH: list[c.Command] = [
    *(c.Sub(), c.SmpGet(), c.SmpAck(b""), c.NKey(spki(KEY), spki(DH)), c.Key(spki(KEY))),
    *(c.RKey((spki(KEY),)), c.LSet(b"l", b"", b""), c.LDel(), c.NDel(), c.Off(), c.Del()),
    *(c.Que(), c.SKey(spki(KEY)), c.LKey(spki(KEY)), c.NSub()),
]


@pytest.mark.parametrize("command", NEED_BOTH, ids=lambda command: command.tag.decode())
def test_commands_about_a_queue_need_it_and_a_signature(command: c.Command) -> None:
    """ACC-88: before anything is looked up; then, of a queue that is not there, it is AUTH."""
    harness = SmpHarness()
    client = harness.connect("a")
    client.post(Request(command, b"q" * 24), Request(command, b"", KEY))
    assert client.replies() == [r.Err("CMD NO_AUTH")] * 2
    assert not harness.inbox
    assert client.ask(Request(command, b"q" * 24, KEY)) == [AUTH]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request(new()), "NO_AUTH"),
        (Request(new(), b"q", KEY), "HAS_AUTH"),
        (Request(c.SmpSend(False, b"")), "NO_ENTITY"),
        (Request(c.LGet()), "NO_ENTITY"),
        (Request(c.LGet(), b"q", KEY), "HAS_AUTH"),
        (Request(c.Ping(), b"", KEY), "HAS_AUTH"),
        (Request(c.Ping(), b"q"), "HAS_AUTH"),
    ],
)
def test_other_commands_need_less_and_bear_no_more(request_: Request, error: str) -> None:
    """ACC-88"""
    harness = SmpHarness()
    assert harness.connect("a").ask(request_) == [r.Err(f"CMD {error}")]


def test_what_is_asked_of_other_routers_is_refused() -> None:
    """ACC-89: without asking anybody."""
    harness = SmpHarness()
    client = harness.connect("a")
    client.post(
        Request(c.Ping()),
        Request(c.Prxy((b"smp.example.com",), b"5223", bytes(32))),
        Request(c.PFwd(19, spki(DH), b"sealed"), b"session"),
        Request(c.RFwd(b"sealed")),
    )
    assert client.replies() == [
        r.Pong(),
        r.Err("PROXY BASIC_AUTH"),
        r.Err("PROXY NO_SESSION"),
        r.Err("CRYPTO"),
    ]
    assert not harness.inbox


def test_every_command_has_a_maker_or_is_refused() -> None:
    kinds = set(get_args(c.Command))
    assert kinds == MAKERS.keys() | REFUSED.keys()
    assert not MAKERS.keys() & REFUSED.keys()


def test_every_change_is_one_of_a_queue() -> None:
    """What has a maker of its own changes nothing here."""
    amending = [kind for kind, make in MAKERS.items() if make is RequestReader._amend]
    assert len(amending) == 9
    with pytest.raises(AssertionError, match="a maker of its own"):
        _change(c.Ping())


def test_who_sends_to_itself_has_the_receipt_and_the_message() -> None:
    """SMP-15, ACC-47: both, and each once."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        a> SEND q mine
        a< OK q.snd; * MSG q mine
        a> ACK q mine
        a< OK q
    """)
