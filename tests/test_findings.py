"""The tests that the page of findings names are there; those of numbered ones say the number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.repository import DOCS, ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)?(?:::)?(test_\w+)?`")
REVIEW = range(1, 15)
"""The defects that a review of the pipeline numbered D1 to D14."""


def rows() -> Iterator[list[str]]:
    for line in (DOCS / "design" / "findings.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" |")]
        if line.startswith("|") and "`tests/" in cells[-1]:
            yield cells


def named(cell: str) -> Iterator[tuple[str, str]]:
    """The files and tests that a cell names; a test without a file is of the one before it."""
    path = ""
    for match in NAMED.finditer(cell):
        path = match[1] or path
        if match[1] or match[2]:
            yield path, match[2] or ""


def docstrings(path: str) -> dict[str, str]:
    """The tests of a file, and what they say of themselves."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    }


def test_every_test_that_the_findings_name_is_there() -> None:
    missing = [
        (path, test)
        for cells in rows()
        for path, test in named(cells[-1])
        if not (ROOT / path).exists() or (test and test not in docstrings(path))
    ]
    assert missing == []


def test_each_defect_of_the_review_has_a_test_that_says_its_number() -> None:
    told = {
        cells[0]
        for cells in rows()
        for path, test in named(cells[-1])
        if test and docstrings(path)[test].startswith(f"{cells[0]}:")
    }
    assert told == {f"D{number}" for number in REVIEW}
