"""An index of patterns: finds those that match a channel, without trying each.

A pattern is filed under one key: bytes that a channel must have, at its start, at its end or
somewhere, for the pattern to match. A lookup collects what is filed under the keys that the channel
has, and the patterns themselves decide. A key is a necessary condition only: one that many patterns
share costs time, but never gives a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import TypeAlias, TypeVar

from headgate.core.model.glob import Glob, Literals

K = TypeVar("K")
V = TypeVar("V")

SCAN_MAX = 32
"""Up to so many patterns are tried one by one: collecting keys would cost more."""

FEW = 3
"""Trying so many costs less than remembering the result, if all of their tests are cheap."""

ROOM = 8
"""A prefix or suffix that fewer patterns share is taken as the key at once. Grams are slower to
look up, so they are for patterns without a better key. Of the grams with room, one whose first byte
others have too is better: a channel is searched for every first byte in use, and digits occur in
most."""

LENGTHS: tuple[int, ...] = (*range(9), 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
"""Lengths of a prefix or suffix used as a key. A lookup searches once per length in use, so clients
must not be able to add lengths."""

FITTING = [max(length for length in LENGTHS if length <= run) for run in range(LENGTHS[-1] + 1)]
"""The length of the key by the length of the literal."""

GRAMS = (5, 3, 1)
"""Lengths of the grams of inner bytes; the first that fits is used. With 6 instead of 5, names with
four digits fell back to three bytes, and many of them shared a key."""

GRAMS_COMPARED = 16
"""Grams compared of a long run of bytes, about."""

CACHE_ENTRIES = 8192
CACHE_BYTES = 2 * 1024 * 1024
"""Bytes of the channels and results remembered. Beyond this all are dropped: busy channels are soon
back, and no order of use has to be kept."""

NAME_BYTES = 128
"""Longest channel name whose result is remembered while there are few patterns. Results are short
then, so with this the number of entries alone bounds the memory."""

CROWD = 256
"""Number of patterns under one key beyond which one more counts as slow, as if it had no key."""

POINTER_BYTES = 8
"""Bytes that a match adds to a remembered result."""


class ShrinkingDict(dict[K, V]):
    """A dictionary that shrinks. A plain one that was once large stays large, and is as slow to
    iterate as when it was full."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most = 0

    def drop(self, key: K) -> V:
        self._most = max(self._most, len(self))
        value = self.pop(key)
        if len(self) * 4 < self._most:
            rest = dict(self)
            self.clear()
            self.update(rest)
            self._most = len(rest)
        return value


class IndexedPattern:
    """A pattern and its place in the index."""

    __slots__ = ("by_length", "glob", "key", "number", "place", "weight")

    def __init__(
        self,
        glob: Glob,
        number: int,
        by_length: PatternsByLength | PatternsByByte,
        key: bytes,
        weight: int,
    ) -> None:
        self.glob = glob
        self.number = number
        self.by_length = by_length
        self.key = key
        self.place = 0
        self.weight = weight


Asked: TypeAlias = tuple[tuple[bytes], bytes, bytes, bytes, int, Callable[[bytes], bool] | None]
"""A pattern of a small set, as it is returned when it alone matches, and its test."""

PatternsByKey: TypeAlias = ShrinkingDict[bytes, list[IndexedPattern]]
"""Patterns by keys of one length."""


class PatternsByLength(ShrinkingDict[int, PatternsByKey]):
    """Patterns by keys of one kind: one dictionary for each length in use."""

    __slots__ = ()

    def load(self, key: bytes) -> int:
        """Number of patterns that share a key."""
        by_key = self.get(len(key))
        return len(by_key.get(key, ())) if by_key else 0

    def put(self, filed: IndexedPattern) -> None:
        by_key = self.get(len(filed.key))
        if by_key is None:
            by_key = self[len(filed.key)] = ShrinkingDict()
        shared = by_key.setdefault(filed.key, [])
        filed.place = len(shared)
        shared.append(filed)

    def take(self, filed: IndexedPattern) -> None:
        """Remove a pattern. The last one under its key moves to its place: no search."""
        by_key = self[len(filed.key)]
        shared = by_key[filed.key]
        last = shared.pop()
        # RESP-56: removed without a search, however many share a key.
        if last is not filed:
            shared[filed.place] = last
            last.place = filed.place
        if not shared:
            by_key.drop(filed.key)
        if not by_key:
            self.drop(len(filed.key))


