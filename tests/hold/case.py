"""A case: what somebody sends, and how it is played and measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field

from headgate.testing.smp_client import SmpClient
from tests.hold.clients import Answered, BmqClient, RespClient, ask_admin, fingerprint_of
from tests.hold.router import CPU_SECONDS, Ended, Router
from tests.support.bmq_raw import RawClient

HOLD_SECONDS = 0.05
"""CPU for which nobody may hold the loop, on the machine for which `UNIT_SECONDS` stands."""
UNIT_SECONDS = 0.0065
"""What `instrument.calibrate` says there."""
WATCH_SECONDS = 0.2
REPORT_SECONDS = 3.0
OUTCOME_CHARS = 120
NEAR = 10
"""The most that is allowed is found to a tenth of it."""


class Stage:
    """What a case has: a router, and the clients that it makes. They leave when it is over."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.outcome = ""
        """What came of it, in a few words."""
        self._leaving: list[Callable[[], None]] = []

    async def resp(self, address: str = "127.0.0.1") -> RespClient:
        """A client; of a router with workers, one of a worker that has no shard."""
        while True:
            client = await RespClient.connect(self.router.address("resp"), address)
            self._leaving.append(client.vanish)
            if self.router.workers == 1:
                return client
            number = await client.ask(b"CLIENT", b"ID")
            assert isinstance(number, int), number
            if number % self.router.workers:
                return client

    async def bmq(self, *, greets: bool = True) -> RawClient:
        client = await BmqClient.connect(self.router.address("bmq"), greets=greets)
        self._leaving.append(client.vanish)
        return client

    async def smp(self) -> SmpClient:
        fingerprint = fingerprint_of(self.router.places["smp"]["fingerprint"])
        client = await SmpClient.connect(*self.router.address("smp"), fingerprint)
        self._leaving.append(client.close)
        return client

    async def admin(self, method: str, path: str, body: bytes = b"") -> Answered:
        return await ask_admin(self.router.address("admin"), method, path, body)

    @property
    def clients(self) -> int:
        """Those that are there."""
        return len(self._leaving)

    def on_leaving(self, call: Callable[[], None]) -> None:
        self._leaving.append(call)

    def leave(self) -> None:
        """All clients vanish."""
        leaving, self._leaving = self._leaving, []
        for call in leaving:
            with suppress(OSError):
                call()


