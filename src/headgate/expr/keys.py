"""Keys: what a message must have for an expression to match it.

A message can match only if at least one of the keys of the expression holds; so an index
on keys finds every expression that may match, and the predicate decides. Keys may promise
too much, never too little.

The keys of a tree are asked for an outcome, true or false, because ``!`` turns one into the
other. An error is neither: whatever is evaluated in any case must be readable, also
under a ``!``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.expr.nodes import (
    COMPARISON,
    ORDER,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
    kind_of,
)
from headgate.expr.values import (
    INT64_MAX,
    INT64_MIN,
    KIND_OF_CLASS,
    Kind,
    Properties,
    is_readable,
    precedes,
)


@dataclass(frozen=True, slots=True)
class Equal:
    """The property has this value."""

    name: str
    value: int | str | bool
    kind: Kind = field(init=False)
    """Without it the keys of ``x == 1`` and ``x == true`` would be equal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", KIND_OF_CLASS[self.value.__class__])

    def holds(self, properties: Properties) -> bool:
        value = properties.get(self.name)
        return value.__class__ is self.value.__class__ and value == self.value

    def __str__(self) -> str:
        return f"{self.name} is {_shown(self.value)}"


@dataclass(frozen=True, slots=True)
class Range:
    """The property is an integer, or a text, from low to high, both included.

    None is no bound; one of the two is given. For texts the bounds may not belong to the
    expression's own range, which has no name for the text before ``"m"``.
    """

    name: str
    low: int | str | None
    high: int | str | None

    def holds(self, properties: Properties) -> bool:
        value = properties.get(self.name)
        bound = self.high if self.low is None else self.low
        if value.__class__ is not bound.__class__ or not is_readable(value):
            return False
        assert isinstance(value, int | str), "it has the class of the bound"
        return not (
            (self.low is not None and precedes(value, self.low))
            or (self.high is not None and precedes(self.high, value))
        )

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.name} is at most {_shown(self.high)}"
        if self.high is None:
            return f"{self.name} is at least {_shown(self.low)}"
        return f"{self.name} is from {_shown(self.low)} to {_shown(self.high)}"


@dataclass(frozen=True, slots=True)
class Present:
    """The message has the property, with a value that expressions can read."""

    name: str

    def holds(self, properties: Properties) -> bool:
        return is_readable(properties.get(self.name))

    def __str__(self) -> str:
        return f"{self.name} is present"


Key: TypeAlias = Equal | Range | Present
Keys: TypeAlias = tuple[Key, ...] | None
"""None if nothing is known; empty if no message can match."""

NEVER: Keys = ()
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def keys_of(tree: Tree) -> Keys:
    """The keys of which one must hold for a message to match."""
    return _keys(tree, True)


def _keys(tree: Tree, outcome: bool) -> Keys:
    match tree:
        case Property(name):
            return (Equal(name, outcome),)
        case Boolean(value):
            return None if value is outcome else NEVER
        case Exists(name):
            return (Present(name),) if outcome else None
        case Unary("!", operand):
            return _keys(operand, not outcome)
        case Binary("&&" | "||" as op, left, right):
            both = (op == "&&") is outcome  # !(a || b) needs both, as a && b does
            join = _cheaper if both else _either
            # The left side is evaluated whatever the outcome.
            return _cheaper(join(_keys(left, outcome), _keys(right, outcome)), _read(left))
        case Binary(op, left, right) if op in COMPARISON:
            return _comparison(op if outcome else NEGATED[op], left, right)
        case _:
            return NEVER  # an integer or a text is no outcome


def _comparison(op: str, left: Tree, right: Tree) -> Keys:
    kinds = {kind_of(left), kind_of(right)} - {None}
    if len(kinds) > 1 or (op in ORDER and Kind.BOOLEAN in kinds):
        return NEVER
    for one, other, way in ((left, right, op), (right, left, MIRRORED[op])):
        match other:
            case Boolean(value):
                return _cheaper(_keys(one, value is (way == "==")), _read(one))
            case Text(value) if isinstance(one, Property):
                return _text_range(one.name, way, value)
            case Integer(value) if way != "!=":
                low, high = _bounds(way, value)
                return _cheaper(_solve(one, low, high), _read(one))
    return _cheaper(_read(left), _read(right))


