"""One client's session: a greeting, then blocks of requests in and blocks of answers out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Request, spki
from headgate.core import commands as core
from headgate.core.model.limits import KiB, Limits
from headgate.core.turn.handouts import PART_SEALED
from headgate.crypto.keys import check_chain, fingerprint, public_key, sign_key
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BLOCK, pack
from headgate.wire.smp.codec.transmissions import Transmission
from headgate.wire.smp.handshake import (
    LEGACY,
    VERSIONS,
    ClientHello,
    Role,
    ServiceAccepted,
    ServiceRefused,
    TransportError,
)
from headgate.wire.smp.session import UNANSWERED_MAX
from tests.support.smp_parties import NOW
from tests.support.smp_session import (
    CHAIN,
    PLAIN,
    SmpHarness,
    SmpSessionClient,
    digest,
    make_key,
    make_service,
)
from tests.support.smp_transcript import SmpTranscript

PING = Request(c.Ping())
PONG = r.Pong()
BLOCK_ERROR = r.Err("BLOCK")
FULL = PART_SEALED + 6
"""Queues of a block that have a message."""
WEAK = spki(digest("any"))[:12] + bytes(32)
"""A key that gives everybody the same secret."""


def guest(harness: SmpHarness, service: str = "") -> SmpSessionClient:
    """A client who has not answered the greeting."""
    return SmpSessionClient(harness, "a", make_service(service) if service else None)


# The greeting.


def test_the_router_greets_with_its_versions_its_chain_and_a_key() -> None:
    harness = SmpHarness()
    hello = guest(harness).hello
    assert hello.versions == VERSIONS
    assert hello.session_id == digest("session a")
    assert hello.chain == CHAIN
    check_chain(hello.chain, NOW)
    keys = {SmpSessionClient(harness, name).router_key for name in "abc"}
    assert len(keys) == 3, "each session has a key of its own"


@pytest.mark.parametrize("version", range(7, 20))
@pytest.mark.parametrize("with_key", [True, False], ids=["key", "no key"])
def test_every_version_is_spoken(version: int, with_key: bool) -> None:
    """ACC-89: blocks are sealed from version 11 on, if the client sent a key."""
    client = SmpHarness().connect("a", version=version, with_key=with_key)
    assert client.port.is_open
    assert client.blocks == 1
    assert client.ask(PING) == [PONG]


def test_the_blocks_of_a_proxy_are_not_sealed() -> None:
    client = guest(SmpHarness())
    client.greet(19, hello=ClientHello(19, fingerprint(CHAIN), spki(digest("key a")), True))
    assert client.ask(PING) == [PONG]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (ClientHello(6, fingerprint(CHAIN)), "handshake no common version"),
        (ClientHello(20, fingerprint(CHAIN)), "handshake no common version"),
        (ClientHello(19, bytes(32)), "handshake meant another router"),
        (ClientHello(19, fingerprint(CHAIN), WEAK), "handshake malformed"),
    ],
    ids=["old", "new", "another", "weak"],
)
def test_a_hello_that_does_not_fit_ends_the_session(hello: ClientHello, reason: str) -> None:
    harness = SmpHarness()
    client = guest(harness)
    client.send(PLAIN.seal(hello.encode()))
    assert client.port.closed == reason
    assert not client.port.is_open
    assert client.blocks == 1, "nothing more is written"
    assert len(harness.broker.sessions) == 0


@pytest.mark.parametrize(
    "block",
    [PLAIN.seal(b""), PLAIN.seal(b"\0\x13 too short"), b"\xff" * BLOCK],
    ids=["empty", "cut off", "no padding"],
)
def test_what_is_no_hello_ends_the_session(block: bytes) -> None:
    client = guest(SmpHarness())
    client.send(block)
    assert client.port.closed == "handshake malformed"


def test_without_the_protocol_in_tls_only_an_old_version_is_offered() -> None:
    client = SmpSessionClient(SmpHarness(), "a", has_protocol=False)
    assert client.hello.versions == LEGACY
    client.send(PLAIN.seal(ClientHello(7, fingerprint(CHAIN)).encode()))
    assert client.port.closed == "handshake no common version"


def test_nothing_is_read_behind_the_end_of_a_session() -> None:
    """SMP-7: a good hello behind a bad one, in one piece of the stream, opens nothing."""
    harness = SmpHarness()
    client = guest(harness)
    good = PLAIN.seal(client.client_hello(19).encode())
    client.send(PLAIN.seal(ClientHello(6, fingerprint(CHAIN)).encode()) + good + good)
    assert client.port.closed == "handshake no common version"
    assert not client.port.is_open
    assert client.blocks == 1


# Services in the greeting.


def test_a_service_has_its_id_in_a_third_message() -> None:
    """S001-1, S001-10, S001-11, S001-15, S000-92: the same for the same certificate."""
    harness = SmpHarness()
    first = harness.connect("a", service="S")
    again, other = harness.connect("b", service="S"), harness.connect("c", service="T")
    assert len(first.service_id) == 24
    assert first.service_id == again.service_id != other.service_id
    assert first.blocks == 2
    assert first.ask(PING) == [PONG]
    plain = harness.connect("d")
    assert plain.service_reply is None
    assert harness.restarted().connect("e", service="S").service_id == first.service_id


def test_two_first_greetings_in_one_turn_are_one_service() -> None:
    """S001-16"""
    harness = SmpHarness()
    clients = [SmpSessionClient(harness, name, make_service("S")) for name in "ab"]
    for client in clients:
        client.greet(19, role=Role.MESSAGING)
    assert not any(client.port.is_open for client in clients)
    harness.settle()
    one, two = (client.service_id for client in clients)
    assert one == two != b""


@pytest.mark.parametrize(
    ("version", "role", "is_service"),
    [
        (15, Role.NOTIFIER, False),
        (16, Role.NOTIFIER, True),
        (18, Role.MESSAGING, False),
        (18, Role.PROXY, True),
        (19, Role.MESSAGING, True),
    ],
)
def test_services_need_a_version(version: int, role: Role, is_service: bool) -> None:
    """S001-4, S001-6, S001-12, S001-25: before it the client is like any other, without a third
    message."""
    harness = SmpHarness()
    client = guest(harness, "S")
    client.version = version
    client.send(PLAIN.seal(client.client_hello(version, role=role, with_key=False).encode()))
    harness.settle()
    assert client.port.is_open
    assert bool(client.service_id) is is_service
    assert client.blocks == 1 + is_service
    if not is_service:
        key = make_key("k")
        (ids,) = client.ask(Request(c.New(spki(key), spki(digest("d")), None, False), key=key))
        assert isinstance(ids, r.Ids), "no signature of a service, and no role, is asked for"


def forged_hello(client: SmpSessionClient, what: str) -> ClientHello:
    """What a stranger may show in place of a service, and what it shows wrongly itself."""
    hello, stranger = client.client_hello(19, role=Role.MESSAGING), make_service("T")
    shown = hello.service
    assert shown is not None
    key = public_key(Ed25519PrivateKey.from_private_bytes(digest("other")))
    match what:
        case "another chain":
            shown = replace(shown, chain=stranger.chain)
        case "a longer chain":
            shown = replace(shown, chain=(*shown.chain, *stranger.chain))
        case "signed by another":
            shown = replace(shown, signed_key=sign_key(stranger.private, key))
        case "not signed":
            shown = replace(shown, signed_key=key)
        case "of another kind":
            exchange = spki(digest("other"))
            shown = replace(shown, signed_key=sign_key(make_service("S").private, exchange))
    return replace(hello, service=shown)


@pytest.mark.parametrize(
    "what",
    ["another chain", "a longer chain", "signed by another", "not signed", "of another kind"],
)
def test_a_service_that_does_not_prove_itself_is_refused(what: str) -> None:
    """ACC-64, S001-13, S001-14: nothing is looked up for it."""
    harness = SmpHarness()
    client = guest(harness, "S")
    client.greet(19, hello=forged_hello(client, what))
    assert client.service_reply == ServiceRefused(TransportError.BAD_AUTH)
    assert client.port.closed == "handshake bad auth"
    assert not any(isinstance(command, core.Identify) for command in harness.take())


def test_a_service_whose_certificate_is_over_is_refused() -> None:
    """S001-13: it was good until yesterday; the clock is that of the router."""
    harness = SmpHarness()
    over = make_service("S", until=datetime.fromtimestamp(NOW, UTC))
    for seconds, reason in ((0, None), (1, "handshake bad auth")):
        harness.now = NOW + seconds
        client = SmpSessionClient(harness, f"a{seconds}", over)
        client.greet(19, role=Role.MESSAGING)
        assert client.port.closed == reason


def test_a_service_of_an_unknown_role_is_no_hello() -> None:
    client = guest(SmpHarness(), "S")
    hello = client.client_hello(19, role=Role.MESSAGING).encode()
    client.send(PLAIN.seal(hello.replace(b"F1M\x01", b"F1X\x01")))
    assert client.port.closed == "handshake malformed"


@pytest.mark.parametrize("fails", ["store", "inbox"])
def test_a_service_that_cannot_be_looked_up_may_try_again(fails: str) -> None:
    """S004-19: BAD_SERVICE, and nothing is stored."""
    harness = SmpHarness(limits=Limits(inbox_commands=1))
    client = guest(harness, "S")
    if fails == "store":
        harness.fail_at = 0
    else:
        harness.connect("b").post(Request(c.Sub(), bytes(24), make_key("k")))
    client.greet(19, role=Role.MESSAGING)
    harness.settle()
    assert client.service_reply == ServiceRefused(TransportError.BAD_SERVICE)
    assert client.port.closed == "handshake bad service"
    assert harness.connect("c", service="S").service_id


def test_a_service_waits_for_its_id_before_it_sends() -> None:
    """S001-11: whoever does not is sent away, and what the core answers then opens nothing."""
    harness = SmpHarness()
    client = guest(harness, "S")
    client.greet(19, role=Role.MESSAGING)
    (identify,) = harness.take()
    assert isinstance(identify, core.Identify)
    client.send(PLAIN.seal(b"too early"))
    assert client.port.closed == "handshake spoke too early"
    client.port.session.write_effects(harness.turn([identify]).effects)
    assert not client.port.is_open
    assert client.blocks == 1


def test_a_service_with_a_weak_key_is_identified_and_sent_away() -> None:
    harness = SmpHarness()
    client = guest(harness, "S")
    hello = replace(client.client_hello(19, role=Role.MESSAGING), key=WEAK)
    client.send(PLAIN.seal(hello.encode()))
    harness.settle()
    assert isinstance(client.service_reply, ServiceAccepted)
    assert client.port.closed == "handshake malformed"
    assert not client.port.is_open


# Blocks.


@pytest.mark.parametrize("size", [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_stream_may_be_cut_anywhere(size: int) -> None:
    client = SmpHarness().connect("a", version=10)
    blocks = b"".join(PLAIN.seal(pack([client.encode(PING)])[0]) for _ in range(3))
    for start in range(0, len(blocks), size):
        client.send(blocks[start : start + size])
    assert client.replies() == [PONG] * 3
    assert not client.port.session.is_cut_off


def test_a_stream_that_ends_in_a_block_is_cut_off() -> None:
    """SMP-7: what is not whole was not asked."""
    harness = SmpHarness()
    client = harness.connect("a")
    client.send(bytes(BLOCK - 1))
    assert client.port.session.is_cut_off
    assert not client.received


@pytest.mark.parametrize("version", [10, 19])
def test_what_is_no_block_is_answered_and_the_session_goes_on(version: int) -> None:
    """ACC-90"""
    client = SmpHarness().connect("a", version=version)
    (good,) = pack([client.encode(PING)])
    damaged = [b"", b"\0", b"\1", b"\2" + good[1:], good + b"x", good[:-1], b"\1\xff\xff" + good]
    for payload in damaged:
        client.received.clear()
        client.send_payload(payload)
        (block,) = client.received
        assert [(each.correlation, each.entity, each.reply) for each in block] == [
            (b"", b"", BLOCK_ERROR)
        ]
    assert client.ask(PING) == [PONG]


def test_a_block_that_does_not_open_is_answered_and_the_next_one_opens() -> None:
    """ACC-90: the chain of keys has made its step."""
    client = SmpHarness().connect("a")
    sealed = bytearray(client.seal(pack([client.encode(PING)])[0]))
    sealed[100] ^= 1
    client.send(bytes(sealed))
    assert client.replies() == [BLOCK_ERROR]
    assert client.ask(PING) == [PONG]


def test_a_transmission_that_cannot_be_read_leaves_the_others_alone() -> None:
    """ACC-50, ACC-90: one without sense, and one whose authorisation has no known length, which is
    answered by its correlation. Each answer has the place of its request."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
    """)
    client, queue = play.clients["a"], play.queues["q"]
    odd = Transmission(b"x" * 63, None, b"odd", queue.id, b"SUB")
    (payload,) = pack(
        [
            client.encode(queue.asks(c.Sub())),
            b"\5",
            client.encode(odd),
            client.encode(Request(c.SmpSend(False, b"hello"), queue.sender)),
        ]
    )
    client.received.clear()
    client.send_payload(payload)
    play.harness.settle()
    (block,) = client.received
    assert [(each.entity, each.reply.tag) for each in block] == [
        (queue.id, b"SOK"),
        (b"", b"ERR"),
        (b"", b"ERR"),
        (queue.sender, b"OK"),
        (queue.id, b"MSG"),
    ]
    assert [each.correlation for each in block[1:3]] == [b"", b"odd"]


def test_a_block_of_nothing_but_errors_needs_nobody() -> None:
    """ACC-50: nothing is submitted, and the answers are one block."""
    harness = SmpHarness()
    client = harness.connect("a")
    client.post(PING, Request(b"HELLO"), PING)
    assert not harness.inbox
    (block,) = client.received
    assert [each.reply for each in block] == [PONG, r.Err("CMD UNKNOWN"), PONG]


def test_each_answer_has_its_place_among_those_of_the_core() -> None:
    """ACC-50, S004-42: also over two blocks, and when the core answers them in parts."""
    harness = SmpHarness()
    client = harness.connect("a")
    nowhere = [Request(c.Sub(), digest(f"q{n}")[:24], make_key("k")) for n in range(4)]
    client.post(PING, nowhere[0], PING, PING, nowhere[1], PING)
    client.post(nowhere[2], PING, nowhere[3])
    assert not client.received, "what is behind a question waits for its answer"
    commands = harness.take()
    expected = [b"PONG", b"ERR", b"PONG", b"PONG", b"ERR", b"PONG", b"ERR", b"PONG", b"ERR"]
    seen = []
    for upto in (4, 6, 8, 9):
        effects = harness.turn([commands.pop(0)]).effects
        client.port.session.write_effects(effects)
        seen = [reply.tag for reply in client.replies()]
        assert seen == expected[:upto]
    assert client.unanswered == 0


def test_a_full_block_of_subscribes_is_answered_before_the_messages() -> None:
    """ACC-48, SMP-12, S004-1, S004-54: all answers in one block, then a block for each message, of
    which there are more than are handed out at a time; and one read of the store."""
    harness = SmpHarness()
    maker, client = harness.connect("a"), harness.connect("b")
    queues = []
    for number in range(135):
        key, dh = make_key(f"k{number}"), digest(f"d{number}")
        (ids,) = maker.ask(Request(c.New(spki(key), spki(dh), None, False), key=key))
        assert isinstance(ids, r.Ids)
        queues.append((ids, key))
    for ids, _ in queues[:FULL]:
        assert maker.ask(Request(c.SmpSend(False, b"hello"), ids.sender)) == [r.Ok()]
    before = len(harness.asked)
    client.ask(*(Request(c.Sub(), ids.recipient, key) for ids, key in queues))
    answers, *messages = client.received
    assert [(each.entity, each.reply) for each in answers] == [
        (ids.recipient, r.Sok()) for ids, _ in queues
    ]
    assert [[each.entity for each in block] for block in messages] == [
        [ids.recipient] for ids, _ in queues[:FULL]
    ]
    assert len(harness.asked) - before <= 2


def test_a_block_is_refused_as_a_whole_when_there_is_no_room_for_it() -> None:
    """What was answered without the core keeps its answer."""
    play = SmpTranscript(limits=Limits(inbox_commands=2))
    play.play("""
        a> NEW q
        a< IDS q q.snd
    """)
    other = play.client("b")
    other.post(play.request(other, "SUB nowhere"))
    play.play("""
        a> SUB q; PING; SEND q hello
        a< ERR q STORE limit inbox_commands; PONG; ERR q.snd STORE limit inbox_commands
        b< ERR nowhere AUTH
        a> SUB q; PING; SEND q hello
        a< SOK q; PONG; OK q.snd; * MSG q hello
    """)


def test_a_store_that_fails_fails_the_block() -> None:
    """S004-36: each request has the error, and the next block is as if there had been none."""
    play = SmpTranscript()
    play.play("""
        a> NEW q; NEW p
        a< IDS q q.snd; IDS p p.snd
    """)
    play.harness.fail_at = 0
    play.play("""
        a> SEND q one; PING; SEND p two
        a< ERR q.snd STORE unavailable; PONG; ERR p.snd STORE unavailable
        a> SEND q one
        a< OK q.snd; * MSG q one
    """)


# What is collected.


def test_a_loss_is_collected_until_the_next_flush() -> None:
    """SMP-2, SMP-3, ACC-36, ACC-37, S000-13, S000-16, S000-17, S000-18: meanwhile nothing of the
    queue comes any more, and only one END."""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> SUB q
        b< SOK q
        c> SEND q hello
        c< OK q.snd
        b< * MSG q hello
        a> ACK q hello
        a< ERR q NO_MSG
        -- flush
        a< * END q
        -- flush
    """)


