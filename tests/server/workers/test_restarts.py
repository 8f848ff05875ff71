"""When a worker that died is started again."""

from __future__ import annotations

from headgate.server.workers.restarts import PAUSES, STEADY_SECONDS, Restarts


def test_pauses_grow_while_it_dies_in_a_row() -> None:
    restarts, now = Restarts(), 100.0
    pauses = []
    for start in range(1, 7):
        assert restarts.is_due(now)
        assert restarts.started() == start
        restarts.ready(now)
        pauses.append(restarts.died(now + 1.0))
        assert not restarts.is_due(now + 1.0)
        now += 1.0 + pauses[-1]
    assert pauses == [*PAUSES, PAUSES[-1], PAUSES[-1]]


def test_the_second_death_in_a_row_is_a_problem() -> None:
    restarts = Restarts()
    restarts.started()
    restarts.died(1.0)
    assert not restarts.is_failing
    restarts.started()
    restarts.died(3.0)
    assert restarts.is_failing
    assert restarts.deaths == 2


def test_who_lived_for_a_while_did_not_die_in_a_row() -> None:
    restarts = Restarts()
    for life in range(3):
        began = life * 100.0
        restarts.started()
        restarts.ready(began)
        assert restarts.died(began + STEADY_SECONDS) == PAUSES[0]
    assert not restarts.is_failing


def test_a_start_that_takes_long_is_no_life() -> None:
    restarts = Restarts()
    for now in (0.0, 100.0):
        restarts.started()
        restarts.died(now)
    assert restarts.is_failing


def test_all_is_well_after_it_answered_for_a_while() -> None:
    restarts = Restarts()
    for now in (0.0, 1.0):
        restarts.started()
        restarts.died(now)
    restarts.started()
    restarts.ready(2.0)
    restarts.lives(3.0)
    assert restarts.is_failing
    restarts.lives(2.0 + STEADY_SECONDS)
    assert not restarts.is_failing
