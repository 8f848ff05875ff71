from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.ids import SessionId
from headgate.core.turn.unconfirmed import SPARE, Unconfirmed

CHANGES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 9)), max_size=40)


@given(CHANGES)
def test_the_count_and_the_oldest_are_those_of_all_sessions(
    changes: list[tuple[int, int, int]],
) -> None:
    kept, known = Unconfirmed(), dict[int, tuple[int, int]]()
    for session, count, oldest in changes:
        kept.set(SessionId(session), count, float(oldest) if count else None)
        known[session] = (count, oldest)
    assert kept.count == sum(count for count, _ in known.values())
    times = [oldest for count, oldest in known.values() if count]
    assert kept.oldest() == (float(min(times)) if times else None)


def test_what_is_out_of_date_is_cleared_away() -> None:
    kept = Unconfirmed()
    kept.set(SessionId(1), 1, 0.0)
    for at in range(10 * SPARE):
        kept.set(SessionId(2), 1, float(at))
    assert len(kept._heap) <= SPARE + 5
    kept.set(SessionId(1), 0, None)
    assert kept.oldest() == 10 * SPARE - 1
