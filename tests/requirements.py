"""Which test shows which rule: ``python -m tests.requirements`` fills docs/requirements.md.

A test says in its docstring which rules it shows: ``S000-13``, ``C44``, ``R-26`` of Redis, ``R26``,
``A26`` and ``V26`` of SMP, or a range as in ``S003-60..S003-63`` and ``C23-C25``. The texts of the
page, the parts and the remarks are written by hand; only the places where a rule is shown are
written here. A test of a conformance class is named as it stands in its suite, whichever
implementations inherit it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "requirements.md"

RULES_OF = {
    "S000-": 99,
    "S001-": 94,
    "S002-": 87,
    "S003-": 83,
    "S004-": 56,
    "C": 91,
    "R-": 82,
    "R": 41,
    "A": 115,
    "V": 48,
}
"""How many rules each document has, by what their numbers begin with."""

RULE = rf"(?:{'|'.join(RULES_OF)})\d+"
NAMED = re.compile(
    rf"\b(?P<first>{RULE})(?:\s*(?:\.\.|-|–|\bto\b)\s*(?P<last>{RULE})|\.\.(?P<number>\d+))?\b"
)
ROW = re.compile(rf"\| (?P<rule>{RULE}) \| (?P<text>.*?) \| (?P<shown>.*) \|")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
LATER = {"agent", "notification server"}
NOT_PLANNED = "not planned: "


@dataclass(frozen=True)
class Row:
    rule: str
    text: str
    place: str
    """Test ids in backticks, or the part that brings the rule."""
    notes: tuple[str, ...] = ()
    """Remarks."""

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`(tests/[^`]+)`", self.place)

    @property
    def is_later(self) -> bool:
        reason = self.place.removeprefix(NOT_PLANNED)
        return self.place in LATER or (reason != self.place and bool(reason))

    def shown_by(self, tests: Iterable[str]) -> Row:
        """The row with these tests."""
        return replace(self, place="<br>".join(f"`{test}`" for test in tests))

    def __str__(self) -> str:
        return f"| {self.rule} | {self.text} | {'; '.join((self.place, *self.notes))} |"


def rules() -> list[str]:
    """Every rule, in the order of the page."""
    return [
        f"{prefix}{number}" for prefix, count in RULES_OF.items() for number in range(1, count + 1)
    ]


def named(docstring: str) -> set[str]:
    """The rules that a docstring names."""
    found: set[str] = set()
    for match in NAMED.finditer(docstring):
        prefix, first = _split(match["first"])
        found.add(match["first"])
        if match["last"] is not None:
            found.add(match["last"])
            other, last = _split(match["last"])
            if other != prefix:
                continue
        else:
            last = int(match["number"] or first)
        found.update(f"{prefix}{number}" for number in range(first, last + 1))
    return found


def find_tests(root: Path) -> dict[str, set[str]]:
    """The id of every test below root/tests, in order, with the rules that it names."""
    files = sorted([*root.glob("tests/**/test_*.py"), *root.glob("tests/conformance/*.py")])
    return {
        f"{path.relative_to(root).as_posix()}::{name}": named(ast.get_docstring(test) or "")
        for path in files
        for name, test in _tests_in(ast.parse(path.read_text()).body)
    }


def read(page: str) -> list[Row]:
    """The rows of the page that have a rule."""
    return [row for line in page.splitlines() if (row := _row(line)) is not None]


def fill(page: str, tests: Mapping[str, set[str]]) -> str:
    """The page, with the tests that show each rule. A rule without one keeps what it says."""
    lines = []
    for line in page.splitlines():
        row = _row(line)
        showing = [test for test, shows in tests.items() if row is not None and row.rule in shows]
        lines.append(str(row.shown_by(showing)) if row is not None and showing else line)
    return "\n".join(lines) + "\n"


def _split(rule: str) -> tuple[str, int]:
    number = re.search(r"\d+$", rule)
    assert number is not None, "a rule ends in a number"
    return rule[: number.start()], int(number[0])


def _row(line: str) -> Row | None:
    match = ROW.fullmatch(line)
    if match is None:
        return None
    place, *notes = match["shown"].split("; ")
    return Row(match["rule"], match["text"], place, tuple(notes))


def _tests_in(
    body: Iterable[ast.stmt], within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_in(node.body, f"{within}{node.name}::")
        elif isinstance(node, FUNCTION) and node.name.startswith("test_"):
            yield f"{within}{node.name}", node


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m tests.requirements [--check]", file=sys.stderr)
        return 2
    before = PAGE.read_text()
    tests = find_tests(ROOT)
    after = fill(before, tests)
    if arguments:
        differences = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        wrong = [line for line in differences if re.match(r"[-+]\|", line)]
    else:
        PAGE.write_text(after)
        wrong = []
    for row in read(after):
        gone = [test for test in row.tests if test not in tests or row.rule not in tests[test]]
        wrong.extend(f"{row.rule}: {test} does not show it; which part does?" for test in gone)
    known = set(rules())
    for test, shows in tests.items():
        wrong.extend(f"{test} names {rule}, which is no rule" for rule in sorted(shows - known))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
