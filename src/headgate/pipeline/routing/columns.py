"""Tree to column: the meaning of `expr/predicate.py`, said to Spark.

A condition is true, false, or NULL where the evaluation has no value: the message lacks a
property, an operand is of a wrong type, a number leaves 64 bits. An operand is a column for each
type that it may have, of which at most one is not NULL, so nothing is ever converted. All of it
holds with ANSI mode on and off, and nothing of it raises.

Spark has no name for a part of an expression that is needed twice; a part that is written twice
is compiled twice, and in a deep tree that doubles at every level. So a part is written once,
unless it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial, reduce
from operator import or_
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.expr.nodes import (
    COMPARISON,
    EQUALITY,
    JUNCTION,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
    kind_of,
    walk,
)
from headgate.expr.predicate import Failure
from headgate.expr.types import INT64_MIN, Kind, octets

Operand: TypeAlias = Mapping[Kind, Column]
"""A column for each type that a value may have."""

Lookup: TypeAlias = Callable[[str], Operand]
"""The columns of a property."""

FIELDS = {Kind.INTEGER: "i", Kind.STRING: "s", Kind.BOOLEAN: "b"}
"""Where the value of a property is in its struct."""

SMALL = 7
"""Parts of a tree that is small enough to be written more than once: ``x + 1 > y * 2``."""

TYPES = {Kind.INTEGER: "bigint", Kind.STRING: "string", Kind.BOOLEAN: "boolean"}


def in_map(properties: str | Column = "properties") -> Lookup:
    """Properties in a map from their names to structs, as the journal has them."""
    column = F.col(properties) if isinstance(properties, str) else properties

    @cache
    def find(name: str) -> Operand:
        value = F.try_element_at(column, F.lit(name))
        return {kind: value[field] for kind, field in FIELDS.items()}

    return find


def condition(tree: Tree, lookup: Lookup) -> Column:
    """Whether a message matches; NULL if the evaluation has no value."""
    return _boolean(_right_nested(tree), lookup)


def matches(tree: Tree, lookup: Lookup) -> Column:
    """Whether a message matches. An error does not, and neither does its negation."""
    return F.coalesce(condition(tree, lookup), F.lit(False))


def failure(tree: Tree, lookup: Lookup) -> Column:
    """Why the evaluation has no value: the name of a `Failure`, or NULL if it has one."""
    return _unless(Kind.BOOLEAN, _right_nested(tree), lookup)


# Values.


def _typed(tree: Tree, lookup: Lookup) -> Operand:
    match tree:
        case Property(name):
            return lookup(name)
        case Exists(name):
            return {Kind.BOOLEAN: _is_set(lookup(name))}
        case Integer(number):
            return {Kind.INTEGER: _bigint(number)}
        case Text(text):
            return {Kind.STRING: _text(text)}
        case Boolean(flag):
            return {Kind.BOOLEAN: F.lit(flag)}
        case Unary("!", operand):
            return {Kind.BOOLEAN: ~_boolean(operand, lookup)}
        case Unary(_, operand):
            return {Kind.INTEGER: _negated(_integer(operand, lookup))}
        case Binary(op, left, right) if op in JUNCTION:
            return {Kind.BOOLEAN: _junction(op, left, right, lookup)}
        case Binary(op, left, right) if op in COMPARISON:
            return {Kind.BOOLEAN: _compared(op, _typed(left, lookup), _typed(right, lookup))}
        case Binary():
            return {Kind.INTEGER: _computed(tree, lookup)}


def _text(text: str) -> Column:
    if text.isascii():
        return F.lit(text)
    # Broken UTF-8 is surrogates in Python, and they have no way to Spark. Their bytes have.
    return F.lit(octets(text)).cast("string")


def _of(kind: Kind, value: Operand) -> Column:
    """The value as this type; NULL if it is of another."""
    return value[kind] if kind in value else F.lit(None).cast(TYPES[kind])


def _is_set(value: Operand) -> Column:
    return reduce(or_, (column.isNotNull() for column in value.values()))


def _boolean(tree: Tree, lookup: Lookup) -> Column:
    return _of(Kind.BOOLEAN, _typed(tree, lookup))


def _integer(tree: Tree, lookup: Lookup) -> Column:
    return _of(Kind.INTEGER, _typed(tree, lookup))


def _junction(op: str, left: Tree, right: Tree, lookup: Lookup) -> Column:
    """The right side counts only if the left one leaves it open, and an error of the left one
    is an error. Spark's own ``NULL OR TRUE`` would be true."""
    one, other = _boolean(left, lookup), _boolean(right, lookup)
    # Without a junction in it, the left one cannot double what is doubled already.
    if not any(isinstance(part, Binary) and part.op in JUNCTION for part in walk(left)):
        if op == "&&":
            return F.when(one, other).when(~one, F.lit(False))
        return F.when(one, F.lit(True)).when(~one, other)
    if op == "||":
        return ~_both_once(~one, ~other)
    return _both_once(one, other)


