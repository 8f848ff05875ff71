"""One line per session, pressure, budget, and publishers that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.mailbox import ANSWER, Budget, Mailbox, Pressure, Waiting
from headgate.core.names import SessionId

PUBLISHER, OTHER = SessionId(1), SessionId(2)
SLOW, EASY = SessionId(7), SessionId(8)


def budget_of(limit: int = 1000) -> Budget:
    return Budget(limit, mailbox_soft=10, mailbox_hard=20)


def mailbox(budget: Budget | None = None, session: SessionId = SLOW) -> Mailbox:
    return Mailbox(session, budget or budget_of())


def test_answers_and_messages_leave_in_the_order_in_which_they_came() -> None:
    """S002-41, S002-42, S002-43, S002-44, S002-45: there is one line. An answer waits for the
    messages that were there before its command, and for no others: the quota of the control lane
    is not needed for that."""
    box = mailbox()
    box.offer("m0", 1, now=0.0)
    box.offer("a0", 1, now=0.0, messages=ANSWER)
    box.offer("m1", 1, now=0.0)
    assert [box.take(0.0) for _ in range(4)] == ["m0", "a0", "m1", None]


def test_pressure_rises_above_its_limits_not_at_them() -> None:
    """The limits mailbox_bytes_soft and mailbox_bytes_hard, at and one above."""
    box = mailbox()
    assert box.offer("m", 10, now=0.0) is Pressure.EASY
    assert box.offer("m", 1, now=0.0) is Pressure.SOFT
    assert box.offer("m", 9, now=0.0) is Pressure.SOFT
    assert box.offer("m", 1, now=0.0) is Pressure.HARD


def test_the_clock_of_a_slow_session_runs_from_the_crossing() -> None:
    budget = budget_of()
    box = mailbox(budget)
    box.offer("m", 11, now=5.0)
    box.offer("m", 1, now=6.0)
    assert (box.slow_since, list(budget.slow)) == (5.0, [SLOW])
    box.take(7.0)
    assert (box.slow_since, list(budget.slow), box.moved_at) == (None, [], 7.0)


def test_bytes_are_charged_before_and_given_back_after() -> None:
    """S002-55, S002-56, S002-57."""
    budget = budget_of()
    box, another = mailbox(budget), mailbox(budget, EASY)
    box.offer("m", 4, now=0.0)
    another.offer("m", 6, now=0.0)
    assert (box.bytes, budget.bytes, set(budget.stuck)) == (4, 10, {SLOW, EASY})
    box.take(0.0)
    assert (box.bytes, budget.bytes, set(budget.stuck)) == (0, 6, {EASY})
    assert another.close(0.0) == 1
    assert (budget.bytes, budget.stuck) == (0, {})


def test_what_the_socket_left_goes_first() -> None:
    box = mailbox()
    box.offer("whole", 5, now=0.0)
    box.offer("next", 4, now=0.0)
    assert box.take(0.0) == "whole"
    box.put_back("le", 2, now=0.0)
    assert box.bytes == 6
    assert [box.take(0.0), box.take(0.0)] == ["le", "next"]
    assert box.bytes == 0


def test_dropping_the_oldest_leaves_the_newest() -> None:
    box = mailbox()
    for n in range(5):
        box.offer(f"m{n}", 4, now=0.0, messages=2)
    assert box.drop_oldest(10, now=0.0) == 6
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["m3", "m4", None]


def test_answers_and_parts_are_never_dropped() -> None:
    budget = budget_of()
    box = mailbox(budget)
    box.offer("message", 4, now=0.0)
    box.offer("answer", 4, now=0.0, messages=ANSWER)
    box.put_back("part", 4, now=0.0)
    assert box.answers == 4
    assert box.drop_oldest(0, now=0.0) == 1
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["part", "answer", None]
    assert (box.bytes, box.answers, budget.bytes, budget.stuck) == (0, 0, 0, {})


def test_only_publishers_to_a_session_over_its_hard_limit_wait() -> None:
    """S002-58, S002-61: judged per stuck session, not per total."""
    budget = budget_of()
    stuck, easy = mailbox(budget, SLOW), mailbox(budget, EASY)
    stuck.offer("m", 21, now=0.0)
    easy.offer("m", 20, now=0.0)
    assert (budget.is_blocking(SLOW), budget.is_blocking(EASY)) == (True, False)
    stuck.take(0.0)
    assert not budget.is_blocking(SLOW)


def test_when_the_budget_is_spent_slow_sessions_block_too() -> None:
    """S002-29: The limit budget_bytes, at and one above."""
    budget = budget_of(26)
    slow, easy = mailbox(budget, SLOW), mailbox(budget, EASY)
    slow.offer("m", 17, now=0.0)
    easy.offer("m", 9, now=0.0)
    assert not budget.is_blocking(SLOW)
    easy.offer("m", 1, now=0.0)
    assert (budget.is_blocking(SLOW), budget.is_blocking(EASY)) == (True, False)


def test_many_stuck_sessions_below_the_soft_limit_cannot_spend_without_end() -> None:
    """Each has a share of the budget, and the share shrinks with their number."""
    budget = budget_of(100)
    boxes = [mailbox(budget, SessionId(n)) for n in range(50)]
    rounds = 0
    while not all(budget.is_blocking(SessionId(n)) for n in range(50)):
        for n, box in enumerate(boxes):
            if not budget.is_blocking(SessionId(n)):
                box.offer("m", 1, now=0.0)
        rounds += 1
        assert rounds < 20
    assert budget.bytes <= 100 + 50


def test_every_waiter_that_may_go_on_is_woken_and_nobody_else() -> None:
    """S002-62, S002-63, S002-64: who waits is told when its blocker no longer blocks, and then
    asks again."""
    budget = budget_of()
    slow, another = mailbox(budget, SLOW), mailbox(budget, EASY)
    slow.offer("m", 21, now=0.0)
    another.offer("m", 21, now=0.0)
    waiting = Waiting()
    for publisher in (PUBLISHER, OTHER):
        waiting.wait(publisher, SLOW)
    waiting.wait(SessionId(3), EASY)
    assert waiting.wake(budget) == []
    slow.take(0.0)
    assert waiting.wake(budget) == [PUBLISHER, OTHER]
    assert list(waiting) == [(SessionId(3), EASY)]


def test_a_blocker_that_is_gone_keeps_nobody_waiting() -> None:
    """S002-9."""
    budget = budget_of()
    slow = mailbox(budget, SLOW)
    slow.offer("m", 21, now=0.0)
    waiting = Waiting()
    waiting.wait(PUBLISHER, SLOW)
    waiting.wait(OTHER, SLOW)
    waiting.forget(OTHER)
    assert slow.close(0.0) == 1
    assert waiting.wake(budget) == [PUBLISHER]
    assert len(waiting) == 0


@given(st.lists(st.one_of(st.integers(0, 30), st.none(), st.just("back")), max_size=60))
def test_the_count_equals_what_is_in_the_line(steps: list[int | str | None]) -> None:
    budget = budget_of(10**6)
    box: Mailbox = Mailbox(SLOW, budget)
    inside: list[int] = []
    for step in steps:
        if isinstance(step, int):
            box.offer(step, step, now=0.0)
            inside.append(step)
        elif inside:
            taken = box.take(0.0)
            assert taken == inside.pop(0)
            if step == "back" and taken:
                box.put_back(taken - 1, taken - 1, now=0.0)
                inside.insert(0, taken - 1)
        assert box.bytes == budget.bytes == sum(inside)
        assert bool(budget.stuck) == bool(inside)
        assert bool(budget.slow) == (sum(inside) > 10)
