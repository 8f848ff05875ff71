"""Private keys as PKCS#8, known by their beginning and their length."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private, kind_of_private, raw_private

RAW = bytes([6]) * 32
LONG = bytes([6]) * 57
PrivateKey: TypeAlias = Ed25519PrivateKey | Ed448PrivateKey | X25519PrivateKey
KEYS: dict[KeyKind, tuple[bytes, PrivateKey]] = {
    KeyKind.ED25519: (RAW, Ed25519PrivateKey.from_private_bytes(RAW)),
    KeyKind.X25519: (RAW, X25519PrivateKey.from_private_bytes(RAW)),
    KeyKind.ED448: (LONG, Ed448PrivateKey.from_private_bytes(LONG)),
}


@pytest.mark.parametrize("kind", KeyKind)
def test_a_private_key_is_written_as_the_library_writes_it(kind: KeyKind) -> None:
    raw, key = KEYS[kind]
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert encode_private(kind, raw) == der
    assert (kind_of_private(der), raw_private(der)) == (kind, raw)


def test_the_key_of_a_notifier_is_that_of_the_examples() -> None:
    der = bytes.fromhex("302e020100300506032b657004220420") + RAW
    assert encode_private(KeyKind.ED25519, RAW) == der
    assert len(der) == 48


@pytest.mark.parametrize("kind", KeyKind)
def test_what_is_longer_or_shorter_or_begins_otherwise_is_no_key(kind: KeyKind) -> None:
    der = encode_private(kind, KEYS[kind][0])
    for other in (b"", der[:-1], der + b"x", b"x" + der[1:]):
        assert kind_of_private(other) is None
