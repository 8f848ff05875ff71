"""When a slot tries again."""

from __future__ import annotations

from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.worker import Worker


def worker() -> Worker:
    return Worker(Delays(), seed=1, name="slot")


def rest_of(some: Worker, now: float) -> float:
    assert some.rest_until is not None
    return some.rest_until - now


def test_a_rest_is_over_when_its_time_has_come() -> None:
    some = worker()
    assert not some.is_resting(100.0)
    some.rest(100.0)
    assert some.rest_until is not None
    assert some.is_resting(100.0)
    assert not some.is_resting(some.rest_until)
    assert 1.8 <= rest_of(some, 100.0) <= 2.2


def test_each_rest_is_announced_once() -> None:
    some = worker()
    some.rest(100.0)
    assert some.arm() == some.rest_until
    assert some.arm() is None
    some.rest(200.0)
    assert some.arm() == some.rest_until


def test_after_a_session_that_lasted_the_next_is_tried_at_once() -> None:
    """S000-83."""
    some = worker()
    for _ in range(9):
        some.rest(0.0)
    some.lose_session(opened_at=0.0, now=10.0)
    assert some.rest_until is None
    some.rest(0.0)
    assert rest_of(some, 0.0) <= 2.2


def test_a_router_that_hangs_up_at_once_is_not_called_without_a_pause() -> None:
    some = worker()
    for _ in range(9):
        some.lose_session(opened_at=0.0, now=1.0)
    assert rest_of(some, 1.0) > 5


def test_failures_count_for_a_minute() -> None:
    some = worker()
    assert [some.count_failure(now) for now in (0.0, 1.0, 59.0, 62.0)] == [1, 2, 3, 2]