class PatternsByByte(ShrinkingDict[int, PatternsByLength]):
    """Prefixes and grams by their first byte, or suffixes by their last. Most channels share none
    of these bytes with most patterns, and then only this is looked up."""

    __slots__ = ("_at",)

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def load(self, key: bytes) -> int:
        by_length = self.get(key[self._at])
        return by_length.load(key) if by_length else 0

    def put(self, filed: IndexedPattern) -> None:
        byte = filed.key[self._at]
        by_length = self.get(byte)
        if by_length is None:
            by_length = self[byte] = PatternsByLength()
        by_length.put(filed)

    def take(self, filed: IndexedPattern) -> None:
        byte = filed.key[self._at]
        by_length = self[byte]
        by_length.take(filed)
        if not by_length:
            self.drop(byte)


class PatternIndex:
    """An index of distinct patterns.

    Owned by the subscriptions of the sessions here, and by those of other workers. They add a
    pattern with its first subscriber and remove it with the last, and keep the subscribers.
    """

    def __init__(self, *, scan_max: int = SCAN_MAX) -> None:
        self.generation = 0
        """Grows with every change, so that holders of a result know whether it is still valid."""
        self.weight = 0
        """Sum of the weights of all patterns; see `weigh`."""
        self._scan_max = scan_max
        # RESP-55: a dictionary that shrinks makes lookups as fast as before.
        self._filed: ShrinkingDict[bytes, IndexedPattern] = ShrinkingDict()
        self._numbers = 0
        self._wholes = PatternsByLength()
        self._prefixes = PatternsByByte(0)
        self._suffixes = PatternsByByte(-1)
        self._grams = PatternsByByte(0)
        self._keyless = PatternsByLength()
        """Patterns without a key, under one that every channel has."""
        self._few: list[Asked] | None = None
        """The patterns while they are at most ``FEW`` and all of their tests are complete."""
        self._tests: dict[bytes, list[Asked]] = {}
        """Tests of a small set by the first byte of a channel, until it changes."""
        self._found: dict[bytes, tuple[bytes, ...]] = {}
        self._found_bytes = 0

    def add(self, pattern: bytes) -> bool:
        """Add a pattern; false if it is there already."""
        if pattern in self._filed:
            return False
        glob = Glob(pattern)
        literals = glob.literals()
        by_length, key = self._key(literals)
        weight = _weight(literals, by_length, key)
        self._numbers += 1
        filed = self._filed[pattern] = IndexedPattern(glob, self._numbers, by_length, key, weight)
        by_length.put(filed)
        self.weight += weight
        self._change()
        return True

    def remove(self, pattern: bytes) -> bool:
        """Remove a pattern; false if it is not there."""
        if pattern not in self._filed:
            return False
        filed = self._filed.drop(pattern)
        filed.by_length.take(filed)
        self.weight -= filed.weight
        self._change()
        return True

    def weigh(self, pattern: bytes) -> int:
        """The weight of a pattern: what it adds, or would add, to the cost of every lookup. It is 0
        for nearly all. A pattern that is tried for every channel, or shares its key with as many as
        if it were, weighs 1; one with classes between stars weighs as much as it has of them, since
        each channel is searched for each."""
        filed = self._filed.get(pattern)
        if filed is not None:
            return filed.weight
        literals = Glob(pattern).literals()
        return _weight(literals, *self._key(literals))

    def matching(self, channel: bytes, *, remember: bool = True) -> tuple[bytes, ...]:
        """The patterns that match a channel, in the order in which they were added. The result is
        remembered until a pattern changes, unless the caller remembers it."""
        tests = self._few
        if tests is None:
            found = self._found.get(channel)
            if found is not None:
                return found
            if len(self._filed) > self._scan_max:
                found = self._find(channel)
                return self._remember(channel, found) if remember else found
            tests = self._tests.get(channel[:1])
            if tests is None:
                tests = self._gather(channel[:1])
            if not tests:
                return ()
        found = ()
        # No comprehension and no call: for a handful of patterns they would be most of the time.
        for itself, head, tail, inside, room, rest in tests:
            if (
                # S002-35: the whole name has to match, with its case.
                (not head or channel.startswith(head))
                and (not tail or channel.endswith(tail))
                and (not inside or channel.find(inside) >= 0)  # `in` takes half as long again
                and len(channel) >= room
                and (rest is None or rest(channel))
            ):
                found += itself
        if remember and tests is not self._few and len(channel) <= NAME_BYTES:
            if len(self._found) >= CACHE_ENTRIES:
                self._forget()
            self._found[channel] = found
        return found

    def __contains__(self, pattern: bytes) -> bool:
        return pattern in self._filed

    def __iter__(self) -> Iterator[bytes]:
        """The patterns, in the order in which they were added."""
        return iter(self._filed)

    def __len__(self) -> int:
        return len(self._filed)

    def _change(self) -> None:
        self.generation += 1
        self._tests.clear()
        self._forget()
        self._few = None
        if len(self._filed) <= FEW:
            few = [((pattern,), *filed.glob.test) for pattern, filed in self._filed.items()]
            if all(rest is None for *_, rest in few):
                self._few = few

    def _forget(self) -> None:
        self._found.clear()
        self._found_bytes = 0

    def _key(self, literals: Literals) -> tuple[PatternsByLength | PatternsByByte, bytes]:
        """The least loaded key that these literals give."""
        if literals.whole is not None:
            return self._wholes, literals.whole
        prefix, suffix = literals.prefix, literals.suffix
        keys: list[tuple[bool, bool, int, PatternsByByte, bytes]] = []
        for by_byte, key in (
            (self._prefixes, prefix[: _fitting(prefix)]),
            (self._suffixes, suffix[len(suffix) - _fitting(suffix) :]),
        ):
            if key:
                load = by_byte.load(key)
                if load < ROOM:
                    return by_byte, key
                keys.append((True, False, load, by_byte, key))
        grams = self._grams
        for key in _grams(literals.runs):
            load = grams.load(key)
            keys.append((load >= ROOM, load < ROOM and key[0] not in grams, load, grams, key))
        if not keys:
            return self._keyless, b""
        *_, by_byte, key = min(keys, key=itemgetter(0, 1, 2))
        return by_byte, key

    def _find(self, channel: bytes) -> tuple[bytes, ...]:
        """The patterns that match, of those that share a key with the channel."""
        # S002-37: only patterns that share a key are tried.
        candidates = self._candidates(channel)
        if not candidates:
            return ()
        matches = [filed for filed in candidates if filed.glob.matches(channel)]
        if len(matches) > 1:
            matches.sort(key=attrgetter("number"))
        return tuple([filed.glob.pattern for filed in matches])

    def _remember(self, channel: bytes, found: tuple[bytes, ...]) -> tuple[bytes, ...]:
        size = len(channel) + len(found) * POINTER_BYTES
        if len(self._found) >= CACHE_ENTRIES or self._found_bytes + size > CACHE_BYTES:
            self._forget()
        if size <= CACHE_BYTES:
            self._found[channel] = found
            self._found_bytes += size
        return found

    def _gather(self, first: bytes) -> list[Asked]:
        """The tests of a small set that channels with this first byte may pass."""
        tests = [
            ((pattern,), *filed.glob.test)
            for pattern, filed in self._filed.items()
            if filed.glob.test[0][:1] in (b"", first)
        ]
        self._tests[first] = tests
        return tests

    def _candidates(self, channel: bytes) -> list[IndexedPattern]:
        """The patterns filed under the keys of a channel. Each pattern has one key and each key is
        looked up once, so none comes twice."""
        length = len(channel)
        candidates: list[IndexedPattern] = []
        for by_key in self._keyless.values():
            candidates += by_key[b""]
        wholes = self._wholes.get(length)
        if wholes:
            candidates += wholes.get(channel, ())
        if not channel:
            return candidates
        # A slice beyond the end is the whole channel, which a shorter slice was already.
        prefixes = self._prefixes.get(channel[0])
        if prefixes is not None:
            for size, by_key in prefixes.items():
                if size <= length and (key := channel[:size]) in by_key:
                    candidates += by_key[key]
        suffixes = self._suffixes.get(channel[-1])
        if suffixes is not None:
            for size, by_key in suffixes.items():
                if size <= length and (key := channel[-size:]) in by_key:
                    candidates += by_key[key]
        grams = self._grams
        if not grams.keys().isdisjoint(channel):
            keys = {
                key
                for i, byte in enumerate(channel)
                if byte in grams
                for size, by_key in grams[byte].items()
                if (key := channel[i : i + size]) in by_key
            }
            for key in keys:
                candidates += grams[key[0]][len(key)][key]
        return candidates


def _weight(literals: Literals, by_length: PatternsByLength | PatternsByByte, key: bytes) -> int:
    is_asked_often = not key or by_length.load(key) >= CROWD
    return literals.weight + (is_asked_often and literals.whole is None)


def _fitting(run: bytes) -> int:
    return FITTING[min(len(run), LENGTHS[-1])]


def _grams(runs: list[bytes]) -> list[bytes]:
    """Grams of the first length that fits a run; only some of those of a long run."""
    longest = max(map(len, runs), default=0)
    if not longest:
        return []
    size = next(size for size in GRAMS if size <= longest)
    step = max(1, sum(map(len, runs)) // GRAMS_COMPARED)
    return [run[i : i + size] for run in runs for i in range(0, len(run) - size + 1, step)]
