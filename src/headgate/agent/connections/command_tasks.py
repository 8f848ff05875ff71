"""Commands of connections: work to be done at routers, each until it is done or refused.

They are in the records before they begin, so an agent that stops in the middle continues them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.connections.ratchet_sealer import refuse
from headgate.agent.events import Failed
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.records import commands, connections
from headgate.agent.records.commands import CommandRecord
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import may_pass
from headgate.errors import HeadgateError, LinkUsed, RequestRefused, StoreError

JOIN: Final = "JOIN"
FOLLOW: Final = "FOLLOW"
ASK: Final = "ASK"
ACCEPT: Final = "ACCEPT"
DELETE: Final = "DELETE"
"""Make a reply queue and confirm; follow the short link of an invitation; send a request to a
contact; accept a confirmation; delete a connection's queues and data at routers."""

QUOTA: Final = "QUOTA"

Do: TypeAlias = Callable[[CommandRecord, ConnectionRecord], Awaitable[None]]


class ConnectionCommands:
    """The commands of connections, each carried out in a task of its own. After a temporary failure
    it is tried again, with growing pauses. `does` has the function for each kind; the owner fills
    it in."""

    def __init__(self, parts: ConnectionParts, show: Callable[[Failed], None]) -> None:
        self.does: Mapping[str, Do] = {}
        self._parts = parts
        self._show = show
        self._tasks = Tasks()
        self._attempts: dict[int, asyncio.Future[None]] = {}
        """By the number of the command; done after the first attempt."""

    def start(self, command: CommandRecord) -> asyncio.Future[None]:
        """Begin, unless it has begun. The result is done after the first attempt, and has the error
        if it was refused for good."""
        first = self._attempts.get(command.id)
        if first is None:
            first = self._attempts[command.id] = asyncio.get_running_loop().create_future()
            self._tasks.run(self._carry_out(command, first), "connecting")
        return first

    async def resume(self) -> None:
        """Continue the commands that were unfinished when the agent stopped."""
        after = 0
        while page := await self._parts.records.read(commands.page, after):
            for command in page:
                if command.kind in self.does:
                    self.start(command)
            after = page[-1].id

    async def close(self) -> None:
        await self._tasks.close()

    async def _carry_out(self, command: CommandRecord, first: asyncio.Future[None]) -> None:
        pauses = Pauses(self._parts.clock, FAST)
        try:
            while True:
                try:
                    record = await self._parts.records.read(connections.get, command.connection)
                    if record is not None:
                        await self.does[command.kind](command, record)
                    return
                except HeadgateError as error:
                    if not _is_temporary(error):
                        await self._refused(command, error, first)
                        return
                if not first.done():
                    first.set_result(None)
                await pauses.wait()
        finally:
            del self._attempts[command.id]
            if not first.done():
                first.set_result(None)

    async def _refused(
        self, command: CommandRecord, error: HeadgateError, first: asyncio.Future[None]
    ) -> None:
        """Handle a refusal. If the command can never be done, it is given up; otherwise the next
        request for it continues it."""
        if isinstance(error, LinkUsed):
            await self._parts.records.write(_give_up, command, remove=not first.done())
        if first.done():
            self._show(Failed(command.connection, (), str(error)))
        else:
            first.set_exception(error)
            first.exception()  # the caller, if there is one, gets the error


def _is_temporary(error: HeadgateError) -> bool:
    is_quota = isinstance(error, RequestRefused) and error.error == QUOTA
    return is_quota or isinstance(error, StoreError) or may_pass(error)


def _give_up(tables: Database, command: CommandRecord, *, remove: bool) -> None:
    """Give a command up: a job of the records. A waiting caller gets the error, and no event."""
    commands.remove(tables, command.id)
    if remove:
        connections.remove(tables, command.connection)
    else:
        refuse(tables, command.connection)
