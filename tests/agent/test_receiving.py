"""Receiving: in order, once, and within a bounded memory."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.agent.events import Message, Problem, ProblemKind, QueueFull, StoreFailed
from headgate.agent.model import SessionKey, SlotKey
from headgate.agent.queues import OpenedQueue, OwnQueue
from headgate.agent.records import Records, connections, receive_queues, received, routers, users
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.stored_keys import unpack_key
from headgate.agent.taking import Origin
from headgate.agent.tickets import Bodies, Ticket
from headgate.client.smp.requests import subscribe
from headgate.errors import RequestRefused, StoreError
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.agent.conftest import MakeParty
from tests.support.agent_delivery import (
    ROUTER_ADDRESS,
    LinkPort,
    ModelPort,
    ModelQueue,
    ModelRouter,
    Party,
    address_of,
    quiet,
)
from tests.support.agent_records import DAY, ask
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig

SECRET = b"s" * 32
"""Of the routers and senders of `recipient`."""


def body_of(n: int) -> bytes:
    """What a sender of `recipient` sends."""
    contents = EnvelopeContents(None, b"body %d" % n)
    return ClientEnvelope.seal(4, SECRET, b"%024d" % n, contents).encode()


def keep_queues(tables: Database, count: int) -> None:
    router = routers.keep(tables, ROUTER_ADDRESS)
    for n in range(count):
        connection = b"c%011d" % n
        connections.add(
            tables, ConnectionRecord(connection, 1, ConnectionKind.RECEIVE, name=f"queue {n}")
        )
        queue = ReceiveQueue(
            router, b"r%023d" % n, 1, connection, "ed25519", bytes(32), SECRET, b"", SECRET
        )
        receive_queues.add(tables, queue)


async def recipient(party: Party, model: ModelRouter, count: int) -> list[ModelQueue]:
    """A recipient of so many queues, each with a sender that it knows."""
    await party.records.write(keep_queues, count)
    made = [ModelQueue(SECRET, b"r%023d" % n, b"s%023d" % n) for n in range(count)]
    for queue in made:
        model.queues[queue.recipient] = model.by_sender[queue.sender] = queue
    assert isinstance(party.port, ModelPort)
    party.port.subscribe()
    return made


@pytest.fixture
async def anna(parties: MakeParty) -> Party:
    """Who receives."""
    return await parties()


@pytest.fixture
async def queue(anna: Party, model: ModelRouter) -> ModelQueue:
    """The only one that she has."""
    [queue] = await recipient(anna, model, 1)
    return queue


def asked(party: Party, kind: type[c.Command]) -> int:
    assert isinstance(party.port, ModelPort)
    return sum(isinstance(request.command, kind) for request in party.port.asked)


def port_of(party: Party) -> ModelPort:
    assert isinstance(party.port, ModelPort)
    return party.port


def link_port_of(party: Party) -> LinkPort:
    assert isinstance(party.port, LinkPort)
    return party.port


# Showing and acknowledging.


async def test_a_message_is_stored_before_it_is_shown(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    seen: list[object] = []
    show = anna.receiving._show

    def look(event: object) -> None:
        if isinstance(event, Ticket):
            seen.append(anna.records.read(received.body, event.id))
        show(event)  # type: ignore[arg-type]

    anna.receiving._show = look
    model.put(queue, body_of(1))
    message = await anna.application.message()
    assert message.body == b"body 1"
    assert await seen[0] == b"body 1"  # type: ignore[misc]


async def test_messages_of_a_connection_are_shown_in_order(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """S000-62, S000-68: the first is pushed, those that follow answer ACKs; both go one way."""
    for n in range(30):
        model.put(queue, body_of(n))
    assert await anna.application.messages(30) == [b"body %d" % n for n in range(30)]
    await quiet(anna)
    assert not queue.messages
    assert asked(anna, c.SmpAck) == 30


async def test_a_connection_does_not_wait_for_another(
    parties: MakeParty, model: ModelRouter
) -> None:
    """S000-68: the application has one message and does not acknowledge it; others come."""
    anna = await parties()
    first, second = await recipient(anna, model, 2)
    model.put(first, body_of(1))
    kept = await anna.application.message()
    for n in range(2, 7):
        model.put(second, body_of(n))
    assert await anna.application.messages(5) == [b"body %d" % n for n in range(2, 7)]
    model.put(first, body_of(9))
    await quiet(anna)
    assert not anna.application.waiting
    await kept.ack()
    assert await anna.application.messages(1) == [b"body 9"]


async def test_two_queues_of_a_connection_share_its_lane(
    parties: MakeParty, model: ModelRouter
) -> None:
    """S000-68: in the order in which they came, whichever queue they came through."""
    anna = await parties()
    first, second = await recipient(anna, model, 2)

    def join(tables: Database) -> None:
        tables.change("UPDATE receive_queues SET connection = ?", b"c%011d" % 0)

    await anna.records.write(join)
    for n in range(10):
        model.put((first, second)[n % 2], body_of(n))
    # Each queue gives one; the others follow their ACKs.
    assert sorted(await anna.application.messages(10)) == [b"body %d" % n for n in range(10)]
    await quiet(anna)
    port_of(anna).disconnect()
    for n in range(20, 22):
        model.put((first, second)[n % 2], body_of(n))
    port_of(anna).subscribe(second.recipient, first.recipient)
    assert await anna.application.messages(2) == [b"body 21", b"body 20"]


async def test_the_mark_is_on_the_disk_before_the_ack_leaves(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    model.put(queue, body_of(1))
    message = await anna.application.message()
    await message.ack()
    assert asked(anna, c.SmpAck) == 0
    stored = await anna.records.read(received.get, message.id)
    assert stored is not None
    assert stored.acked
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 1
    await message.ack()
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 1


async def test_an_ack_whose_caller_is_cancelled_is_made(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """S004-26: cancelling leaves nothing half done."""
    model.put(queue, body_of(1))
    message = await anna.application.message()
    acking = asyncio.ensure_future(message.ack())
    await asyncio.sleep(0)
    acking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acking
    await quiet(anna)
    assert not queue.messages


async def test_a_message_that_is_let_go_of_is_not_acknowledged(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    model.put(queue, body_of(1))
    message = await anna.application.message()
    assert (message.attempts, message.connection) == (1, b"c%011d" % 0)
    del message
    gc.collect()
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 0
    assert len(queue.messages) == 1
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    again = await anna.application.message()
    assert (again.body, again.attempts) == (b"body 1", 2)


# Messages that come again.


async def test_a_message_whose_ack_was_lost_is_acknowledged_again_and_not_shown(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: it is recognised after the next connect."""
    model.put(queue, body_of(1))
    model.put(queue, body_of(2))
    message = await anna.application.message()
    port_of(anna).disconnect()
    await message.ack()
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 0
    assert len(queue.messages) == 2
    port_of(anna).subscribe()
    assert await anna.application.messages(1) == [b"body 2"]
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 2
    assert not queue.messages


