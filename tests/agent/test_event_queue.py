"""Events on their way to the application."""

from __future__ import annotations

import asyncio

import pytest

from headgate.agent.event_queue import FAILED_IDS_MAX, EventQueue, Folded, fold
from headgate.agent.events import (
    Deleted,
    Down,
    End,
    Failed,
    Problem,
    ProblemKind,
    Refusal,
    Sent,
    ServiceAll,
    ServiceDown,
    ServiceUp,
    Skipped,
    StoreFailed,
    SubscriptionEvent,
    Suspended,
    Up,
    Warned,
)
from headgate.core.model.tally import NOTHING
from tests.support.agent_records import ADDRESS, OTHER_ADDRESS
from tests.support.smp_peer import passes

A, B, C = b"a", b"b", b"c"


def up(*connections: bytes) -> Up:
    return Up(1, ADDRESS, connections)


def down(*connections: bytes) -> Down:
    return Down(1, ADDRESS, connections)


def state(events: list[SubscriptionEvent | Skipped], known: set[bytes]) -> set[bytes]:
    """Who is up after these events, if those were before."""
    found = set(known)
    for event in events:
        if isinstance(event, Up):
            found |= set(event.connections)
        elif isinstance(event, Down):
            found -= set(event.connections)
        elif isinstance(event, End | Deleted):
            found.discard(event.connection)
    return found


async def read(queue: EventQueue[SubscriptionEvent]) -> list[SubscriptionEvent | Skipped]:
    return [await anext(queue) for _ in range(len(queue))]


async def test_events_come_in_order_and_reading_may_stop_and_begin_again() -> None:
    queue: EventQueue[SubscriptionEvent] = EventQueue()
    events: list[SubscriptionEvent] = [up(A), down(A), up(A, B)]
    for event in events:
        queue.put(event)
    seen = []
    async for given in queue:
        seen.append(given)
        break
    async for given in queue:
        seen.append(given)
        if len(seen) == 3:
            break
    assert seen == events
    queue.close()
    assert [event async for event in queue] == []


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    """Not even if the event has come and the reader has not run since."""
    queue: EventQueue[SubscriptionEvent] = EventQueue()
    for put_first in (False, True):
        readers = [asyncio.create_task(anext(queue)) for _ in range(2)]
        await passes()
        if put_first:
            queue.put(up(A))
        readers[0].cancel()
        if not put_first:
            queue.put(up(A))
        assert await readers[1] == up(A)
        with pytest.raises(asyncio.CancelledError):
            await readers[0]


async def test_while_it_is_held_only_what_is_first_is_given() -> None:
    """S000-71."""
    queue: EventQueue[SubscriptionEvent] = EventQueue()
    queue.put(up(A))
    queue.hold()
    queue.put(down(A))
    reader = asyncio.create_task(anext(queue))
    await passes()
    assert not reader.done()
    queue.put_first(Suspended())
    assert await reader == Suspended()
    readers = [asyncio.create_task(anext(queue)) for _ in range(2)]
    await passes()
    assert not any(reader.done() for reader in readers)
    queue.release()
    assert [await reader for reader in readers] == [up(A), down(A)]


async def test_closing_ends_who_waits() -> None:
    queue: EventQueue[SubscriptionEvent] = EventQueue()
    readers = [asyncio.create_task(anext(queue, None)) for _ in range(2)]
    await passes()
    queue.close()
    queue.put(up(A))
    queue.put_first(up(A))
    assert [await reader for reader in readers] == [None, None]


async def test_an_application_that_never_reads_does_not_fill_the_memory() -> None:
    queue: EventQueue[SubscriptionEvent] = EventQueue(exact_max=10)
    for _ in range(1000):
        queue.put(up(A))
        queue.put(down(A))
        queue.put(ServiceUp(1, ADDRESS, NOTHING))
        queue.put(ServiceDown(1, ADDRESS, NOTHING))
        queue.put(Problem(1, ADDRESS, ProblemKind.STEP, "disk"))
        assert len(queue) <= 11
    queue.put(up(A))
    events = await read(queue)
    assert state(events, set()) == {A}
    skipped = [event.count for event in events if isinstance(event, Skipped)]
    assert sum(skipped) + len(events) - len(skipped) == 5001


