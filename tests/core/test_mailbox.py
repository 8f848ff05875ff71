"""Lanes, pressure, budget, and publishers that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.limits import Limits
from headgate.core.mailbox import Budget, Mailbox, Pressure, Waiting, may_publish
from headgate.core.names import SessionId

LIMITS = Limits(mailbox_bytes_soft=10, mailbox_bytes_hard=20, dispatch_quota=3)
PUBLISHER, OTHER = SessionId(1), SessionId(2)
SLOW, EASY = SessionId(7), SessionId(8)


def mailbox(budget: Budget | None = None, limits: Limits = LIMITS) -> Mailbox[str]:
    return Mailbox(limits, budget or Budget(1000))


def test_the_control_lane_goes_first() -> None:
    """S002-41: S002-42."""
    box = mailbox()
    box.queue("command")
    box.offer("message", 1, now=0.0)
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["message", "command", None]


def test_after_the_quota_one_command_gets_its_turn() -> None:
    """S002-43, S002-44: a flood of messages does not keep a command from being answered."""
    box = mailbox()
    for n in range(7):
        box.offer(f"m{n}", 1, now=0.0)
    box.queue("c0")
    box.queue("c1")
    taken = [box.take(0.0) for _ in range(9)]
    assert taken == ["m0", "m1", "m2", "c0", "m3", "m4", "m5", "c1", "m6"]


def test_with_an_empty_control_lane_commands_run_without_delay() -> None:
    """S002-45."""
    box = mailbox()
    box.queue("c0")
    box.queue("c1")
    assert [box.take(0.0), box.take(0.0)] == ["c0", "c1"]


def test_a_quota_of_nothing_is_no_quota() -> None:
    box = mailbox(limits=Limits(dispatch_quota=0))
    box.queue("c")
    for n in range(200):
        box.offer(f"m{n}", 1, now=0.0)
    assert "c" not in [box.take(0.0) for _ in range(200)]


def test_pressure_rises_above_its_limits_not_at_them() -> None:
    """The limits mailbox_bytes_soft and mailbox_bytes_hard, at and one above."""
    box = mailbox()
    assert box.offer("m", 10, now=0.0) is Pressure.EASY
    assert box.offer("m", 1, now=0.0) is Pressure.SOFT
    assert box.offer("m", 9, now=0.0) is Pressure.SOFT
    assert box.offer("m", 1, now=0.0) is Pressure.HARD


def test_the_clock_of_a_slow_session_runs_from_the_crossing() -> None:
    box = mailbox()
    box.offer("m", 11, now=5.0)
    box.offer("m", 1, now=6.0)
    assert box.slow_since == 5.0
    box.take(7.0)
    assert box.slow_since is None


def test_bytes_are_charged_before_and_given_back_after() -> None:
    """S002-55, S002-56, S002-57."""
    budget = Budget(1000)
    box, another = mailbox(budget), mailbox(budget)
    box.offer("m", 4, now=0.0)
    another.offer("m", 6, now=0.0)
    assert (box.bytes, budget.bytes) == (4, 10)
    box.take(0.0)
    assert (box.bytes, budget.bytes) == (0, 6)
    assert another.close(0.0) == 1
    assert budget.bytes == 0


def test_dropping_the_oldest_leaves_the_newest() -> None:
    box = mailbox()
    for n in range(5):
        box.offer(f"m{n}", 4, now=0.0)
    assert box.drop_oldest(10, now=0.0) == 3
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["m3", "m4", None]


def test_only_publishers_to_a_session_over_its_hard_limit_wait() -> None:
    """S002-58, S002-61: judged per stuck session, not per total."""
    budget = Budget(1000)
    stuck, easy = mailbox(budget), mailbox(budget)
    stuck.offer("m", 21, now=0.0)
    assert not may_publish([stuck, easy], budget)
    assert may_publish([easy], budget)
    stuck.take(0.0)
    assert may_publish([stuck, easy], budget)


def test_when_the_budget_is_spent_slow_targets_count_too() -> None:
    """S002-29: The limit budget_bytes, at and one above."""
    budget = Budget(22)
    slow, easy = mailbox(budget), mailbox(budget)
    slow.offer("m", 12, now=0.0)
    easy.offer("m", 10, now=0.0)
    assert may_publish([slow], budget)
    easy.offer("m", 0, now=0.0)
    another = mailbox(budget)
    another.offer("m", 1, now=0.0)
    assert not may_publish([slow], budget)
    assert may_publish([easy, another], budget)


def test_every_waiter_that_may_go_on_is_woken_and_nobody_else() -> None:
    """S002-62, S002-63, S002-64."""
    budget = Budget(1000)
    boxes = {SLOW: mailbox(budget), EASY: mailbox(budget)}
    boxes[SLOW].offer("m", 21, now=0.0)
    waiting = Waiting()
    waiting.wait(PUBLISHER, [SLOW])
    waiting.wait(OTHER, [SLOW, EASY])
    assert waiting.wake(boxes, budget) == []
    boxes[SLOW].take(0.0)
    assert waiting.wake(boxes, budget) == [PUBLISHER, OTHER]
    assert len(waiting) == 0


def test_a_target_that_is_gone_keeps_nobody_waiting() -> None:
    """S002-9."""
    budget = Budget(1000)
    waiting = Waiting()
    waiting.wait(PUBLISHER, [SLOW])
    waiting.wait(OTHER, [SLOW])
    waiting.forget(OTHER)
    assert waiting.wake({}, budget) == [PUBLISHER]


@given(st.lists(st.one_of(st.integers(0, 30), st.none(), st.just("data")), max_size=60))
def test_the_count_equals_what_is_in_the_lane(steps: list[int | str | None]) -> None:
    budget = Budget(10**6)
    box: Mailbox[int] = Mailbox(LIMITS, budget)
    inside: list[int] = []
    for step in steps:
        if isinstance(step, int):
            box.offer(step, step, now=0.0)
            inside.append(step)
        elif step == "data":
            box.queue(-1)
        elif (taken := box.take(0.0)) is not None and taken >= 0:
            assert inside.pop(0) == taken
        assert box.bytes == budget.bytes == sum(inside)
