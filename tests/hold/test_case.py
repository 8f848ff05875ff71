"""How many are allowed is found by trying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hold.__main__ import merged, told
from tests.hold.case import Part, Result, climb, is_refusal
from tests.hold.table import CASES


@pytest.mark.parametrize(
    ("most", "allowed", "found"),
    [
        (1000, 1000, "ok"),
        (1000, 0, "refused: too many"),
        (1, 0, "refused: too many"),
        (1, 1, "ok"),
        (1000, 999, "937 allowed; 1,000 refused: too many"),
        (131_071, 40_000, "38,911 allowed; 131,071 refused: too many"),
    ],
)
async def test_the_most_that_is_allowed_is_found_and_tried(
    most: int, allowed: int, found: str
) -> None:
    async def attempt(count: int) -> str:
        assert 1 <= count <= most
        return "ok" if count <= allowed else "refused: too many"

    assert await climb(most, attempt) == found


def test_to_be_closed_is_to_be_refused() -> None:
    assert is_refusal("closed")
    assert is_refusal("refused: ERR no")
    assert not is_refusal("1,000 answers")


def test_results_of_several_runs_are_one(tmp_path: Path) -> None:
    """Of a case that was played twice the later one counts."""
    first, second = CASES[0], CASES[1]
    results = [
        Result(second, "once", sent=Part(hold=0.5), mistakes=1),
        Result(first, "alone", left=Part(hold=0.1)),
        Result(second, "again", sent=Part(hold=0.2, where="there"), is_ended=True),
    ]
    files = [tmp_path / "a", tmp_path / "b"]
    for file, some in zip(files, (results[:1], results[1:]), strict=True):
        file.write_text("".join(json.dumps(told(result, 0.0)) + "\n" for result in some))
    assert merged(files) == [results[1], results[2]]
