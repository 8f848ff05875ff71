"""What an agent remembers between runs: tables in one file, and the one thread that writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from headgate.agent.records.database import Database
from headgate.agent.records.file import BUSY_SECONDS, AgentFile, AgentMemory
from headgate.store.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")


class Records:
    """The store of one agent. Owned by it; nobody else may have the file open.

    The nouns are modules beside this one, with a function for each operation. Every function
    gets the tables first, and a call of `write` is one transaction::

        user = await records.write(users.add, services=True)
        page = await records.read(receive_queues.page, user, router)

    Several operations that belong together are one function of the caller's. It is run in the
    writer's thread, and again if its group failed, so it changes nothing but the tables.

    What must hold: whatever `write` has returned from is on the disk; calls happen in their
    order, and reads see all calls before them; a call that was made happens as a whole or raises,
    whether its caller is cancelled or not; after `close` all calls have happened.
    """

    def __init__(self, file: AgentFile) -> None:
        self._file = file
        self._writer = Writer(str(file.path), file, Database(file))

    @classmethod
    async def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Records:
        """Open a file, or make it; raise `StoreError` if another agent has it."""
        return await cls._opened(AgentFile(path, busy_seconds))

    @classmethod
    async def memory(cls) -> Records:
        """The same, without a file."""
        return await cls._opened(AgentMemory())

    @classmethod
    async def _opened(cls, file: AgentFile) -> Records:
        records = cls(file)
        await records._writer.open()
        return records

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def statements(self) -> int:
        """Statements since the beginning; one for many rows counts once."""
        return self._writer.statements

    @property
    def commits(self) -> int:
        """Transactions that were committed since the beginning; each waited for the disk once."""
        return self._writer.commits

    def write(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Take a job that changes tables. It has its place in the order when this returns, and is
        on the disk when the future is done."""
        return self._writer.submit(lambda tables: job(tables, *args, **named), is_writing=True)

    def read(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Take a job that only asks. It sees what was written by the calls before it."""
        return self._writer.submit(lambda tables: job(tables, *args, **named), is_writing=False)

    async def close(self) -> None:
        """Do what was called, and let go of the file."""
        await self._writer.close()

    async def __aenter__(self) -> Records:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
