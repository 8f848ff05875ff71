"""Control messages in BER, in the subset of ASN.1's forms that BlazingMQ uses.

Every element is a tag, a length and a content. A part of a message is a sequence whose fields have
their numbers as tags. Sequences are written with an indefinite length, ended by a mark, as
BlazingMQ does, and read with either kind of length.
"""

from __future__ import annotations

from typing import Final, TypeVar

from headgate.wire.bmq.codec.fields import Field, make, shape
from headgate.wire.bmq.codec.frames import Malformed
from headgate.wire.bmq.codec.steps import STEP_ITEMS, Steps

T = TypeVar("T")

CONSTRUCTED: Final = 0x20
"""The bit in a tag of an element that is made of elements."""
CONTEXT: Final = 0x80
"""The class of the tags that are numbers of fields."""
NUMBER: Final = 0x1F
"""The bits of the number, all of them set if it is longer and follows."""
SEQUENCE: Final = 0x30
"""The tag of a whole message and of an element of an array."""

INDEFINITE: Final = 0x80
END: Final = b"\0\0"
LENGTH_BYTES_MAX: Final = 4
NUMBER_BYTES_MAX: Final = 8

STEP_PARTS: Final = STEP_ITEMS // 8
"""Parts of an array that are written in a row."""

DEPTH_MAX: Final = 32
"""A third of it is enough for known messages. The rest is for skipped elements."""


class BerReader:
    """A walk through elements. `next` stops at each; the caller then reads, enters or skips it.
    When the elements of an entered one are over, `next` leaves it."""

    __slots__ = ("_at", "_data", "_ends", "_met")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._ends = [(len(data), False)]
        """Where each entered element ends, and whether a mark comes before that."""
        self._met = 0
        """Elements since the last rest."""

    def takes_rest(self) -> bool:
        """Whether so many elements were read that others should get a turn."""
        if self._met < STEP_ITEMS:
            return False
        self._met = 0
        return True

    def next(self) -> int | None:
        """The tag of the next element, or its first byte if the tag is a long one."""
        self._met += 1
        end, has_mark = self._ends[-1]
        if self._at == end and not has_mark:
            self._ends.pop()
            return None
        tag = self._byte()
        if not tag:
            if not has_mark or self._byte():
                raise Malformed("a mark of an end that is none")
            self._ends.pop()
            return None
        if tag & NUMBER == NUMBER:
            while self._byte() & 0x80:
                pass
        return tag

    def expect(self) -> int:
        """The tag of the next element, which must be there."""
        tag = self.next()
        if tag is None:
            raise Malformed("an element is missing")
        return tag

    def finish(self) -> None:
        """Check that no element is left here."""
        if self.next() is not None:
            raise Malformed("an element too many")

    def enter(self, tag: int) -> None:
        if not tag & CONSTRUCTED:
            raise Malformed("a value where elements should be")
        if len(self._ends) > DEPTH_MAX:
            raise Malformed("elements are nested too deeply")
        length = self._length()
        end = self._ends[-1][0] if length is None else self._until(length)
        self._ends.append((end, length is None))

    def value(self, tag: int) -> bytes:
        if tag & CONSTRUCTED:
            raise Malformed("elements where a value should be")
        length = self._length()
        if length is None:
            raise Malformed("a value of indefinite length")
        at = self._at
        self._at = self._until(length)
        return self._data[at : self._at]

    def skip(self, tag: int) -> Steps[None]:
        """Skip an element, which must be well-formed still."""
        if not tag & CONSTRUCTED:
            self.value(tag)
            return
        self.enter(tag)
        while (inner := self.next()) is not None:
            if self.takes_rest():
                yield
            yield from self.skip(inner)

    def _byte(self) -> int:
        at = self._at
        self._at = self._until(1)
        return self._data[at]

    def _length(self) -> int | None:
        first = self._byte()
        if first < INDEFINITE:
            return first
        if first == INDEFINITE:
            return None
        count = first - INDEFINITE
        if count > LENGTH_BYTES_MAX:
            raise Malformed("a length of too many bytes")
        at = self._at
        self._at = self._until(count)
        return int.from_bytes(self._data[at : self._at], "big")

    def _until(self, length: int) -> int:
        end = self._at + length
        if end > self._ends[-1][0]:
            raise Malformed("an element is cut off")
        return end


