from __future__ import annotations

from headgate.server.desk.pace import VIEWERS_KEPT, Pace, ViewerPace


def test_so_many_a_second_and_what_is_refused_counts_too() -> None:
    now = [0.0]
    pace = Pace(2, lambda: now[0])
    assert [pace.take() for _ in range(4)] == [True, True, False, False]
    now[0] = 0.9
    assert not pace.take()
    now[0] = 1.9
    assert [pace.take() for _ in range(3)] == [True, True, False]


def test_each_viewer_has_a_pace_of_its_own() -> None:
    pace = ViewerPace(2, lambda: 5.0)
    assert [pace.take(b"a") for _ in range(3)] == [True, True, False]
    assert pace.take(b"b")
    assert not pace.take(b"a")


def test_only_the_last_viewers_are_remembered() -> None:
    pace = ViewerPace(1, lambda: 5.0)
    for number in range(VIEWERS_KEPT):
        assert pace.take(b"%d" % number)
    assert not pace.take(b"0"), "who asks again is the last"
    assert pace.take(b"another")
    assert pace.take(b"1"), "was forgotten"
