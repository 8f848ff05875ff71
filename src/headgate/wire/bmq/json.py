"""Control messages in JSON: fields by name, enumerations by their words."""

from __future__ import annotations

import json
from typing import TypeVar

from headgate.wire.bmq.events import Malformed
from headgate.wire.bmq.shapes import Field, make, shape

T = TypeVar("T")


def parse(body: bytes) -> dict[str, object]:
    """The members of an object. How deeply it may be nested is for the standard library to say:
    what we read is shallow, and what we ignore is never walked."""
    try:
        found = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise Malformed("no JSON") from None
    return _members(found)


def read(members: object, cls: type[T]) -> T:
    """A part of a message. Members that we do not know are ignored."""
    known = _members(members)
    found = {
        field.name: _read_field(known[field.label], field)
        for field in shape(cls)
        if field.label in known
    }
    return make(cls, found)


def _members(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise Malformed("something else than an object")
    return found


def _read_field(item: object, field: Field) -> object:
    if field.is_many:
        if not isinstance(item, list):
            raise Malformed(f"{field.label} is no array")
        return tuple(read(each, field.type) for each in item)
    if field.type is str:
        return _text(item, field)
    if field.type is bool:
        if not isinstance(item, bool):
            raise Malformed(f"{field.label} is neither true nor false")
        return item
    if field.is_number:
        return number(item, field)
    if item is None and field.default is None:
        return None
    return read(item, field.type)


def _text(item: object, field: Field) -> str:
    if not isinstance(item, str):
        raise Malformed(f"{field.label} is no text")
    try:
        item.encode()
    except UnicodeEncodeError:  # half of a character, which only an escape can write
        raise Malformed(f"{field.label} is not Unicode") from None
    return item


def number(item: object, field: Field) -> int:
    """By itself, or by the word that stands for it."""
    if isinstance(item, str):
        for known, word in field.words.items():
            if word == item:
                return field.number(known)
        raise Malformed(f"no {field.label} has this name")
    if not isinstance(item, int) or isinstance(item, bool):
        raise Malformed(f"{field.label} is no number")
    return field.number(item)


def write(members: dict[str, object]) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def members_of(part: object) -> dict[str, object]:
    """What `write` needs of a part of a message."""
    return {
        field.label: _write_field(item, field)
        for field in shape(type(part))
        if (item := getattr(part, field.name)) or not field.is_omitted
    }


def _write_field(item: object, field: Field) -> object:
    match item:
        case tuple():
            return [members_of(each) for each in item]
        case bool() | str():
            return item
        case int():
            return field.words.get(item, int(item))
        case _:
            return members_of(item)
