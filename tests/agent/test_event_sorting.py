"""Messages of one connection, read apart from all other events."""

from __future__ import annotations

import asyncio

import pytest

from headgate.agent.event_sorting import EventSorting
from headgate.agent.events import Message, Receipt, Suspended, Up
from headgate.agent.openers import PLAIN, RECEIPT
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.taking import Origin
from headgate.agent.tickets import Ticket
from tests.support.agent_records import ADDRESS
from tests.support.smp_peer import passes

ANNA, BOB = b"anna", b"bob"


async def nothing(id: int, receipt: bool) -> None:
    """What these messages are acknowledged with."""


def ticket(connection: bytes, id: int, kind: str = PLAIN) -> Ticket:
    """A message that waits, as `Receiving` shows it."""

    async def load(ticket: Ticket) -> Message | Receipt:
        await asyncio.sleep(0)
        if kind == RECEIPT:
            return Receipt(connection, (id,))
        return Message(connection, None, id, b"body", 1, 0, nothing)

    stored = ReceivedMessage(
        id, connection, (1, b"queue"), b"", 0, None, None, None, b"", kind, 0, False, 1, 0.0
    )
    return Ticket(Origin(1, ADDRESS, connection, None), stored, load)


def sorting() -> EventSorting:
    return EventSorting(0.0, lambda error: None)


async def ids(stream: object, count: int) -> list[int]:
    return [(await anext(stream)).id for _ in range(count)]  # type: ignore[call-overload]


async def test_messages_that_are_read_apart_are_not_among_the_events() -> None:
    """Those that wait already are moved, in their order; receipts stay among the events."""
    events = sorting()
    for id, connection in enumerate((ANNA, BOB, ANNA, BOB)):
        events.put(ticket(connection, id))
    hers = events.messages(ANNA)
    events.put(ticket(ANNA, 4, RECEIPT))
    events.put(ticket(ANNA, 5))
    assert await ids(hers, 3) == [0, 2, 5]
    assert await ids(events.events, 2) == [1, 3]
    assert await anext(events.events) == Receipt(ANNA, (4,))


async def test_reading_may_stop_and_begin_again() -> None:
    events = sorting()
    for id in range(3):
        events.put(ticket(ANNA, id))
    async for message in events.messages(ANNA):
        assert message.id == 0
        break
    assert await ids(events.messages(ANNA), 2) == [1, 2]


async def test_what_is_about_to_be_given_stays_where_it_is_read() -> None:
    events = sorting()
    for id in range(2):
        events.put(ticket(ANNA, id))
    reading = asyncio.create_task(ids(events.events, 1))
    await asyncio.sleep(0)
    hers = events.messages(ANNA)
    assert await reading == [0]
    assert await ids(hers, 1) == [1]


@pytest.mark.parametrize("before", [False, True])
async def test_suspended_nothing_is_given_anywhere(before: bool) -> None:
    """S000-71: nor to whoever begins to read then."""
    events = sorting()
    events.put(ticket(ANNA, 1))
    if before:
        events.messages(ANNA)
    events.hold()
    events.suspended()
    assert await anext(events.events) == Suspended()
    reading = asyncio.create_task(ids(events.messages(ANNA), 1))
    await passes(10)
    assert not reading.done()
    events.release()
    assert await reading == [1]


@pytest.mark.parametrize("before", [False, True])
async def test_closed_all_of_them_end(before: bool) -> None:
    events = sorting()
    if before:
        events.messages(ANNA)
    events.close()
    events.put(Up(1, ADDRESS, (ANNA,)))
    assert [event async for event in events.events] == []
    assert [message async for message in events.messages(ANNA)] == []
