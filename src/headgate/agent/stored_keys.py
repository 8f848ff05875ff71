"""Private keys of queues in the records: the name of their kind, and the raw key."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Key
from headgate.errors import StoreError


def pack_key(key: Key) -> tuple[str, bytes]:
    """The kind and the raw key. The second is a secret."""
    match key:
        case bytes():
            return "x25519", key
        case Ed25519PrivateKey():
            return "ed25519", key.private_bytes_raw()
        case Ed448PrivateKey():
            return "ed448", key.private_bytes_raw()


def unpack_key(kind: str, raw: bytes) -> Key:
    """The key in the records. Raises `StoreError` for anything that `pack_key` did not make."""
    try:
        match kind:
            case "x25519" if len(raw) == 32:
                return raw
            case "ed25519":
                return Ed25519PrivateKey.from_private_bytes(raw)
            case "ed448":
                return Ed448PrivateKey.from_private_bytes(raw)
    except ValueError:
        pass
    raise StoreError(f"a stored key is not one of the kind {kind}: the file is damaged")
