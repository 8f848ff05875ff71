"""Explanation of an expression for people: its tree, its keys, warnings, and the place of an
error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.errors import ExpressionError
from headgate.expr.index_keys import Key, keys_of
from headgate.expr.nodes import (
    ARITHMETIC,
    EQUALITY,
    JUNCTION,
    ORDER,
    Binary,
    Property,
    Text,
    Tree,
    Unary,
    kind_of,
    text_of,
    walk,
)
from headgate.expr.parser import DEFAULT_LIMITS, ExpressionLimits, Reading, read
from headgate.expr.predicate import Operand, Writer, run
from headgate.expr.types import Kind, Properties

WORDS = {b"and": "&&", b"or": "||", b"not": "!", b"AND": "&&", b"OR": "||", b"NOT": "!"}
WORD = re.compile(rb"[a-zA-Z][a-zA-Z0-9_.]*")
LAST_WORD = re.compile(rb"([a-zA-Z][a-zA-Z0-9_.]*)[ \t\n]*\Z")
BOOLEANS = ("true", "false")
HINT_BYTES = 16
"""Bytes searched before the place of an error; a longer search would be quadratic."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an expression is true, false or without a value, part by part."""

    text: str
    tree: Tree
    keys: tuple[Key, ...] | None
    warnings: tuple[str, ...]


def explain(text: str | bytes, limits: ExpressionLimits = DEFAULT_LIMITS) -> Explanation:
    """Explain an expression; raise `ExpressionError` if it is not one."""
    reading = read(text, limits)
    keys = keys_of(reading.tree)
    warnings = list(_warnings(reading))
    if keys == () and not warnings:
        warnings.append("no message can match")
    return Explanation(reading.text, reading.tree, keys, tuple(warnings))


@dataclass(frozen=True, slots=True)
class Traced:
    """A part of an expression, and its value for a message."""

    tree: Tree
    is_reached: bool
    """Whether the evaluation reached it."""
    value: object
    """A boolean, a number, a text, or the `Failure` that ended the evaluation here."""
    parts: tuple[Traced, ...]


def traced(tree: Tree, properties: Properties) -> Traced:
    """The values of all parts of an expression. The root has the value of the predicate."""
    writer = _TracingWriter()
    writer.result(tree)
    reached: list[int] = []
    values: dict[int, object] = {}
    result = run(writer, {"reach": reached.append, "values": values})(properties)
    seen = set(reached)

    def follow(part: Tree, number: int) -> tuple[Traced, int]:
        """The part with this number, in the order of walking a tree, and the next number."""
        found, following = [], number + 1
        for inner in _parts(part):
            each, following = follow(inner, following)
            found.append(each)
        value = values.get(number, result) if number in seen else None
        return Traced(part, number in seen, value, tuple(found)), following

    root, _ = follow(tree, 0)
    return Traced(tree, True, result, root.parts)