def _both_once(one: Column, other: Column) -> Column:
    """``one && other`` with each written once: 0 is false, 1 true, 2 an error of the other."""
    outcome = one.cast("int") * F.coalesce(other.cast("int"), F.lit(2))
    return F.get(F.array(F.lit(False), F.lit(True)), outcome)


def _compared(op: str, one: Operand, other: Operand) -> Column:
    kinds = [kind for kind in one if kind in other]
    if op not in EQUALITY:
        kinds = [kind for kind in kinds if kind is not Kind.BOOLEAN]
    if not kinds:
        return F.lit(None).cast("boolean")
    return F.coalesce(*(COMPARE[op](one[kind], other[kind]) for kind in kinds))


COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _computed(tree: Binary, lookup: Lookup) -> Column:
    op, left, right = tree.op, tree.left, tree.right
    if op in COMPUTE:
        one, other = _integer(left, lookup), _integer(right, lookup)
        return COMPUTE[op](_in_place(op, left, one), _in_place(op, right, other))
    if isinstance(right, Integer):
        return _divided_by(op, _integer(left, lookup), right.value)
    if isinstance(left, Property | Integer) and isinstance(right, Property):
        return _divided(op, _integer(left, lookup), _integer(right, lookup))
    return F.get(_listed(tree, lookup), 0)


def _listed(tree: Tree, lookup: Lookup) -> Column:
    """An integer as the only one of an array: there a division can name its operands. Divisions
    of divisions pass it on, so that the column is not deeper than it must be."""
    match tree:
        case Binary("/" | "%" as op, left, right) if not isinstance(right, Integer):
            divide = partial(_divided, op)
            return F.zip_with(_listed(left, lookup), _listed(right, lookup), divide)
        case _:
            return F.array(_integer(tree, lookup))


COMPUTE: Mapping[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
}


def _in_place(op: str, operand: Tree, value: Column) -> Column:
    """An operand that stays where it is. Spark brings sums and products into an order of its own,
    literals last, also where an overflow is NULL: then it happens elsewhere, or not at all. It
    does not look through a bitwise operator."""
    is_nested = isinstance(operand, Binary) and operand.op == op and op in "+*"
    return value.bitwiseOR(_bigint(0)) if is_nested else value


def _negated(value: Column) -> Column:
    return F.try_subtract(_bigint(0), value)


def _divided_by(op: str, value: Column, divisor: int) -> Column:
    if divisor == 0:
        return F.lit(None).cast("bigint")
    if divisor == -1:  # the least number has no negative
        negated = _negated(value)
        return negated if op == "/" else negated.bitwiseAND(_bigint(0))
    by = _bigint(divisor)
    return F.call_function("div", value, by) if op == "/" else value % by


def _divided(op: str, value: Column, by: Column) -> Column:
    """Towards zero; NULL for what has no result. The least number divided by -1 has none,
    although Spark knows a remainder."""
    has_result = (by != _bigint(0)) & ((by != _bigint(-1)) | (value != _bigint(INT64_MIN)))
    return F.when(has_result, F.call_function("div", value, by) if op == "/" else value % by)


def _bigint(number: int) -> Column:
    """A literal of the right type: Spark goes through the whole plan once more for each level of
    lambdas in which it has to convert one, and gives up after a hundred times."""
    return F.lit(number).cast("bigint")


# Errors: operands come before what is done with them, the left one first.


def _why(tree: Tree, lookup: Lookup) -> Column:
    """The error of a tree, or NULL if it has a value of any type."""
    match tree:
        case Property(name):
            return F.when(~_is_set(lookup(name)), F.lit(Failure.NAME.value))
        case Binary(op, left, right) if op in JUNCTION and _is_small(left):
            is_open = _boolean(left, lookup) if op == "&&" else ~_boolean(left, lookup)
            rest = F.when(is_open, _unless(Kind.BOOLEAN, right, lookup))
            return F.coalesce(_unless(Kind.BOOLEAN, left, lookup), rest)
        case Unary() | Binary() if not _is_small(tree):
            return F.get(F.transform(_outcome(tree, lookup), lambda it: it["e"]), 0)
        case Unary("!", operand):
            return _unless(Kind.BOOLEAN, operand, lookup)
        case Unary(_, operand):
            overflow = _lacks(_integer(tree, lookup), Failure.ARITHMETIC)
            return F.coalesce(_unless(Kind.INTEGER, operand, lookup), overflow)
        case Binary(op, left, right) if op in COMPARISON:
            mistyped = _lacks(_boolean(tree, lookup), Failure.TYPE)
            return F.coalesce(_why(left, lookup), _why(right, lookup), mistyped)
        case Binary(_, left, right):
            return F.coalesce(
                _why(left, lookup),
                _why(right, lookup),
                _lacks(_integer(left, lookup), Failure.TYPE),
                _lacks(_integer(right, lookup), Failure.TYPE),
                _lacks(_integer(tree, lookup), Failure.ARITHMETIC),
            )
        case _:
            return F.lit(None).cast("string")


