"""One line per session, pressure and budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.delivery.mailbox import ANSWER, Budget, Mailbox, Pressure
from headgate.core.model.ids import SessionId

SLOW, EASY = SessionId(7), SessionId(8)


def budget_of(limit: int = 1000) -> Budget:
    return Budget(limit, mailbox_soft=10, mailbox_hard=20)


def mailbox(budget: Budget | None = None, session: SessionId = SLOW) -> Mailbox:
    return Mailbox(session, budget or budget_of())


def test_answers_and_messages_leave_in_the_order_in_which_they_came() -> None:
    """S002-41, S002-42, S002-44, S002-45: there is one line. An answer waits for the messages that
    were there before its command, and for no others."""
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


def test_who_is_slow_and_who_caught_up_is_told_in_turns() -> None:
    budget = budget_of()
    box = mailbox(budget)
    box.offer("m", 11, now=5.0)
    box.offer("m", 30, now=6.0)
    box.take(7.0)
    box.take(8.0)
    box.offer("m", 12, now=9.0)
    assert budget.crossings == [(SLOW, 11, None), (SLOW, 0, 5.0), (SLOW, 12, None)]


def test_a_session_whose_messages_are_dropped_has_not_caught_up() -> None:
    """It is told to be slow once, however often something is dropped, and to have caught up when
    its socket took what was left."""
    budget = budget_of()
    box = mailbox(budget)
    for now in range(20):
        box.offer("m", 9, float(now))
        box.drop_oldest(10)
    assert budget.crossings == [(SLOW, 18, None)]
    assert (box.pressure, box.slow_since, list(budget.slow)) == (Pressure.EASY, 1.0, [SLOW])
    box.take(30.0)
    assert budget.crossings[1:] == [(SLOW, 0, 1.0)]
    assert (box.slow_since, list(budget.slow)) == (None, [])


def test_a_socket_that_takes_nothing_changes_nothing() -> None:
    """The clock of a slow session would start anew each time that its socket is tried."""
    budget = budget_of()
    box = mailbox(budget)
    box.offer("m", 11, now=5.0)
    assert box.first() == "m"
    assert (box.slow_since, box.moved_at, len(budget.crossings)) == (5.0, 5.0, 1)


def test_a_slow_session_that_ends_is_slow_no_more_and_has_not_caught_up() -> None:
    budget = budget_of()
    box = mailbox(budget)
    box.offer("m", 11, now=5.0)
    box.close()
    assert (box.slow_since, budget.slow, len(budget.crossings)) == (None, {}, 1)


def test_bytes_are_charged_before_and_given_back_after() -> None:
    """S002-55, S002-56, S002-57."""
    budget = budget_of()
    box, another = mailbox(budget), mailbox(budget, EASY)
    box.offer("m", 4, now=0.0)
    another.offer("m", 6, now=0.0)
    assert (box.bytes, budget.bytes, set(budget.stuck)) == (4, 10, {SLOW, EASY})
    box.take(0.0)
    assert (box.bytes, budget.bytes, set(budget.stuck)) == (0, 6, {EASY})
    assert another.close() == 1
    assert (budget.bytes, budget.stuck) == (0, {})


def test_what_the_socket_left_goes_first() -> None:
    box = mailbox()
    box.offer("whole", 5, now=0.0)
    box.offer("next", 4, now=0.0)
    assert box.first() == "whole"
    assert box.bytes == 9
    box.shorten("le", 2, now=0.0)
    assert (box.first(), box.bytes) == ("le", 6)
    assert [box.take(0.0), box.take(0.0), box.first()] == ["le", "next", None]
    assert box.bytes == 0


def test_dropping_the_oldest_leaves_the_newest() -> None:
    box = mailbox()
    for n in range(5):
        box.offer(f"m{n}", 4, now=0.0, messages=2)
    assert box.drop_oldest(10) == 6
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["m3", "m4", None]


def test_answers_and_parts_are_never_dropped() -> None:
    budget = budget_of()
    box = mailbox(budget)
    box.offer("long message", 8, now=0.0)
    box.shorten("part", 4, now=0.0)
    box.offer("message", 4, now=0.0)
    box.offer("long answer", 8, now=0.0, messages=ANSWER)
    box.offer("newest", 4, now=0.0)
    assert box.answers == 8
    assert box.drop_oldest(0) == 1
    assert box.take(0.0) == "part"
    box.shorten("answer", 4, now=0.0)
    assert box.answers == 4
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["answer", "newest", None]
    assert (box.bytes, box.answers, budget.bytes, budget.stuck) == (0, 0, 0, {})


def test_an_answer_does_not_take_the_place_of_the_newest_message() -> None:
    """What was asked for after it came is no reason to lose it."""
    box = mailbox()
    box.offer("older", 30, now=0.0)
    box.offer("newest", 30, now=0.0, messages=2)
    box.offer("answer", 4, now=0.0, messages=ANSWER)
    assert box.drop_oldest(10) == 1
    assert box.drop_oldest(10) == 0
    assert [box.take(0.0), box.take(0.0), box.take(0.0)] == ["newest", "answer", None]


def test_only_publishers_to_a_session_over_its_hard_limit_wait() -> None:
    """S002-58, S002-61, RESP-59: judged per stuck session, not per total."""
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
    assert budget_of(9).share == 9


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


@given(st.lists(st.one_of(st.integers(0, 30), st.none(), st.just("some")), max_size=60))
def test_the_count_equals_what_is_in_the_line(steps: list[int | str | None]) -> None:
    budget = budget_of(10**6)
    box: Mailbox = Mailbox(SLOW, budget)
    inside: list[int] = []
    for step in steps:
        if isinstance(step, int):
            box.offer(step, step, now=0.0)
            inside.append(step)
        elif inside:
            assert box.first() == inside[0]
            if step == "some" and inside[0]:
                inside[0] -= 1
                box.shorten(inside[0], inside[0], now=0.0)
            else:
                assert box.take(0.0) == inside.pop(0)
        assert box.bytes == budget.bytes == sum(inside)
        assert bool(budget.stuck) == bool(inside)
        assert bool(budget.slow) == (sum(inside) > 10)