def read(reader: BerReader, tag: int, cls: type[T]) -> Steps[T]:
    """A part of a message. Unknown fields are skipped."""
    fields = shape(cls)
    found: dict[str, object] = {}
    reader.enter(tag)
    while (inner := reader.next()) is not None:
        number = number_of(inner)
        if number is None or number >= len(fields):
            yield from reader.skip(inner)
            if reader.takes_rest():
                yield
            continue
        field = fields[number]
        if field.name in found:
            raise Malformed(f"{field.label} comes twice")
        found[field.name] = (
            _read_value(reader, inner, field)
            if field.is_value
            else (yield from _read_parts(reader, inner, field))
        )
    return make(cls, found)


def number_of(tag: int) -> int | None:
    """The number of the field that has the tag, if it can be a field's."""
    number = tag & NUMBER
    return number if tag & 0xC0 == CONTEXT and number < NUMBER else None


def _read_value(reader: BerReader, tag: int, field: Field) -> object:
    if field.type is str:
        return text(reader.value(tag))
    if field.type is bool:
        return truth(reader.value(tag))
    return field.number(number(reader.value(tag)))


def _read_parts(reader: BerReader, tag: int, field: Field) -> Steps[object]:
    """A part, or an array of parts."""
    if not field.is_many:
        part: object = yield from read(reader, tag, field.type)
        return part
    items = []
    reader.enter(tag)
    while (inner := reader.next()) is not None:
        if inner != SEQUENCE:
            raise Malformed("an array of something else than parts")
        items.append((yield from read(reader, inner, field.type)))
        if reader.takes_rest():
            yield
    return tuple(items)


def text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed("a text that is not UTF-8") from None


def truth(content: bytes) -> bool:
    if len(content) != 1:
        raise Malformed("neither true nor false")
    return content != b"\0"


def number(content: bytes) -> int:
    if not 0 < len(content) <= NUMBER_BYTES_MAX:
        raise Malformed("a number of a wrong length")
    return int.from_bytes(content, "big", signed=True)


def write(tag: int, part: object) -> Steps[bytes]:
    """A part of a message."""
    contents = []
    for place, field in enumerate(shape(type(part))):
        item = getattr(part, field.name)
        contents.append(
            _write_value(CONTEXT | place, item, field)
            if field.is_value or item is None
            else (yield from _write_parts(CONTEXT | place, item))
        )
    return wrap(tag, *contents)


def wrap(tag: int, *elements: bytes) -> bytes:
    return b"".join((bytes((tag | CONSTRUCTED, INDEFINITE)), *elements, END))


def write_number(tag: int, item: int) -> bytes:
    """Write a number in as few bytes as possible."""
    size = (item if item >= 0 else ~item).bit_length() // 8 + 1
    return _write_content(tag, item.to_bytes(size, "big", signed=True))


def _write_value(tag: int, item: object, field: Field) -> bytes:
    match item:
        case None:
            return b""
        case "" if field.is_omitted:
            return b""
        case str():
            return _write_content(tag, item.encode())
        case bool():
            return _write_content(tag, b"\1" if item else b"\0")
        case _:
            assert isinstance(item, int), "a value is a text, a truth or a number"
            return write_number(tag, item)


def _write_parts(tag: int, item: object) -> Steps[bytes]:
    """A part, or an array of parts."""
    if not isinstance(item, tuple):
        part: bytes = yield from write(tag, item)
        return part
    items = []
    for each in item:
        items.append((yield from write(SEQUENCE, each)))
        if not len(items) % STEP_PARTS:
            yield
    return wrap(tag, *items)


def _write_content(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < INDEFINITE:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, INDEFINITE | len(length))) + length + content
