"""The meaning of an expression, as plainly as it can be written.

A tree walker that shares nothing with `headgate.expr.predicate` but the tree.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.expr.nodes import (
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
)

MIN, MAX = -(2**63), 2**63 - 1


class Stop(Exception):
    def __init__(self, code: str) -> None:
        self.code = code


def evaluate(tree: Tree, properties: Mapping[str, object]) -> bool | str:
    """True, False, or the name of the error."""
    try:
        value = value_of(tree, properties)
        return boolean(value)
    except Stop as stop:
        return stop.code


def value_of(tree: Tree, properties: Mapping[str, object]) -> object:
    match tree:
        case Integer(number):
            return number
        case Text(text):
            return text.encode("utf-8", "surrogateescape")
        case Boolean(flag):
            return flag
        case Exists(name):
            try:
                read(name, properties)
            except Stop:
                return False
            return True
        case Property(name):
            return read(name, properties)
        case Unary("!", operand):
            return not boolean(value_of(operand, properties))
        case Unary(_, operand):
            return in_range(-integer(value_of(operand, properties)))
        case Binary("&&", left, right):
            if not boolean(value_of(left, properties)):
                return False
            return boolean(value_of(right, properties))
        case Binary("||", left, right):
            if boolean(value_of(left, properties)):
                return True
            return boolean(value_of(right, properties))
        case Binary(op, left, right):
            a = value_of(left, properties)
            b = value_of(right, properties)
            if op in ("+", "-", "*", "/", "%"):
                return calculate(op, integer(a), integer(b))
            return compare(op, a, b)


def read(name: str, properties: Mapping[str, object]) -> object:
    """Text is held as its bytes, which is how it is compared."""
    if name not in properties:
        raise Stop("NAME")
    value = properties[name]
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and MIN <= value <= MAX:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise Stop("TYPE")


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise Stop("TYPE")


def integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Stop("TYPE")


def in_range(number: int) -> int:
    if MIN <= number <= MAX:
        return number
    raise Stop("ARITHMETIC")


def calculate(op: str, a: int, b: int) -> int:
    if op == "+":
        return in_range(a + b)
    if op == "-":
        return in_range(a - b)
    if op == "*":
        return in_range(a * b)
    if b == 0 or (a == MIN and b == -1):
        raise Stop("ARITHMETIC")
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient if op == "/" else a - b * quotient


def compare(op: str, a: object, b: object) -> bool:
    if type(a) is not type(b):
        raise Stop("TYPE")
    if op == "==":
        return a == b
    if op == "!=":
        return a != b
    if isinstance(a, bool):
        raise Stop("TYPE")
    assert isinstance(a, int | bytes), "text is bytes here"
    less, equal = a < b, a == b  # type: ignore[operator]
    return {"<": less, "<=": less or equal, ">": not (less or equal), ">=": not less}[op]
