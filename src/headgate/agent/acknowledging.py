"""Acknowledging at routers, in the background.

The mark in the records comes first and is not made here. An ACK that is lost needs no care: the
message comes again, is recognised, and is acknowledged again.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from headgate.agent.clock import AgentClock
from headgate.agent.deliveries import Place, Source
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, receive_queues
from headgate.agent.stored_keys import unpack_key
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import may_pass
from headgate.client.smp.requests import acknowledge
from headgate.errors import StoreError

BATCH: Final = 100
"""Acknowledgements that are asked together; they fit in one block."""


class Acknowledger:
    """A sender of ACKs: those of one session go together and in order.

    An error that may pass is tried again while the session lasts: the router gives nothing more
    of the queue before. Every other answer is an end: OK, the next message, which the session
    hands over like any other, or that there is nothing to acknowledge.
    """

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        operations: Operations,
        clock: AgentClock,
        tasks: Tasks,
    ) -> None:
        self._records = records
        self._routers = routers
        self._operations = operations
        self._clock = clock
        self._tasks = tasks
        self._waiting: dict[Source, dict[Place, None]] = {}
        """Of each session whose worker runs."""

    def add(self, source: Source, place: Place) -> None:
        if source.is_over:
            return  # ACC-99: it comes again, and is recognised.
        if source in self._waiting:
            self._waiting[source][place] = None
            return
        self._waiting[source] = {place: None}
        self._tasks.run(self._work(source), "acknowledging")

    def forget(self, source: Source) -> None:
        """The session is over."""
        if source in self._waiting:
            self._waiting[source].clear()

    async def _work(self, source: Source) -> None:
        pauses = Pauses(self._clock, FAST)
        places = self._waiting[source]
        try:
            while places:
                batch = list(islice(places, BATCH))
                async with self._operations.operation():
                    left = await self._ask(source, batch)
                for place in batch:
                    if place not in left:
                        places.pop(place, None)
                if left and not source.is_over:
                    await pauses.wait()
                else:
                    pauses.reset()
        finally:
            del self._waiting[source]

    async def _ask(self, source: Source, batch: list[Place]) -> set[Place]:
        """Acknowledge these; those that have to be asked again are returned."""
        try:
            found = await self._records.read(receive_queues.get_many, [key for key, _ in batch])
        except StoreError:
            return set(batch)
        known = [(place, found[place[0]]) for place in batch if place[0] in found]
        requests = [
            acknowledge(queue.recipient_id, unpack_key(queue.key_kind, queue.private_key), id)
            for (_, id), queue in known
        ]
        if source.is_over or not requests:
            return set()
        slot = source.key.slot
        _, outcomes = await self._routers.ask(slot.user, slot.router, slot.connection, requests)
        return {
            place for (place, _), outcome in zip(known, outcomes, strict=True) if may_pass(outcome)
        }
