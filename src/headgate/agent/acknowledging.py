"""Acknowledging at routers, in the background.

The mark in the records comes first and is not made here. A lost ACK does no harm: the message comes
again, is recognised, and is acknowledged again.
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
"""Acknowledgements requested together; they fit in one block."""


class Acknowledger:
    """Sends ACKs: those of one session together and in order.

    After a temporary error it tries again while the session lasts: until then the router delivers
    nothing more of the queue. Every other answer is final: OK, the next message, which the session
    handles like any other, or that there is nothing to acknowledge.
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
        """The waiting ACKs of each session with a running worker."""

    def add(self, source: Source, place: Place) -> None:
        if source.is_over:
            return  # ACC-99: the message comes again, and is recognised.
        if source in self._waiting:
            self._waiting[source][place] = None
            return
        self._waiting[source] = {place: None}
        self._tasks.run(self._work(source), "acknowledging")

    def forget(self, source: Source) -> None:
        """Drop the ACKs of a session that is over."""
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
        """Send these ACKs; return those to send again."""
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
