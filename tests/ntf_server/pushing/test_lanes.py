"""Bounds for each host."""

from __future__ import annotations

from headgate.ntf_server.pushing.lanes import Lanes
from headgate.ntf_server.pushing.turns import PushKind, Turn


def turn(n: int) -> Turn:
    return Turn(PushKind.CHECK, bytes([n]))


def test_a_host_has_so_many_under_way_and_others_have_theirs() -> None:
    lanes = Lanes(lane_max=2)
    assert [lanes.enter("a", turn(n)) for n in range(5)] == [True, True, False, False, False]
    assert lanes.enter("b", turn(5))
    assert len(lanes) == 3


def test_those_that_wait_come_in_their_order() -> None:
    lanes = Lanes(lane_max=1)
    assert lanes.enter("a", turn(0))
    for n in (1, 2, 1):
        assert not lanes.enter("a", turn(n))
    assert len(lanes) == 2
    assert lanes.leave("a") == turn(1)
    assert lanes.enter("a", turn(1))
    assert lanes.leave("a") == turn(2)
    assert lanes.enter("a", turn(2))
    assert lanes.leave("a") is None
    assert len(lanes) == 0
    assert lanes.enter("a", turn(3))
