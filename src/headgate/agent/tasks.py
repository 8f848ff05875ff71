"""Tasks of one owner: started, watched, and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def result_of(work: asyncio.Future[T]) -> T:
    """The result of work that goes on if the caller is cancelled. Its failure is then dropped, and
    the loop does not complain."""
    work.add_done_callback(_look_at)
    # S004-26: only the wait ends.
    return await asyncio.shield(work)


def _look_at(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()


class Tasks:
    """The running tasks of an owner. An exception of a task goes to `failed`, or to the loop, as an
    internal error. Tasks begun after the end do not run."""

    def __init__(self, failed: Callable[[Exception], None] | None = None) -> None:
        self.is_closed = False
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept: set[asyncio.Task[None]] = set()

    def run(
        self, work: Coroutine[Any, Any, None], name: str, *, to_end: bool = False
    ) -> asyncio.Task[None]:
        """Begin a task. If it runs `to_end` it is waited for when all others are cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=f"agent: {name}")
        (self._kept if to_end else self._tasks).add(task)
        task.add_done_callback(self._finished)
        if self.is_closed and not to_end:
            task.cancel()
        return task

    async def close(self) -> None:
        """Cancel the tasks that may be cancelled, and wait for all."""
        self.is_closed = True
        while self._tasks or self._kept:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait([*self._tasks, *self._kept])

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._kept.discard(task)
        if not task.cancelled():
            error = task.exception()
            if self._failed is not None and isinstance(error, Exception):
                self._failed(error)
            elif error is not None:
                context = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
                task.get_loop().call_exception_handler(context)
