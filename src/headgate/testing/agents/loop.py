"""An event loop whose time passes only when nobody has anything to do, and the processes in it.

Everything runs in one thread, in the order in which it was planned. So what happens depends on
nothing but the seed of the world, and hours of waiting take no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from headgate.testing.clock import START

T = TypeVar("T")

ROUNDS_MAX = 100
"""In so many rounds a process that was ended is gone."""


class Idle(Exception):
    """The error that nothing is planned, and somebody waits: it would be for ever."""


class Process:
    """A process: all that one program of a world runs, so that it can be ended without being asked.

    Tasks and timers belong to the process in which they were begun. Once it is killed its timers
    do nothing, and its tasks are unwound; what these still do reaches nobody, because disk and
    network ask `is_alive`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._context = copy_context()
        self._context.run(_running.set, self)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin something in this process."""
        task: asyncio.Task[Any] = self.call(asyncio.get_running_loop().create_task, work)
        return task

    def call(self, function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Call something, as this process would."""
        return self._context.run(function, *args)

    async def kill(self) -> None:
        """End it at once. Called from outside of it."""
        self.is_alive = False
        for _ in range(ROUNDS_MAX):
            if not self.tasks:
                return
            for task in list(self.tasks):
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"{self.name} cannot be ended: {list(self.tasks)}")


_running: ContextVar[Process | None] = ContextVar("process", default=None)


class WorldLoop(asyncio.BaseEventLoop):
    """The event loop of one world, which owns it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self._selector = self  # the base class asks it how long to wait
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        process = _running.get()
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, _of_process, process, callback, args, context=context)

    # What the base class needs.

    def select(self, timeout: float | None) -> list[object]:
        """Wait, which is to move the time on."""
        if timeout is None:
            raise Idle
        self.now += max(0.0, timeout)
        return []

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _of_process(process: Process, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if process.is_alive:
        callback(*args)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    **named: Any,  # noqa: ANN401
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **named)
    process = _running.get()
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda task: process.tasks.pop(task, None) and None)
    return task
