"""Expressions by shape, so that many of them become few joins.

The shape of an expression is its tree with slots instead of literals. Expressions of one shape are
compiled once, and their literals are columns of a table. A message finds the rows of that table
that it may match by probes: a probe is a value made of some of its properties, and each row is
filed under the values that a matching message must have there, which follow from the keys of the
expression (`expr/index_keys.py`). The whole expression decides, so a probe may find too much.

What a row is filed under:

* the values of all properties that must be equal to something;
* the cell of a property that must be in a range. For an integer it is a cell of 2**n, with the
  least even n that makes the range touch at most two. For a text it is its first bytes;
* one of several, where one of several must hold (``x == 1 || x == 2``): a row for each. A row is
  then true only if its own key holds and none of the earlier ones does, so that an
  expression is found once.

What has no such keys, and the shapes for which there is no room, are left to the matcher
(`matcher.py`): all shapes become one condition, and it must not be too large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headgate.expr.index_keys import NEVER, Equal, Key, Range, choices_of
from headgate.expr.nodes import (
    ARITHMETIC,
    COMPARISON,
    EQUALITY,
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
from headgate.expr.types import Kind, octets

SLOT = {"?i": Kind.INTEGER, "?s": Kind.STRING}
"""How the name of a slot begins, by its type. No property is named so. A boolean stays: there
are only two."""

LEVEL_STEP = 2
"""Levels of cells in use are multiples of it: a message makes a probe for each."""
LEVEL_MAX = 63
"""Cells of half of all integers; there are two, so every range touches at most two."""

KEYS_MAX = 32
"""Of which one must hold, and each would be a row."""


CODE_MAX = 6_500
"""Bytes of Java's code for one message, as estimated. Java does not compile methods of more than
8,000, and interprets them many times slower."""
CODE_BASE = 700
CODE_NODE = 38
"""Of a tree."""
CODE_PART = 85
"""Of a probe."""
CODE_READ = 60
"""A column that is handed on to the matcher."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A part of a probe: what it takes of one property."""

    name: str
    kind: Kind
    grain: int = -1
    """-1 is the value itself; for an integer the cell of 2**grain, for a text so many bytes."""


Probe: TypeAlias = tuple[Part, ...]

Value: TypeAlias = int | bytes
"""Of a part. A boolean is 0 or 1."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape: the trees that its rows have in common, with slots instead of literals."""

    tree: Tree
    own: Tree | None
    """The row's own key, if it is one of several."""
    earlier: tuple[Tree, ...]
    """Keys of earlier rows that may hold at the same time."""

    @property
    def trees(self) -> tuple[Tree, ...]:
        return (self.tree, *((self.own,) if self.own is not None else ()), *self.earlier)

    @property
    def nodes(self) -> int:
        return sum(1 for tree in self.trees for _ in walk(tree))


@dataclass(frozen=True, slots=True)
class Row:
    """A row for one expression: the shape and probe it is filed under, and its literals."""

    shape: Shape
    probe: Probe
    values: tuple[tuple[Value, ...], ...]
    """Of the probe's parts: one value, or two where a range touches two cells."""
    integers: tuple[int, ...]
    texts: tuple[str, ...]


