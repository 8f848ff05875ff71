"""Agents that end in the middle of something: at a chosen transaction of their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.agent.records import Records
from headgate.agent.records.file import AgentFile

T = TypeVar("T")


class CrashingRecords(Records):
    """Records of a process that ends with one of its transactions: just before it, or just after
    it, so that nobody heard that it was done. From then on nothing is written, and nobody who
    asks gets an answer."""

    def __init__(self, file: AgentFile) -> None:
        super().__init__(file)
        self.writes = 0
        self.crashed = asyncio.Event()
        self._at: int | None = None
        self._is_after = False

    def crash_at(self, number: int, *, after: bool) -> None:
        """Counted from here on, beginning with 1."""
        self.writes, self._at, self._is_after = 0, number, after

    def write(
        self,
        job: Callable[..., T],
        *args: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> asyncio.Future[T]:
        self.writes += 1
        if self.crashed.is_set():
            return asyncio.get_running_loop().create_future()
        if self.writes == self._at:
            self.crashed.set()
            if self._is_after:
                super().write(job, *args, **named)
            return asyncio.get_running_loop().create_future()
        return super().write(job, *args, **named)

    def read(
        self,
        job: Callable[..., T],
        *args: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> asyncio.Future[T]:
        if self.crashed.is_set():
            return asyncio.get_running_loop().create_future()
        return super().read(job, *args, **named)
