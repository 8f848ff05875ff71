"""Private keys in the form of the wire: the DER of PKCS#8, a fixed beginning and the raw key.

A client sends one only to let a notification server subscribe in its place.
"""

from __future__ import annotations

from typing import Final

from headgate.crypto.keys import KeyKind

PRIVATE_PREFIXES: Final = {
    KeyKind.ED25519: bytes.fromhex("302e020100300506032b657004220420"),
    KeyKind.X25519: bytes.fromhex("302e020100300506032b656e04220420"),
    KeyKind.ED448: bytes.fromhex("3047020100300506032b6571043b0439"),
}
"""The beginning of the DER of each kind."""

PRIVATE_PREFIX: Final = 16
"""The length of each of these beginnings."""

PRIVATE_BYTES: Final = {KeyKind.ED25519: 48, KeyKind.X25519: 48, KeyKind.ED448: 73}

KINDS: Final = {(PRIVATE_BYTES[kind], prefix): kind for kind, prefix in PRIVATE_PREFIXES.items()}


def encode_private(kind: KeyKind, raw: bytes) -> bytes:
    der = PRIVATE_PREFIXES[kind] + raw
    assert kind_of_private(der) is kind, "a raw key has the length of its kind"
    return der


def kind_of_private(der: bytes) -> KeyKind | None:
    return KINDS.get((len(der), der[:PRIVATE_PREFIX]))


def raw_private(der: bytes) -> bytes:
    return der[PRIVATE_PREFIX:]
