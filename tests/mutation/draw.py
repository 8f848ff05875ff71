"""Which rules and which lines are looked at. The same seed draws the same, wherever a module is."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from tests.mutation.changes import Change, changes_of
from tests.mutation.marks import ELSEWHERE, NOWHERE, Marked
from tests.mutation.reach import Ran

LEFT_OUT = ("tests/conformance/", "tests/pipeline/", "tests/crash/", "tests/cli/", "tests/store/")
"""Suites that other tests inherit, and tests of what is not in these parts."""
QUICK = ("tests/core/", "tests/expr/", "tests/wire/")
"""Tests without sockets and processes. They say which lines are a rule's."""
LAW = "::test_any_history"
"""Drawn histories reach every line there is and take minutes when lines are watched."""
LONG_SECONDS = 2
"""Tests that take so long, as laws may, are tried when the others have been."""


@dataclass(frozen=True)
class Mutant:
    """A change of a line of a rule."""

    rule: str
    path: str
    """Of the module, from the package."""
    change: Change
    tests: tuple[str, ...]
    """Those of the rule that reach the line, the fastest first."""
    seconds: float
    """How long all of them take as long as nothing is changed."""
    slow: tuple[str, ...] = ()
    """Laws, those that take long, and those over sockets: who survives the others has to survive
    them too."""

    @property
    def name(self) -> str:
        """What it is known by; it has no number of a line, as lines move."""
        change = self.change
        return f"{self.rule} {self.path} {change.function} {change.what} {change.turn}"


def shown(rules: str) -> dict[str, tuple[str, ...]]:
    """Of requirements.json: the tests of each rule that can be run by themselves."""
    named = {
        rule: tuple(test for test in entry["tests"] if not test.startswith(LEFT_OUT))
        for rule, entry in json.loads(rules).items()
    }
    return {rule: tests for rule, tests in named.items() if tests}


def ranked(seed: int, rules: Iterable[str]) -> list[str]:
    """In the order in which they are drawn."""
    return sorted(rules, key=lambda rule: _rank(seed, rule))


def is_quick(test: str) -> bool:
    return test.startswith(QUICK) and LAW not in test


class Lot:
    """Draws. The lines of a rule are those that are marked with it; without marks, those that most
    of its tests reach and few others do."""

    def __init__(
        self,
        seed: int,
        tests_of: Mapping[str, tuple[str, ...]],
        ran: Mapping[str, Ran],
        source: Path,
        marks: Mapping[str, Marked] | None = None,
    ) -> None:
        self._seed = seed
        self._marks = marks
        self._tests_of = tests_of
        self._ran = ran
        self._source = source
        self._changes: dict[str, list[Change]] = {}
        self._tests_at: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        for test, known in ran.items():
            for path, lines in known.lines.items():
                for line in lines:
                    self._tests_at[path, line].add(test)

    def has_lines(self, rule: str) -> bool:
        return bool(self._candidates(rule))

    def mutants(self, rule: str, count: int) -> list[Mutant]:
        """So many changes of the rule's own lines, of as many lines."""
        chosen: dict[tuple[str, int], Mutant] = {}
        marked = self._marked(rule)
        for path, change in sorted(
            self._candidates(rule),
            key=lambda each: (
                marked.rank(each[0], each[1].line),
                -self._nearness(rule, each[0], each[1].line),
                _rank(self._seed, rule, each[1].function, each[1].what, str(each[1].turn)),
            ),
        ):
            if len(chosen) < count and (path, change.line) not in chosen:
                chosen[path, change.line] = self._mutant(rule, path, change)
        return list(chosen.values())

    def _nearness(self, rule: str, path: str, line: int) -> float:
        """From 0 to 1: how much tests that reach the line and tests of the rule are the same (known
        as Ochiai's measure where faults are sought)."""
        own, reaching = set(self._able(rule)), self._tests_at[path, line]
        return len(own & reaching) / sqrt(len(own) * len(reaching))

    def _mutant(self, rule: str, path: str, change: Change) -> Mutant:
        tests = sorted(
            (test for test in self._able(rule) if self._ran[test].reaches(path, change.line)),
            key=lambda test: (self._ran[test].seconds, test),
        )
        short = [test for test in tests if self._ran[test].seconds < LONG_SECONDS] or tests[:1]
        seconds = sum(self._ran[test].seconds for test in short)
        others = [test for test in self._tests_of[rule] if not is_quick(test)]
        slow = (*tests[len(short) :], *others)
        return Mutant(rule, path, change, tuple(short), seconds, slow)

    def _marked(self, rule: str) -> Marked:
        return (self._marks or {}).get(rule, NOWHERE)

    def _candidates(self, rule: str) -> list[tuple[str, Change]]:
        marked = self._marked(rule)
        return [
            (path, change)
            for path, lines in sorted(self._lines(self._able(rule)).items())
            for change in self._changes_of(path)
            if change.line in lines
            and (self._marks is None or marked.rank(path, change.line) != ELSEWHERE)
        ]

    def _able(self, rule: str) -> list[str]:
        """The quick tests of a rule that pass as long as nothing is changed."""
        return [t for t in self._tests_of[rule] if is_quick(t) and self._ran[t].is_passed]

    def _lines(self, tests: Iterable[str]) -> dict[str, set[int]]:
        found: defaultdict[str, set[int]] = defaultdict(set)
        for test in tests:
            for path, lines in self._ran[test].lines.items():
                found[path] |= lines
        return found

    def _changes_of(self, path: str) -> list[Change]:
        if path not in self._changes:
            self._changes[path] = changes_of((self._source / path).read_text())
        return self._changes[path]


def _rank(seed: int, *names: str) -> bytes:
    return hashlib.sha256(repr((seed, *names)).encode()).digest()