async def test_a_message_that_was_not_acknowledged_is_shown_again(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: with one attempt more; whichever of the two is acknowledged, it was this message."""
    model.put(queue, body_of(1))
    first = await anna.application.message()
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    second = await anna.application.message()
    assert (second.id, second.body, second.attempts) == (first.id, b"body 1", 2)
    await first.ack()
    await quiet(anna)
    assert not queue.messages
    await second.ack()
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 1


async def test_a_message_that_waits_and_comes_again_is_shown_once(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: nobody has seen it, so it is no repetition."""
    model.put(queue, body_of(1))
    for _ in range(3):
        await quiet(anna)
        port_of(anna).disconnect()
        port_of(anna).subscribe()
    await quiet(anna)
    assert len(anna.application.waiting) == 1
    message = await anna.application.message()
    assert message.attempts == 1
    await message.ack()
    await quiet(anna)
    assert not queue.messages


async def test_a_message_that_is_acknowledged_while_it_waits_again_is_not_shown(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: the second ticket of a message is worth nothing after the mark."""
    model.put(queue, body_of(1))
    first = await anna.application.message()
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    await quiet(anna)
    [ticket] = anna.application.waiting
    assert isinstance(ticket, Ticket)
    await first.ack()
    assert await ticket.load() is None


async def test_a_message_that_comes_twice_in_a_session_is_shown_once(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """A repeated SUB gives the first message of a queue again."""
    model.put(queue, body_of(1))
    port_of(anna).subscribe()
    message = await anna.application.message()
    port_of(anna).subscribe()
    await quiet(anna)
    assert not anna.application.waiting
    stored = await anna.records.read(received.get, message.id)
    assert stored is not None
    assert stored.attempts == 1
    await message.ack()
    await quiet(anna)
    assert not queue.messages


async def test_a_message_that_its_sender_sent_twice_is_shown_once(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: the router has it under two ids; its hash is the same."""
    for n in (1, 1, 2):
        model.put(queue, body_of(n))
    assert await anna.application.messages(2) == [b"body 1", b"body 2"]
    await quiet(anna)
    assert not queue.messages


async def test_a_message_is_dropped_after_eight_attempts_over_more_than_a_day(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: it is reported and acknowledged, so that others can come."""
    model.put(queue, body_of(1))
    model.put(queue, body_of(2))
    for attempt in range(1, 11):  # not while it is younger than a day
        message = await anna.application.message()
        assert (message.body, message.attempts) == (b"body 1", attempt)
        port_of(anna).disconnect()
        port_of(anna).subscribe()
    assert (await anna.application.message()).attempts == 11
    anna.clock.time += DAY + 1
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert (event.kind, event.connection) == (ProblemKind.DROPPED, b"c%011d" % 0)
    assert event.broker_id is not None
    assert await anna.application.messages(1) == [b"body 2"]


async def test_few_attempts_are_not_enough_to_drop_an_old_message(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """ACC-99: eight are shown, however old it is; the ninth is not."""
    model.put(queue, body_of(1))
    for attempt in range(1, 9):
        assert (await anna.application.message()).attempts == attempt
        anna.clock.time += DAY + 1
        port_of(anna).disconnect()
        port_of(anna).subscribe()
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert event.kind is ProblemKind.DROPPED


@pytest.mark.parametrize("crashes", [False, True])
async def test_a_message_that_was_never_shown_is_not_dropped(
    model: ModelRouter, tmp_path: Path, crashes: bool
) -> None:
    """An application that is started again and again and does not come to it, because it reads
    others or because it ends before: only a crash after the first time counts it."""
    for start in range(12):
        records = await Records.open(tmp_path / "agent.db")
        party = Party(records, ModelPort(model))
        party.clock.time += start * DAY
        if start:
            port_of(party).disconnect()
            port_of(party).subscribe()
        else:
            await records.write(users.add)
            [queue] = await recipient(party, model, 1)
            model.put(queue, body_of(1))
        await quiet(party)
        [ticket] = party.application.waiting
        assert isinstance(ticket, Ticket)
        assert ticket.message.attempts == (1 if crashes or not start else 0)
        for held in model.queues.values():
            held.subscriber, held.is_given = None, False
        if crashes:
            await records.close()
        await party.close()


async def test_a_reader_that_is_cancelled_counts_one_attempt(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """S004-26: and what was counted and is not shown in the end is taken back."""
    model.put(queue, body_of(1))
    first = await anna.application.message()
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    await quiet(anna)
    [ticket] = anna.application.waiting
    assert isinstance(ticket, Ticket)
    number = 0
    while await is_cancelled_at(ticket.load(), number):
        stored = await anna.records.read(received.get, first.id)
        assert stored is not None
        assert stored.attempts <= 2
        number += 1
    assert number > 1
    stored = await anna.records.read(received.get, first.id)
    assert stored is not None
    assert stored.attempts == 2


async def test_an_ack_that_may_work_later_is_asked_again_while_the_session_lasts(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """Otherwise the queue gives nothing more until the next connect."""
    model.put(queue, body_of(1))
    model.put(queue, body_of(2))
    port_of(anna).script.extend([RequestRefused("STORE full"), RequestRefused("INTERNAL")])
    assert await anna.application.messages(2) == [b"body 1", b"body 2"]
    assert anna.clock.pauses == [2.0, 3.0]


async def test_an_ack_that_is_refused_for_good_is_an_end(
    parties: MakeParty, model: ModelRouter
) -> None:
    """NO_MSG is fine, and nothing helps against AUTH."""
    anna = await parties()
    first, second = await recipient(anna, model, 2)
    for queue in (first, second):
        model.put(queue, body_of(1 if queue is first else 2))
    port_of(anna).script.extend([RequestRefused("NO_MSG"), RequestRefused("AUTH")])
    await anna.application.messages(2)
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 2
    assert not anna.clock.pauses


# What cannot be shown.


async def test_a_message_that_cannot_be_opened_is_reported_and_acknowledged(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    model.put_sealed(queue, b"not sealed by the router")
    model.put(queue, b"no envelope")
    model.put(
        queue, ClientEnvelope.seal(4, b"x" * 32, bytes(24), EnvelopeContents(None, b"x")).encode()
    )
    model.put(queue, body_of(1))
    ids = [id for id, _, _ in queue.messages]
    for id in ids[:3]:
        event = await anna.application.read()
        assert isinstance(event, Problem)
        assert event.kind is ProblemKind.UNREADABLE
        assert (event.connection, event.broker_id) == (b"c%011d" % 0, id)
        assert event.router == ROUTER_ADDRESS
        assert event.text
    assert await anna.application.messages(1) == [b"body 1"]
    assert await ask(anna.records, "SELECT count(*) FROM received") == [(1,)]


async def test_a_connection_of_a_kind_that_nobody_opens_does_not_block(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    await anna.records.write(connections.amend, b"c%011d" % 0, kind=ConnectionKind.NEW)
    model.put(queue, body_of(1))
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert "new connections" in event.text
    await quiet(anna)
    assert not queue.messages


async def test_a_quota_marker_is_shown_and_acknowledged(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    model.put_marker(queue)
    model.put(queue, body_of(1))
    event = await anna.application.read()
    assert isinstance(event, QueueFull)
    assert event.queue is not None
    assert (event.connection, event.queue.name) == (b"c%011d" % 0, "queue 0")
    assert await anna.application.messages(1) == [b"body 1"]


async def test_a_message_of_a_deleted_queue_is_not_shown(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna = await parties()
    first, second = await recipient(anna, model, 2)
    await anna.records.write(receive_queues.delete, (1, first.recipient))
    session = port_of(anna).connect()
    model.put(first, body_of(1))
    anna.receiving.take(session, b"unknown", r.Msg(b"id", b"sealed"))
    model.put(second, body_of(2))
    assert await anna.application.messages(1) == [b"body 2"]
    await quiet(anna)
    assert anna.receiving.bodies.count == 0


async def test_a_full_disk_stops_receiving_before_the_ack_and_it_goes_on_by_itself(
    anna: Party, queue: ModelQueue, model: ModelRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = anna.records.write
    left = 3

    def refuse(job: object, *args: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            return write(job, *args, **named)  # type: ignore[arg-type]
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused

    monkeypatch.setattr(anna.records, "write", refuse)
    model.put(queue, body_of(1))
    assert await anna.application.read() == StoreFailed("the disk is full")
    assert asked(anna, c.SmpAck) == 0
    assert await anna.application.messages(1) == [b"body 1"]
    assert anna.clock.pauses == [2.0, 3.0, 4.5]


# Suspending.


async def test_suspended_nothing_is_shown_or_acknowledged_and_resumed_all_come_in_order(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """S000-71: what is under way finishes; nothing is lost."""
    for n in range(5):
        model.put(queue, body_of(n))
    first = await anna.application.message()
    await quiet(anna)
    await anna.operations.suspend()
    await first.ack()
    port_of(anna).disconnect()
    port_of(anna).subscribe()
    await quiet(anna)
    assert asked(anna, c.SmpAck) == 0
    assert not anna.application.waiting
    reading = asyncio.ensure_future(anna.application.messages(4))
    await quiet(anna)
    assert not reading.done()
    anna.operations.resume()
    assert await reading == [b"body %d" % n for n in range(1, 5)]


async def test_a_ticket_waits_while_suspended(
    anna: Party, queue: ModelQueue, model: ModelRouter
) -> None:
    """S000-71: also one that was there before."""
    model.put(queue, body_of(1))
    await quiet(anna)
    await anna.operations.suspend()
    reading = asyncio.ensure_future(anna.application.message())
    await quiet(anna)
    assert not reading.done()
    reading.cancel()
    anna.operations.resume()
    assert (await anna.application.message()).body == b"body 1"


# Memory.


def test_bodies_are_never_more_than_the_limit() -> None:
    bodies = Bodies(3)
    tickets = [_ticket(n) for n in range(5)]
    for ticket in tickets[:3]:
        assert bodies.admit()
        bodies.keep(ticket, b"body")
    assert bodies.admit()  # the last ticket gives its body up
    assert [ticket.body for ticket in tickets[:3]] == [b"body", b"body", None]
    assert bodies.admit()
    assert bodies.admit()
    assert bodies.count == 3
    assert not bodies.admit()
    bodies.release()
    assert bodies.admit()
    assert bodies.give(tickets[0]) is None


def _ticket(n: int) -> Ticket:
    message = ReceivedMessage(
        n, b"c", (1, b"q"), b"b", 0, None, None, None, b"", "plain", 0, False, 1, 0.0
    )

    async def load(ticket: Ticket) -> Message | None:
        raise AssertionError

    return Ticket(Origin(1, ROUTER_ADDRESS, b"c", None), message, load)


async def test_what_has_no_room_stays_at_its_router_and_is_asked_for_again(
    parties: MakeParty, model: ModelRouter
) -> None:
    """The reader of a session never waits, and memory is bounded all the same."""
    anna = await parties(inbox_max=4)
    queues = await recipient(anna, model, 50)
    for n, queue in enumerate(queues):
        model.put(queue, body_of(n))  # all before anything can be stored
        assert anna.receiving.bodies.count <= 4
    bodies = await anna.application.messages(50)
    assert sorted(bodies) == sorted(b"body %d" % n for n in range(50))
    assert asked(anna, c.Sub) >= 46


async def test_what_stayed_at_a_router_is_asked_for_again_after_an_error(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna = await parties(inbox_max=1)
    queues = await recipient(anna, model, 3)
    port_of(anna).script.extend([RequestRefused("STORE full")])
    for n, queue in enumerate(queues):
        model.put(queue, body_of(n))
    found = [await anna.application.message() for _ in range(3)]
    assert sorted(message.body for message in found) == [b"body 0", b"body 1", b"body 2"]


async def test_20_000_messages_wait_for_a_slow_application_in_a_bounded_memory(
    parties: MakeParty, model: ModelRouter
) -> None:
    """A service has 20,000 queues, each with a message; the application reads when all are
    stored, and then one by one."""
    limit, count = 1000, 20_000
    anna = await parties(inbox_max=limit)
    bodies, show = anna.receiving.bodies, anna.receiving._show
    seen = 0

    def look(event: object) -> None:
        nonlocal seen
        seen = max(seen, bodies.count)
        show(event)  # type: ignore[arg-type]

    anna.receiving._show = look
    queues = await recipient(anna, model, count)
    for n, queue in enumerate(queues):
        model.put(queue, body_of(n))
        seen = max(seen, bodies.count)
    while len(anna.application.waiting) < count:  # noqa: ASYNC110
        await asyncio.sleep(0)
    held = [ticket for ticket in anna.application.waiting if isinstance(ticket, Ticket)]
    assert sum(ticket.body is not None for ticket in held) == bodies.count == seen == limit
    found = {(await anna.application.message()).body for _ in range(count)}
    assert len(found) == count
    assert bodies.count == 0


async def test_a_session_that_is_over_leaves_nothing_in_memory(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna = await parties(inbox_max=2)
    queues = await recipient(anna, model, 5)
    for n, queue in enumerate(queues):
        model.put(queue, body_of(n))
    port_of(anna).disconnect()
    await quiet(anna)
    assert anna.receiving.bodies.coming == 0
    assert not anna.receiving._left
    anna.receiving.forget(SessionKey(SlotKey(1, 1), 99, b"unknown"))
    port_of(anna).subscribe()
    assert len(await anna.application.messages(5)) == 5
    assert not len(anna.receiving._held)


# With a real router.


async def connect_again(party: Party, router: int, *queues: OwnQueue) -> None:
    """As the shell does: a new session, and all queues are subscribed."""
    await link_port_of(party).close()
    for queue in queues:
        row = await party.records.read(receive_queues.get, (router, queue.recipient_id))
        assert row is not None
        key = unpack_key(row.key_kind, row.private_key)
        await party.port.ask(1, router, None, [subscribe(row.recipient_id, key)])


async def two(linked: MakeParty, router: Rig) -> tuple[Party, Party, OwnQueue, OpenedQueue]:
    anna, bob = await linked(), await linked()
    queue = await anna.make("meters", address_of(router))
    return anna, bob, queue, await bob.open(queue)


async def test_a_real_router_gives_a_message_again_until_it_is_acknowledged(
    linked: MakeParty, router: Rig
) -> None:
    """ACC-99: shown again, then acknowledged; the ACK is lost, and it is not shown again."""
    anna, bob, queue, opened = await two(linked, router)
    for n in range(3):
        await bob.sending.send(opened.connection, b"%d" % n)
    message = await anna.application.message()
    await connect_again(anna, queue.router, queue)
    again = await anna.application.message()
    assert (again.body, again.attempts) == (b"0", 2)
    await link_port_of(anna).close()
    await message.ack()
    await connect_again(anna, queue.router, queue)
    assert await anna.application.messages(2) == [b"1", b"2"]


async def test_a_real_router_is_asked_again_for_what_had_no_room(
    linked: MakeParty, router: Rig
) -> None:
    anna, bob = await linked(inbox_max=1), await linked()
    queues = [await anna.make(f"queue {n}", address_of(router)) for n in range(8)]
    await link_port_of(anna).close()
    for n, queue in enumerate(queues):
        opened = await bob.open(queue)
        await bob.sending.send(opened.connection, b"%d" % n)
        await bob.application.read()
    await connect_again(anna, queues[0].router, *queues)
    found = await anna.application.messages(8)
    assert sorted(found) == [b"%d" % n for n in range(8)]


# Laws.

moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2)),
        st.tuples(st.just("put twice"), st.integers(0, 2)),
        st.just(("reconnect", 0)),
        st.just(("lose", 0)),
        st.just(("ack fails", 0)),
        st.just(("ack answer lost", 0)),
        st.just(("read", 0)),
        st.just(("ack", 0)),
        st.just(("ack last", 0)),
        st.just(("subscribe twice", 0)),
        st.just(("quiet", 0)),
    ),
    max_size=40,
)


@given(moves, st.integers(1, 4))
@example(
    [
        *(("put", 0), ("put twice", 0), ("read", 0), ("ack", 0), ("read", 0)),
        *(("ack answer lost", 0), ("ack", 0)),
    ],
    1,
)
@settings(max_examples=60)
def test_nothing_is_lost_or_shown_after_its_acknowledgement_and_order_is_kept(
    steps: list[tuple[str, int]], inbox_max: int
) -> None:
    """ACC-99, S000-68: whatever is lost, repeated or cut off."""
    asyncio.run(_play(steps, inbox_max))


async def _play(steps: list[tuple[str, int]], inbox_max: int) -> None:
    model = ModelRouter()
    records = await Records.memory()
    await records.write(users.add)
    anna = Party(records, ModelPort(model), inbox_max=inbox_max)
    queues = await recipient(anna, model, 3)
    port, count = port_of(anna), 0
    put: dict[bytes, list[bytes]] = {b"c%011d" % n: [] for n in range(3)}
    shown: dict[bytes, list[bytes]] = {connection: [] for connection in put}
    acked: set[bytes] = set()
    in_hand: list[Message] = []

    async def read() -> None:
        message = await anna.application.message()
        assert message.body not in acked, "shown after its acknowledgement"
        shown[message.connection].append(message.body)
        in_hand.append(message)

    async def ack(place: int) -> None:
        message = in_hand.pop(place)
        await message.ack()
        acked.add(message.body)

    for step, n in steps:
        match step:
            case "put" | "put twice":
                count += 1
                for _ in range(1 + (step == "put twice")):
                    model.put(queues[n], body_of(count))
                put[b"c%011d" % n].append(b"body %d" % count)
            case "reconnect":
                port.disconnect()
                port.subscribe()
            case "lose":
                port.disconnect()
            case "subscribe twice":
                port.subscribe()
            case "ack fails":
                port.script.append(RequestRefused("STORE full"))
            case "ack answer lost":
                port.script.append(ModelPort.LOST)
            case "read":
                await quiet(anna)
                waiting = [
                    each
                    for each in anna.application.waiting
                    if isinstance(each, Ticket) and anna.receiving._unshown.get(each.id) is each
                ]
                if waiting:
                    await read()
            case "ack" | "ack last":
                if in_hand:
                    await ack(0 if step == "ack" else -1)
            case "quiet":
                await quiet(anna)
        assert anna.receiving.bodies.count <= inbox_max
    # In the end the network works, and the application reads and acknowledges everything.
    everything = {body for bodies in put.values() for body in bodies}
    port.script.clear()
    while acked != everything:
        port.disconnect()
        port.subscribe()
        await quiet(anna)
        while in_hand:
            await ack(-1)
        while any(
            isinstance(each, Ticket) and anna.receiving._unshown.get(each.id) is each
            for each in anna.application.waiting
        ):
            await read()
            await ack(-1)
            await quiet(anna)
    port.disconnect()
    port.subscribe()
    await quiet(anna)
    assert not any(queue.messages for queue in queues)
    for connection, bodies in put.items():
        assert list(dict.fromkeys(shown[connection])) == bodies
    await anna.close()
