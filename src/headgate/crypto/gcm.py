"""AES-256-GCM in the ratchet's form: an initialisation vector of 16 bytes, and the tag separate."""

from __future__ import annotations

from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

IV_BYTES: Final = 16
TAG_BYTES: Final = 16


class Tagged(NamedTuple):
    """Encrypted bytes, and the tag that authenticates them and the data beside them."""

    tag: bytes
    body: bytes


def encrypt(key: bytes, iv: bytes, plaintext: bytes, beside: bytes) -> Tagged:
    """Encrypt. `beside` is authenticated by the tag and not encrypted."""
    sealed = AESGCM(key).encrypt(iv, plaintext, beside)
    return Tagged(sealed[-TAG_BYTES:], sealed[:-TAG_BYTES])


def decrypt(key: bytes, iv: bytes, tagged: Tagged, beside: bytes) -> bytes | None:
    """The plaintext, or None if any part was changed. The library compares the tags."""
    try:
        return AESGCM(key).decrypt(iv, tagged.body + tagged.tag, beside)
    except InvalidTag:
        return None
