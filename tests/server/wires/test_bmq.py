"""The BlazingMQ wire in the router's own process: TLS, heartbeats, limits, names, and the end."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.facts import (
    AuthenticationFailed,
    HandshakeFailed,
    Poisoned,
    Returned,
    SessionClosed,
    SessionEased,
    SessionOpened,
    SessionSlowed,
)
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import KiB, Limits
from headgate.errors import ConfigError
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import Tls
from headgate.server.log import Formatter, fields_of
from headgate.server.net import endpoint
from headgate.server.wires import bmq as bmq_module
from headgate.wire.bmq.codec.control import (
    Category,
    ClientIdentity,
    ClientType,
    ControlMessage,
    DisconnectResponse,
    OpenQueueResponse,
    Status,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import HEARTBEAT_REQUEST, Encoding, EventType, event
from headgate.wire.bmq.codec.messages import AckStatus
from headgate.wire.bmq.incoming import UNANSWERED_MAX
from headgate.wire.bmq.requests import READ, WRITE
from tests.support.bmq_raw import FEATURES, Closed, RawClient, Wants, bodies, open_queue
from tests.support.bmq_raw_router import Rig, StartRig
from tests.support.bmq_raw_router import rig as rig
from tests.support.bmq_raw_router import start_rig as start_rig
from tests.support.certificates import make_certificate, make_client_certificate
from tests.support.socket_buffers import NARROW_BYTES, narrow_door

QUEUE = "bmq://work/q"
BEAT = 0.05


async def talking(rig: Rig, **options: object) -> RawClient:
    """A client that reads and writes a queue."""
    client = await rig.connect(**options)
    assert isinstance(await client.open(QUEUE), OpenQueueResponse)
    await client.configure(Wants())
    return client


async def assert_serves(rig: Rig) -> None:
    """Somebody else has all that the router offers."""
    client = await rig.connect()
    assert isinstance(await client.open("bmq://work/other"), OpenQueueResponse)
    await client.configure(Wants())
    await client.post_all(b"hello")
    [message] = await client.take(1)
    client.confirm(message)
    await client.fence()
    assert rig.queue("bmq://work/other")["messages"] == 0
    client.leave()


def input_bytes(rig: Rig) -> int:
    return rig.server._input_bytes


# TLS.


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def test_a_client_with_tls_posts_and_receives(start_rig: StartRig, tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    rig = await start_rig(tls=Tls())
    client = await talking(rig, context=trusting(certificate))
    large = bytes(range(256)) * 4 * KiB
    await client.post_all(b"hello", large)
    assert bodies(await client.take(2)) == [b"hello", large]


async def test_who_speaks_no_tls_is_no_session(start_rig: StartRig, tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    rig = await start_rig(tls=Tls())
    plain = await rig.connect(greets=False)
    with pytest.raises(Closed):
        await plain.hello()
    assert (await rig.fact(HandshakeFailed)).wire == "bmq"
    assert rig.facts_of(SessionOpened) == []
    assert (await talking(rig, context=trusting(certificate))).welcome is not None


async def test_a_handshake_has_a_deadline_and_so_many_are_under_way(
    start_rig: StartRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit handshakes, at and one above."""
    monkeypatch.setattr(endpoint, "HANDSHAKE_SECONDS", 0.5)
    make_certificate(tmp_path)
    rig = await start_rig(tls=Tls(), limits=Limits(handshakes=1))
    waiting, refused = await rig.connect(greets=False), await rig.connect(greets=False)
    await refused.closed()
    assert rig.limits_reached() == ["handshakes"]
    await waiting.closed()
    assert (await rig.fact(HandshakeFailed)).reason == "took too long"


async def test_a_certificate_that_is_not_there_is_said_at_the_start(start_rig: StartRig) -> None:
    with pytest.raises(ConfigError, match="certificate"):
        await start_rig(tls=Tls())


# Who a client is.

CLIENTS = {"orders": Secret("let orders in"), "billing": Secret("let billing in")}


def identity(name: str, secret: str) -> ClientIdentity:
    return ClientIdentity(process_name=f"token:{name}:{secret}", pid=7, features=FEATURES)