def _unless(kind: Kind, tree: Tree, lookup: Lookup) -> Column:
    """The error of a tree whose value must be of a type, or NULL if it is."""
    if kind_of(tree) is kind:
        return _why(tree, lookup)
    return F.coalesce(_why(tree, lookup), _lacks(_of(kind, _typed(tree, lookup)), Failure.TYPE))


def _lacks(value: Column, why: Failure) -> Column:
    return F.when(value.isNull(), F.lit(why.value))


def _is_small(tree: Tree) -> bool:
    """Whether the tree may be written for its value and for its error."""
    return sum(1 for _ in walk(tree)) <= SMALL


# In a large tree that would be written too often. A variable of a lambda is the one name that
# Spark has for a part; so an outcome is an array of one struct, and whatever is done with it is
# a lambda.


def _outcome(tree: Tree, lookup: Lookup) -> Column:
    """An array of one struct: the value in a field for its type, or the error in ``e``."""
    match tree:
        case Unary(op, operand) if not _is_small(tree):
            return F.transform(_outcome(operand, lookup), lambda it: _applied(op, operand, it))
        case Binary(op, left, right) if not _is_small(tree):
            return F.zip_with(
                _outcome(left, lookup),
                _outcome(right, lookup),
                lambda one, other: _combined(op, left, right, one, other),
            )
        case _:
            value = _typed(tree, lookup)
            return F.array(
                _operand({kind: _of(kind, value) for kind in _kinds(tree)}, _why(tree, lookup))
            )


def _operand(value: Operand, error: Column) -> Column:
    fields = [column.alias(FIELDS[kind]) for kind, column in value.items()]
    return F.struct(*fields, error.alias("e"))


def _kinds(tree: Tree) -> Iterable[Kind]:
    known = kind_of(tree)
    return Kind if known is None else (known,)


def _field(kind: Kind, tree: Tree, it: Column) -> Column:
    """The value as this type, out of the outcome of a tree."""
    return _of(kind, {each: it[FIELDS[each]] for each in _kinds(tree)})


def _applied(op: str, operand: Tree, it: Column) -> Column:
    kind = Kind.BOOLEAN if op == "!" else Kind.INTEGER
    value = _field(kind, operand, it)
    error = F.coalesce(it["e"], _lacks(value, Failure.TYPE))
    if op == "!":
        return _operand({kind: ~value}, error)
    value = _negated(value)
    return _operand({kind: value}, F.coalesce(error, _lacks(value, Failure.ARITHMETIC)))


def _combined(op: str, left: Tree, right: Tree, one: Column, other: Column) -> Column:
    if op in JUNCTION:
        a, b = _field(Kind.BOOLEAN, left, one), _field(Kind.BOOLEAN, right, other)
        is_open = a if op == "&&" else ~a
        rest = F.when(is_open, F.coalesce(other["e"], _lacks(b, Failure.TYPE)))
        error = F.coalesce(one["e"], _lacks(a, Failure.TYPE), rest)
        return _operand({Kind.BOOLEAN: F.when(is_open, b).otherwise(a)}, error)
    if op in COMPARISON:
        value = _compared(
            op,
            {kind: one[FIELDS[kind]] for kind in _kinds(left)},
            {kind: other[FIELDS[kind]] for kind in _kinds(right)},
        )
        error = F.coalesce(one["e"], other["e"], _lacks(value, Failure.TYPE))
        return _operand({Kind.BOOLEAN: value}, error)
    a, b = _field(Kind.INTEGER, left, one), _field(Kind.INTEGER, right, other)
    value = COMPUTE[op](a, b) if op in COMPUTE else _divided(op, a, b)
    error = F.coalesce(
        one["e"],
        other["e"],
        _lacks(a, Failure.TYPE),
        _lacks(b, Failure.TYPE),
        _lacks(value, Failure.ARITHMETIC),
    )
    return _operand({Kind.INTEGER: value}, error)


# Form.


def _right_nested(tree: Tree) -> Tree:
    """The tree with ``(a && b) && c`` as ``a && (b && c)``, which is evaluated alike: the
    left side of a junction is written twice, so it had better be the small one."""
    match tree:
        case Unary(op, operand):
            return Unary(op, _right_nested(operand))
        case Binary(op, Binary(inner, a, b), c) if op == inner and op in JUNCTION:
            return _right_nested(Binary(op, a, Binary(op, b, c)))
        case Binary(op, left, right):
            return Binary(op, _right_nested(left), _right_nested(right))
        case _:
            return tree
