"""Waiting calls of `subscribe`, and their result for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from headgate.agent.engine.answers import PROHIBITED, Failure
from headgate.agent.model import ConnectionId, QueueKey, SlotKey
from headgate.agent.records import Database, connections, receive_queues
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.client.smp.failures import FailureKind
from headgate.core.model.value import value


class SubscribeState(Enum):
    """The result of subscribing a connection."""

    SUBSCRIBED = "subscribed"
    NOT_NEEDED = "not needed"
    """It is new, or it only sends: there is nothing to receive."""
    PENDING = "pending"
    """A temporary failure; the agent tries again."""
    PROHIBITED = "prohibited"
    """A message of its queue is being fetched; subscribe after that."""
    REFUSED = "refused"
    """The router refused it for good."""
    UNKNOWN = "unknown"
    """There is no such connection."""


@value
class SubscribeResult:
    """The result for one connection, with its reason."""

    state: SubscribeState
    text: str = ""

    @property
    def is_ok(self) -> bool:
        return self.state in (SubscribeState.SUBSCRIBED, SubscribeState.NOT_NEEDED)


SUBSCRIBED = SubscribeResult(SubscribeState.SUBSCRIBED)
NOT_NEEDED = SubscribeResult(SubscribeState.NOT_NEEDED)
UNKNOWN = SubscribeResult(SubscribeState.UNKNOWN, "no such connection")


def result_of(failure: Failure | None) -> SubscribeResult:
    if failure is None:
        return SUBSCRIBED
    if failure == PROHIBITED:
        # S000-55: reported, while the others go on.
        return SubscribeResult(SubscribeState.PROHIBITED, failure.text)
    passes = failure.kind not in (FailureKind.PERMANENT, FailureKind.BLOCKED)
    state = SubscribeState.PENDING if passes else SubscribeState.REFUSED
    return SubscribeResult(state, failure.text)


def best_of(
    queues: Sequence[ReceiveQueue], results: Mapping[QueueKey, SubscribeResult]
) -> SubscribeResult:
    """The result of a connection with several queues: a success, else the error of the queue in
    use, else any."""
    ranked = sorted(
        queues, key=lambda queue: (not results[queue.key].is_ok, queue.status != "active")
    )
    return results[ranked[0].key]


class SubscribeCall:
    """One caller that waits for some queues. It may leave at any time."""

    def __init__(self, queues: Sequence[ReceiveQueue]) -> None:
        self.queues = {queue.key: queue for queue in queues}
        self.results: dict[QueueKey, SubscribeResult] = {}
        self._over = asyncio.get_running_loop().create_future()

    def settle(self, key: QueueKey, failure: Failure | None) -> None:
        if key in self.queues and key not in self.results:
            self.results[key] = result_of(failure)
            if len(self.results) == len(self.queues) and not self._over.done():
                self._over.set_result(None)

    async def wait(self) -> dict[QueueKey, SubscribeResult]:
        if len(self.results) < len(self.queues):
            await self._over
        return self.results


class SubscribeCalls:
    """All waiting callers. The engine's outcomes go to each of them; queues that will not be
    settled soon, because there is no session, are settled as pending."""

    def __init__(self) -> None:
        self._calls: set[SubscribeCall] = set()

    def add(self, call: SubscribeCall) -> None:
        self._calls.add(call)

    def remove(self, call: SubscribeCall) -> None:
        self._calls.discard(call)

    def settle(self, key: QueueKey, failure: Failure | None) -> None:
        for call in self._calls:
            call.settle(key, failure)

    def settle_slot(self, slot: SlotKey, failure: Failure) -> None:
        """Settle the queues of a slot without a session."""
        self._settle_where(lambda queue: is_of_slot(queue, slot), failure)

    def settle_connection(self, connection: ConnectionId, failure: Failure) -> None:
        """Settle a connection that is not wanted any more."""
        self._settle_where(lambda queue: queue.connection == connection, failure)

    def _settle_where(self, holds: Callable[[ReceiveQueue], bool], failure: Failure) -> None:
        for call in self._calls:
            for key in [key for key, queue in call.queues.items() if holds(queue)]:
                call.settle(key, failure)


def is_of_slot(queue: ReceiveQueue, slot: SlotKey) -> bool:
    is_there = (queue.user, queue.router) == (slot.user, slot.router)
    return is_there and slot.connection in (None, queue.connection)


def of_connections(
    tables: Database, wanted: Sequence[ConnectionId]
) -> tuple[set[ConnectionId], dict[ConnectionId, list[ReceiveQueue]]]:
    """The existing ones of these connections, and the receive queues of each; a job of the
    records."""
    known = connections.get_many(tables, wanted)
    is_there = {id for id, connection in known.items() if not connection.deleted}
    return is_there, receive_queues.of_connections(tables, wanted)
