"""Deleting queues at their routers: marked in the records at once, then requested until it is done.

The remaining work is a command in the records, so it is continued after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headgate.agent.clock import AgentClock
from headgate.agent.model import ConnectionId, QueueRow, RouterId
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, commands, connections, receive_queues, routers
from headgate.agent.records.commands import CommandRecord
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.stored_keys import unpack_key
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import may_pass
from headgate.client.smp.requests import delete
from headgate.core.model.value import value
from headgate.errors import StoreError

DEL: Final = "DEL"
"""The kind of the command that deletes a queue; its argument is the recipient's id of the queue."""

BATCH: Final = 100
"""Commands that are read together."""


@value
class Deletion:
    """A queue that its router has to delete."""

    command: CommandRecord
    queue: ReceiveQueue


class Deleting:
    """The deletion of connections that only receive, with their queues.

    What must hold: a marked connection is neither subscribed nor shown, and its name is free; its
    router gets requests until it has deleted the queue, or does not have it; after that nothing of
    the connection is left in the records. Each router has a worker of its own.
    """

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        drop: Callable[[ConnectionId], None],
        operations: Operations,
        clock: AgentClock,
    ) -> None:
        self._records = records
        self._routers = routers
        self._drop = drop
        self._operations = operations
        self._clock = clock
        self._tasks = Tasks()
        self._workers: dict[RouterId, bool] = {}
        """Whether work came since the worker of this router looked."""

    async def delete(self, connection: ConnectionId) -> None:
        """Delete a connection. When this returns it is on the disk, and the routers get their
        requests in the background. Raises `StoreError`; then nothing was done."""
        marked = self._records.write(_mark, connection)
        marked.add_done_callback(self._marked)
        # Even if the caller is cancelled here, it is deleted.
        await asyncio.shield(marked)

    async def wake_all(self) -> None:
        """Continue the work that was left."""
        for router in await self._records.read(routers.everything):
            self._start(router.id)

    async def close(self) -> None:
        """Stop. Marked connections are deleted when the agent is opened again."""
        await self._tasks.close()

    def _marked(self, done: asyncio.Future[list[ReceiveQueue]]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for queue in done.result():
            self._drop(queue.connection)
            row = QueueRow(queue.recipient_id, queue.connection, queue.assoc)
            self._routers.removed(queue.user, queue.router, row)
            self._start(queue.router)

    def _start(self, router: RouterId) -> None:
        is_working = router in self._workers
        self._workers[router] = True
        if not is_working:
            self._tasks.run(self._work(router), "deleting queues")

    async def _work(self, router: RouterId) -> None:
        pauses = Pauses(self._clock, FAST)
        try:
            # There is no await between the check and the return: what is marked now finds no
            # worker.
            while self._workers[router]:
                self._workers[router] = False
                async with self._operations.operation():
                    is_done = await self._try_all(router)
                if is_done:
                    pauses.reset()
                else:
                    self._workers[router] = True
                    await pauses.wait()
        finally:
            del self._workers[router]

    async def _try_all(self, router: RouterId) -> bool:
        """Request each deletion once; return whether none has to be repeated."""
        is_done, after = True, 0
        try:
            while found := await self._records.read(_deletions, router, after):
                after = found[-1].command.id
                for deletion in found:
                    is_done &= await self._try(deletion)
        except StoreError:
            return False
        return is_done

    async def _try(self, deletion: Deletion) -> bool:
        queue = deletion.queue
        try:
            key = unpack_key(queue.key_kind, queue.private_key)
        except StoreError:
            pass  # the key is damaged: the router removes the queue in time
        else:
            _, (outcome,) = await self._routers.ask(
                queue.user, queue.router, queue.connection, [delete(queue.recipient_id, key)]
            )
            if may_pass(outcome):
                return False
        # Deleted, or AUTH: the router does not have it.
        while not await self._records.write(_forget, deletion.command):
            pass
        return True


# Jobs of the records.


def _mark(tables: Database, connection: ConnectionId) -> list[ReceiveQueue]:
    """Mark a connection, and store the work to do, with its queues as they were."""
    record = connections.get(tables, connection)
    if record is None or record.deleted:
        return []
    queues = receive_queues.of_connections(tables, [connection])[connection]
    connections.delete(tables, connection)
    for queue in queues:
        commands.add(tables, connection, queue.router, DEL, queue.recipient_id)
    return queues


def _deletions(tables: Database, router: RouterId, after: int) -> list[Deletion]:
    """The deletions at a router, in order."""
    found = []
    while page := commands.of_router(tables, router, after, BATCH):
        after = page[-1].id
        wanted = [command for command in page if command.kind == DEL]
        queues = receive_queues.get_many(tables, [(router, each.arguments) for each in wanted])
        for command in wanted:
            queue = queues.get((router, command.arguments))
            if queue is not None:
                found.append(Deletion(command, queue))
        if found:
            break
    return found


def _forget(tables: Database, command: CommandRecord) -> bool:
    """Remove a queue that the router does not have any more. False if there is more to remove; the
    command stays until nothing is left."""
    left = commands.of_connections(tables, [command.connection])[command.connection]
    if any(each.kind == DEL and each.id != command.id for each in left):
        receive_queues.remove(tables, (command.router, command.arguments))
        commands.remove(tables, command.id)
        return True
    return connections.remove(tables, command.connection)
