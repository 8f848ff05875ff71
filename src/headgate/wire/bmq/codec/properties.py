"""The properties of a message, in the area before its payload.

The area begins with a header, a header for each property, and then names and values back to back.
In the old style a property's header has the length of its value, in the new style the place of its
name, from which the lengths follow. Both are read, the old one is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from struct import Struct, calcsize
from typing import Any, Final

from headgate.core.model.message import NAME_BYTES_MAX, Declared, Properties, PropertyValue
from headgate.core.model.property_type import FORMS, PropertyType, type_of
from headgate.errors import HeadgateError
from headgate.wire.bmq.codec.frames import PADDING, WORD, Buffer


class BadData(HeadgateError):
    """The data of one message is wrong; the message is refused, the session goes on."""


FIXED: Final = {
    int(type): (form.struct, calcsize(form.struct))
    for type, form in FORMS.items()
    if form.struct is not None
}
"""The types whose values have a fixed size, and their `struct` codes."""

BOOL: Final = int(PropertyType.BOOL)
STRING: Final = int(PropertyType.STRING)
BINARY: Final = int(PropertyType.BINARY)

AREA: Final = Struct(">IxB")
"""Header of the area: the sizes of the headers and the words of the area; the number of
properties."""
PROPERTY: Final = Struct(">IH")
"""Header of a property: the type with a length or a place; the length of the name."""
SIZES: Final = (PROPERTY.size // 2) << 3 | AREA.size // 2
"""The halves of the sizes of both headers, as they are written."""

HEADERS: Final = {
    size: Struct(f"{PROPERTY.format}{size - PROPERTY.size}x") for size in range(6, 16, 2)
}
"""Layouts of the header of one property, by the size that an area gives."""

COUNT_MAX: Final = 255
LENGTH_BITS: Final = 26
LENGTH_MAX: Final = (1 << LENGTH_BITS) - 1

LAYOUTS: Final = 1024
"""Layouts remembered for reading, and as many for writing. The messages of one sender have few, and
making one takes longer than using it."""


def parse_area(data: Buffer, is_new: bool) -> tuple[Declared, int]:
    """The properties, and the number of bytes they take in the data."""
    if len(data) < AREA.size:
        raise BadData("the properties are cut off")
    area, count = AREA.unpack_from(data)
    size = (area & 0xFF_FFFF) * WORD
    if size > len(data):
        raise BadData("the properties are cut off")
    at = (area >> 24 & 7) * 2
    if at < AREA.size:
        raise BadData("the header of the properties is wrong")
    start = at + (area >> 27 & 7) * 2 * count
    end = size - data[size - 1]
    layout, types, padding = _layout(bytes(data[:start]), end, is_new)
    found = Declared.__new__(Declared)  # and filled here, so that nothing is copied
    fields = iter(layout.unpack_from(data, start))
    try:
        for name, item, kind in zip(fields, fields, types, strict=True):
            found[_name(name)] = item.decode() if kind == STRING else item
    except UnicodeDecodeError:
        raise BadData("a property is not valid UTF-8") from None
    if len(found) != count:
        raise BadData("two properties have one name")
    found.types = types
    found.written = None if padding is None else bytes(data[:end]) + padding
    return found, size


@lru_cache(LAYOUTS)
def _name(encoded: bytes) -> str:
    """The name of a property, which all messages of its sender share."""
    return encoded.decode()


@lru_cache(LAYOUTS)
def _layout(headers: bytes, end: int, is_new: bool) -> tuple[Struct, bytes, bytes | None]:
    """Of the names and values that lie between the headers and the padding, and their types; and
    the padding, if `encode_area` would write the same headers. It may write another boolean."""
    area, count = AREA.unpack_from(headers)
    size = (area & 0xFF_FFFF) * WORD
    at = (area >> 24 & 7) * 2
    layout = HEADERS.get((area >> 27 & 7) * 2)
    if layout is None or not count:
        raise BadData("the header of the properties is wrong")
    start = at + layout.size * count
    if not size - WORD <= end < size:
        raise BadData("the padding of the properties is wrong")
    if start > end:
        raise BadData("the area of the properties does not hold their headers")
    properties: Sequence[tuple[int, int]] = list(layout.iter_unpack(headers[at:]))
    if is_new:
        properties = _with_lengths(properties, end - start)
    format = [">"]
    types = []
    lengths: list[int] = []
    for header, name in properties:
        kind = header >> LENGTH_BITS & 31
        length = header & LENGTH_MAX
        name &= NAME_BYTES_MAX
        if not name:
            raise BadData("a property without a name")
        format.append(f"{name}s{_code(kind, length)}")
        types.append(kind)
        lengths += (name, 0 if kind in FIXED else length)
        start += name + length
    if start != end:
        raise BadData("the lengths of the properties are wrong")
    padding = None
    if not is_new and BOOL not in types:
        written, _, ours = _headers(bytes(types), tuple(lengths))
        padding = ours if written == headers else None
    return Struct("".join(format)), bytes(types), padding


def _with_lengths(headers: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Headers of the old style made of those of the new, given the size of names and values."""
    places = [header & LENGTH_MAX for header, _ in headers]
    if places[0]:
        raise BadData("the first property is not in its place")
    found = []
    for (header, name), (place, after) in zip(headers, pairwise((*places, size)), strict=True):
        length = after - place - (name & NAME_BYTES_MAX)
        if length < 0:
            raise BadData("a property is not in its place")
        found.append((header & ~LENGTH_MAX | length, name))
    return found


