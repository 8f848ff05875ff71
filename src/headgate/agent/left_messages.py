"""Messages without room in memory: they stay at their routers until there is room again."""

from __future__ import annotations

from itertools import islice

from headgate.agent.clock import AgentClock
from headgate.agent.deliveries import Source
from headgate.agent.model import RecipientId
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, receive_queues
from headgate.agent.stored_keys import unpack_key
from headgate.agent.tasks import Tasks
from headgate.agent.tickets import Bodies
from headgate.client.smp.failures import may_pass
from headgate.client.smp.requests import subscribe
from headgate.errors import StoreError


class LeftMessages:
    """Queues whose message was left at the router, by session. Owned by receiving, which calls it
    whenever there may be room: it requests them when no other message comes."""

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        operations: Operations,
        clock: AgentClock,
        tasks: Tasks,
        bodies: Bodies,
    ) -> None:
        self._records = records
        self._routers = routers
        self._operations = operations
        self._clock = clock
        self._tasks = tasks
        self._bodies = bodies
        self._left: dict[Source, dict[RecipientId, None]] = {}
        self._is_asking = False

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, source: Source, queue: RecipientId) -> None:
        self._left.setdefault(source, {})[queue] = None

    def forget(self, source: Source) -> None:
        """Forget a session that is over: its messages come again in another."""
        self._left.pop(source, None)

    def look(self) -> None:
        """When no more messages come, request those that stayed at the routers."""
        if self._left and not self._bodies.coming and not self._is_asking:
            self._is_asking = True
            self._tasks.run(self._ask_again(), "asking for messages")

    async def _ask_again(self) -> None:
        pauses = Pauses(self._clock, FAST)
        while self._left and not self._bodies.coming:
            source = next(iter(self._left))
            queues = self._left.pop(source)
            batch = list(islice(queues, self._bodies.limit))
            rest = dict.fromkeys(islice(queues, self._bodies.limit, None))
            again = await self._subscribe(source, batch)
            if source.is_over:
                continue
            # Messages that had no room this time either are noted by now.
            left = self._left.pop(source, {}) | rest | dict.fromkeys(again)
            if left:
                self._left[source] = left
            if again:
                await pauses.wait()
        self._is_asking = False

    async def _subscribe(self, source: Source, queues: list[RecipientId]) -> list[RecipientId]:
        """Subscribe queues that are subscribed already: the router delivers their messages again.
        Returns those to be repeated."""
        slot = source.key.slot
        try:
            found = await self._records.read(
                receive_queues.get_many, [(slot.router, queue) for queue in queues]
            )
        except StoreError:
            return queues
        rows = list(found.values())
        requests = [
            subscribe(row.recipient_id, unpack_key(row.key_kind, row.private_key)) for row in rows
        ]
        async with self._operations.operation():
            if source.is_over or not requests:
                return []
            _, outcomes = await self._routers.ask(slot.user, slot.router, slot.connection, requests)
        return [
            row.recipient_id
            for row, outcome in zip(rows, outcomes, strict=True)
            if may_pass(outcome)
        ]