def test_losses_leave_together_in_their_order() -> None:
    """SMP-3, S000-19, ACC-92: END, DELD and that of a notifier in one block."""
    SmpTranscript().play("""
        a> NEW q; NEW p; NEW o notifier
        a< IDS q q.snd; IDS p p.snd; IDS o o.snd o.ntf
        a> NSUB o
        a< SOK o.ntf
        b> SUB p
        b< SOK p
        b> DEL q
        b< OK q
        c> NSUB o
        c< SOK o.ntf
        -- flush
        a< * END p; * DELD q; * END o.ntf
    """)


def test_three_hundred_losses_are_two_blocks() -> None:
    """ACC-92, SMP-3: as many as a block counts, and the rest."""
    harness = SmpHarness()
    loser, taker = harness.connect("a"), harness.connect("b")
    subscribes = []
    for number in range(300):
        key = make_key(f"k{number}")
        new = c.New(spki(key), spki(digest(f"d{number}")), None, True)
        (ids,) = loser.ask(Request(new, key=key))
        assert isinstance(ids, r.Ids)
        subscribes.append(Request(c.Sub(), ids.recipient, key))
    loser.received.clear()
    for start in range(0, 300, 100):
        taker.ask(*subscribes[start : start + 100])
    harness.flush()
    assert [len(block) for block in loser.received] == [255, 45]


