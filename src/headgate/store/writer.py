"""The thread that owns the tables: jobs are done in the order of their calls, many in one commit.

A commit waits for the disk. Calls made meanwhile wait and become one group, with one commit for
all. Each job of a group has a savepoint, so one that fails is undone alone. If the group as a whole
fails, each of its jobs is tried again by itself: one that does not fit on the disk must not keep
the others from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Generic, Protocol, TypeVar

from headgate.errors import StoreError

T = TypeVar("T")

GROUP_MAX: Final = 256
"""Jobs of one commit: with a body of 16 KB in each this is 4 MB of log."""


class Transactions(Protocol):
    """The tables: a file or a database, used by one thread.

    A port: the writer opens it, and calls it for one transaction after another.
    """

    @property
    def statements(self) -> int:
        """Statements since the beginning; one for many rows counts once."""
        ...

    def open(self) -> None: ...
    def close(self) -> None: ...

    def look(self, work: Callable[[], None]) -> None:
        """Do work that changes nothing."""
        ...

    def commit(self, work: Callable[[], None]) -> None:
        """Do the work in a transaction and commit it, or raise and leave no trace. It may be done
        twice, if the first time left none."""
        ...

    def do(self, statement: str) -> None:
        """Carry out a statement without values, inside of a transaction."""
        ...

    def described(self, error: Exception) -> Exception:
        """An error with advice, and without the data to be stored. Errors that are not the job's
        are raised."""
        ...


class Tables(Protocol):
    """The tables, as a job reads and changes them."""

    is_writing: bool
    """Whether the job may change the tables."""


D = TypeVar("D", bound=Tables)


@dataclass(eq=False)
class Job(Generic[D]):
    """One call: its work, its caller, and its outcome."""

    do: Callable[[D], Any] = field(repr=False)
    is_writing: bool
    waiting: asyncio.Future[Any] = field(repr=False)
    result: object = field(default=None, repr=False)
    error: Exception | None = None

    def run(self, tables: D) -> None:
        tables.is_writing = self.is_writing
        self.result, self.error = None, None
        self.result = self.do(tables)

    def report(self) -> None:
        """Answer the caller on the loop, unless it was cancelled meanwhile."""
        if self.waiting.done():
            return
        if self.error is None:
            self.waiting.set_result(self.result)
        else:
            self.waiting.set_exception(self.error)


class Writer(Generic[D]):
    """Does jobs in one thread. A job that was taken is done, even if its caller was cancelled, and
    `close` returns after the last of them."""

    def __init__(self, name: str, place: Transactions, tables: D) -> None:
        self._name = name
        """Its name for people."""
        self._place = place
        self._tables = tables
        self._executor: ThreadPoolExecutor | None = None
        self._closing: asyncio.Future[None] | None = None
        self._lock = Lock()
        self._jobs: deque[Job[D]] = deque()
        self._is_busy = False
        """Whether the thread will look at the jobs again by itself."""
        self.commits = 0

    @property
    def statements(self) -> int:
        return self._place.statements

    async def open(self) -> None:
        assert self._executor is None, "open() of records that are open"
        executor = ThreadPoolExecutor(1, thread_name_prefix="headgate-records")
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(executor, self._place.open)
        except BaseException:
            # S004-26: if the caller was cancelled, the thread may still be at work. The next
            # attempt finds the tables free.
            closing = loop.run_in_executor(executor, self._place.close)
            executor.shutdown(wait=False)
            await asyncio.shield(closing)
            raise
        self._executor = executor

    def submit(self, do: Callable[[D], T], *, is_writing: bool) -> asyncio.Future[T]:
        """Take a job. It has its place among the others when this returns."""
        waiting = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._executor is None:
                waiting.set_exception(StoreError(f"{self._name}: it is closed; open it again"))
                return waiting
            self._jobs.append(Job(do, is_writing, waiting))
            if not self._is_busy:
                self._is_busy = True
                self._executor.submit(self._work)
        return waiting

    async def close(self) -> None:
        """Do the jobs taken, then close the tables. No more are taken."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            loop = asyncio.get_running_loop()
            self._closing = loop.run_in_executor(executor, self._place.close)
            executor.shutdown(wait=False)  # queued jobs still run
        if self._closing is not None:
            # A cancelled caller does not take it back, and a second caller waits for it too.
            await asyncio.shield(self._closing)

    # All below runs in the thread.

    def _work(self) -> None:
        while True:
            with self._lock:
                group = [self._jobs.popleft() for _ in range(min(len(self._jobs), GROUP_MAX))]
                if not group:
                    self._is_busy = False
                    return
            self._do(group)
            for job in group:
                # The loop of a caller may be closed; its job is done all the same.
                with suppress(RuntimeError):
                    job.waiting.get_loop().call_soon_threadsafe(job.report)

    def _do(self, group: list[Job[D]]) -> None:
        """Do a group in one transaction; if that fails, each job in one of its own."""
        try:
            if any(job.is_writing for job in group):
                self._place.commit(lambda: self._write(group))
                self.commits += 1
            else:
                self._place.look(lambda: self._read(group))
        except Exception as error:
            if len(group) > 1:
                for job in group:
                    self._do([job])
            else:
                group[0].error = self._described(error)

    def _read(self, group: list[Job[D]]) -> None:
        for job in group:
            self._try(job)

    def _write(self, group: list[Job[D]]) -> None:
        """Write the group; raise if nothing is to happen."""
        if len(group) == 1:
            group[0].run(self._tables)
        else:
            for job in group:
                self._try_alone(job)

    def _try_alone(self, job: Job[D]) -> None:
        """Do one job of several. If it fails, its changes are undone, and those of others are
        not."""
        if not job.is_writing:
            self._try(job)
            return
        self._place.do("SAVEPOINT job")
        self._try(job)
        if job.error is not None:
            # After some errors, such as a full disk, SQLite has rolled back everything. Then this
            # fails, and so does the group.
            self._place.do("ROLLBACK TO job")
        self._place.do("RELEASE job")

    def _try(self, job: Job[D]) -> None:
        try:
            job.run(self._tables)
        except Exception as error:
            job.error = self._described(error)

    def _described(self, error: Exception) -> Exception:
        if isinstance(error, StopIteration):  # no future accepts it
            described = RuntimeError("a job took more than there was")
            described.__cause__ = error
            return described
        return self._place.described(error)