def _code(kind: int, length: int) -> str:
    """The `struct` code for a value of a type and a length."""
    if kind in (STRING, BINARY):
        return f"{length}s"
    if kind not in FIXED:
        raise BadData(f"a property of type {kind}")
    code, size = FIXED[kind]
    if length != size:
        raise BadData(f"a property of type {PropertyType(kind).name} with {length} bytes")
    return code


def encode_area(properties: Properties) -> bytes:
    """The area in the old style, with the properties in their order."""
    if not properties:
        return b""
    if isinstance(properties, Declared) and properties.written is not None:
        return properties.written
    declared = types(properties)
    fields: list[PropertyValue] = []
    lengths: list[int] = []
    item: Any
    for (name, item), kind in zip(properties.items(), declared, strict=True):
        encoded = name.encode()
        if kind == STRING:
            item = item.encode()
        fields += (encoded, item)
        lengths += (len(encoded), 0 if kind in FIXED else len(item))
    headers, layout, padding = _headers(declared, tuple(lengths))
    return b"".join((headers, layout.pack(*fields), padding))


@lru_cache(LAYOUTS)
def _headers(types: bytes, lengths: tuple[int, ...]) -> tuple[bytes, Struct, bytes]:
    """The headers of properties with these alternating lengths of names and values; the layout
    behind the headers; and the padding."""
    if len(types) > COUNT_MAX:
        raise BadData(f"more than {COUNT_MAX} properties")
    format = [">"]
    headers = []
    for kind, name, length in zip(types, lengths[::2], lengths[1::2], strict=True):
        if not 0 < name <= NAME_BYTES_MAX:
            raise BadData(f"the name of a property has {name} bytes")
        if kind in FIXED:
            length = FIXED[kind][1]
        format.append(f"{name}s{_code(kind, length)}")
        headers.append(PROPERTY.pack(kind << LENGTH_BITS | length, name))
    layout = Struct("".join(format))
    size = AREA.size + PROPERTY.size * len(types) + layout.size
    area = AREA.pack(SIZES << 24 | (size >> 2) + 1, len(types))
    return area + b"".join(headers), layout, PADDING[size & 3]


def types(properties: Properties) -> bytes:
    """The declared types of properties, or the widest for a value."""
    if isinstance(properties, Declared):
        return properties.types
    return bytes(map(type_of, properties.values()))
