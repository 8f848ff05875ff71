"""Marks say which lines decide a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.marks import ELSEWHERE, NOWHERE, Marked, marks

SOURCE = """\
# S000-1: a value of its own.
LIMIT = 3


class Gate:
    def offer(self, size):
        taken = self.taken
        # S000-2, S000-3: as much as there is room for.
        if taken + size > LIMIT:
            return False
        elif size < 0:
            return True
        self.taken += size  # S000-4: and it is counted.
        return (
            taken > 0
            # S000-5: within a statement it is the line.
            and size > 0
        )
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Marked]:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text(SOURCE)
    return marks(tmp_path)


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ("S000-1", [2]),
        ("S000-2", [9]),
        ("S000-3", [9]),
        ("S000-4", [13]),
        ("S000-5", [17]),
    ],
)
def test_a_mark_is_for_what_is_below_it_or_beside_it(
    found: dict[str, Marked], rule: str, lines: list[int]
) -> None:
    assert found[rule].heads == {("core/a.py", line) for line in lines}


def test_under_a_condition_is_its_case(found: dict[str, Marked]) -> None:
    assert found["S000-2"].cases == {("core/a.py", 10)}
    assert found["S000-4"].cases == set()


def test_what_decides_comes_first_and_then_its_case(found: dict[str, Marked]) -> None:
    ranks = [found["S000-2"].rank("core/a.py", line) for line in (9, 10, 12)]
    assert ranks == [0, 1, ELSEWHERE]
    assert NOWHERE.rank("core/a.py", 9) == ELSEWHERE
