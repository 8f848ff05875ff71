"""Redis patterns, parsed once for matching and for the keys of an index.

`cut` parses a pattern into pieces of fixed length, cut at the stars. All else is derived from its
result, so that no two uses disagree on the meaning of an odd class. A segment has a fixed length;
hence its leftmost place after the previous one is always a good one, nothing is tried twice, and a
hostile pattern costs what a friendly one does.

There is no compiled regular expression: making one takes longer than hundreds of matches, and most
patterns are used seldom.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

ANY = (1 << 256) - 1
"""The class of all bytes. A class is a number with a bit for each byte that belongs to it."""

Piece: TypeAlias = bytes | int
"""A run of literal bytes, or a class."""

LONG = 16
"""Bytes of a subject beyond which a segment with classes is searched for in all places at once."""

NOT_EMPTY = 1
"""As in Redis, only the empty pattern matches the empty subject, not even a star does."""

# One entry of a class. The order gives the precedence: an escape, then a range, whose end may be
# any byte, then the byte itself; a backslash that ends the pattern is such a byte.
ENTRY = rb"\\.|[^\]\\]-.|[^\]]"
ENTRIES = re.compile(ENTRY, re.DOTALL)
TOKEN = re.compile(
    rb"(?P<star>\*+)|(?P<any>\?+)|\\(?P<escaped>.)"
    rb"|\[(?P<negated>\^?)(?P<class>(?:" + ENTRY + rb")*+)\]?"  # the end closes a class too
    rb"|(?P<plain>[^*?\[\\]+|\\)",
    re.DOTALL,
)


class Segment:
    """A piece of a glob between two stars: bytes and classes at fixed places."""

    __slots__ = ("_masks", "_tables", "length", "literal", "pieces")

    def __init__(self, pieces: list[Piece]) -> None:
        self._masks: dict[int, int] = {}
        """The places where a byte may stand, for bytes met in short subjects."""
        self._tables: dict[int, bytes] = {}
        """For each class, 1 for its members and 0 for other bytes."""
        self.length = 0
        self.pieces: list[tuple[int, Piece]] = []
        """Each with its distance from the start. A piece that admits any byte only adds
        distance."""
        for piece in pieces:
            if piece != ANY:
                self.pieces.append((self.length, piece))
            self.length += len(piece) if isinstance(piece, bytes) else 1
        self.literal = _literal(pieces)

    def is_at(self, subject: bytes, start: int) -> bool:
        """Whether it matches at this place. The subject is long enough for it."""
        for distance, piece in self.pieces:
            if isinstance(piece, int):
                if not piece >> subject[start + distance] & 1:
                    return False
            elif not subject.startswith(piece, start + distance):
                return False
        return True

    def find(self, subject: bytes, start: int, stop: int) -> int:
        """Its leftmost place between these two, or -1."""
        if self.literal is not None:
            return subject.find(self.literal, start, stop)
        if stop - start > LONG:
            return self._find_far(subject, start, stop)
        # Shift-And: bit i of `state` means that the last i + 1 bytes fit the first i + 1 places.
        # One step per byte, whatever came before.
        # RESP-54: no pattern makes the search pass over a name twice.
        masks = self._masks
        last = self.length - 1
        state = 0
        for here in range(start, stop):
            byte = subject[here]
            mask = masks.get(byte)
            if mask is None:
                mask = masks[byte] = self._places(byte)
            state = (state << 1 | 1) & mask
            if state >> last:
                return here - last
        return -1

    def _find_far(self, subject: bytes, start: int, stop: int) -> int:
        """As `find` for a long subject, all places at once: a number has a bit for each byte of the
        subject, the first one highest. There is one such number for each member of the segment, and
        no step of Python's per byte."""
        window = subject[start:stop]
        size = len(window)
        if size < self.length:
            return -1
        found = (1 << size) - (1 << self.length - 1)
        rows: dict[int, int] = {}
        for distance, members in self._members():
            row = rows.get(members)
            if row is None:
                table = self._tables.get(members)
                if table is None:
                    table = self._tables[members] = format(members, "0256b")[::-1].encode()
                row = rows[members] = int(window.translate(table), 2)
            found &= row << distance
            if not found:
                return -1
        return stop - found.bit_length()

    def _members(self) -> Iterator[tuple[int, int]]:
        """The class of each place that does not admit any byte, with its distance."""
        for distance, piece in self.pieces:
            if isinstance(piece, int):
                yield distance, piece
            else:
                for number, byte in enumerate(piece):
                    yield distance + number, 1 << byte

    @property
    def weight(self) -> int:
        """Number of such rows for a search of a long subject; 0 if it is searched for bytes
        only."""
        if self.literal is not None:
            return 0
        return len({members for _, members in self._members()}) or 1

    def _places(self, byte: int) -> int:
        """A bit for each place where this byte may stand."""
        only = b"0" * byte + b"1" + b"0" * (255 - byte)
        row = bytearray(b"1" * self.length)
        for distance, piece in self.pieces:
            if isinstance(piece, int):
                row[distance] = b"01"[piece >> byte & 1]
            else:
                row[distance : distance + len(piece)] = piece.translate(only)
        row.reverse()
        return int(row, 2)


def cut(pattern: bytes) -> list[list[Piece]]:
    """The pieces of each segment: one segment more than there are runs of stars. Adjacent bytes are
    one piece."""
    pieces: list[Piece] = []
    cuts = [pieces]
    run = bytearray()
    for token in TOKEN.finditer(pattern):
        kind = token.lastgroup
        piece = _members(token) if kind == "class" else token["escaped"] or token["plain"]
        if isinstance(piece, bytes):
            run += piece
            continue
        if run:
            pieces.append(bytes(run))
            run.clear()
        if kind == "star":
            pieces = []
            cuts.append(pieces)
        elif kind == "any":
            pieces += [ANY] * len(token[0])
        else:
            pieces.append(piece)
    if run:
        pieces.append(bytes(run))
    return cuts


