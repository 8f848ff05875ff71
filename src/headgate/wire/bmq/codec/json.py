"""Control messages in JSON: fields by name, enumerations by their words."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Final, TypeVar

from headgate.wire.bmq.codec.fields import Field, make, shape
from headgate.wire.bmq.codec.frames import Malformed
from headgate.wire.bmq.codec.steps import STEP_ITEMS, Steps

T = TypeVar("T")

MEMBERS_MAX: Final = 100_000
"""Members of all objects of a message, about: room for ten thousand subscriptions. The standard
library parses a message in one go, and a new name takes half a microsecond."""
ITEMS_MAX: Final = 250_000
"""Items of all objects and arrays, about."""
STEP_PARTS: Final = STEP_ITEMS // 8
"""Parts of an array that are handled in a row."""


def parse(body: bytes) -> dict[str, object]:
    """The members of an object. The standard library limits the depth: the fields read here are
    shallow, and ignored members are never walked."""
    if body.count(b":") > MEMBERS_MAX or body.count(b",") + body.count(b"[") > ITEMS_MAX:
        raise Malformed("JSON of too many members")
    try:
        found = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise Malformed("no JSON") from None
    return _members(found)


def read(members: object, cls: type[T]) -> Steps[T]:
    """A part of a message. Unknown members are ignored."""
    known = _members(members)
    found: dict[str, object] = {}
    for field in shape(cls):
        if field.label in known:
            item = known[field.label]
            found[field.name] = (
                _read_value(item, field)
                if field.is_value
                else (yield from _read_parts(item, field))
            )
    return make(cls, found)


def _members(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise Malformed("something else than an object")
    return found


def _read_parts(item: object, field: Field) -> Steps[object]:
    """A part, or an array of parts."""
    if not field.is_many:
        if item is None and field.default is None:
            return None
        part: object = yield from read(item, field.type)
        return part
    if not isinstance(item, list):
        raise Malformed(f"{field.label} is no array")
    parts = []
    for each in item:
        parts.append((yield from read(each, field.type)))
        if not len(parts) % STEP_PARTS:
            yield
    return tuple(parts)


def _read_value(item: object, field: Field) -> object:
    if field.type is str:
        return _text(item, field)
    if field.type is bool:
        if not isinstance(item, bool):
            raise Malformed(f"{field.label} is neither true nor false")
        return item
    return number(item, field)


def _text(item: object, field: Field) -> str:
    if not isinstance(item, str):
        raise Malformed(f"{field.label} is no text")
    try:
        item.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
        raise Malformed(f"{field.label} is not Unicode") from None
    return item


def number(item: object, field: Field) -> int:
    """A number, given as such or by its word."""
    if isinstance(item, str):
        for known, word in field.words.items():
            if word == item:
                return field.number(known)
        raise Malformed(f"no {field.label} has this name")
    if not isinstance(item, int) or isinstance(item, bool):
        raise Malformed(f"{field.label} is no number")
    return field.number(item)


def write(part: object) -> Steps[str]:
    """A part of a message."""
    members = []
    for field in shape(type(part)):
        item = getattr(part, field.name)
        if item or not field.is_omitted:
            text = _write_value(item, field) if field.is_value else (yield from _write_parts(item))
            members.append(f'"{field.label}":{text}')
    return "{" + ",".join(members) + "}"


def _write_value(item: object, field: Field) -> str:
    match item:
        case bool():
            return "true" if item else "false"
        case str():
            return encode_basestring(item)
        case _:
            assert isinstance(item, int), "a value is a text, a truth or a number"
            word = field.words.get(item)
            return str(int(item)) if word is None else encode_basestring(word)


def _write_parts(item: object) -> Steps[str]:
    """A part, or an array of parts."""
    if not isinstance(item, tuple):
        part: str = yield from write(item)
        return part
    parts = []
    for each in item:
        parts.append((yield from write(each)))
        if not len(parts) % STEP_PARTS:
            yield
    return "[" + ",".join(parts) + "]"