async def climb(most: int, attempt: Callable[[int], Awaitable[str]]) -> str:
    """Try with as many as there may be, and where that is refused, find how many are not: what is
    just allowed is to be measured as well as what is not. `attempt` says what came of it."""
    low, high, count, said = 0, most + 1, most, ""
    while True:
        outcome = await attempt(count)
        if not is_refusal(outcome):
            if count == most:
                return outcome
            low = count
        else:
            high, said = count, said or outcome
        if high <= 1 or (low and high - low <= max(1, low // NEAR)):
            break
        count = (low + high) // 2 if low else max(1, high // 2)
    return f"{low:,} allowed; {most:,} {said}" if low else said


def is_refusal(outcome: str) -> bool:
    return outcome.startswith("refused") or outcome.endswith("closed")


Play = Callable[[Stage], AsyncIterator[None]]
"""Prepares, yields once, and then does what is measured."""


@dataclass(frozen=True)
class Case:
    wire: str
    name: str
    sent: str
    """In words, for the table."""
    play: Play = field(repr=False)
    covers: frozenset[str] = frozenset()
    """Commands, events or paths of the wire."""
    is_crowd: bool = False
    """Many clients: what counts is one callback, not all that is done between two looks at the
    sockets."""
    crowd: int = 0
    """How many, where crowds of different sizes are compared."""
    is_quick: bool = False
    """Among those that every run of the tests plays."""
    is_general: bool = False
    """Drawn up from a table of commands, rather than by hand."""
    shares: bool = False
    """Whether it may be played on a router that others were played on."""

    @property
    def title(self) -> str:
        return f"{self.wire}: {self.name}"


@dataclass
class Part:
    """One thing that was measured."""

    hold: float = 0.0
    """CPU seconds of the longest hold."""
    gc: float = 0.0
    name: str = ""
    where: str = ""
    slice: float = 0.0
    """CPU seconds of the longest callback."""
    passed: float = 0.0
    """CPU seconds from one look at the sockets to the next."""
    total: float = 0.0
    """CPU seconds of the loop's thread."""
    others: float = 0.0
    """CPU seconds of other threads."""


@dataclass
class Result:
    case: Case
    outcome: str = ""
    unit: float = UNIT_SECONDS
    sent: Part = field(default_factory=Part)
    """While the case was played."""
    left: Part = field(default_factory=Part)
    """While its clients vanished."""
    grown: int = 0
    """Resident bytes at most, over those before."""
    kept: int = 0
    """Resident bytes after all have left, over those before."""
    mistakes: int = 0
    """Exceptions in the router's log, one of memory that it did not get among them."""
    is_ended: bool = False
    """Whether the router did not survive it or took too long, or it could not be played."""

    def normal(self, seconds: float) -> float:
        """As on the machine that `UNIT_SECONDS` stands for."""
        return seconds * UNIT_SECONDS / self.unit

    @property
    def hold(self) -> float:
        """CPU seconds of the longest hold, there."""
        return self.normal(max(self.sent.hold, self.left.hold))

    @property
    def is_over(self) -> bool:
        return self.hold > HOLD_SECONDS or self.is_ended or self.mistakes > 0


async def play(case: Case, router: Router) -> Result:
    """Play one case, and measure it."""
    result = Result(case)
    stage = Stage(router)
    mistakes = router.mistakes
    steps = case.play(stage)
    try:
        try:
            await anext(steps)
        except Exception as failed:
            raise Ended(f"cannot be played: {failed!r}") from failed
        await router.settle()
        result.unit = await _unit(router)
        before, _ = router.memory()
        router.forget_peak()
        await _measured(stage, result.sent, _rest(steps), is_crowd=case.is_crowd)
        result.outcome = stage.outcome
        result.grown = max(0, router.memory()[1] - before)
        result.unit = (result.unit + await _unit(router)) / 2
        is_crowd = case.is_crowd or stage.clients > 1
        await _measured(stage, result.left, _leaving(stage), is_crowd=is_crowd)
        result.kept = max(0, router.memory()[0] - before)
    except Ended as error:
        result.is_ended = True
        result.outcome = result.outcome or f"{stage.outcome} {error}".strip()
        result.grown = max(result.grown, router.memory()[1])
    finally:
        stage.leave()
        with suppress(Exception):
            await steps.aclose()  # type: ignore[attr-defined]
    result.outcome = result.outcome[:OUTCOME_CHARS]
    result.mistakes = router.mistakes - mistakes
    if result.mistakes:
        result.outcome += f"; {result.mistakes} exceptions in the log"
    return result


async def _unit(router: Router) -> float:
    unit: float = (await router.ask("calibrate"))["unit"]
    return unit


async def _rest(steps: AsyncIterator[None]) -> None:
    async for _ in steps:
        raise AssertionError("a case yields once")


async def _leaving(stage: Stage) -> None:
    stage.leave()
    await asyncio.sleep(0.05)


async def _measured(
    stage: Stage, part: Part, doing: Coroutine[None, None, None], *, is_crowd: bool
) -> None:
    """Do it, wait until the router has done with it, and note what that took."""
    router = stage.router
    started = await router.ask("reset")
    task = asyncio.ensure_future(_until_settled(router, doing))
    began = router.cpu()
    try:
        while not task.done():
            await asyncio.wait([task], timeout=WATCH_SECONDS)
            if router.cpu() - began > CPU_SECONDS or not router.is_running:
                break
        is_ended = not task.done() or isinstance(task.exception(), Ended)
        if not is_ended and (failed := task.exception()) is not None:
            # Its client gave up; what the router did meanwhile is measured all the same.
            stage.outcome = f"{stage.outcome} client gave up: {failed!r}".strip()
            await router.settle()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
    try:
        report = await router.ask("report", REPORT_SECONDS)
    except Ended:
        part.hold = router.cpu() - began
        part.name = "not told"
        raise
    told = report["sliced" if is_crowd else "passed"]
    part.hold, part.gc, part.name = told["cpu"], told["gc"], told["name"]
    part.slice, part.passed = report["sliced"]["cpu"], report["passed"]["cpu"]
    if report["running"] > part.hold:
        part.hold, part.name = report["running"], "not over"
    part.where = next(iter(report["where"]), "")
    part.total = report["cpu"] - started["cpu"]
    part.others = max(0.0, report["all"] - started["all"] - part.total)
    if is_ended:
        raise Ended(
            "the router is gone" if not router.is_running else f"over {CPU_SECONDS:.0f} s of CPU"
        )


async def _until_settled(router: Router, doing: Coroutine[None, None, None]) -> None:
    await doing
    await router.settle()
