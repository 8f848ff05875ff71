"""Properties that are read from a body: paths in JSON, and an envelope around it.

Libraries send one field with all of the message in it. A domain may say where in that body the
properties for expressions are. The body itself stays unchanged, byte for byte. A body of another
form has none of these properties: no message is refused for its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from struct import error as StructError
from struct import unpack_from
from typing import Any, Final

from headgate.core.model.limits import KiB
from headgate.core.model.message import NAME_BYTES_MAX, PropertyValue
from headgate.core.model.property_type import BY_LABEL, FORMS, PropertyType, type_of
from headgate.core.model.value import value
from headgate.expr.types import INT64_MAX, INT64_MIN

PATHS_MAX: Final = 32
"""Most paths of a domain, so that a body is read in few steps."""
PATH_STEPS_MAX: Final = 16
READ_BYTES: Final = 8 * KiB
"""Bytes of names and values read from one body. More are left out: properties are for expressions,
and are in memory."""
HEADERS_MAX: Final = 64
"""Headers of an envelope; more are left out."""

STEP = re.compile(r"(?:^|\.)([^.\[\]:]+)|\[([0-9]{1,6})\]")

FASTSTREAM: Final = "faststream"
ENVELOPES: Final = ("", FASTSTREAM)
FASTSTREAM_MAGIC: Final = b"\x89BIN\r\n\x1a\n"
FASTSTREAM_VERSION: Final = 1


@value
class BodyPath:
    """The path of a property in a JSON text, and its type."""

    text: str
    steps: tuple[str | int, ...]
    """Names of members, and indices of lists."""
    type: PropertyType | None = None
    """None for the type of the value."""


def read_path(text: str) -> BodyPath:
    """Parse a path such as `order.lines[0].amount:int64`; ValueError if it is none."""
    where, colon, label = text.partition(":")
    type = BY_LABEL.get(label)
    if colon and (type is None or type is PropertyType.BINARY):
        raise ValueError(f"{label!r} is no type of properties that JSON has")
    steps: list[str | int] = []
    place = 0
    while place < len(where):
        found = STEP.match(where, place)
        if found is None or where.startswith("."):
            raise ValueError(f"{text!r} is no path")
        steps.append(found[1] if found[1] is not None else int(found[2]))
        place = found.end()
    if not 0 < len(steps) <= PATH_STEPS_MAX:
        raise ValueError(f"a path has 1 to {PATH_STEPS_MAX} steps")
    return BodyPath(text, tuple(steps), type)


def read_body(
    body: bytes, paths: Mapping[str, BodyPath], envelope: str, json_bytes: int
) -> BodyProperties:
    """Read the properties from a body. A body with more bytes than this is not read."""
    found = BodyProperties()
    if len(body) > json_bytes:
        found.is_unread = True
        return found
    if envelope == FASTSTREAM:
        opened = open_envelope(body)
        if opened is None:
            found.is_unread = True
            return found
        headers, body = opened
        for name, text in headers.items():
            found.add(name, text, PropertyType.STRING)
    if not paths:
        return found
    try:
        root = _parse(body.decode())
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
        found.is_unread = True
        return found
    for name, path in paths.items():
        item = _walk(root, path.steps)
        if item is not None:
            found.add(name, _fitting(item, path.type), path.type)
    return found


class BodyProperties:
    """Properties read from a body, and whether some could not be."""

    __slots__ = ("_room", "is_unread", "misfits", "types", "values")

    def __init__(self) -> None:
        self.values: dict[str, PropertyValue] = {}
        self.types = bytearray()
        """One for each value."""
        self.is_unread = False
        """Whether the body could not be read."""
        self.misfits = 0
        """Number of values of the wrong type, or too long."""
        self._room = READ_BYTES

    def add(self, name: str, item: PropertyValue | None, declared: PropertyType | None) -> None:
        if item is None or name in self.values:
            self.misfits += 1
            return
        try:
            size = len(name.encode()) + (len(item.encode()) if isinstance(item, str) else 8)
        except UnicodeEncodeError:  # half of a surrogate pair, as JSON can write it
            self.misfits += 1
            return
        if size > self._room or not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            self.misfits += 1
            return
        self._room -= size
        self.values[name] = item
        self.types.append(type_of(item) if declared is None else declared)


def open_envelope(body: bytes) -> tuple[dict[str, str], bytes] | None:
    """The headers and the payload of a FastStream message; None if it is not one."""
    try:
        magic, version, start, payload = unpack_from(">8sHII", body)
        if magic != FASTSTREAM_MAGIC or version != FASTSTREAM_VERSION or payload > len(body):
            return None
        [count] = unpack_from(">H", body, start)
        place, headers = start + 2, {}
        for _ in range(min(count, HEADERS_MAX)):
            name, place = _text_at(body, place)
            headers[name], place = _text_at(body, place)
    except (StructError, ValueError):
        return None
    return headers, body[payload:]


def _text_at(body: bytes, place: int) -> tuple[str, int]:
    """A text with its length before it, and where it ends."""
    [length] = unpack_from(">H", body, place)
    end = place + 2 + length
    if end > len(body):
        raise ValueError("cut off")
    return body[place + 2 : end].decode(), end


class _Number(str):
    """A number that is not an integer, as written."""

    __slots__ = ()


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_parse = json.JSONDecoder(parse_float=_Number, parse_constant=_refuse).decode


def _walk(item: Any, steps: tuple[str | int, ...]) -> Any:  # noqa: ANN401  whatever JSON has
    for step in steps:
        if isinstance(step, str):
            item = item.get(step) if isinstance(item, dict) else None
        else:
            item = item[step] if isinstance(item, list) and step < len(item) else None
        if item is None:
            return None
    return item


def _fitting(item: Any, type: PropertyType | None) -> PropertyValue | None:  # noqa: ANN401
    """A JSON value as the value of a property; None if it cannot be one."""
    if isinstance(item, dict | list):
        return None
    if type is None:
        is_large = isinstance(item, int) and not INT64_MIN <= item <= INT64_MAX
        return str(item) if isinstance(item, _Number) or is_large else item
    if type is PropertyType.STRING:
        return str(item).lower() if isinstance(item, bool) else str(item)
    if type is PropertyType.BOOL:
        return item if isinstance(item, bool) else None
    if isinstance(item, bool) or not isinstance(item, int):
        return None
    bits = FORMS[type].bits
    assert bits is not None, "an integer has a width"
    return item if -(1 << bits - 1) <= item < 1 << bits - 1 else None