def _parts(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
    return ()


class _TracingWriter(Writer):
    """Writes the Python of an evaluation that also records which parts it reached, and their
    values. Parts are numbered in the order of writing: from the left, an operator before its
    operands."""

    def __init__(self) -> None:
        super().__init__(explicit=True)
        self._next = 0

    def result(self, tree: Tree) -> None:
        self.emit(f"return {self.boolean(tree)}")

    def operand(self, tree: Tree) -> Operand:
        number = self._next
        self._next += 1
        self.emit(f"reach({number})")
        text, kind = super().operand(tree)
        self.emit(f"values[{number}] = {text}")
        return text, kind


def literal(value: object) -> str:
    """A value as it is written in expressions; bytes in hex, and a failure by its name."""
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return f"0x{value.hex()}"
        case str() if type(value) is str:
            return text_of(Text(value))
    return str(value)


def drawn(tree: Tree) -> str:
    """The tree, one line per node."""
    return "\n".join(_lines(tree, "", ""))


def drawn_values(root: Traced) -> str:
    """The tree, one line per node, each with its value."""
    lines = list(_lines(root.tree, "", ""))
    width = max(map(len, lines))
    values = (literal(each.value) if each.is_reached else "not reached" for each in _walk(root))
    pairs = zip(lines, values, strict=True)
    return "\n".join(f"{line:<{width}}  {value}" for line, value in pairs)


def _walk(part: Traced) -> Iterator[Traced]:
    yield part
    for each in part.parts:
        yield from _walk(each)


def _lines(tree: Tree, first: str, rest: str) -> Iterator[str]:
    match tree:
        case Unary(op, operand):
            yield first + op
            yield from _lines(operand, f"{rest}└─ ", f"{rest}   ")
        case Binary(op, left, right):
            yield first + op
            yield from _lines(left, f"{rest}├─ ", f"{rest}│  ")
            yield from _lines(right, f"{rest}└─ ", f"{rest}   ")
        case _:
            yield first + text_of(tree)


def _warnings(reading: Reading) -> Iterator[str]:
    for chain in reading.chains:
        yield _chain(chain)
    for part in walk(reading.tree):
        match part:
            case Property(name) if name.lower() in BOOLEANS:
                yield f"{name} is a property name; the literal is {name.lower()}"
            case Binary(op, Property(left), Property(right)) if (
                op in EQUALITY and right.lower() not in BOOLEANS
            ):
                yield (
                    f"{left} and {right} are both property names; "
                    f'quotes make a text: {left} {op} "{right}"'
                )
            case Unary() | Binary() if part not in reading.chains:
                yield from _wrong_types(part)
    kind = kind_of(reading.tree)
    if kind not in (None, Kind.BOOLEAN):
        yield f"the result is {_a(kind)}, not a boolean: no message can match"


def _chain(chain: Binary) -> str:
    assert isinstance(chain.left, Binary), "the left side of a chain is a comparison"
    first = text_of(chain.left)
    second = text_of(Binary(chain.op, chain.left.right, chain.right))
    return (
        f"{text_of(chain)} compares the result of {first}, a boolean; "
        f"did you mean {first} && {second}?"
    )


def _wrong_types(part: Unary | Binary) -> Iterator[str]:
    """Operands whose type is known to be wrong before any message."""
    match part:
        case Binary(op, left, right) if op in EQUALITY | ORDER:
            kinds = kind_of(left), kind_of(right)
            if None not in kinds and kinds[0] != kinds[1]:
                yield (
                    f"{text_of(part)} compares {_a(kinds[0])} with {_a(kinds[1])}: "
                    "always a TYPE error, which never matches"
                )
            elif op in ORDER and Kind.BOOLEAN in kinds:
                yield f"{text_of(part)} orders booleans: always a TYPE error, which never matches"
        case Unary(op, _) | Binary(op, _, _):
            logical = op in JUNCTION or op == "!"
            assert logical or op in ARITHMETIC, "the comparisons were handled above"
            wanted = Kind.BOOLEAN if logical else Kind.INTEGER
            operands = (part.operand,) if isinstance(part, Unary) else (part.left, part.right)
            for operand in operands:
                if kind_of(operand) not in (None, wanted):
                    yield (
                        f"{op} needs {_a(wanted)}, and {text_of(operand)} is "
                        f"{_a(kind_of(operand))}: a TYPE error, which never matches"
                    )


def _a(kind: Kind | None) -> str:
    return f"an {kind}" if kind is Kind.INTEGER else f"a {kind}"


def caret(error: ExpressionError) -> str:
    """The expression on one line, a caret under the place, and the error."""
    shown = "".join(char if char.isprintable() else " " for char in error.text)
    column = len(_source(error)[: error.offset].decode("utf-8", "ignore"))
    lines = [shown, " " * column + "^", str(error)]
    advice = hint(error)
    return "\n".join(lines if advice is None else [*lines, f"hint: {advice}"])


def hint(error: ExpressionError) -> str | None:
    """The probable intention, for the habits of other languages."""
    if error.code != "SYNTAX":
        return None
    source = _source(error)
    here, before = source[error.offset :], source[: error.offset]
    if here[:1] == b"=" and here[:2] != b"==":
        return "use == to compare"
    if here[:1] == b">" and before[-1:] == b"<":
        return "use != for unequal"
    if here[:1] in (b"&", b"|"):
        return f"use {here[:1].decode() * 2}"
    if here[:1] == b"'":
        return 'use " for text'
    word, last = WORD.match(here), LAST_WORD.search(before[-HINT_BYTES:])
    for found in (word and word[0], last and last[1]):
        if found in WORDS:
            return f"use {WORDS[found]}"
    return None


def _source(error: ExpressionError) -> bytes:
    """The bytes that the offset counts: a surrogate that stands for a byte is one."""
    return error.text.encode("utf-8", "replace")
