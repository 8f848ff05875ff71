"""Where the code decides: comments such as ``# S000-23: GET and SUB exclude each other.``"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.requirements.rules import heading, named

EMPTY = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that are no code."""


@dataclass(frozen=True, order=True)
class Place:
    """What decides: a function, a class, or a value that has a name."""

    path: str
    """From the package."""
    name: str
    """Qualified; empty for a line that is in none."""

    def __str__(self) -> str:
        return f"{self.path}::{self.name}" if self.name else self.path

    @property
    def cell(self) -> str:
        """As the pages show it."""
        return f"`{self.path}` `{self.name}`" if self.name else f"`{self.path}`"


@dataclass(frozen=True)
class Tag:
    """A comment that names rules."""

    place: Place
    line: int
    comment: str

    @property
    def rules(self) -> list[str]:
        return heading(self.comment)

    @property
    def is_plain(self) -> bool:
        """Whether it begins with all of its rules and goes on with a reason."""
        before, colon, why = self.comment.partition(": ")
        return bool(colon and why) and set(self.rules) == named(self.comment) == named(before)


def find_tags(source: Path) -> list[Tag]:
    """All comments of the package that name a rule, in order."""
    return [
        Tag(Place(path.relative_to(source).as_posix(), name), line, comment)
        for path in sorted(source.rglob("*.py"))
        for name, line, comment in _comments(path.read_text())
    ]


def _comments(text: str) -> Iterator[tuple[str, int, str]]:
    """Comments that name a rule: where each belongs, its line, and its words."""
    if not any(named(line) for line in text.splitlines() if "#" in line):
        return
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = sorted({token.start[0] for token in tokens if token.type not in EMPTY})
    tree = ast.parse(text)
    for token in tokens:
        if token.type == tokenize.COMMENT and named(token.string):
            line = token.start[0]
            below = next((each for each in code if each >= line), line)
            yield ".".join(_scope(tree, below)), line, token.string.lstrip("# ")


def _scope(node: ast.AST, line: int) -> Iterator[str]:
    """The names of what the line is in, from the outside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            if first <= line <= (child.end_lineno or first):
                yield child.name
                yield from _scope(child, line)
        elif isinstance(child, ast.stmt) and child.lineno <= line <= (child.end_lineno or 0):
            if isinstance(node, (ast.Module, ast.ClassDef)):
                yield from _value(child)
            yield from _scope(child, line)


def _value(statement: ast.stmt) -> Iterator[str]:
    """What a statement gives a name to."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return
    if isinstance(target, ast.Name):
        yield target.id
