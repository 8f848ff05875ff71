"""The tests, the rules that each shows, and the one that a reader should see first.

A test of a conformance class is named as it stands in its suite, whichever implementations
inherit it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.requirements.rules import heading, named

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
LAYERS = (
    *("core", "expr", "wire", "crypto", "agent", "journal", "store", "conformance", "simulation"),
    *("server", "client", "cli", "strangers", "interop", "crash", "pipeline", "ntf_server"),
)
"""Folders of tests, those nearest to what decides first."""


@dataclass(frozen=True)
class RuleTest:
    """A test and what its docstring names."""

    name: str
    """The path, then the class if there is one, then the function, joined by ``::``."""
    docstring: str

    @property
    def rules(self) -> set[str]:
        return named(self.docstring)

    @property
    def layer(self) -> int:
        """From 0, the nearest to what decides."""
        folder = self.name.split("/")[1]
        return LAYERS.index(folder) if folder in LAYERS else len(LAYERS)


def find_tests(root: Path) -> list[RuleTest]:
    """Every test below root/tests, in order."""
    files = sorted([*root.glob("tests/**/test_*.py"), *root.glob("tests/conformance/*.py")])
    return [
        RuleTest(f"{path.relative_to(root).as_posix()}::{name}", ast.get_docstring(test) or "")
        for path in files
        for name, test in _tests_in(ast.parse(path.read_text()).body)
    ]


def by_rule(tests: Iterable[RuleTest]) -> dict[str, list[RuleTest]]:
    """The tests of each rule that has any, in their order."""
    found: dict[str, list[RuleTest]] = {}
    for test in tests:
        for rule in test.rules:
            found.setdefault(rule, []).append(test)
    return found


def leading(rule: str, tests: Iterable[RuleTest]) -> RuleTest:
    """The test to read first: its docstring begins with the rule, and its layer is the nearest."""

    def distance(test: RuleTest) -> tuple[bool, int, int]:
        head = heading(test.docstring)
        return rule not in head, test.layer, head.index(rule) if rule in head else 0

    return min(tests, key=distance)


def _tests_in(
    body: Iterable[ast.stmt], within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_in(node.body, f"{within}{node.name}::")
        elif isinstance(node, FUNCTION) and node.name.startswith("test_"):
            yield f"{within}{node.name}", node
