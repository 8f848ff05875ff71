"""Redis patterns: one reading of them, for matching and for the keys of an index.

`cut` reads a pattern as pieces of fixed length, cut at the stars. All else is derived from its
result, so that two readers cannot disagree on what an odd class means. A segment has one
length whatever it matches; hence its leftmost place after the previous one is always a good
one, nothing is tried twice, and a hostile pattern costs what a friendly one does.

There is no compiled regular expression: making one takes longer than hundreds of matches, and
most patterns are asked about seldom.
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
"""Bytes of a subject beyond which a segment with classes is sought in all places at once."""

NOT_EMPTY = 1
"""As in Redis, nothing but the empty pattern matches the empty subject, not even a star."""

# One entry of a class. The order says the precedence: an escape, then a range, whose end may be
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
    """A piece of a glob between two stars: bytes and classes in places that do not move."""

    __slots__ = ("_masks", "_tables", "length", "literal", "pieces")

    def __init__(self, pieces: list[Piece]) -> None:
        self._masks: dict[int, int] = {}
        """The places where a byte may stand, of bytes that were met in short subjects."""
        self._tables: dict[int, bytes] = {}
        """Ones for the members of a class, and zeros for the other bytes."""
        self.length = 0
        self.pieces: list[tuple[int, Piece]] = []
        """Each with its distance from the start. What admits any byte is only a distance."""
        for piece in pieces:
            if piece != ANY:
                self.pieces.append((self.length, piece))
            self.length += len(piece) if isinstance(piece, bytes) else 1
        self.literal = _literal(pieces)

    def is_at(self, subject: bytes, start: int) -> bool:
        """Whether it is in this place. The subject has room for it there."""
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
        # Shift-And: bit i of `state` says that the last i + 1 bytes fit the first i + 1 places.
        # One step per byte, whatever has been seen before.
        # RESP-54: no pattern makes a name be looked at twice.
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
        """The same for a long subject, all places at once: a number has a bit for each byte of the
        subject, the first one highest. There is a row of bits for each member of the segment, and
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
        """How many rows a search of a long subject takes; none if bytes are searched for."""
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
    """The pieces of each segment: always one segment more than there are runs of stars.
    Bytes that follow one another are one piece."""
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
        """In their order; prefix and suffix too."""
        first = cuts[0][0] if cuts[0] else b""
        last = cuts[-1][-1] if cuts[-1] else b""
        self.prefix = first if isinstance(first, bytes) else b""
        self.suffix = last if isinstance(last, bytes) else b""
        self.weight = sum(Segment(p).weight for p in cuts[1:-1] if p and _literal(p) is None)
        """What a match costs beyond comparing bytes: 0 if there is no class between two stars."""


Test: TypeAlias = tuple[bytes, bytes, bytes, int, Callable[[bytes], bool] | None]
"""How a match starts, how it ends, what is in it, how long it is at least, and what remains to be
asked of a subject that is like that. Most subjects fail at once, and for most patterns nothing
remains."""


class Glob:
    """A pattern. What is dear to work out is worked out when it is first needed."""

    __slots__ = ("_test", "pattern")

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        self._test: Test | None = None

    def literals(self) -> Literals:
        """The literals that an index may file the pattern under. Reading the pattern for this is
        most of the work of a test without a remainder, so such a test is kept."""
        cuts = cut(self.pattern)
        literals = Literals(cuts)
        if _is_plain(cuts) or _is_word(cuts):
            self._test = _test(cuts, literals)
        return literals

    def weigh(self) -> int:
        """The cost of a match, for who will ask for matches next: the pattern is read once."""
        cuts = cut(self.pattern)
        literals = Literals(cuts)
        self._test = _test(cuts, literals)
        return literals.weight

    @property
    def test(self) -> Test:
        """For who asks many globs in a row, and cannot afford a call for each."""
        if self._test is None:
            cuts = cut(self.pattern)
            self._test = _test(cuts, Literals(cuts))
        return self._test

    def matches(self, subject: bytes) -> bool:
        head, tail, inside, room, rest = self._test or self.test
        return (
            # RESP-53: the whole name, with its case.
            subject.startswith(head)
            and subject.endswith(tail)
            and inside in subject
            and len(subject) >= room
            and (rest is None or rest(subject))
        )


def _is_plain(cuts: list[list[Piece]]) -> bool:
    """One star, and nothing but bytes before and behind it: start, end and length say it all."""
    return len(cuts) == 2 and _literal(cuts[0]) is not None and _literal(cuts[1]) is not None


def _is_word(cuts: list[list[Piece]]) -> bool:
    """Bytes between two stars, and nothing else: that they are there says it all."""
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
        # A third of the time that the walk takes.
        start, stop = len(head), len(tail)
        return head, tail, middle, room, lambda s: s.find(middle, start, len(s) - stop) >= 0
    return head, tail, b"", room, _walk(segments)


def _fixed(segment: Segment) -> Callable[[bytes], bool]:
    return lambda subject: len(subject) == segment.length and segment.is_at(subject, 0)


def _walk(segments: list[Segment]) -> Callable[[bytes], bool]:
    """Place each segment as far to the left as it goes. The subject has room for all."""
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
    """The only bytes that the pieces of a segment match, if there is no class among them."""
    if not pieces:
        return b""
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else None


def _members(token: re.Match[bytes]) -> Piece:
    """What a class admits. A class of one is as good as its byte, and gives a key."""
    members = 0
    for entry in ENTRIES.findall(token["class"]):
        # A byte, an escaped byte or a range, by its length. Ends may be given backwards.
        low, high = sorted((entry[0], entry[2])) if len(entry) == 3 else (entry[-1], entry[-1])
        members |= (1 << high + 1) - (1 << low)
    if token["negated"]:
        members ^= ANY
    if members.bit_count() == 1:
        return bytes((members.bit_length() - 1,))
    return members
