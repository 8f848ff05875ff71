"""The thread that owns a store's connection and does jobs one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headgate.errors import StoreError

T = TypeVar("T")


class Worker:
    """A thread that carries out calls one after another, with answers on the event loop."""

    def __init__(self, name: str, close: Callable[[], None]) -> None:
        self._name = name
        self._close = close
        """Closes the connection, in the thread."""
        self._executor: ThreadPoolExecutor | None = None

    async def open(self, job: Callable[[], T]) -> T:
        """Start the thread with its first job, which opens the connection."""
        assert self._executor is None, "open() of a store that is open"
        executor = ThreadPoolExecutor(1, thread_name_prefix="headgate-store")
        try:
            done = await asyncio.get_running_loop().run_in_executor(executor, job)
        except BaseException:
            # If the caller was cancelled, the thread may still be at work.
            executor.submit(self._close)
            executor.shutdown(wait=False)
            raise
        self._executor = executor
        return done

    async def run(self, job: Callable[[], T]) -> T:
        """Do a job in the thread. A caller that is cancelled meanwhile takes back a job only if
        that has not begun."""
        if self._executor is None:
            raise StoreError(f"{self._name}: the store is not open")
        return await asyncio.get_running_loop().run_in_executor(self._executor, job)

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(executor, self._close)
        executor.shutdown(wait=False)  # queued jobs still run
        await asyncio.shield(closing)
