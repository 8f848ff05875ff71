from __future__ import annotations

from headgate.server.desk.answers import Point
from headgate.server.desk.series import COARSE_SECONDS, FINE_POINTS, NAMES, History


def test_the_newest_points_are_kept_by_the_second() -> None:
    history = History()
    for second in range(FINE_POINTS + 100):
        history.add(float(second), Point(sessions=second * 2.0))
    found = history.columns(["sessions"], 3)
    assert found == {"at": [997.0, 998.0, 999.0], "sessions": [1994.0, 1996.0, 1998.0]}
    whole = history.columns(["sessions"], FINE_POINTS)
    assert whole["at"] == [float(second) for second in range(100, FINE_POINTS + 100)]
    assert whole["sessions"] == [2 * at for at in whole["at"]]


def test_older_ones_are_means_of_ten_seconds() -> None:
    history = History()
    for second in range(35):
        history.add(float(second), Point(cpu=float(second)))
    found = history.columns(["cpu"], FINE_POINTS + 1)
    assert found == {"at": [9.0, 19.0, 29.0], "cpu": [4.5, 14.5, 24.5]}
    assert COARSE_SECONDS == 10


def test_there_are_36_series_and_none_before_the_first_sample() -> None:
    assert len(NAMES) == 36
    assert History().columns(NAMES, 60) == {name: [] for name in ("at", *NAMES)}
