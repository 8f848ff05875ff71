"""Which lines are marked as those that decide a rule: ``# S000-23: why`` stands before them."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tools.requirements.places import find_tags

Lines: TypeAlias = set[tuple[str, int]]
"""Paths from the package, and numbers of lines."""


@dataclass(frozen=True)
class Marked:
    """The lines of a rule, as its marks say."""

    heads: Lines = field(default_factory=set)
    """What a mark stands before: a statement; of one that has others in it, the condition; and
    within a statement the line."""
    cases: Lines = field(default_factory=set)
    """What is done under such a condition, without what is done otherwise."""

    def rank(self, path: str, line: int) -> int:
        """0 for what decides, 1 for its case, and ELSEWHERE."""
        near = (self.heads, self.cases)
        return next((rank for rank, lines in enumerate(near) if (path, line) in lines), ELSEWHERE)


ELSEWHERE = 2
NOWHERE = Marked()


def marks(source: Path) -> dict[str, Marked]:
    """The marked lines of a package, by rule."""
    found: defaultdict[str, Marked] = defaultdict(Marked)
    trees: dict[str, ast.Module] = {}
    for tag in find_tags(source):
        path = tag.place.path
        if path not in trees:
            trees[path] = ast.parse((source / path).read_text())
        head, case = _around(trees[path], tag.line)
        for rule in tag.rules:
            found[rule].heads.update((path, line) for line in head)
            found[rule].cases.update((path, line) for line in case)
    return dict(found)


def _around(tree: ast.Module, mark: int) -> tuple[range, range]:
    """The lines of what is below a mark, or beside it, and of its case."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    below = min((node.lineno for node in nodes if node.lineno >= mark), default=mark)
    within = [n for n in nodes if isinstance(n, ast.stmt) and n.lineno <= below <= _last(n)]
    statement = max((n for n in within if n.lineno == below), key=_size, default=None)
    head, case = range(below, below + 1), range(0)
    if statement is not None:
        body = getattr(statement, "body", None)
        head = range(below, (body[0].lineno if body else _last(statement) + 1))
        case = range(body[0].lineno, _last(body[-1]) + 1) if body else case
    return head, case


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _size(node: ast.stmt) -> int:
    return _last(node) - node.lineno
