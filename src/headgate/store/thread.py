"""The thread that owns a store's connection and does jobs one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from headgate.errors import StoreError

T = TypeVar("T")

Job: TypeAlias = tuple[Callable[[], Any], "asyncio.Future[Any]"]
"""What to do, and who waits for the outcome."""
Jobs: TypeAlias = "SimpleQueue[Job | None]"
"""Jobs in line; None is the end."""


class Worker:
    """A thread that carries out calls one after another, with answers on the event loop.

    An executor would do the same at twice the CPU, which is seen where every turn has one message.
    """

    def __init__(self, name: str, close: Callable[[], None]) -> None:
        self._name = name
        self._close = close
        """Closes the connection, in the thread."""
        self._jobs: Jobs | None = None

    async def open(self, job: Callable[[], T]) -> T:
        """Start the thread with its first job, which opens the connection."""
        assert self._jobs is None, "open() of a store that is open"
        jobs: Jobs = SimpleQueue()
        Thread(target=_work, args=(jobs,), name="headgate-store", daemon=True).start()
        try:
            done = await _put(jobs, job)
        except BaseException:
            # If the caller was cancelled, the thread may still be at work.
            self._end(jobs)
            raise
        self._jobs = jobs
        return done

    async def run(self, job: Callable[[], T]) -> T:
        """Do a job in the thread. A caller that is cancelled meanwhile takes back a job only if
        that has not begun."""
        if self._jobs is None:
            raise StoreError(f"{self._name}: the store is not open")
        return await _put(self._jobs, job)

    async def close(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            await asyncio.shield(self._end(jobs))

    def _end(self, jobs: Jobs) -> asyncio.Future[None]:
        """Close the connection when the jobs in line are done, and end the thread."""
        closing = _put(jobs, self._close)
        jobs.put(None)
        return closing


def _put(jobs: Jobs, do: Callable[[], T]) -> asyncio.Future[T]:
    waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    jobs.put((do, waiting))
    return waiting


def _report(waiting: asyncio.Future[T], result: T) -> None:
    if not waiting.done():
        waiting.set_result(result)


def _report_error(waiting: asyncio.Future[Any], error: BaseException) -> None:
    if not waiting.done():
        waiting.set_exception(error)


# All below runs in the thread.


def _work(jobs: Jobs) -> None:
    while _has_done_one(jobs):
        pass


def _has_done_one(jobs: Jobs) -> bool:
    """Do the next job; false if there is none to come. Nothing of it stays in memory."""
    job = jobs.get()
    if job is None:
        return False
    do, waiting = job
    if waiting.cancelled():
        return True
    call = waiting.get_loop().call_soon_threadsafe
    # The loop of a caller may be closed; its job is done all the same.
    try:
        result = do()
    except BaseException as error:
        with suppress(RuntimeError):
            call(_report_error, waiting, error)
    else:
        with suppress(RuntimeError):
            call(_report, waiting, result)
    return True
