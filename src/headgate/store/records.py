"""The parties of a queue as bytes: what a store keeps of them beside the ids it looks up."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core.names import ServiceId
from headgate.core.parties import Link, Notifier, Parties, Purpose

DAMAGED = (ValueError, TypeError, msgspec.MsgspecError)
"""What reading a value raises that is not what was written."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


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
