"""Events on their way to the application: one queue, which never blocks its writers.

An application that does not read must not fill the memory. Up to `EXACT_MAX` events are kept as
they were. Beyond that those of subscriptions are merged: a connection's changes to their net
effect, a service's to its last state, problems and outcomes of messages to the last of each kind.
The rest is bounded by the number of connections and routers, however long the application does not
read. Received messages are not merged: receiving bounds them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Generic, TypeAlias, TypeVar

from headgate.agent.events import (
    Deleted,
    Down,
    End,
    Failed,
    Problem,
    ProblemKind,
    QueueFull,
    Refusal,
    Sent,
    ServiceAll,
    ServiceDown,
    ServiceEnd,
    ServiceUp,
    Skipped,
    StoreFailed,
    Up,
    Warned,
)
from headgate.agent.model import ConnectionId, UserId
from headgate.wire.smp.codec.router_address import RouterAddress

EXACT_MAX: Final = 1000
"""Events of subscriptions that are kept one by one."""

T = TypeVar("T")


class EventQueue(Generic[T]):
    """Unread events, in order. Owned by an agent; it is both ends of its `events()`, so reading may
    stop and begin again at any event.

    While it is held, only events put first are given. A closed queue gives its events, and then
    ends.
    """

    def __init__(self, exact_max: int = EXACT_MAX) -> None:
        self._exact_max = exact_max
        self._fold_at = exact_max
        self._events: deque[T | Skipped] = deque()
        self._first: deque[T | Skipped] = deque()
        self._folded = 0
        """Number of events that can be merged."""
        self.is_held = False
        self.is_closed = False
        self._readers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._first) + len(self._events)

    def put(self, event: T) -> None:
        """Add an event behind the others."""
        if self.is_closed:
            return
        self._events.append(event)
        if isinstance(event, FOLDED):
            self._folded += 1
            if self._folded > self._fold_at:
                self._fold()
        self._wake()

    def put_first(self, event: T) -> None:
        """Add an event before all others, which is given even while the queue is held."""
        if not self.is_closed:
            self._first.append(event)
            self._wake()

    def pull(self, match: Callable[[T | Skipped], bool]) -> list[T]:
        """Remove the events that match, of those that cannot be merged."""
        pulled = [e for e in self._events if not isinstance(e, FOLDED) and match(e)]
        if pulled:
            left = set(map(id, pulled))
            self._events = deque(e for e in self._events if id(e) not in left)
        return pulled

    def hold(self) -> None:
        """Give no more events."""
        self.is_held = True

    def release(self) -> None:
        """Give events again."""
        self.is_held = False
        self._wake()

    def close(self) -> None:
        """Accept no more events."""
        self.is_closed = True
        self.is_held = False
        self._wake(everybody=True)

    def __aiter__(self) -> EventQueue[T]:
        return self

    async def __anext__(self) -> T | Skipped:
        """The next event. Each is given once; if a reader is cancelled, the next one gets it."""
        event = await self.head()
        self.take(event)
        return event

    async def head(self) -> T | Skipped:
        """The next event, which stays; raises `StopAsyncIteration` when there are no more."""
        while True:
            if self._first:
                return self._first[0]
            if self._events and not self.is_held:
                return self._events[0]
            if self.is_closed:
                raise StopAsyncIteration
            waiting = asyncio.get_running_loop().create_future()
            self._readers.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting in self._readers:
                    self._readers.remove(waiting)
                else:
                    # It was woken and leaves: the event is for another reader.
                    self._wake()
                raise

    def take(self, event: T | Skipped) -> None:
        """Remove an event that was at the head. Others may be before it now."""
        if self._first and self._first[0] is event:
            self._first.popleft()
        else:
            self._events.remove(event)
            self._folded -= isinstance(event, FOLDED)
            if not self._events:
                self._fold_at = self._exact_max
        # Another reader may have been skipped while the queue was held.
        self._wake()

    def _wake(self, *, everybody: bool = False) -> None:
        has_any = self._first or (self._events and not self.is_held)
        while self._readers and (has_any or everybody):
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                if not everybody:
                    return

    def _fold(self) -> None:
        """Merge events. The next time is when there are twice as many, so that the cost per event
        is small."""
        folded = fold(event for event in self._events if isinstance(event, FOLDED))
        rest = [event for event in self._events if not isinstance(event, FOLDED)]
        self._events = deque([*folded, *rest])  # type: ignore[list-item]  # all of them are events
        self._folded = len(folded)
        self._fold_at = max(self._exact_max, 2 * self._folded)


Folded: TypeAlias = (
    Up
    | Down
    | End
    | Deleted
    | ServiceUp
    | ServiceDown
    | ServiceAll
    | ServiceEnd
    | Problem
    | Skipped
    | QueueFull
    | Sent
    | Warned
    | Failed
    | StoreFailed
)
"""Events of subscriptions and of sending, which can be merged."""

FOLDED: Final = (
    Up, Down, End, Deleted, ServiceUp, ServiceDown, ServiceAll, ServiceEnd, Problem, Skipped,
    QueueFull, Sent, Warned, Failed, StoreFailed,
)  # fmt: skip

FAILED_IDS_MAX: Final = 1000
"""Messages of one connection that were given up and are named."""

Place: TypeAlias = tuple[UserId, RouterAddress]


class _Difference:
    """The net effect of a run of events."""

    def __init__(self) -> None:
        self.seen = 0
        self.moves: dict[Place, dict[ConnectionId, bool]] = {}
        """Whether a connection went up or down; not both."""
        self.gone: dict[End | Deleted, None] = {}
        self.services: dict[Place, ServiceUp | ServiceDown | ServiceEnd] = {}
        self.sweeps: dict[Place, ServiceAll] = {}
        self.problems: dict[tuple[Place, ProblemKind], Problem] = {}
        self.last: dict[tuple[type, ConnectionId], QueueFull | Sent | Warned | Failed] = {}
        self.store_failed: list[StoreFailed] = []

    def add(self, event: Folded) -> None:
        if isinstance(event, Skipped):
            self.seen += event.count
            return
        self.seen += 1
        if isinstance(event, QueueFull | Sent | Warned | Failed):
            self._add_last(event)
            return
        if isinstance(event, StoreFailed):
            self.store_failed = [event]
            return
        place = (event.user, event.router)
        match event:
            case Up(connections=connections) | Down(connections=connections):
                self._move(self.moves.setdefault(place, {}), connections, isinstance(event, Up))
            case End(connection=connection) | Deleted(connection=connection):
                # It covers the connection, which comes up from here if it does.
                self.moves.get(place, {}).pop(connection, None)
                self.gone[event] = None
            case ServiceUp() | ServiceDown() | ServiceEnd():
                self.services[place] = event
            case ServiceAll():
                self.sweeps[place] = event
            case Problem():
                self._add_problem(place, event)

    def _move(
        self, moves: dict[ConnectionId, bool], connections: Iterable[ConnectionId], is_up: bool
    ) -> None:
        for connection in connections:
            # Up and down again, unread.
            if moves.get(connection, is_up) is not is_up:
                del moves[connection]
            else:
                moves[connection] = is_up

    def _add_last(self, event: QueueFull | Sent | Warned | Failed) -> None:
        key = (type(event), event.connection)
        before = self.last.pop(key, None)
        if isinstance(event, Failed) and isinstance(before, Failed):
            event = replace(event, ids=(*before.ids, *event.ids)[-FAILED_IDS_MAX:])
        self.last[key] = event

    def _add_problem(self, place: Place, problem: Problem) -> None:
        before = self.problems.pop((place, problem.kind), None)
        refusals: dict[ConnectionId, Refusal] = {}
        for each in (before, problem):
            if each is not None:
                refusals.update((refusal.connection, refusal) for refusal in each.refusals)
        self.problems[place, problem.kind] = replace(problem, refusals=tuple(refusals.values()))

    def events(self) -> list[Folded]:
        events: list[Folded] = [*self.store_failed, *self.problems.values()]
        events += self._moved(Down, is_up=False)
        events += self.gone
        events += self._moved(Up, is_up=True)
        events += [*self.services.values(), *self.sweeps.values(), *self.last.values()]
        left_out = self.seen - len(events)
        return [Skipped(left_out), *events] if left_out > 0 else events

    def _moved(self, kind: type[Up | Down], *, is_up: bool) -> list[Up | Down]:
        found = []
        for (user, router), moves in self.moves.items():
            moved = tuple(connection for connection, up in moves.items() if up is is_up)
            if moved:
                found.append(kind(user, router, moved))
        return found


def fold(events: Iterable[Folded]) -> list[Folded]:
    """Fewer events with the same effect, and how many were left out."""
    difference = _Difference()
    for event in events:
        difference.add(event)
    return difference.events()
