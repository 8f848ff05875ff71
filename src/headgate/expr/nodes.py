"""The syntax tree of an expression, and its way back to text.

Three classes of literals instead of one, because Python holds ``True == 1`` and two trees are equal
only if they mean the same.

The parser keeps trees at most `DEPTH_MAX` deep, so functions on trees may recurse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from headgate.expr.types import Kind


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether a message has a property."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    value: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class Unary:
    """``!`` or ``-``; ``~`` is read as ``!``."""

    op: str
    operand: Tree


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two parts."""

    op: str
    left: Tree
    right: Tree


Tree: TypeAlias = Property | Exists | Integer | Text | Boolean | Unary | Binary

DEPTH_MAX = 90
"""Levels of a tree. Generated Python nests as deep, and Python allows 100 indentations."""

PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
"""Precedence of the binary operators; the higher binds tighter. All associate to the left."""

PREFIX = 7
"""The precedence of ``!`` and unary ``-``: above every binary operator."""

ATOM = 8

EQUALITY = frozenset({"==", "!="})
ORDER = frozenset({"<", "<=", ">", ">="})
COMPARISON = EQUALITY | ORDER
ARITHMETIC = frozenset("+-*/%")
JUNCTION = frozenset({"&&", "||"})


def kind_of(tree: Tree) -> Kind | None:
    """The type of the tree if it has a value; None for a property, which may have any."""
    match tree:
        case Property():
            return None
        case Integer():
            return Kind.INTEGER
        case Text():
            return Kind.STRING
        case Unary("-", _):
            return Kind.INTEGER
        case Binary(op, _, _) if op in ARITHMETIC:
            return Kind.INTEGER
        case _:
            return Kind.BOOLEAN


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and all its parts, in the order of writing."""
    match tree:
        case Unary(_, operand):
            yield tree
            yield from walk(operand)
        case Binary(_, left, right):
            yield from walk(left)
            yield tree
            yield from walk(right)
        case _:
            yield tree


def names_of(tree: Tree) -> tuple[str, ...]:
    """The properties in a tree, each once, in the order of writing."""
    return tuple(
        dict.fromkeys(part.name for part in walk(tree) if isinstance(part, Property | Exists))
    )


def text_of(tree: Tree) -> str:
    """The expression with as few parentheses as possible; parsing it gives the same tree."""
    match tree:
        case Property(name):
            return name
        case Exists(name):
            return f"exists({name})"
        case Integer(value):
            return str(value)
        case Text(value):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case Boolean(value):
            return "true" if value else "false"
        case Unary("-", Integer(value)) if value >= 0:
            return f"- {value}"  # without the blank it would be a negative literal
        case Unary(op, operand):
            return op + _within(operand, PREFIX)
        case Binary(op, left, right):
            level = PRECEDENCE[op]
            return f"{_within(left, level)} {op} {_within(right, level + 1)}"


def _within(tree: Tree, level: int) -> str:
    text = text_of(tree)
    return text if _level(tree) >= level else f"({text})"


def _level(tree: Tree) -> int:
    match tree:
        case Binary(op, _, _):
            return PRECEDENCE[op]
        case Unary():
            return PREFIX
        case _:
            return ATOM
