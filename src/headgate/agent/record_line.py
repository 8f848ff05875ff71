"""The line of the shell's jobs for the records, one after another.

The engine's effects have an order: changes of the records come before reads of them. Records keep
the order of calls, but a failed write that is tried again would come after reads that need it. So
all jobs of the shell go through one line, and a failed write holds it up until it succeeds: a full
disk or a locked file passes, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from headgate.errors import StoreError

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class JobRecords(Protocol[D_co]):
    """Records whose jobs get tables, as those of an agent."""

    def write(self, job: Callable[[D_co], Any]) -> asyncio.Future[Any]: ...
    def read(self, job: Callable[[D_co], Any]) -> asyncio.Future[Any]: ...


@dataclass(eq=False)
class _Step(Generic[D]):
    do: Callable[[D], Any] = field(repr=False)
    is_writing: bool
    is_needed: bool
    """Whether it is tried again until it succeeds."""
    waiting: asyncio.Future[Any] | None = field(repr=False)


class RecordLine(Generic[D]):
    """The steps of one shell, in order. Owned by it, over records that it does not own.

    `failed` is called with each error that has no caller. After `close` every step was tried at
    least once.
    """

    def __init__(
        self, records: JobRecords[D], retry_seconds: float, failed: Callable[[Exception], None]
    ) -> None:
        self._records = records
        self._retry_seconds = retry_seconds
        self._failed = failed
        self._steps: deque[_Step[D]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()

    def write(
        self, job: Callable[Concatenate[D, P], object], *args: P.args, **named: P.kwargs
    ) -> None:
        """Change the records. It is tried until it succeeds, without a waiting caller."""
        self._add(_Step(lambda tables: job(tables, *args, **named), True, True, None))

    def change(
        self, job: Callable[Concatenate[D, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Change the records for a caller, which gets the error if it fails."""
        return self._ask(lambda tables: job(tables, *args, **named), is_writing=True)

    def read(
        self, job: Callable[Concatenate[D, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Read after all steps before it; the caller gets the error if it fails."""
        return self._ask(lambda tables: job(tables, *args, **named))

    def read_surely(
        self, job: Callable[Concatenate[D, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Read, and try again until it succeeds."""
        return self._ask(lambda tables: job(tables, *args, **named), is_needed=True)

    async def close(self) -> None:
        """Try the rest. Records stay open."""
        self._is_closing.set()
        if self._worker is not None:
            await asyncio.wait([self._worker])

    def _ask(
        self, do: Callable[[D], T], *, is_writing: bool = False, is_needed: bool = False
    ) -> asyncio.Future[T]:
        waiting = asyncio.get_running_loop().create_future()
        self._add(_Step(do, is_writing, is_needed, waiting))
        return waiting

    def _add(self, step: _Step[D]) -> None:
        self._steps.append(step)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(
                self._work(), name="records of an agent"
            )

    async def _work(self) -> None:
        while self._steps:
            step = self._steps[0]
            try:
                result = await (
                    self._records.write(step.do) if step.is_writing else self._records.read(step.do)
                )
            except Exception as error:
                if step.is_needed and isinstance(error, StoreError):
                    self._failed(error)
                    if not self._is_closing.is_set():
                        await self._pause()
                        continue
                self._refuse(step, error)
            else:
                if step.waiting is not None and not step.waiting.done():
                    step.waiting.set_result(result)
            self._steps.popleft()
        # There is no await between the last check and this, so no step is left behind.
        self._worker = None

    def _refuse(self, step: _Step[D], error: Exception) -> None:
        if step.waiting is None:
            if not isinstance(error, StoreError):
                self._failed(error)
        elif not step.waiting.done():
            step.waiting.set_exception(error)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._retry_seconds):
                await self._is_closing.wait()
        except TimeoutError:
            pass