def _text_range(name: str, op: str, value: str) -> Keys:
    match op:
        case "==":
            return (Equal(name, value),)
        case "<" | "<=":
            return (Range(name, None, value),)
        case ">" | ">=":
            return (Range(name, value, None),)
        case _:
            return (Present(name),)


def _bounds(op: str, value: int) -> tuple[int, int]:
    match op:
        case "==":
            return value, value
        case "<":
            return INT64_MIN, value - 1
        case "<=":
            return INT64_MIN, value
        case ">":
            return value + 1, INT64_MAX
        case _:
            return value, INT64_MAX


def _solve(tree: Tree, low: int, high: int) -> Keys:
    """The keys for which an integer tree is from low to high."""
    low, high = max(low, INT64_MIN), min(high, INT64_MAX)  # beyond is ARITHMETIC
    if low > high:
        return NEVER
    match tree:
        case Property(name) if low == high:
            return (Equal(name, low),)
        case Property(name) if low == INT64_MIN and high == INT64_MAX:
            return (Present(name),)
        case Property(name):
            lowest, highest = low == INT64_MIN, high == INT64_MAX
            return (Range(name, None if lowest else low, None if highest else high),)
        case Unary("-", operand):
            return _solve(operand, -high, -low)
        case Binary("+", operand, Integer(c)) | Binary("+", Integer(c), operand):
            return _solve(operand, low - c, high - c)
        case Binary("-", operand, Integer(c)):
            return _solve(operand, low + c, high + c)
        case Binary("-", Integer(c), operand):
            return _solve(operand, c - high, c - low)
        case Binary("*", operand, Integer(c)) | Binary("*", Integer(c), operand):
            if c == 0:
                return None if low <= 0 <= high else NEVER
            if c < 0:
                low, high, c = -high, -low, -c
            return _solve(operand, -(-low // c), high // c)
        case Binary("/", operand, Integer(c)):
            if c == 0:
                return NEVER
            if c < 0:
                low, high, c = -high, -low, -c
            # Everything above -c and below c gives 0.
            low = low * c if low > 0 else (low - 1) * c + 1
            high = high * c if high < 0 else (high + 1) * c - 1
            return _solve(operand, low, high)
        case Integer(c):
            return None if low <= c <= high else NEVER
        case _:
            return None


def _read(tree: Tree) -> Keys:
    """The keys for which the tree has a value, of whatever kind."""
    match tree:
        case Property(name):
            return (Present(name),)
        case Unary(_, operand):
            return _read(operand)
        case Binary("&&" | "||", left, _):
            return _read(left)
        case Binary(_, left, right):
            return _cheaper(_read(left), _read(right))
        case _:
            return None


def _either(one: Keys, other: Keys) -> Keys:
    if one is None or other is None:
        return None
    return tuple(dict.fromkeys(one + other))


def _cheaper(one: Keys, other: Keys) -> Keys:
    """The keys that fewer messages hold, when both are needed."""
    if one is None or other is None:
        return other if one is None else one
    match one, other:
        case (Range(name) as a,), (Range(also) as b,) if name == also:
            return _intersection(a, b)
    return other if _cost(other) < _cost(one) else one


def _intersection(a: Range, b: Range) -> Keys:
    low = _tighter(a.low, b.low, highest=True)
    high = _tighter(a.high, b.high, highest=False)
    kinds = {bound.__class__ for bound in (a.low, a.high, b.low, b.high) if bound is not None}
    if len(kinds) > 1:  # a property is not both an integer and a text
        return NEVER
    if low is not None and high is not None and precedes(high, low):
        return NEVER
    return (Equal(a.name, low) if low == high and low is not None else Range(a.name, low, high),)


def _tighter(one: int | str | None, other: int | str | None, highest: bool) -> int | str | None:
    if one is None or other is None:
        return other if one is None else one
    if one.__class__ is not other.__class__:
        return one
    return other if precedes(one, other) is highest else one


def _cost(keys: tuple[Key, ...]) -> tuple[int, int]:
    """A set of keys is as good as its worst; then fewer are better."""
    return max(map(_width, keys), default=0), len(keys)


def _width(key: Key) -> int:
    match key:
        case Equal():
            return 1
        case Range(_, low, high):
            return 3 if low is None or high is None else 2
        case Present():
            return 4


def _shown(value: int | str | bool | None) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case _:
            return str(value)
