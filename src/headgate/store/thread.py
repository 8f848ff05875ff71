"""The thread that owns a store's connection and does jobs one after another.

Every turn that writes goes through it, so it is a queue and a thread: an executor makes a future
with a lock for each job, and chains it to one of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headgate.errors import StoreError

T = TypeVar("T")


class Job(NamedTuple):
    """A call, and the future of its caller; None if nobody waits for it."""

    do: Callable[[], Any]
    waiting: asyncio.Future[Any] | None


Jobs: TypeAlias = SimpleQueue[Job | None]
"""The jobs of a thread, in order; None is the end."""


class Worker:
    """A thread that carries out calls one after another, with answers on the event loop."""

    def __init__(self, name: str, close: Callable[[], None]) -> None:
        self._name = name
        self._close = close
        """Closes the connection, in the thread."""
        self._jobs: Jobs | None = None
        self._thread: Thread | None = None

    async def open(self, job: Callable[[], T]) -> T:
        """Start the thread with its first job, which opens the connection."""
        assert self._jobs is None, "open() of a store that is open"
        jobs: Jobs = SimpleQueue()
        # A daemon: a program that ends without closing its store ends as in a crash.
        thread = Thread(target=_work, args=(jobs,), name="headgate-store", daemon=True)
        thread.start()
        try:
            done: T = await _put(jobs, job)
        except BaseException:
            # If the caller was cancelled, the thread may still be at work.
            jobs.put(Job(self._close, None))
            jobs.put(None)
            raise
        self._jobs, self._thread = jobs, thread
        return done

    async def run(self, job: Callable[[], T]) -> T:
        """Do a job in the thread. A caller that is cancelled meanwhile takes back a job only if
        that has not begun."""
        if self._jobs is None:
            raise StoreError(f"{self._name}: the store is not open")
        done: T = await _put(self._jobs, job)
        return done

    async def close(self) -> None:
        jobs, thread = self._jobs, self._thread
        self._jobs = self._thread = None
        if jobs is None or thread is None:
            return
        closing = _put(jobs, self._close)  # behind the jobs that wait
        jobs.put(None)
        await asyncio.shield(closing)
        thread.join()  # which was its last job


def _put(jobs: Jobs, do: Callable[[], Any]) -> asyncio.Future[Any]:
    waiting = asyncio.get_running_loop().create_future()
    jobs.put(Job(do, waiting))
    return waiting


def _work(jobs: Jobs) -> None:
    """Do the jobs, until the end."""
    while (job := jobs.get()) is not None:
        if job.waiting is None or not job.waiting.cancelled():
            _do(job)
        del job  # which may be large, and it may be long until the next one


def _do(job: Job) -> None:
    result, error = None, None
    try:
        result = job.do()
    except BaseException as caught:
        error = caught
    if job.waiting is not None:
        # The loop of a caller may be closed; its job is done all the same.
        with suppress(RuntimeError):
            job.waiting.get_loop().call_soon_threadsafe(_report, job.waiting, result, error)


def _report(waiting: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Answer the caller, unless it was cancelled meanwhile."""
    if waiting.done():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