async def refused(rig: Rig, me: ClientIdentity | None = None, **options: object) -> RawClient:
    """A client that is told that it is not known, and closed."""
    client = await rig.connect(greets=False, **options)
    status = (await client.hello(me)).result
    assert status.category is Category.REFUSED
    assert "token:NAME:TOKEN" in status.message
    await client.closed()
    return client


async def test_a_client_with_its_token_is_let_in_and_called_by_its_name(
    start_rig: StartRig,
) -> None:
    rig = await start_rig(clients=CLIENTS)
    client = await rig.connect(greets=False)
    assert (await client.hello(identity("orders", "let orders in"))).result.category == 0
    assert isinstance(await client.open(QUEUE), OpenQueueResponse)
    [session] = rig.sessions()
    assert session["name"].endswith(" orders pid 7")


@pytest.mark.parametrize(
    "me",
    [
        None,
        identity("orders", "let billing in"),
        identity("orders", ""),
        identity("nobody", "let orders in"),
        ClientIdentity(process_name="token:orders", features=FEATURES),
    ],
)
async def test_a_client_without_its_token_is_refused_and_its_words_are_nowhere(
    start_rig: StartRig, me: ClientIdentity | None
) -> None:
    rig = await start_rig(clients=CLIENTS)
    await refused(rig, me)
    fact = await rig.fact(AuthenticationFailed)
    assert fact.wire == "bmq"
    assert fact.name.startswith("127.0.0.1:")
    assert fact.user == ("orders" if me and ":orders" in me.process_name else "")
    await rig.until("the end", lambda: rig.closed() or None)
    assert rig.closed() == ["not authenticated"]
    assert "let" not in repr(rig.facts) + repr(rig.router.status())


async def test_what_comes_behind_a_hello_that_is_refused_is_not_carried_out(
    start_rig: StartRig,
) -> None:
    """All in one piece, as fast as it can be sent."""
    rig = await start_rig(clients=CLIENTS)
    client = await rig.connect(greets=False)
    hello = event(EventType.CONTROL, encode_negotiation(identity("x", "y"), Encoding.BER))
    asked = ControlMessage(1, open_queue(QUEUE))
    client.send(hello + event(EventType.CONTROL, encode_control(asked, Encoding.BER)))
    await client.closed()
    assert rig.router.status()["queues"] == []
    assert client.replies == {}


