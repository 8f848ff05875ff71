"""What several processes answer, as one."""

from __future__ import annotations

from tests.hold.router import worst
from tests.hold.table import AT_A_FRONT, at_a_front


def hold(cpu: float, name: str) -> dict[str, object]:
    return {"cpu": cpu, "gc": 0.0, "name": name}


def test_the_longest_hold_of_all_processes_counts() -> None:
    home = {"number": 1, "passed": hold(0.01, "a"), "running": 0.2, "cpu": 1.0, "where": {"x": 1}}
    front = {"number": 1, "passed": hold(0.04, "b"), "running": 0.0, "cpu": 0.5, "where": {}}
    assert worst([home]) == home
    merged = worst([home, front])
    assert merged["passed"] == hold(0.04, "b")
    assert (merged["running"], merged["cpu"], merged["where"]) == (0.2, 1.5, {"x": 1})


def test_it_is_done_when_all_have_done_it() -> None:
    assert worst([{"done": True}, {"done": True}])["done"]
    assert not worst([{"done": True}, {"done": False}])["done"]


def test_what_is_played_at_a_front_is_played_in_one_process_too() -> None:
    played = at_a_front()
    assert {case.name for case in played} == AT_A_FRONT
    assert {case.wire for case in played} == {"workers"}
