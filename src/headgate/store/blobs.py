"""Blobs, which a store keeps as single values: the parties of a queue beside the ids for look-ups,
the properties of a message, the apps that have not confirmed it, and the ids that a batch
remembers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgspec

from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import (
    NO_PROPERTIES,
    Arrival,
    Declared,
    Fields,
    Known,
    Properties,
)
from headgate.core.model.parties import Link, Notifier, Parties, Purpose

DAMAGED = (ValueError, TypeError, msgspec.MsgspecError)
"""The errors of reading a damaged value."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


# msgspec takes no union of str and bytes; msgpack itself distinguishes the four types.
_decode_properties = msgspec.msgpack.Decoder(dict[str, Any] | tuple[dict[str, Any], bytes]).decode
_decode_apps = msgspec.json.Decoder(tuple[AppId, ...]).decode

_decode_known = msgspec.msgpack.Decoder(dict[MessageId, float]).decode
_decode_numbers = msgspec.msgpack.Decoder(list[Seq]).decode

BODY = b"\0"
"""Stands between the types of properties and the name of the body."""
READ_BODY = b"\1"
"""The same if some properties were read from the body: the number of the others follows."""

encode_apps = msgspec.json.Encoder().encode


def decode_apps(encoded: bytes | str | None) -> tuple[AppId, ...]:
    """The apps of a message. Most have only the app of a queue without apps, which is stored as
    nothing."""
    return (WHOLE,) if encoded is None else _decode_apps(encoded)


def encode_properties(properties: Properties) -> bytes:
    """A map; or a map and the declared types of its values, and after these the name of the body,
    if it has one."""
    if not properties and type(properties) is not Fields:  # the usual case
        return b""
    if isinstance(properties, Fields):
        own = properties.own
        sign = BODY if own == len(properties) else READ_BODY + own.to_bytes(2, "big")
        return _encode((properties, properties.types + sign + properties.body.encode()))
    if isinstance(properties, Declared):
        return _encode((properties, properties.types))
    return _encode(dict(properties))  # msgspec does not know every Mapping


def decode_properties(encoded: bytes) -> Properties:
    if not encoded:
        return NO_PROPERTIES
    found = _decode_properties(encoded)
    if isinstance(found, dict):
        return found
    values, types = found
    count = len(values)
    if types[count : count + 1] == BODY:
        return Fields(values, types[:count], types[count + 1 :].decode())
    if types[count : count + 1] == READ_BODY:
        own = int.from_bytes(types[count + 1 : count + 3], "big")
        return Fields(values, types[:count], types[count + 3 :].decode(), own)
    if count != len(types):
        raise ValueError("as many types as values")
    return Declared(values, types)


def encode_parties(parties: Parties | None) -> bytes | None:
    if parties is None:
        return None
    link, notifier = parties.link, parties.notifier
    return _encode(
        [
            parties.keys,
            parties.secret,
            parties.sender,
            parties.sender_key,
            parties.purpose.value if parties.purpose is not None else None,
            (link.id, link.fixed, link.user) if link is not None else None,
            (notifier.id, notifier.key, notifier.secret, notifier.service)
            if notifier is not None
            else None,
            parties.is_off,
        ]
    )


def decode_parties(blob: bytes | None) -> Parties | None:
    if blob is None:
        return None
    keys, secret, sender, sender_key, purpose, link, notifier, is_off = _decode(blob)
    return Parties(
        keys=tuple(keys),
        secret=secret,
        sender=sender,
        sender_key=sender_key,
        purpose=Purpose(purpose) if purpose is not None else None,
        link=Link(*link) if link is not None else None,
        notifier=_notifier(*notifier) if notifier is not None else None,
        is_off=is_off,
    )


def _notifier(id: bytes, key: bytes, secret: bytes, service: bytes | None) -> Notifier:
    return Notifier(id, key, secret, ServiceId(service) if service is not None else None)


def known_row(known: Known) -> tuple[float, bytes, bytes]:
    """When the newest was accepted, when each was, and their numbers in the same order."""
    times = {id: arrival.at for id, arrival in known.items()}
    return max(times.values()), _encode(times), _encode([each.seq for each in known.values()])


def known_of(rows: Iterable[tuple[QueueId, bytes, bytes | None]]) -> dict[QueueId, Known]:
    """The remembered ids of each queue."""
    return joined((queue, _known(times, numbers)) for queue, times, numbers in rows)


def _known(times: bytes, numbers: bytes | None) -> Known:
    """Ids of a row. One of an older version has no numbers, and no id that was added by a stream:
    nobody asks for them."""
    found = _decode_known(times)
    seqs = repeat(Seq(0)) if numbers is None else _decode_numbers(numbers)
    return {id: Arrival(at, seq) for (id, at), seq in zip(found.items(), seqs, strict=False)}


def joined(parts: Iterable[tuple[QueueId, Known]]) -> dict[QueueId, Known]:
    """The remembered ids of each queue, joined. A repeated id has the later time."""
    found: dict[QueueId, Known] = {}
    for queue, known in parts:
        ids = found.setdefault(queue, {})
        for id, arrival in known.items():
            if arrival >= ids.get(id, arrival):
                ids[id] = arrival
    return found