def test_who_takes_a_queue_back_has_the_loss_before_the_answer() -> None:
    """S000-13, S000-19: in one turn or in two; an END behind the SOK would be a new loss."""
    SmpTranscript().play("""
        a> NEW q; NEW p
        a< IDS q q.snd; IDS p p.snd
        b> SUB q; SUB p
        b< SOK q; SOK p
        a> SUB q
        a< * END q; * END p; SOK q
        b> PING
        b< PONG
        -- flush
        b< * END q
    """)


def test_a_queue_that_is_lost_and_taken_back_in_one_turn() -> None:
    """S000-13, S000-8: the END of that turn comes first too."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> PING
        b< PONG
    """)
    a, b = play.clients["a"], play.clients["b"]
    b.post(play.request(b, "SUB q"))
    a.post(play.request(a, "SUB q"))
    play.harness.settle()
    assert [reply.tag for reply in a.replies()] == [b"END", b"SOK"]
    assert [reply.tag for reply in b.replies()] == [b"SOK"]
    b.received.clear()
    play.harness.flush()
    assert [reply.tag for reply in b.replies()] == [b"END"]


def test_losses_of_who_left_are_forgotten() -> None:
    """S000-21: nobody else waits for them."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> NEW p
        b< IDS p p.snd
        c> SUB q; SUB p
        c< SOK q; SOK p
        -- a leaves
        -- flush
        b< * END p
    """)


