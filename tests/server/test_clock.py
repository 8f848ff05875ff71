"""The router's time while somebody plays with the machine's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.commands import Create, Expire, Open, Send, Tick
from headgate.core.facts import Expired, Fact, SegmentsExpired
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.journal import sealer_process as journal_module
from headgate.journal.sealer_process import JournalSettings
from headgate.journal.segments import all_files
from headgate.server import clock as module
from headgate.server import router as router_module
from headgate.server.clock import AWAY_SECONDS, DOUBT_SECONDS, DRAW, HOLD_SECONDS, Clock
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

START = 1_800_000_000.0
DAY = 86_400.0
MONTH = 30 * DAY


class Machine:
    """A machine whose time can be set, and passes without waiting."""

    def __init__(self, wall: float = START) -> None:
        self.wall = wall
        self.steady = 5000.0

    def clock(self, last: float | None = None) -> Clock:
        return Clock(last, lambda: self.wall, lambda: self.steady)

    def run(self, clock: Clock, seconds: float, steps: int = 1) -> None:
        for _ in range(steps):
            self.wall += seconds / steps
            self.steady += seconds / steps
            clock.follow()


def test_it_begins_with_the_machines_time_and_runs_with_it() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(clock, 60)
    assert clock() == clock.sure == START + 60
    assert clock.is_sure


@pytest.mark.parametrize("by", [MONTH, -MONTH, DOUBT_SECONDS + 60, -DOUBT_SECONDS - 60])
def test_a_jump_of_the_machines_clock_is_not_followed_and_ages_nothing(by: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(clock, 60)
    machine.wall += by
    machine.run(clock, 1)
    assert not clock.is_sure
    before = clock.sure
    machine.run(clock, 600, steps=600)
    assert clock() == pytest.approx(START + 661)
    assert clock.sure == before
    machine.wall -= by
    machine.run(clock, 1)
    assert clock.is_sure
    assert clock.sure == clock() == pytest.approx(START + 662)


@pytest.mark.parametrize("by", [600.0, -600.0])
def test_a_small_difference_is_made_up_slowly(by: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += by
    machine.run(clock, 100, steps=100)
    assert clock.is_sure
    assert clock() == pytest.approx(START + 100 + (DRAW * 100 if by > 0 else -DRAW * 100))
    machine.run(clock, abs(by) / DRAW, steps=1000)
    assert clock.difference == pytest.approx(0, abs=0.01)


def test_a_start_long_after_the_last_one_is_doubted_for_a_while() -> None:
    machine = Machine()
    clock = machine.clock(last=START - MONTH)
    assert clock() == START
    assert not clock.is_sure
    assert clock.sure == START - MONTH
    machine.run(clock, HOLD_SECONDS - 1)
    assert not clock.is_sure
    machine.run(clock, 2)
    assert clock.is_sure
    assert clock.sure == clock()


def test_a_start_with_a_wrong_clock_that_is_put_right_ages_nothing() -> None:
    machine = Machine(START + MONTH)
    clock = machine.clock(last=START - 60)
    machine.run(clock, 300)
    machine.wall -= MONTH
    machine.run(clock, 10 * HOLD_SECONDS, steps=10)
    assert not clock.is_sure
    assert clock.sure == START - 60
    machine_again = Machine(machine.wall)
    again = machine_again.clock(last=clock.sure)
    assert again.is_sure
    assert again() == machine.wall


@pytest.mark.parametrize("last", [None, START - AWAY_SECONDS, START - 1, START + MONTH])
def test_an_ordinary_start_is_not_doubted(last: float | None) -> None:
    """Nor is one before the last: everything is younger then, and nothing goes."""
    clock = Machine().clock(last)
    assert clock.is_sure
    assert clock.sure == START


@given(
    st.lists(
        st.tuples(st.floats(0, 3600), st.one_of(st.just(0.0), st.floats(-1e9, 1e9))), max_size=50
    )
)
def test_it_never_goes_back_and_never_runs_off(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    clock = machine.clock()
    sure = clock.sure
    for seconds, jump in steps:
        before = clock()
        machine.wall += jump
        machine.run(clock, seconds)
        passed = clock() - before
        assert (1 - DRAW) * seconds - 1e-3 <= passed <= (1 + DRAW) * seconds + 1e-3
        assert clock.sure >= sure
        sure = clock.sure


def test_it_is_kept_for_the_next_start(tmp_path: Path) -> None:
    assert module.load(tmp_path) is None
    module.save(tmp_path, START)
    module.save(tmp_path, START + 1)
    assert module.load(tmp_path) == START + 1
    assert [path.name for path in tmp_path.iterdir()] == [module.FILE]
    (tmp_path / module.FILE).write_text("soon")
    assert module.load(tmp_path) is None
    module.save(tmp_path / "nowhere", START)


LINE = Domain("line", Mode.EXCLUSIVE, message_ttl=DAY)
WORK = Domain("work", Mode.PRIORITY, message_ttl=DAY)
QUEUE, JOBS = QueueId(b"queue"), QueueId(b"jobs")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  of another process, there is no event
            await asyncio.sleep(0.02)


async def test_a_month_too_far_for_a_while_loses_no_message_and_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SEAL_SECONDS", 0.05)
    monkeypatch.setattr(router_module, "TICK_SECONDS", 0.05)
    machine = Machine()
    clock = machine.clock()
    facts: list[Fact] = []
    router = Router(
        store=SqliteStore(tmp_path / "q.db"),
        domains={"line": LINE, "work": WORK},
        limits=Limits(),
        journal=JournalSettings(tmp_path / "journal", 10**6, keep_seconds=DAY, keep_bytes=None),
        clock=clock,
        sure=lambda: clock.sure,
    )
    router.watch(facts.extend)
    await router.start()
    session = InProcessSession(router, "s")
    await session.ask(Create, QUEUE, "line")
    await session.ask(Open, JOBS, "work", read=False, write=True)

    async def send(number: int) -> None:
        for queue in (QUEUE, JOBS):
            message = Message(MessageId(b"%d" % number), b"body", clock())
            await session.ask(Send, queue, message)
        await until(lambda: router.journal is not None and router.journal.lag == 0)

    async def let_all_expire() -> None:
        """Each of the ticks and rounds that would remove something has happened."""
        router.turns.insist([Tick(), Expire()])
        turns = router.turns.count
        await until(lambda: router.turns.count > turns + 3)
        await asyncio.sleep(0.3)

    await send(1)
    await send(2)
    segments = len(all_files(tmp_path / "journal"))
    machine.wall += MONTH
    machine.run(clock, 20, steps=20)
    await let_all_expire()
    machine.wall -= MONTH
    machine.run(clock, 20, steps=20)
    await let_all_expire()
    assert not [fact for fact in facts if isinstance(fact, Expired | SegmentsExpired)]
    assert len(all_files(tmp_path / "journal")) >= segments
    machine.run(clock, 2 * DAY, steps=2)  # and when the time has truly passed, they go
    await let_all_expire()
    await until(lambda: len([f for f in facts if isinstance(f, Expired)]) == 4)
    await until(lambda: any(isinstance(f, SegmentsExpired) for f in facts))
    await router.stop()