async def test_up_to_the_bound_every_event_is_given() -> None:
    queue: EventQueue[SubscriptionEvent] = EventQueue(exact_max=10)
    events: list[SubscriptionEvent] = [up(A), down(A)] * 5
    for event in events:
        queue.put(event)
    assert await read(queue) == events


async def test_other_events_stay() -> None:
    """They are bounded by whoever puts them."""
    queue: EventQueue[object] = EventQueue(exact_max=2)
    for n in range(5):
        queue.put(n)
        queue.put(up(A))
        queue.put(down(A))
    found = [await anext(queue) for _ in range(len(queue))]
    assert [event for event in found if isinstance(event, int)] == [0, 1, 2, 3, 4]


def test_what_cancels_out_is_left_out() -> None:
    assert fold([up(A, B), down(A), up(C), down(C)]) == [Skipped(3), up(B)]
    assert fold([down(A), up(A)]) == [Skipped(2)]
    assert fold([down(A), up(A), down(A)]) == [Skipped(2), down(A)]


def test_routers_are_kept_apart() -> None:
    other = Down(1, OTHER_ADDRESS, (A,))
    assert fold([up(A), other]) == [other, up(A)]


def test_what_ended_speaks_for_its_connection() -> None:
    end = End(1, ADDRESS, A)
    assert fold([up(A), end]) == [Skipped(1), end]
    assert fold([end, up(A)]) == [end, up(A)]
    # Without a DOWN in between, when a service went down with it.
    assert fold([up(A), up(A)]) == [Skipped(1), up(A)]


def test_the_last_state_of_a_service_and_the_last_problem_of_each_kind_are_kept() -> None:
    swept = ServiceAll(1, ADDRESS)
    first = Problem(1, ADDRESS, ProblemKind.REFUSED, refusals=(Refusal(A, "AUTH"),))
    second = Problem(1, ADDRESS, ProblemKind.REFUSED, refusals=(Refusal(B, "AUTH"),))
    step = Problem(1, ADDRESS, ProblemKind.STEP, "disk")
    both = Problem(1, ADDRESS, ProblemKind.REFUSED, refusals=(*first.refusals, *second.refusals))
    service_up = ServiceUp(1, ADDRESS, NOTHING)
    service_down = ServiceDown(1, ADDRESS, NOTHING)
    events: list[Folded] = [first, service_up, swept, service_down, step, second]
    assert fold(events) == [Skipped(2), step, both, service_down, swept]


def test_of_messages_that_were_sent_the_last_is_kept_and_of_those_given_up_their_ids() -> None:
    events: list[Folded] = [Sent(A, 1), Failed(A, (2, 3), "x"), Sent(A, 4), Warned(A, 5, "full")]
    events += [Sent(B, 1), Failed(A, (6,), "y"), StoreFailed("full"), StoreFailed("again")]
    assert fold(events) == [
        Skipped(3), StoreFailed("again"), Sent(A, 4), Warned(A, 5, "full"), Sent(B, 1),
        Failed(A, (2, 3, 6), "y"),
    ]  # fmt: skip
    many = fold([Failed(A, tuple(range(FAILED_IDS_MAX)), "x"), Failed(A, (-1,), "x")])
    assert isinstance(many[1], Failed)
    assert (len(many[1].ids), many[1].ids[-1]) == (FAILED_IDS_MAX, -1)


async def test_what_is_taken_may_have_others_before_it_by_now() -> None:
    queue: EventQueue[object] = EventQueue(exact_max=1)
    queue.put("message")
    head = await queue.head()
    queue.put(up(A))
    queue.put(up(B))
    queue.put_first("first")
    queue.take(head)
    found = [await anext(queue) for _ in range(len(queue))]
    assert found == ["first", Skipped(1), up(A, B)]


def test_folding_twice_counts_once() -> None:
    events: list[Folded] = [up(A), down(A), up(B), down(B), up(C)]
    assert fold([*fold(events[:3]), *events[3:]]) == fold(events) == [Skipped(4), up(C)]
