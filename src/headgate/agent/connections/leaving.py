"""Leaving a connection: waiting messages are sent, its queues are deleted at their routers, then
the records forget it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headgate.agent.connections.command_tasks import DELETE, ConnectionCommands
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.model import ConnectionId, QueueRow
from headgate.agent.pauses import FAST
from headgate.agent.records import commands, connections, outgoing, receive_queues, requests
from headgate.agent.records.commands import CommandRecord
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.requests import Asked
from headgate.agent.stored_keys import unpack_key
from headgate.agent.tasks import result_of
from headgate.client.smp.failures import may_pass
from headgate.client.smp.requests import delete as delete_queue
from headgate.core.model.value import value
from headgate.errors import HeadgateError


@value
class Departure:
    """A connection that is being deleted: its queues, and the command that does the rest."""

    queues: list[ReceiveQueue]
    command: CommandRecord


class Leaving:
    """Deletes connections with peers. It goes on after a crash at any point."""

    def __init__(
        self,
        parts: ConnectionParts,
        tasks: ConnectionCommands,
        drop: Callable[[ConnectionId], None],
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._drop = drop
        """Stops showing events of a connection."""
        self._settled: dict[ConnectionId, asyncio.Event] = {}
        """Wakes callers that wait for messages to be sent."""

    async def delete(self, connection: ConnectionId) -> None:
        """Delete a connection. When this returns, the decision is on the disk."""
        written = self._parts.records.write(_delete, connection)
        written.add_done_callback(self._start)
        await result_of(written)

    def settled(self, connection: ConnectionId) -> None:
        """Note that a message of a connection was sent or given up."""
        if connection in self._settled:
            self._settled[connection].set()

    def _start(self, done: asyncio.Future[Departure | None]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        departure = done.result()
        if departure is None:
            return
        self._drop(departure.command.connection)
        for queue in departure.queues:
            row = QueueRow(queue.recipient_id, queue.connection, queue.assoc)
            self._parts.routers.removed(queue.user, queue.router, row)
        self._tasks.start(departure.command)

    async def do_delete(self, command: CommandRecord, record: ConnectionRecord) -> None:
        await self._wait_until_sent(record.id)
        parts = self._parts
        for queue in await parts.records.read(receive_queues.deleted_of, record.id):
            key = unpack_key(queue.key_kind, queue.private_key)
            asked = delete_queue(queue.recipient_id, key)
            async with parts.operations.operation():
                _, (outcome,) = await parts.routers.ask(
                    record.user, queue.router, record.id, [asked]
                )
            if isinstance(outcome, HeadgateError) and may_pass(outcome):
                raise outcome
            # Any other refusal: the queue does not exist any more.
            await parts.records.write(receive_queues.remove, queue.key)
        while not await parts.records.write(connections.remove, record.id):
            pass

    async def _wait_until_sent(self, connection: ConnectionId) -> None:
        """Wait until its messages are sent or given up, which takes some days at most."""
        settled = self._settled[connection] = asyncio.Event()
        try:
            while True:
                settled.clear()
                if not await self._parts.records.read(outgoing.queues_waiting, [connection]):
                    return
                await self._parts.clock.wait(FAST.longest, settled)
        finally:
            del self._settled[connection]


# Jobs of the records.


def _delete(tables: Database, connection: ConnectionId) -> Departure | None:
    """Mark a connection as deleted; None if it is gone, or being deleted."""
    record = connections.get(tables, connection)
    if record is None or record.deleted:
        return None
    queues = receive_queues.of_connections(tables, [connection])[connection]
    for command in commands.of_connections(tables, [connection])[connection]:
        commands.remove(tables, command.id)
    for asked in Asked:
        while waiting := requests.waiting_ids(tables, asked, connection):
            for question in waiting:
                requests.answer(tables, asked, question)
    connections.delete(tables, connection)
    # The command concerns the connection, but every command has a router.
    router = queues[0].router if queues else 0
    id = commands.add(tables, connection, router, DELETE, b"")
    return Departure(queues, CommandRecord(id, connection, router, DELETE, b"", 0))