class Literals:
    """The bytes that every match of a pattern has, and where."""

    __slots__ = ("prefix", "runs", "suffix", "weight", "whole")

    def __init__(self, cuts: list[list[Piece]]) -> None:
        self.whole = _literal(cuts[0]) if len(cuts) == 1 else None
        """The only match of a pattern without wildcards."""
        self.runs = [piece for pieces in cuts for piece in pieces if isinstance(piece, bytes)]
        """Runs of bytes in order, with prefix and suffix."""
        first = cuts[0][0] if cuts[0] else b""
        last = cuts[-1][-1] if cuts[-1] else b""
        self.prefix = first if isinstance(first, bytes) else b""
        self.suffix = last if isinstance(last, bytes) else b""
        self.weight = sum(Segment(p).weight for p in cuts[1:-1] if p and _literal(p) is None)
        """The cost of a match beyond comparing bytes: 0 if there is no class between two stars."""


Test: TypeAlias = tuple[bytes, bytes, bytes, int, Callable[[bytes], bool] | None]
"""How a match starts, how it ends, the bytes in it, its least length, and a function for the rest.
Most subjects fail at once, and most patterns need no such function."""


class Glob:
    """A pattern of Redis: which names it matches.

    A value that channels, access rules and KEYS share. Expensive parts are computed when they are
    first needed.
    """

    __slots__ = ("_test", "pattern")

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        self._test: Test | None = None

    def literals(self) -> Literals:
        """The literals under which an index may file the pattern. Parsing it is most of the work of
        a complete test, so such a test is kept."""
        cuts = cut(self.pattern)
        literals = Literals(cuts)
        if _is_plain(cuts) or _is_word(cuts):
            self._test = _test(cuts, literals)
        return literals

    def weigh(self) -> int:
        """The cost of a match, for callers that will match next: the pattern is parsed once."""
        cuts = cut(self.pattern)
        literals = Literals(cuts)
        self._test = _test(cuts, literals)
        return literals.weight

    @property
    def test(self) -> Test:
        """The test, for callers that match many globs in a row, and cannot afford a call for
        each."""
        if self._test is None:
            cuts = cut(self.pattern)
            self._test = _test(cuts, Literals(cuts))
        return self._test

    def matches(self, subject: bytes) -> bool:
        head, tail, inside, room, rest = self._test or self.test
        return (
            # RESP-53: the whole name has to match, with its case.
            subject.startswith(head)
            and subject.endswith(tail)
            and inside in subject
            and len(subject) >= room
            and (rest is None or rest(subject))
        )


def _is_plain(cuts: list[list[Piece]]) -> bool:
    """Whether it is one star with bytes before and after it: start, end and length decide."""
    return len(cuts) == 2 and _literal(cuts[0]) is not None and _literal(cuts[1]) is not None


def _is_word(cuts: list[list[Piece]]) -> bool:
    """Whether it is bytes between two stars: their presence decides."""
    return len(cuts) == 3 and not cuts[0] and not cuts[2] and bool(_literal(cuts[1]))


def _test(cuts: list[list[Piece]], literals: Literals) -> Test:
    head, tail = literals.prefix, literals.suffix
    if literals.whole is not None:
        return head, tail, b"", len(literals.whole), literals.whole.__eq__
    if _is_plain(cuts):
        return head, tail, b"", len(head) + len(tail) or NOT_EMPTY, None
    if _is_word(cuts):
        word = _literal(cuts[1]) or b""
        return b"", b"", word, len(word), None
    segments = [Segment(pieces) for pieces in cuts]
    room = sum(segment.length for segment in segments) or NOT_EMPTY
    if len(segments) == 1:
        return head, tail, b"", room, _fixed(segments[0])
    middle = segments[1].literal
    if len(segments) == 3 and middle is not None and room == len(head + middle + tail):
        # A third of the time of `_walk`.
        start, stop = len(head), len(tail)
        return head, tail, middle, room, lambda s: s.find(middle, start, len(s) - stop) >= 0
    return head, tail, b"", room, _walk(segments)


def _fixed(segment: Segment) -> Callable[[bytes], bool]:
    return lambda subject: len(subject) == segment.length and segment.is_at(subject, 0)


def _walk(segments: list[Segment]) -> Callable[[bytes], bool]:
    """Place each segment as far to the left as possible. The subject is long enough for all."""
    head, *inner, tail = segments

    def placed(subject: bytes) -> bool:
        stop = len(subject) - tail.length
        if not head.is_at(subject, 0) or not tail.is_at(subject, stop):
            return False
        start = head.length
        for segment in inner:
            start = segment.find(subject, start, stop)
            if start < 0:
                return False
            start += segment.length
        return True

    return placed


def _literal(pieces: list[Piece]) -> bytes | None:
    """The bytes that a segment matches, if it has no class."""
    if not pieces:
        return b""
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else None


def _members(token: re.Match[bytes]) -> Piece:
    """The members of a class. A class of one is as good as its byte, and gives a key."""
    members = 0
    for entry in ENTRIES.findall(token["class"]):
        # A byte, an escaped byte or a range, by its length. Ends may be reversed.
        low, high = sorted((entry[0], entry[2])) if len(entry) == 3 else (entry[-1], entry[-1])
        members |= (1 << high + 1) - (1 << low)
    if token["negated"]:
        members ^= ANY
    if members.bit_count() == 1:
        return bytes((members.bit_length() - 1,))
    return members
