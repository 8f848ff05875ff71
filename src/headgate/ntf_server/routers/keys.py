"""Private keys of notifiers, as apps hand them over."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Key
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import kind_of_private, raw_private
from headgate.errors import StoreError


def notifier_key(der: bytes) -> Key:
    """The key of PKCS#8 bytes. Raises `StoreError` if they are not what an app handed over."""
    raw = raw_private(der)
    match kind_of_private(der):
        case KeyKind.X25519:
            return raw
        case KeyKind.ED25519:
            return Ed25519PrivateKey.from_private_bytes(raw)
        case KeyKind.ED448:
            return Ed448PrivateKey.from_private_bytes(raw)
        case None:
            raise StoreError("the key of a notifier is damaged in the records")
