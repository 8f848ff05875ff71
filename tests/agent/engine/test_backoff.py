"""Pauses grow, stay within their bounds, and are the same for the same arguments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.engine.backoff import JITTER, Backoff, Delays, draw_jitter, spread
from headgate.agent.engine.settings import NOTIFIER


def pauses(delays: Delays, number: int) -> list[float]:
    backoff, found = Backoff(delays), []
    for _ in range(number):
        backoff = backoff.step()
        found.append(backoff.pause)
    return found


def test_pauses_are_constant_for_ten_seconds_and_grow_until_the_longest() -> None:
    """S000-84."""
    assert pauses(Delays(), 8) == [2, 2, 2, 2, 2, 3, 4.5, 6.75]
    assert pauses(Delays(), 30)[-1] == 180


def test_a_notifier_waits_one_to_ten_seconds() -> None:
    found = pauses(NOTIFIER.delays, 30)
    assert found[:11] == [1.0] * 10 + [1.5]
    assert max(found) == 10


def test_what_time_will_hardly_mend_waits_longest_at_once() -> None:
    assert Backoff(Delays()).step_longest().pause == 180


@given(st.integers(0, 2**32), st.text(), st.integers(0, 1000))
def test_jitter_is_small_and_repeats_itself(seed: int, name: str, attempt: int) -> None:
    jitter = draw_jitter(seed, name, attempt)
    assert jitter == draw_jitter(seed, name, attempt)
    assert 100 * (1 - JITTER) <= spread(100, jitter) <= 100 * (1 + JITTER)


def test_slots_and_seeds_wait_differently() -> None:
    found = {draw_jitter(seed, name, 1) for seed in range(3) for name in ("1 1 ", "1 2 ")}
    assert len(found) == 6