class Placed(NamedTuple):
    """A row of a plan, with the places of its shape and probe there: they are slow to compare."""

    text: str
    shape: int
    probe: int
    row: Row


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of how expressions are found: by probes, or by the matcher. Expressions that cannot
    match are in neither."""

    shapes: tuple[Shape, ...]
    probes: tuple[Probe, ...]
    rows: tuple[Placed, ...]
    rest: tuple[str, ...]
    """The texts that are left to the matcher."""


def planned(trees: Mapping[str, Tree], code_max: int = CODE_MAX) -> Plan:
    """The most frequent shapes as rows, as many as the code has room for; all others for the
    matcher. Where the line is drawn does not change any result."""
    shapes: dict[Shape, int] = {}
    probes: dict[Probe, int] = {}
    filed: dict[str, list[Placed]] = {}
    rest: list[str] = []
    for text, tree in trees.items():
        found = rows_of(tree)
        if found is None:
            rest.append(text)
        elif found:
            filed[text] = [
                Placed(
                    text,
                    shapes.setdefault(row.shape, len(shapes)),
                    probes.setdefault(row.probe, len(probes)),
                    row,
                )
                for row in found
            ]
    families = {
        text: tuple((placed.shape, placed.probe) for placed in rows) for text, rows in filed.items()
    }
    read = kinds_read(trees[text] for text in rest)
    room = code_max - CODE_BASE - CODE_READ * sum(map(len, read.values()))
    taken = _taken(Counter(families.values()), [*shapes], [*probes], room)
    rest += [text for text, family in families.items() if family not in taken]
    kept = [placed for text, rows in filed.items() if families[text] in taken for placed in rows]
    kept_shapes = {old: new for new, old in enumerate(sorted({placed.shape for placed in kept}))}
    kept_probes = {old: new for new, old in enumerate(sorted({placed.probe for placed in kept}))}
    return Plan(
        tuple(shape for shape, place in shapes.items() if place in kept_shapes),
        tuple(probe for probe, place in probes.items() if place in kept_probes),
        tuple(
            Placed(placed.text, kept_shapes[placed.shape], kept_probes[placed.probe], placed.row)
            for placed in kept
        ),
        tuple(rest),
    )


Family: TypeAlias = tuple[tuple[int, int], ...]
"""The shapes and probes of the rows of one expression."""


def _taken(
    families: Counter[Family], shapes: Sequence[Shape], probes: Sequence[Probe], room: int
) -> set[Family]:
    """The most frequent families for which there is room."""
    taken: set[Family] = set()
    known_shapes: set[int] = set()
    known_probes: set[int] = set()
    for family, _ in families.most_common():
        new_shapes = {shape for shape, _ in family} - known_shapes
        new_probes = {probe for _, probe in family} - known_probes
        code = CODE_NODE * sum(shapes[shape].nodes for shape in new_shapes)
        code += CODE_PART * sum(len(probes[probe]) for probe in new_probes)
        if code <= room:
            room -= code
            known_shapes |= new_shapes
            known_probes |= new_probes
            taken.add(family)
    return taken


def rows_of(tree: Tree) -> tuple[Row, ...] | None:
    """The rows of an expression: none if it cannot match, None if it has no keys to file it by."""
    choices = choices_of(tree)
    if choices == NEVER:
        return ()
    if any(not is_unicode(part.value) for part in walk(tree) if isinstance(part, Text)):
        return None  # Spark has no text for bytes that are not UTF-8
    singles = [choice[0] for choice in choices if len(choice) == 1]
    always: list[Key] = [key for key in singles if isinstance(key, Equal)]
    always += sorted(filter(_has_cells, singles), key=_width)[:1]
    several = [
        choice
        for choice in choices
        if 1 < len(choice) <= KEYS_MAX and all(map(_can_be_filed, choice))
    ]
    if not several:
        return (_row(tree, always),) if _is_distinct(always) else None
    keys = min(several, key=_spread)
    if not all(_is_distinct([*always, key]) for key in keys):
        return None
    return tuple(_row(tree, [*always, key], key, keys[:place]) for place, key in enumerate(keys))


def _is_distinct(keys: Sequence[Key]) -> bool:
    """Whether few messages have them all. Half of them have a boolean."""
    return any(not isinstance(key, Equal) or key.kind is not Kind.BOOLEAN for key in keys)


def _row(
    tree: Tree, keys: Sequence[Key], own: Key | None = None, before: Sequence[Key] = ()
) -> Row:
    slots = Slots()
    shape = Shape(
        slots.taken(tree),
        slots.taken(_tree_of(own)) if own is not None else None,
        tuple(slots.taken(_tree_of(each)) for each in before if not _exclude(each, own)),
    )
    filed = sorted(map(_part, keys), key=lambda part: part[0])
    return Row(
        shape,
        tuple(part for part, _ in filed),
        tuple(values for _, values in filed),
        tuple(slots.integers),
        tuple(slots.texts),
    )


class Slots:
    """The literals of some trees, which have slots in their place."""

    __slots__ = ("integers", "texts")

    def __init__(self) -> None:
        self.integers: list[int] = []
        self.texts: list[str] = []

    def taken(self, tree: Tree) -> Tree:
        """A tree without its literals, which are here now."""
        match tree:
            case Integer(number):
                self.integers.append(number)
                return Property(f"?i{len(self.integers) - 1}")
            case Text(text):
                self.texts.append(text)
                return Property(f"?s{len(self.texts) - 1}")
            case Unary(op, operand):
                return Unary(op, self.taken(operand))
            case Binary("/" | "%" as op, left, Integer() as divisor):
                return Binary(op, self.taken(left), divisor)  # known, it need not be looked at
            case Binary(op, left, right):
                return Binary(op, self.taken(left), self.taken(right))
            case _:
                return tree


def _part(key: Key) -> tuple[Part, tuple[Value, ...]]:
    if isinstance(key, Equal):
        return Part(key.name, key.kind), (_value(key.value),)
    assert isinstance(key, Range), "presence is no place"
    low, high = key.low, key.high
    if isinstance(low, int) and isinstance(high, int):
        level = (high - low).bit_length()
        level = min(level + -level % LEVEL_STEP, LEVEL_MAX)
        return Part(key.name, Kind.INTEGER, level), tuple({low >> level, high >> level})
    prefixes = _prefixes(key)
    return Part(key.name, Kind.STRING, len(prefixes[0])), prefixes


def _prefixes(key: Range) -> tuple[bytes, ...]:
    """The first bytes that a text in the range may have: what its bounds have in common, and
    one byte more if that leaves two."""
    assert isinstance(key.low, str), "an integer has cells"
    assert isinstance(key.high, str), "it is bounded"
    low, high = octets(key.low), octets(key.high)
    common = 0
    while common < min(len(low), len(high)) and low[common] == high[common]:
        common += 1
    if common < len(low) and high[common] - low[common] == 1:
        return low[: common + 1], high[: common + 1]
    return (low[:common],)


def _value(value: int | str | bool) -> Value:
    return octets(value) if isinstance(value, str) else int(value)


def _can_be_filed(key: Key) -> bool:
    return isinstance(key, Equal) or _has_cells(key)


def _has_cells(key: Key) -> bool:
    if not isinstance(key, Range) or key.low is None or key.high is None:
        return False
    return isinstance(key.low, int) or _prefixes(key) != (b"",)


def _width(key: Key) -> int:
    """How wide the cells of a range are, in bits; of a text the more known bytes the narrower."""
    part, _ = _part(key)
    return part.grain if part.kind is Kind.INTEGER else LEVEL_MAX - part.grain


def _spread(choice: Sequence[Key]) -> tuple[int, int]:
    """How many probes the keys need, and how many they are."""
    return len({_part(key)[0] for key in choice}), len(choice)


def _exclude(one: Key, other: Key | None) -> bool:
    """Whether two keys cannot hold at once: a property has one value."""
    return isinstance(one, Equal) and isinstance(other, Equal) and one.name == other.name


def _tree_of(key: Key) -> Tree:
    """The condition that the key holds."""
    operand = Property(key.name)
    if isinstance(key, Equal):
        return Binary("==", operand, _literal(key.value))
    assert isinstance(key, Range), "presence is no place"
    assert key.low is not None, "it is bounded"
    assert key.high is not None, "it is bounded"
    low, high = _literal(key.low), _literal(key.high)
    return Binary("&&", Binary(">=", operand, low), Binary("<=", operand, high))


def _literal(value: int | str | bool) -> Tree:
    match value:
        case bool():
            return Boolean(value)
        case int():
            return Integer(value)
        case str():
            return Text(value)


def is_unicode(text: str) -> bool:
    """Whether Spark has such a text."""
    return text.isascii() or octets(text).decode("utf-8", "replace") == text


# What conditions read.


def kinds_read(trees: Iterable[Tree]) -> dict[str, frozenset[Kind]]:
    """The properties that trees read, and of which types their values can matter. Where a
    type does not matter, a value of it is an error, as no value is."""
    found: dict[str, frozenset[Kind]] = {}
    for tree in trees:
        for name, kinds in _reads(tree, frozenset({Kind.BOOLEAN})):
            found[name] = found.get(name, frozenset()) | kinds
    return found


def slot_kind(name: str) -> Kind | None:
    return SLOT.get(name[:2])


def _reads(tree: Tree, wanted: frozenset[Kind]) -> Iterator[tuple[str, frozenset[Kind]]]:
    match tree:
        case Property(name) if slot_kind(name) is None:
            yield name, wanted
        case Exists(name):
            yield name, frozenset(Kind)
        case Unary(op, operand):
            yield from _reads(operand, frozenset({Kind.BOOLEAN if op == "!" else Kind.INTEGER}))
        case Binary(op, left, right):
            for operand in (left, right):
                yield from _reads(operand, _operands(op, left, right))
        case _:
            return


def _operands(op: str, left: Tree, right: Tree) -> frozenset[Kind]:
    if op in ARITHMETIC:
        return frozenset({Kind.INTEGER})
    if op not in COMPARISON:
        return frozenset({Kind.BOOLEAN})
    known = _known(left) or _known(right)
    if known is not None:
        return frozenset({known})
    return frozenset(Kind) if op in EQUALITY else frozenset({Kind.INTEGER, Kind.STRING})


def _known(tree: Tree) -> Kind | None:
    return slot_kind(tree.name) if isinstance(tree, Property) else kind_of(tree)
