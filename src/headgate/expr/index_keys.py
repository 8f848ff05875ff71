"""Keys: conditions that a message must meet for an expression to match it.

A message can match only if at least one of the keys of the expression holds; so an index on keys
finds every expression that may match, and the predicate decides. Keys may hold for too many
messages, never for too few.

The keys of a tree are computed for an outcome, true or false, because ``!`` swaps the two. An error
is neither: an operand that is evaluated in any case must be readable, also under a ``!``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.expr.nodes import (
    COMPARISON,
    JUNCTION,
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
from headgate.expr.types import (
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

    None is no bound; at least one is given. For texts a bound may lie outside of the expression's
    range, since the text before ``"m"`` cannot be written.
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
"""None if no keys are known; empty if no message can match."""

Choices: TypeAlias = tuple[tuple[Key, ...], ...]
"""Alternative sets of keys; none if no keys are known."""

UNKNOWN: Choices = ()
NEVER: Choices = ((),)
CHOICES_MAX = 2
"""Choices of one side of a disjunction that are combined with those of the other."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def keys_of(tree: Tree) -> Keys:
    """The keys of which one must hold for a message to match."""
    return min(choices_of(tree), key=_cost, default=None)


def choices_of(tree: Tree) -> Choices:
    """All sets of keys of which one must hold: an index may take the best."""
    return _choices(tree, True)


def _choices(tree: Tree, outcome: bool) -> Choices:
    if isinstance(tree, Binary):  # no `match` here: this runs for every new subscription
        op, left, right = tree.op, tree.left, tree.right
        if op in JUNCTION:
            both = (op == "&&") is outcome  # !(a || b) needs both, as a && b does
            join = _both if both else _either
            found = join(_choices(left, outcome), _choices(right, outcome))
            # The left side is evaluated in any case.
            return found if _is_strong(found) else _both(found, _read(left))
        if op in COMPARISON:
            return _comparison(op if outcome else NEGATED[op], left, right)
        return NEVER  # an integer is neither true nor false
    match tree:
        case Property(name):
            return ((Equal(name, outcome),),)
        case Unary("!", operand):
            return _choices(operand, not outcome)
        case Exists(name):
            return ((Present(name),),) if outcome else UNKNOWN
        case Boolean(value):
            return UNKNOWN if value is outcome else NEVER
        case _:
            return NEVER


def _comparison(op: str, left: Tree, right: Tree) -> Choices:
    kinds = kind_of(left), kind_of(right)
    if None not in kinds and kinds[0] is not kinds[1]:
        return NEVER
    if op in ORDER and Kind.BOOLEAN in kinds:
        return NEVER
    if isinstance(left, Integer | Text | Boolean):
        left, right, op = right, left, MIRRORED[op]
    if isinstance(right, Integer):
        if op == "!=":
            return _read(left)
        low, high = _bounds(op, right.value)
        found = _solve(left, low, high)
        return found if _is_strong(found) else _both(found, _read(left))
    if isinstance(right, Text) and isinstance(left, Property):
        return _text_range(left.name, op, right.value)
    if isinstance(right, Boolean):
        return _both(_choices(left, right.value is (op == "==")), _read(left))
    return _both(_read(left), _read(right))


def _text_range(name: str, op: str, value: str) -> Choices:
    match op:
        case "==":
            return ((Equal(name, value),),)
        case "<" | "<=":
            return ((Range(name, None, value),),)
        case ">" | ">=":
            return ((Range(name, value, None),),)
        case _:
            return ((Present(name),),)


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


def _solve(tree: Tree, low: int, high: int) -> Choices:
    """The keys for which an integer tree is from low to high."""
    low, high = max(low, INT64_MIN), min(high, INT64_MAX)  # beyond it is ARITHMETIC
    if low > high:
        return NEVER
    match tree:
        case Property(name) if low == high:
            return ((Equal(name, low),),)
        case Property(name) if low == INT64_MIN and high == INT64_MAX:
            return ((Present(name),),)
        case Property(name):
            lowest, highest = low == INT64_MIN, high == INT64_MAX
            return ((Range(name, None if lowest else low, None if highest else high),),)
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
                return UNKNOWN if low <= 0 <= high else NEVER
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
            return UNKNOWN if low <= c <= high else NEVER
        case _:
            return UNKNOWN


def _read(tree: Tree) -> Choices:
    """The choices for which the tree has a value, of any type."""
    match tree:
        case Property(name):
            return ((Present(name),),)
        case Unary(_, operand):
            return _read(operand)
        case Binary("&&" | "||", left, _):
            return _read(left)
        case Binary(_, left, right):
            return _both(_read(left), _read(right))
        case _:
            return UNKNOWN


def _either(one: Choices, other: Choices) -> Choices:
    """The choices for one of two sides to hold."""
    if not one or not other:
        return UNKNOWN
    if () in one or () in other:
        return other if () in one else one
    if len(one) > CHOICES_MAX:
        one = tuple(sorted(one, key=_cost)[:CHOICES_MAX])
    if len(other) > CHOICES_MAX:
        other = tuple(sorted(other, key=_cost)[:CHOICES_MAX])
    return tuple(tuple(dict.fromkeys(a + b)) for a in one for b in other)


def _both(one: Choices, other: Choices) -> Choices:
    """The choices for both sides to hold: those of either. If there are better ones, presence is
    dropped; so either all choices are strong or none is."""
    if not one or not other:
        return one or other
    if () in one or () in other:
        return NEVER
    strong = _is_strong(one)
    if strong is _is_strong(other):
        return _joined(one + other)
    return one if strong else other


def _joined(choices: Choices) -> Choices:
    """The choices with ranges of one property merged."""
    found: list[tuple[Key, ...]] = []
    ranges: dict[str, int] = {}
    for choice in choices:
        key = choice[0]
        if len(choice) > 1 or not isinstance(key, Range):
            found.append(choice)
            continue
        place = ranges.setdefault(key.name, len(found))
        if place == len(found):
            found.append(choice)
            continue
        known = found[place][0]
        assert isinstance(known, Range), "each side has one range of a property at most"
        met = _intersection(known, key)
        if met is None:
            return NEVER
        found[place] = (met,)
    return tuple(found)


def _is_strong(choices: Choices) -> bool:
    """Whether there are better choices than presence."""
    return bool(choices) and Present not in map(type, choices[0])


def _intersection(a: Range, b: Range) -> Equal | Range | None:
    low = _tighter(a.low, b.low, highest=True)
    high = _tighter(a.high, b.high, highest=False)
    kinds = {bound.__class__ for bound in (a.low, a.high, b.low, b.high) if bound is not None}
    if len(kinds) > 1:  # a property is not both an integer and a text
        return None
    if low is not None and high is not None and precedes(high, low):
        return None
    return Equal(a.name, low) if low == high and low is not None else Range(a.name, low, high)


def _tighter(one: int | str | None, other: int | str | None, highest: bool) -> int | str | None:
    if one is None or other is None:
        return other if one is None else one
    if one.__class__ is not other.__class__:
        return one
    return other if precedes(one, other) is highest else one


def _cost(keys: tuple[Key, ...]) -> tuple[int, int]:
    """The cost of a set of keys: its worst key, then their number."""
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
