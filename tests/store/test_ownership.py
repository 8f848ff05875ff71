from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.store.ownership import (
    FREE,
    GIVE_WAY_SECONDS,
    GONE,
    GRACE_SECONDS,
    LEAVING_SECONDS,
    RELEASED,
    SILENT,
    Candidate,
    Holder,
    Move,
    Ownership,
    Silence,
    Taken,
)

HOLDER = Holder("other", (7, "then"), "first", works=False, timeout=3.0)
TAKEN = Taken("me", 1, FREE, "", 0.0, mark=5, expected=5, sealed=0)


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_silence_is_counted_from_the_first_look() -> None:
    clock = Hands()
    silence = Silence(clock)
    assert not silence.is_over(HOLDER)
    clock.now += 2.9
    assert not silence.is_over(HOLDER)
    clock.now += 0.1
    assert silence.is_over(HOLDER)


def test_a_statement_or_another_backend_ends_the_silence() -> None:
    clock = Hands()
    silence = Silence(clock)
    for holder in (HOLDER, replace(HOLDER, changed="second"), replace(HOLDER, backend=(8, "now"))):
        assert not silence.is_over(holder)
        clock.now += 2.9
        assert not silence.is_over(holder)
        clock.now += 2.9


def test_who_works_is_not_silent() -> None:
    clock = Hands()
    silence = Silence(clock)
    working = replace(HOLDER, works=True)
    for _ in range(5):
        assert not silence.is_over(working)
        clock.now += 10
    assert not silence.is_over(working)
    clock.now += 2.9
    assert not silence.is_over(HOLDER), "its silence begins when it stops working"


def test_who_left_no_time_or_is_hidden_is_never_ended() -> None:
    clock = Hands()
    silence = Silence(clock)
    for holder in (replace(HOLDER, timeout=None), replace(HOLDER, changed=None)):
        for _ in range(3):
            assert not silence.is_over(holder)
            clock.now += 100
    assert not silence.is_over(HOLDER), "a new look begins from zero"


def test_who_ends_in_order_is_not_silent_while_its_connection_is_still_there() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    leaving = replace(HOLDER, timeout=RELEASED)
    assert [candidate.decide(each) for each in (HOLDER, leaving, leaving)] == [Move.WAIT] * 3
    assert candidate.decide(None, RELEASED) is Move.TAKE
    assert candidate.reason == GONE
    assert candidate.decide(leaving) is Move.WAIT
    clock.now += LEAVING_SECONDS
    assert candidate.decide(leaving) is Move.END, "its process may have been stopped at that moment"


def test_who_comes_first_takes_what_is_free() -> None:
    candidate = Candidate(Hands())
    candidate.connected()
    assert candidate.decide(None) is Move.TAKE
    assert candidate.reason == FREE


def test_an_owner_whose_connection_ended_has_a_moment_to_come_back() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    assert candidate.decide(HOLDER) is Move.WAIT
    clock.now += 1
    assert candidate.decide(None) is Move.WAIT
    clock.now += GRACE_SECONDS / 2
    assert candidate.decide(HOLDER) is Move.WAIT, "it came back"
    assert candidate.decide(None) is Move.WAIT
    clock.now += GRACE_SECONDS + 0.01
    assert candidate.decide(None) is Move.TAKE
    assert candidate.reason == GONE
    assert candidate.waited == pytest.approx(1.01 + 1.5 * GRACE_SECONDS)
    assert GRACE_SECONDS < GIVE_WAY_SECONDS <= 1.0, "a takeover may take a second"


def test_who_was_ended_for_its_silence_has_none() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    candidate.decide(HOLDER)
    clock.now += 3
    assert candidate.decide(HOLDER) is Move.END
    assert candidate.decide(None) is Move.TAKE
    assert candidate.reason == SILENT


def test_after_the_server_was_away_the_owner_goes_first() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    candidate.connected()
    assert candidate.decide(None) is Move.WAIT
    clock.now += GIVE_WAY_SECONDS
    assert candidate.decide(None) is Move.TAKE


def test_who_ended_in_order_is_not_waited_for() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    assert candidate.decide(HOLDER) is Move.WAIT
    assert candidate.decide(None, RELEASED) is Move.TAKE
    assert Candidate(clock).decide(None, RELEASED) is Move.TAKE


def test_who_comes_new_lets_an_owner_that_ended_without_a_word_find_out_that_it_is_cut_off() -> (
    None
):
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    assert candidate.decide(None, 3.0) is Move.WAIT
    clock.now += 2.9
    assert candidate.decide(None, 3.0) is Move.WAIT
    clock.now += 0.1
    assert candidate.decide(None, 3.0) is Move.TAKE


def test_after_the_server_was_away_an_owner_that_is_cut_off_has_time_to_find_out() -> None:
    clock = Hands()
    candidate = Candidate(clock)
    candidate.connected()
    candidate.decide(HOLDER)
    candidate.connected()
    assert candidate.decide(None, 3.0) is Move.WAIT
    clock.now += 2.9
    assert candidate.decide(None, 3.0) is Move.WAIT
    clock.now += 0.1
    assert candidate.decide(None, 3.0) is Move.TAKE


def test_a_store_with_fewer_batches_than_were_known_went_back() -> None:
    assert not TAKEN.went_back
    assert not replace(TAKEN, mark=6).went_back
    assert replace(TAKEN, mark=4).went_back


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "look", "jump"]),
        st.floats(0.01, 2.0),
        st.floats(-1e6, 1e6),
    ),
    max_size=60,
)


@given(STEPS, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 0.5))
def test_who_is_taken_to_be_silent_has_counted_its_own_time_out_whatever_the_clocks_show(
    steps: list[tuple[str, float, float]], ours: float, theirs: float, delay: float
) -> None:
    """The clocks of the two routers show different times, that of the server jumps, and a
    statement takes its time to the server and back."""
    real = 0.0
    server = 0.0
    """How far the server's clock is from the real time."""
    owner = Ownership(3.0, lambda: real + ours)
    silence = Silence(lambda: real + theirs)
    changed = 0.0
    owner.heard = owner.clock()
    for what, seconds, jump in steps:
        real += seconds
        if what == "jump":
            server += jump
        elif what == "say":
            sent = owner.clock()
            real += delay
            changed = real + server
            real += delay
            owner.heard = sent
        elif silence.is_over(replace(HOLDER, changed=changed)):
            assert owner.silence >= owner.timeout
