"""The fields of a stream entry, and the properties and body of a message.

An entry is a list of names and values, all of them bytes. A message has typed properties, which
expressions read, and a body, which they do not. Entries come back with the same names and bytes;
only the field that became the body comes last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from headgate.core.model.domain import Domain
from headgate.core.model.ids import MessageId
from headgate.core.model.message import Fields, Message, PropertyValue
from headgate.core.model.property_type import FORMS, PropertyType, type_of
from headgate.expr.types import INT64_MAX, INT64_MIN
from headgate.wire.resp.codec.replies import CommandError, bulk
from headgate.wire.resp.streams.bodies import BodyReader

FIELDS_MAX: Final = 255
BODY_NAMES: Final = (b"body", b"data", b"payload", b"__data__", b"message")
"""Names under which libraries send the content of an entry."""
BODY_BYTES: Final = 1024
"""The largest value becomes the body if it is longer than this."""
NO_NAME: Final = "body"
"""The name of a body that came over another wire."""

COPIED_BYTES = 4096
"""Bytes of a body that are copied sooner than sent as a piece."""
INTEGER = re.compile(rb"-?[1-9][0-9]{0,18}|0")
"""An integer that is written back unchanged: no leading zeros, no plus, no minus zero."""
BOOLEANS: Final[dict[bytes, bool]] = {b"true": True, b"false": False}


def read_fields(domain: Domain, id: bytes, words: Sequence[bytes], bodies: BodyReader) -> Message:
    """The message of a list of names and values; raise if there can be none."""
    if len(words) > 2 * FIELDS_MAX:
        raise CommandError(f"ERR an entry has at most {FIELDS_MAX} fields here")
    fields = dict(zip(words[::2], words[1::2], strict=True))
    if 2 * len(fields) < len(words):
        raise CommandError("ERR a field is there twice: give each field a name of its own")
    body = _body_of(domain, fields)
    size = sum(map(len, words)) - (0 if body is None else len(body) + len(fields[body]))
    bodies.check_size(size)
    properties: dict[str, PropertyValue] = {}
    types = bytearray()
    for name, value in fields.items():
        text = _name(name)
        if name == body:
            continue
        declared = domain.fields.get(text)
        found = _plain(value) if declared is None else _declared(text, value, declared)
        properties[text] = found
        types.append(type_of(found) if declared is None else declared)
    content = b"" if body is None else fields[body]
    own = len(types)
    if content and (domain.properties or domain.envelope):
        # Fields win over properties from the body.
        bodies.add_properties(domain, content, properties, types)
    kept = Fields(properties, bytes(types), "" if body is None else body.decode(), own)
    return Message(MessageId(id), content, 0.0, kept)


def _name(name: bytes) -> str:
    if not name:
        raise CommandError("ERR the name of a field is empty")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CommandError("ERR the name of a field is not valid UTF-8") from None


def _body_of(domain: Domain, fields: dict[bytes, bytes]) -> bytes | None:
    """The field that becomes the body. An empty one does not."""
    found = domain.body_field.encode()
    if not found or found not in fields:
        found = b""
        for name in BODY_NAMES:
            if name in fields:
                found = name
                break
    if not found and len(fields) == 1:
        [found] = fields
    if not found:
        longest = max(fields, key=lambda name: len(fields[name]), default=b"")
        found = longest if fields and len(fields[longest]) > BODY_BYTES else b""
    return found if found and fields[found] else None


def _plain(value: bytes) -> PropertyValue:
    """A value without a declared type, typed by its form."""
    if INTEGER.fullmatch(value) and INT64_MIN <= int(value) <= INT64_MAX:
        return int(value)
    if value in BOOLEANS:
        return BOOLEANS[value]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _declared(name: str, value: bytes, type: PropertyType) -> PropertyValue:
    try:
        found = READERS[FORMS[type].python](value)
    except ValueError:
        found = None
    bits = FORMS[type].bits
    if found is None or (bits is not None and not -(1 << bits - 1) <= int(found) < 1 << bits - 1):
        raise CommandError(f"ERR field '{name}' is not {_article(type.label)} {type.label}")
    return found


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _integer(value: bytes) -> int | None:
    return int(value) if INTEGER.fullmatch(value) else None


READERS: Final[dict[type, Callable[[bytes], PropertyValue | None]]] = {
    bool: BOOLEANS.get,
    int: _integer,
    str: lambda value: value.decode(),
    bytes: lambda value: value,
}


def write_entry(
    id: bytes, message: Message, past: tuple[float, int] | None = None
) -> tuple[bytes, ...]:
    """The pieces of an entry as it is answered: its id, its names and values, and where that is
    asked for the milliseconds for which it was held, and how often it was given to somebody
    before. A large body is a piece by itself, and not copied."""
    properties, body = message.properties, message.body
    parts, fields = [], properties.items()
    if isinstance(properties, Fields):
        named, own = properties.body, properties.own
        if own < len(properties):
            fields = dict(islice(fields, own)).items()
    else:
        named = ""
    for name, value in fields:
        parts.append(bulk(name.encode()))
        parts.append(bulk(_text(value)))
    tail = b"" if past is None else b":%d\r\n:%d\r\n" % (past[0] * 1000, past[1])
    count = 2 if past is None else 4
    if not body and parts:
        return (b"*%d\r\n%b*%d\r\n%b%b" % (count, bulk(id), len(parts), b"".join(parts), tail),)
    parts.append(bulk((named or NO_NAME).encode()))
    lead = b"*%d\r\n%b*%d\r\n%b" % (count, bulk(id), len(parts) + 1, b"".join(parts))
    lead += b"$%d\r\n" % len(body)
    if len(body) > COPIED_BYTES:
        return lead, body, b"\r\n" + tail
    return (b"%b%b\r\n%b" % (lead, body, tail),)


def _text(value: PropertyValue) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return b"%d" % value