async def test_who_guesses_tokens_waits_longer_each_time_and_nobody_else_does(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    rig = await start_rig(clients=CLIENTS)
    later = rig.server.later

    def soon(call: Callable[[], None], seconds: float) -> asyncio.TimerHandle:
        waits.append(seconds)
        return later(call, 0.01)

    monkeypatch.setattr(rig.server, "later", soon)
    for guess in range(9):
        await refused(rig, identity("orders", str(guess)))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    client = await rig.connect(greets=False)
    await client.hello(identity("orders", "let orders in"))
    assert len(waits) == 6


async def test_a_client_is_known_by_its_certificate(start_rig: StartRig, tmp_path: Path) -> None:
    """And one without a certificate of the right authority does not get as far as a session."""
    trusted, _ = make_certificate(tmp_path)
    own = make_client_certificate(tmp_path, "billing")
    domains = (Domain("work", Mode.PRIORITY, readers=("billing",), writers=("orders",)),)
    rig = await start_rig(tls=Tls(client_ca="clients.crt"), domains=domains)
    context = trusting(trusted)
    context.load_cert_chain(*own)
    client = await rig.connect(context=context)
    assert isinstance(await client.open(QUEUE, flags=READ), OpenQueueResponse)
    told = await client.open("bmq://work/other", queue=1, flags=WRITE)
    assert isinstance(told, Status)
    assert told.category is Category.REFUSED
    assert "client billing may not write to queues of the domain work" in told.message
    before = len(rig.facts_of(SessionOpened))
    stranger = await rig.connect(greets=False, context=trusting(trusted))
    with pytest.raises(Closed):
        await stranger.hello()
    assert (await rig.fact(HandshakeFailed)).wire == "bmq"
    assert len(rig.facts_of(SessionOpened)) == before


async def test_where_there_are_tokens_and_certificates_either_will_do(
    start_rig: StartRig, tmp_path: Path
) -> None:
    trusted, _ = make_certificate(tmp_path)
    own = make_client_certificate(tmp_path, "billing")
    rig = await start_rig(tls=Tls(client_ca="clients.crt"), clients=CLIENTS)
    certified = trusting(trusted)
    certified.load_cert_chain(*own)
    assert (await rig.connect(context=certified)).welcome is not None
    with_token = await rig.connect(greets=False, context=trusting(trusted))
    await with_token.hello(identity("orders", "let orders in"))
    assert sorted(s["name"].split()[1] for s in rig.sessions()) == ["billing", "orders"]
    await refused(rig, context=trusting(trusted))
    await refused(rig, identity("orders", "wrong"), context=certified)


async def test_who_loses_a_right_at_a_reload_is_closed(start_rig: StartRig) -> None:
    rig = await start_rig(clients=CLIENTS)
    client, other = await rig.connect(greets=False), await rig.connect(greets=False)
    await client.hello(identity("orders", "let orders in"))
    await other.hello(identity("billing", "let billing in"))
    for each in (client, other):
        await each.open(QUEUE)
    rig.router.reconfigure({"work": Domain("work", Mode.PRIORITY, readers=("billing",))})
    await client.closed()
    await rig.until("the end", lambda: rig.closed() or None)
    assert rig.closed() == ["rights in the domain work changed"]
    await other.fence()


async def test_silent_clients_of_one_address_do_not_keep_others_out(
    start_rig: StartRig,
) -> None:
    rig = await start_rig(limits=Limits(handshakes=3))
    silent = [await rig.connect(greets=False) for _ in range(3)]
    other = await rig.connect(source="127.0.0.2")
    assert other.welcome is not None
    await silent[0].closed()
    assert not silent[1].is_closed
    assert rig.limits_reached() == ["handshakes"]


# The hello.


async def test_who_says_no_hello_in_time_is_closed(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it says nothing, or a part of it; and who said it is not."""
    monkeypatch.setattr(bmq_module, "HELLO_SECONDS", 0.3)
    rig = await start_rig()
    good = await talking(rig)
    silent, half = await rig.connect(greets=False), await rig.connect(greets=False)
    half.send(event(EventType.CONTROL, bytes(100))[:50])
    await silent.closed()
    await half.closed()
    await rig.until("both", lambda: True if len(rig.closed()) == 2 else None)
    assert rig.closed() == ["no hello"] * 2
    assert input_bytes(rig) == 0
    await good.post_all(b"still here")


async def test_a_client_is_called_by_what_it_says_of_itself(rig: Rig) -> None:
    client = await rig.connect(greets=False)
    me = ClientIdentity(process_name="billing", pid=77, host_name="host7", features=FEATURES)
    await client.hello(me)
    [session] = rig.sessions()
    assert session["wire"] == "bmq"
    assert session["name"].startswith("127.0.0.1:")
    assert session["name"].endswith(" billing@host7 pid 77")
    client.leave()
    assert (await rig.fact(SessionClosed)).name == session["name"]


async def test_a_name_is_not_longer_than_the_limit(start_rig: StartRig) -> None:
    """The limit client_name_bytes: it is kept for each session, in facts and in the status."""
    rig = await start_rig(limits=Limits(client_name_bytes=100))
    client = await rig.connect(greets=False)
    me = ClientIdentity(process_name="p" * 20_000, host_name="h" * 20_000, features=FEATURES)
    await client.hello(me)
    [session] = rig.sessions()
    assert len(session["name"].encode()) < 200


async def test_a_name_cannot_make_a_second_line_in_the_log(rig: Rig) -> None:
    client = await rig.connect(greets=False)
    await client.hello(ClientIdentity(process_name='x\nevil="1" =', features=FEATURES))
    client.leave()
    fact = await rig.fact(SessionClosed)
    record = logging.LogRecord("headgate", logging.INFO, "", 0, "SessionClosed", None, None)
    record.fields = fields_of(fact)
    for as_json in (False, True):
        assert len(Formatter(as_json).format(record).splitlines()) == 1


@pytest.mark.parametrize(
    ("identity", "category"),
    [
        (ClientIdentity(client_type=ClientType.TCPBROKER), Category.REFUSED),
        (ClientIdentity(client_type=ClientType.UNKNOWN), Category.REFUSED),
        (ClientIdentity(protocol_version=2), Category.NOT_SUPPORTED),
    ],
    ids=["broker", "unknown", "version"],
)
async def test_a_refused_hello_is_answered_before_the_end(
    rig: Rig, identity: ClientIdentity, category: Category
) -> None:
    client = await rig.connect(greets=False)
    assert (await client.hello(identity)).result.category is category
    await client.closed()
    [reason] = rig.closed()
    assert reason.startswith("hello refused: ")


async def test_so_many_sessions_are_open_at_a_time(start_rig: StartRig) -> None:
    """The limit sessions, at and one above."""
    rig = await start_rig(limits=Limits(sessions=2))
    first, second = await talking(rig), await rig.connect()
    with pytest.raises(Closed):
        await rig.connect()
    assert rig.limits_reached() == ["sessions"]
    await first.post_all(b"hello")
    second.leave()
    await rig.fact(SessionClosed)
    assert (await rig.connect()).welcome is not None


# Heartbeats.


async def test_a_heartbeat_is_answered(rig: Rig) -> None:
    client = await rig.connect()
    await client.heartbeat()
    assert client.welcome is not None
    pulse = (client.welcome.heartbeat_interval_ms, client.welcome.max_missed_heartbeats)
    assert pulse == (3000, 10)


async def test_who_is_silent_is_asked_and_then_closed(start_rig: StartRig) -> None:
    now = 1000.0
    rig = await start_rig(heartbeat=BEAT, heartbeats_missed=4, clock=lambda: now)
    client = await talking(rig)
    client.is_alive = False
    now += 2 * BEAT
    await client.closed()
    assert await rig.reason(client) == "no heartbeat"
    assert client.events.count(EventType.HEARTBEAT_REQ) == 4


async def test_who_answers_stays(start_rig: StartRig) -> None:
    """However quickly it answers, and however long nothing else is said."""
    rig = await start_rig(heartbeat=BEAT, heartbeats_missed=3)
    client = await talking(rig)
    for _ in range(30):
        await asyncio.sleep(BEAT)
    assert rig.closed() == []
    assert client.events.count(EventType.HEARTBEAT_REQ) > 3
    await client.fence()


async def test_who_says_something_is_asked_nothing(start_rig: StartRig) -> None:
    now = 1000.0
    rig = await start_rig(heartbeat=BEAT, heartbeats_missed=1, clock=lambda: now)
    client = await rig.connect()
    client.is_alive = False
    for _ in range(30):
        now += 0.9 * BEAT
        await client.heartbeat()
        await asyncio.sleep(BEAT)
    assert EventType.HEARTBEAT_REQ not in client.events


async def test_no_interval_is_no_heartbeat(start_rig: StartRig) -> None:
    rig = await start_rig(heartbeat=0.0)
    client = await talking(rig)
    await asyncio.sleep(4 * BEAT)
    assert client.welcome is not None
    assert client.welcome.heartbeat_interval_ms == 0
    assert EventType.HEARTBEAT_REQ not in client.events
    await client.heartbeat()


async def test_who_is_not_read_is_not_called_silent(start_rig: StartRig) -> None:
    """The store takes nothing for a while, so the router reads nothing from whoever has posted a
    lot: the answers to its own questions included."""
    now = 1000.0
    rig = await start_rig(heartbeat=BEAT, heartbeats_missed=2, clock=lambda: now)
    client = await talking(rig)
    gate = rig.stall()
    puts = [client.put() for _ in range(UNANSWERED_MAX + 1)]
    client.send_puts(puts)
    shells = rig.server._clients.values()
    await rig.until("the pause", lambda: True if any(s.is_paused for s in shells) else None)
    for _ in range(12):
        now += 2 * BEAT
        await asyncio.sleep(BEAT)
    gate.set()
    assert await client.acked(puts) == [AckStatus.SUCCESS] * len(puts)
    assert rig.closed() == []


async def test_what_a_silent_client_held_is_given_to_the_next(start_rig: StartRig) -> None:
    """BMQ-51, BMQ-55: it counts as lost."""
    rig = await start_rig(heartbeat=BEAT, heartbeats_missed=2)
    dead = await talking(rig)
    dead.is_alive = False
    await dead.post_all(b"hello")
    [held] = await dead.take(1)
    await dead.closed()
    [message] = await (await talking(rig)).take(1)
    assert (message.guid, message.is_again) == (held.guid, True)
    assert [fact.lost for fact in rig.facts_of(Returned)] == [True]


# What is not whole.


async def test_an_event_that_never_ends_is_counted_until_its_client_is_gone(rig: Rig) -> None:
    client = await rig.connect()
    client.send(event(EventType.PUT, bytes(100 * KiB))[:-1])
    await rig.until("the bytes", lambda: True if input_bytes(rig) > 100 * KiB else None)
    client.leave()
    await rig.fact(SessionClosed)
    assert input_bytes(rig) == 0
    assert rig.closed() == ["closed by the client"]


async def test_who_holds_the_most_of_too_much_is_closed(start_rig: StartRig) -> None:
    """The limit input_bytes: of all clients together."""
    rig = await start_rig(limits=Limits(input_bytes=256 * KiB))
    large, small = await talking(rig), await talking(rig)
    large.send(event(EventType.PUT, bytes(1024 * KiB))[: 200 * KiB])
    small.send(event(EventType.PUT, bytes(1024 * KiB))[: 100 * KiB])
    await large.closed()
    assert await rig.reason(large) == "over the limit input_bytes"
    assert rig.limits_reached() == ["input_bytes"]
    assert input_bytes(rig) == 100 * KiB
    assert not small.is_closed


WRONG = event(9, bytes(8))


@pytest.mark.parametrize("times", [1, 5])
async def test_a_client_that_is_closed_leaves_nothing_in_the_count(rig: Rig, times: int) -> None:
    """Whatever it had sent behind its mistake."""
    for _ in range(times):
        client = await rig.connect()
        client.send(WRONG + event(EventType.PUT, bytes(50 * KiB))[:-1])
        await client.closed()
    assert input_bytes(rig) == 0
    await assert_serves(rig)


async def test_a_client_that_is_closed_takes_nothing_from_the_count(rig: Rig) -> None:
    """Of what others hold, when its own becomes whole with its mistake."""
    other, client = await rig.connect(), await rig.connect()
    half = event(EventType.PUT, bytes(50 * KiB))
    other.send(half[:-1])
    whole = event(EventType.CONFIRM, b"\x16\x00\x00\x00" + bytes(24 * 1000))
    client.send(whole[:-1])
    held = len(half) + len(whole) - 2
    await rig.until("the bytes", lambda: True if input_bytes(rig) == held else None)
    client.send(whole[-1:] + b"\xff" * 8)
    await client.closed()
    assert input_bytes(rig) == len(half) - 1


async def test_the_last_client_may_be_closed_in_the_middle_of_its_event(
    start_rig: StartRig, caplog: pytest.LogCaptureFixture
) -> None:
    """With nobody left who could hold the most of too much."""
    rig = await start_rig(limits=Limits(input_bytes=10 * KiB))
    client = await rig.connect()
    client.send(WRONG + event(EventType.PUT, bytes(50 * KiB))[:-1])
    await client.closed()
    assert (await rig.reason(client)).startswith("malformed: ")
    assert caplog.records == []
    assert input_bytes(rig) == 0


# Room.


async def test_a_session_is_called_slow_by_its_name_until_it_has_read(start_rig: StartRig) -> None:
    limits = Limits(mailbox_bytes_soft=64 * KiB, mailbox_bytes_hard=256 * KiB)
    rig = await start_rig(limits=limits)
    narrow_door(rig.server)
    slow = await talking(rig, receive_bytes=NARROW_BYTES)
    writer = await rig.connect()
    await writer.open(QUEUE)
    slow.hold()
    count = 0
    while not rig.facts_of(SessionSlowed):
        await writer.post_all(bytes(60 * KiB))
        count += 1
        assert count < 1000
    [fact] = rig.facts_of(SessionSlowed)
    assert fact.name.endswith(f"pid {slow.name}")
    [row] = [row for row in rig.sessions() if row["session"] == fact.session]
    assert row["pressure"] == "soft"
    slow.go_on()
    await slow.take(count)
    await rig.fact(SessionEased)


# The end.


async def test_a_goodbye_is_answered_and_no_loss(rig: Rig) -> None:
    """BMQ-55: what it held goes to the next, without an attempt of its own."""
    client = await talking(rig)
    await client.post_all(b"hello")
    await client.take(1)
    assert await client.disconnect() == DisconnectResponse()
    client.leave()
    assert await rig.reason(client) == "closed by the client"
    [message] = await (await talking(rig)).take(1)
    assert (message.body, message.is_again) == (b"hello", False)
    assert [fact.lost for fact in rig.facts_of(Returned)] == [False]


async def test_who_said_goodbye_is_given_nothing_more(rig: Rig) -> None:
    """Though its connection is still there: what it held is the next one's."""
    client = await talking(rig)
    await client.post_all(b"one")
    await client.take(1)
    assert await client.disconnect() == DisconnectResponse()
    other = await talking(rig)
    await other.post_all(b"two")
    assert bodies(await other.take(2)) == [b"one", b"two"]
    assert client.pushed == []


async def test_all_acknowledgements_come_before_the_answer_to_a_goodbye(rig: Rig) -> None:
    client = await rig.connect()
    await client.open(QUEUE)
    puts = [client.put() for _ in range(3 * UNANSWERED_MAX)]
    client.send_puts(puts)
    assert await client.disconnect() == DisconnectResponse()
    assert client.ack_count == len(puts)


async def test_a_stopping_router_closes_everybody_and_says_why(rig: Rig) -> None:
    clients = [await talking(rig) for _ in range(3)]
    half = await rig.connect(greets=False)
    await rig.stop()
    for client in (*clients, half):
        await client.closed()
    assert rig.closed() == ["the router stops"] * 4
    with pytest.raises(OSError):  # noqa: PT011
        await rig.connect()


async def test_a_stopping_router_blames_nobody_for_what_was_unconfirmed(
    start_rig: StartRig,
) -> None:
    """BMQ-55, BMQ-56: its end is not a crash of its consumers, and takes no message away."""
    once = Domain("work", Mode.PRIORITY, max_delivery_attempts=1)
    rig = await start_rig(url="sqlite:headgate.db", domains=[once])
    client = await talking(rig)
    await client.post_all(b"hello")
    await client.take(1)
    await rig.restart()
    assert rig.facts_of(Poisoned) == []
    assert bodies(await (await talking(rig)).take(1)) == [b"hello"]


async def test_what_was_acknowledged_before_the_stop_is_there_after_it(
    start_rig: StartRig,
) -> None:
    """In the middle of a stream of posts: all of it, and perhaps some that were not
    acknowledged."""
    rig = await start_rig(url="sqlite:headgate.db")
    client = await rig.connect()
    await client.open(QUEUE)
    puts = [client.put(b"%d" % number) for number in range(20_000)]
    client.send_puts(puts)
    await client.until("some acks", lambda: True if client.ack_count > 1000 else None)
    await rig.restart()
    acked = {guid for guid, status in client.acks.items() if status == AckStatus.SUCCESS}
    reader = await talking(rig)
    count = rig.queue(QUEUE)["messages"]
    found: set[bytes] = set()
    while len(found) < count:
        given = await reader.take(1)
        given += await reader.given()
        reader.confirm(*given)
        found |= {message.guid for message in given}
    assert acked <= found <= {put.guid for put in puts}


async def test_a_request_in_the_same_piece_as_a_refused_hello_is_not_done(rig: Rig) -> None:
    client = await rig.connect(greets=False)
    client.send(hello_of(ClientIdentity(client_type=ClientType.TCPBROKER)) + HEARTBEAT_REQUEST)
    await client.closed()
    assert client.events == [EventType.CONTROL]


def hello_of(identity: ClientIdentity) -> bytes:
    return event(EventType.CONTROL, encode_negotiation(identity, Encoding.BER))


async def test_an_answer_is_a_status_and_not_the_end(rig: Rig) -> None:
    client = await rig.connect()
    refused = await client.open("bmq://nowhere/q")
    assert isinstance(refused, Status)
    assert refused.category is Category.REFUSED
    assert isinstance(await client.open(QUEUE), OpenQueueResponse)
