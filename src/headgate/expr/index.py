"""The predicate index: finds the predicates that match a message, without trying all.

Each predicate is filed under keys of which a matching message must hold one (`index_keys.py`); for
a message only the predicates under the keys it holds are evaluated. The predicate decides, so the
result is the same as from evaluating all, in the same order: the highest priority first, then the
given order, then the order in which they were added.

Every key leads to a bucket:

* *equality*: a dictionary per property and type, since to Python ``True == 1``;
* *range*: cells of 2**n, where n is the least that makes the range touch at most two of them.
  A message looks into one cell of each n that is in use. Texts become numbers of the same
  order by their first bytes;
* *half-open range*: the bounds in order. A message tries those that its value passes; if
  they are too many it tries all half-open ranges of the property instead;
* *presence*, and no key at all: all entries, with presence only if the property is there.

A bucket with many entries is a pile, whose expressions are compiled together
(`compiled_chunks.py`).

If there is a choice (``a == 1 && b == 2``), an expression is filed where the fewest messages are
expected: under the keys that the smallest share of the filed expressions has. An expression that
cannot match is not filed at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Generic, TypeAlias, TypeVar

from headgate.expr.compiled_chunks import DEFAULT_TUNING, Chunk, Entry, Pile, Tuning, first, take
from headgate.expr.index_keys import UNKNOWN, Equal, Key, Present, Range, choices_of
from headgate.expr.predicate import Predicate
from headgate.expr.types import Properties, octets

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)

Bucket: TypeAlias = Entry[T] | list[Entry[T]] | Pile[T]
"""The entries under a key: mostly one, sometimes a few, rarely many."""

Filed: TypeAlias = tuple[Entry[T], tuple[Key, ...] | None]
"""An entry and the keys under which it is filed; None without keys."""

RANK_BITS = 64
"""Bits for each part of a rank below the first: the priority, the order, and a serial number. Ranks
are single numbers and unique, since the rest of an entry has no order."""

TEXT_BYTES = 64
"""Bytes of a text that determine its place among ranges. Longer texts hardly fit into an
expression."""

UNSEEN = 16
"""Number of expressions with other keys assumed while few are known: the first ones say little."""

SHARE_HALF = 0.5
"""Assumed share of messages that hold a boolean, or a half-open range."""
SHARE_PRESENT = 0.9
SPARSE = 16
"""Bounds are tried one by one also if they are less than one of so many."""


class PredicateIndex(Generic[T]):
    """Items by predicate and priority, found by the properties of a message.

    Owned by the groups of an app, or by the pipeline's matcher. An item is hashable, and in the
    index once.
    """

    __slots__ = (
        "_added",
        "_filed",
        "_present",
        "_scanned",
        "_shelves",
        "_tuning",
        "candidates",
    )

    def __init__(self, tuning: Tuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._added = 0
        self._filed: dict[T, Filed[T]] = {}
        self._shelves: dict[type, dict[str, _Shelf[T]]] = {int: {}, str: {}, bool: {}}
        """By the type of a value and the name of its property."""
        self._present: dict[str | None, Bucket[T]] = {}
        """By the name of a property; under None the entries without keys."""
        self._scanned: list[Entry[T]] | None = None
        """All entries in order, while they are few; None if not known."""
        self.candidates = 0
        """Number of entries under the keys of the last message; not counted while they are few. A
        caller that took all matches has had all of them tested."""

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, item: T) -> bool:
        return item in self._filed

    def add(
        self,
        predicate: Predicate | None,
        item: T,
        priority: int = 0,
        order: int | None = None,
    ) -> None:
        """Add an item; without a predicate it matches everything. Among equals, and without an
        order, an item comes after those added before."""
        assert item not in self._filed, "an item is added once"
        self._added += 1
        place = (-priority << RANK_BITS) + (self._added if order is None else order)
        rank = (place << RANK_BITS) + self._added
        if predicate is None:
            entry: Entry[T] = rank, _matches_everything, item, None
            self._put(entry, None)
        else:
            entry = rank, predicate.matches, item, predicate.tree
            self._put(entry, self._cheapest(choices_of(predicate.tree)))

    def remove(self, item: T) -> Filed[T]:
        """Remove an item. `restore` undoes it, given the result."""
        self._scanned = None
        entry, keys = filed = self._filed.pop(item)
        if keys is None:
            _remove(self._present, None, entry)
        for key in keys or ():
            self._remove_from(key, entry)
        return filed

    def restore(self, filed: Filed[T]) -> None:
        """Restore a removed item, in its former order."""
        self._put(*filed)

    def matching(self, properties: Properties) -> Iterator[T]:
        """The items that match, in order. Items after the last one taken are not evaluated, and no
        predicate is evaluated twice. The index must not change meanwhile."""
        if len(self._filed) <= self._tuning.scanned:
            for _, matches, item, _ in self._all():
                if matches(properties):
                    yield item
            return
        line: list[Entry[T]] = []
        piles: list[Pile[T]] = []
        self._collect(properties, line, piles)
        self.candidates = len(line) + (sum(map(len, piles)) if piles else 0)
        if len(line) > 1:
            line.sort()
        previous = None
        for chunk in _in_order(piles):
            ahead = bisect_left(line, chunk.entries[0])
            for entry in line[:ahead]:
                if entry is not previous and entry[1](properties):
                    yield entry[2]
                previous = entry
            del line[:ahead]
            selected = chunk.selected(properties, self._tuning)
            if selected:
                line += selected
                line.sort()
        for entry in line:
            # An entry that was found under two keys comes twice in a row.
            if entry is not previous and entry[1](properties):
                yield entry[2]
            previous = entry

    def _all(self) -> Sequence[Entry[T]]:
        if self._scanned is None:
            self._scanned = sorted(entry for entry, _ in self._filed.values())
        return self._scanned

    def _collect(self, properties: Properties, line: list[Entry[T]], piles: list[Pile[T]]) -> None:
        """Collect all entries under the keys that a message holds."""
        shelves, present = self._shelves, self._present
        for name, value in properties.items():
            by_name = shelves.get(value.__class__)
            if by_name is None:
                continue  # bytes, which expressions cannot read
            shelf = by_name.get(name)
            if shelf is not None:
                if value in shelf.equal:
                    _collect(shelf.equal[value], line, piles)
                if shelf.has_ranges:
                    shelf.collect_ranges(value, line, piles)  # type: ignore[arg-type]
            if name in present:
                _collect(present[name], line, piles)
        if None in present:
            _collect(present[None], line, piles)

    def _put(self, entry: Entry[T], keys: tuple[Key, ...] | None) -> None:
        """File an entry. This cannot fail: its keys are known, and its rank is unique."""
        self._scanned = None
        self._filed[entry[2]] = entry, keys
        if keys is None:
            _add(self._present, None, entry, self._tuning)
        for key in keys or ():
            self._add_to(key, entry)

    def _add_to(self, key: Key, entry: Entry[T]) -> None:
        if isinstance(key, Present):
            _add(self._present, key.name, entry, self._tuning)
            return
        shelves = self._shelves[_class(key)]
        shelf = shelves.get(key.name)
        if shelf is None:
            shelf = shelves[key.name] = _Shelf(self._tuning)
        shelf.add(key, entry)

    def _remove_from(self, key: Key, entry: Entry[T]) -> None:
        if isinstance(key, Present):
            _remove(self._present, key.name, entry)
            return
        shelves = self._shelves[_class(key)]
        shelf = shelves[key.name]
        shelf.remove(key, entry)
        if not shelf.size:
            del shelves[key.name]

    def _cheapest(self, choices: Sequence[tuple[Key, ...]]) -> tuple[Key, ...] | None:
        if len(choices) > 1:
            return min(choices, key=self._cost)
        return choices[0] if choices != UNKNOWN else None

    def _cost(self, keys: tuple[Key, ...]) -> float:
        """The expected share of messages that hold one of the keys."""
        return sum(map(self._share, keys))

    def _share(self, key: Key) -> float:
        if isinstance(key, Present):
            return SHARE_PRESENT
        if isinstance(key, Range) and (key.low is None or key.high is None):
            return SHARE_HALF
        if isinstance(key, Equal) and key.value.__class__ is bool:
            return SHARE_HALF
        shelf = self._shelves[_class(key)].get(key.name)
        return 1 / UNSEEN if shelf is None else shelf.share(key)


class _Shelf(Generic[T]):
    """The buckets of one property and one type of values."""

    __slots__ = (
        "_at_least",
        "_at_most",
        "_cells",
        "_tuning",
        "equal",
        "equals",
        "has_ranges",
        "ranges",
        "size",
    )

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self.size = 0
        self.equal: dict[int | str | bool, Bucket[T]] = {}
        self.equals = 0
        """Entries under `equal`."""
        self.ranges = 0
        """Entries under `_cells`."""
        self.has_ranges = False
        self._cells: dict[int, dict[int, Bucket[T]]] = {}
        """By n, and the number of the cell of size 2**n."""
        self._at_least: _Bounds[T] = _Bounds(tuning)
        self._at_most: _Bounds[T] = _Bounds(tuning)
        """With reversed signs, so that a bound is passed by larger values here too."""

    def add(self, key: Equal | Range, entry: Entry[T]) -> None:
        self.size += 1
        if isinstance(key, Equal):
            self.equals += 1
            _add(self.equal, key.value, entry, self._tuning)
            return
        self.has_ranges = True
        if key.low is None:
            self._at_most.add(-_point(key.high), entry)
        elif key.high is None:
            self._at_least.add(_point(key.low), entry)
        else:
            self.ranges += 1
            level, cells = _cells(key)
            buckets = self._cells.setdefault(level, {})
            for cell in cells:
                _add(buckets, cell, entry, self._tuning)

    def remove(self, key: Equal | Range, entry: Entry[T]) -> None:
        self.size -= 1
        if isinstance(key, Equal):
            self.equals -= 1
            _remove(self.equal, key.value, entry)
            return
        if key.low is None:
            self._at_most.remove(-_point(key.high), entry)
        elif key.high is None:
            self._at_least.remove(_point(key.low), entry)
        else:
            self.ranges -= 1
            level, cells = _cells(key)
            buckets = self._cells[level]
            for cell in cells:
                _remove(buckets, cell, entry)
            if not buckets:
                del self._cells[level]
        self.has_ranges = self.size > self.equals

    def share(self, key: Equal | Range) -> float:
        """The share of filed entries with this kind of key that would be in its bucket."""
        if isinstance(key, Equal):
            return (_size(self.equal.get(key.value)) + 1) / (self.equals + UNSEEN)
        level, cells = _cells(key)
        buckets = self._cells.get(level, {})
        entries = sum(_size(buckets.get(cell)) for cell in cells)
        return (entries + 1) / (self.ranges + UNSEEN)

    def collect_ranges(self, value: int | str, line: list[Entry[T]], piles: list[Pile[T]]) -> None:
        point = _point(value)
        for level, buckets in self._cells.items():
            cell = point >> level
            if cell in buckets:
                _collect(buckets[cell], line, piles)
        if self._at_least.bounds:
            self._at_least.collect(point, line, piles)
        if self._at_most.bounds:
            self._at_most.collect(-point, line, piles)


class _Bounds(Generic[T]):
    """Half-open ranges: each entry is for the values from its bound upwards."""

    __slots__ = ("_all", "_buckets", "_tuning", "bounds")

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self.bounds: list[int] = []
        self._buckets: dict[int, Bucket[T]] = {}
        self._all: Pile[T] = Pile(tuning)

    def add(self, bound: int, entry: Entry[T]) -> None:
        if bound not in self._buckets:
            insort(self.bounds, bound)
        _add(self._buckets, bound, entry, self._tuning)
        self._all.add(entry)

    def remove(self, bound: int, entry: Entry[T]) -> None:
        _remove(self._buckets, bound, entry)
        if bound not in self._buckets:
            del self.bounds[bisect_left(self.bounds, bound)]
        self._all.remove(entry)

    def collect(self, point: int, line: list[Entry[T]], piles: list[Pile[T]]) -> None:
        passed = bisect_right(self.bounds, point)
        if passed > self._tuning.bounds and passed * SPARSE > len(self.bounds):
            piles.append(self._all)
            return
        for bound in self.bounds[:passed]:
            _collect(self._buckets[bound], line, piles)


def _add(buckets: dict[K, Bucket[T]], key: K, entry: Entry[T], tuning: Tuning) -> None:
    bucket = buckets.get(key)
    if bucket is None:
        buckets[key] = entry
    elif isinstance(bucket, tuple):
        buckets[key] = [bucket, entry] if bucket < entry else [entry, bucket]
    elif isinstance(bucket, Pile):
        bucket.add(entry)
    else:
        insort(bucket, entry)
        if len(bucket) > tuning.bucket:
            buckets[key] = Pile(tuning, bucket)


def _remove(buckets: dict[K, Bucket[T]], key: K, entry: Entry[T]) -> None:
    bucket = buckets[key]
    if isinstance(bucket, tuple):
        del buckets[key]
    elif isinstance(bucket, Pile):
        bucket.remove(entry)
        if not bucket:
            del buckets[key]
    else:
        take(bucket, entry)
        if len(bucket) == 1:
            buckets[key] = bucket[0]


def _collect(bucket: Bucket[T], line: list[Entry[T]], piles: list[Pile[T]]) -> None:
    if isinstance(bucket, tuple):
        line.append(bucket)
    elif isinstance(bucket, list):
        line += bucket
    else:
        piles.append(bucket)


def _size(bucket: Bucket[T] | None) -> int:
    if isinstance(bucket, tuple):
        return 1
    return 0 if bucket is None else len(bucket)


def _in_order(piles: list[Pile[T]]) -> Iterable[Chunk[T]]:
    if len(piles) > 1:
        return merge(*(pile.chunks for pile in piles), key=first)
    return piles[0].chunks if piles else ()


def _class(key: Equal | Range) -> type:
    if isinstance(key, Equal):
        return key.value.__class__
    return (key.high if key.low is None else key.low).__class__


def _cells(key: Range) -> tuple[int, tuple[int, ...]]:
    """The n, and the one or two cells of size 2**n, of a bounded range."""
    low, high = _point(key.low), _point(key.high)
    level = (high - low).bit_length()
    one, other = low >> level, high >> level
    return level, (one,) if one == other else (one, other)


def _point(value: int | str | None) -> int:
    """A number for a text that keeps the order of texts; but two texts may have the same one."""
    if isinstance(value, int):
        return value
    assert value is not None, "a range has a bound"
    raw = value[:TEXT_BYTES].encode() if value.isascii() else octets(value)
    return int.from_bytes(raw[:TEXT_BYTES].ljust(TEXT_BYTES, b"\0"))


def _matches_everything(properties: Properties) -> bool:
    return True