# Pressure.


def test_who_asks_for_too_much_at_once_is_not_read_until_half_is_answered() -> None:
    """S000-42: nobody has any number of answers made for it."""
    harness = SmpHarness()
    client = harness.connect("a", version=10)
    nowhere = Request(c.Sub(), bytes(24), make_key("k"))
    for _ in range(UNANSWERED_MAX // 128):
        client.post(*[nowhere] * 127, PING)
    assert not client.port.is_paused
    client.post(nowhere)
    assert client.port.is_paused
    commands = harness.take()
    for count, unanswered in ((508, UNANSWERED_MAX // 2 + 1), (1, UNANSWERED_MAX // 2)):
        effects = harness.turn(commands[:count]).effects
        del commands[:count]
        client.port.session.write_effects(effects)
        assert client.unanswered == unanswered, "the pings behind them included"
        assert client.port.is_paused is (unanswered > UNANSWERED_MAX // 2)
    client.port.session.write_effects(harness.turn(commands).effects)
    assert client.unanswered == 0


def test_answers_are_not_counted_as_messages_and_pushed_messages_are() -> None:
    """S000-42: what was asked for is an answer, also if it is a message."""
    play = SmpTranscript()
    play.play("""
        a> NEW q; NEW p
        a< IDS q q.snd; IDS p p.snd
    """)
    port = play.clients["a"].port
    port.messages.clear()
    play.play("""
        b> SEND q one; SEND q two; SEND p three
        b< OK q.snd; OK q.snd; OK p.snd
        a< * MSG q one
        a< * MSG p three
        a> ACK q one
        a< MSG q two
    """)
    assert port.messages == [2, 0]


def test_who_does_not_read_gets_what_waited_when_it_does() -> None:
    """SMP-3, SMP-16, S000-20, S000-42, S000-43: messages wait in the store, ENDs with the shell;
    others go on."""
    play = SmpTranscript(
        limits=Limits(mailbox_bytes_soft=20 * KiB, mailbox_bytes_hard=40 * KiB),
    )
    play.play("""
        a> NEW q; NEW p; NEW o
        a< IDS q q.snd; IDS p p.snd; IDS o o.snd
    """)
    port = play.clients["a"].port
    port.is_stuck = True
    play.play("""
        b> SEND q one
        b< OK q.snd
        b> SEND p two
        b< OK p.snd
        b> SUB o
        b< SOK o
    """)
    port.mailbox.offer(b"", 8 * KiB, NOW)
    play.play("""
        -- flush
        c> SEND o three
        c< OK o.snd
        b< * MSG o three
    """)
    assert port.messages[-1] == 1, "the second message waits"
    port.take_all()
    play.harness.settle()
    play.play("""
        -- flush
        a< * MSG q one
        a< * MSG p two
        a< * END o
    """)


# The end.


def test_a_client_that_leaves_leaves_its_queues_to_the_next() -> None:
    """SMP-7, SMP-8, S000-38, S000-75, S000-79: what was not acknowledged comes again."""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        b> SEND q one
        b< OK q.snd
        a< * MSG q one
        -- a leaves
        b> SEND q two
        b< OK q.snd
        c> SUB q
        c< SOK q; * MSG q one
        c> ACK q one
        c< MSG q two
    """)


def test_a_subscribe_of_who_left_meanwhile_still_ends_the_subscriber() -> None:
    """SMP-5, S000-10, S000-11"""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        b> PING
        b< PONG
    """)
    b = play.clients["b"]
    b.post(play.request(b, "SUB q"))
    b.hang_up()
    play.harness.settle()
    assert not b.received
    play.play("""
        -- flush
        a< * END q
        c> SEND q hello
        c< OK q.snd
    """)


def test_effects_before_the_greeting_is_answered_are_nobodys() -> None:
    """A late effect of a session that was never opened writes nothing."""
    harness = SmpHarness()
    client = guest(harness)
    client.port.session.write_effects([])
    assert client.blocks == 1
