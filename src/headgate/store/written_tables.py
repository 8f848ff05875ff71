"""Tables behind one writer, as their users see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from headgate.store.writer import D, Transactions, Writer

P = ParamSpec("P")
T = TypeVar("T")


class WrittenTables(Generic[D]):
    """Operations on tables, each of them a call. Owned by whoever opened them.

    What must hold: when `write` has returned and its future is done, the changes are on the disk;
    calls happen in order, and reads see all calls before them; a call happens as a whole or raises,
    even if its caller is cancelled; after `close` all calls have happened.
    """

    def __init__(self, name: str, place: Transactions, tables: D) -> None:
        self._writer = Writer(name, place, tables)

    @property
    def statements(self) -> int:
        """Statements executed since the beginning; one for many rows counts once."""
        return self._writer.statements

    @property
    def commits(self) -> int:
        """Transactions committed since the beginning; each waited for the disk once."""
        return self._writer.commits

    def write(
        self, job: Callable[Concatenate[D, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Take a job that changes tables. It has its place in the order when this returns, and is
        on the disk when the future is done."""
        return self._writer.submit(lambda tables: job(tables, *args, **named), is_writing=True)

    def read(
        self, job: Callable[Concatenate[D, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Take a job that reads. It sees the changes of all calls before it."""
        return self._writer.submit(lambda tables: job(tables, *args, **named), is_writing=False)

    async def close(self) -> None:
        """Finish all calls, and close the tables."""
        await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
