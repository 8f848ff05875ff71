"""Key encapsulation for the double ratchet: a port.

The wire works without it. With the extra `pq` it is `headgate.crypto.sntrup761.Sntrup761`; tests
pass one without randomness.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, Protocol

from headgate.core.model.value import value

KEM_PUBLIC_BYTES: Final = 1158
KEM_CIPHERTEXT_BYTES: Final = 1039
"""Size of a ciphertext of sntrup761, the only kind on this wire."""


@value
class KemKeyPair:
    """A public key for the peer, and the private one that opens its answer."""

    public: bytes
    private: bytes = field(repr=False)


@value
class Encapsulation:
    """A secret, and the ciphertext from which the owner of the public key gets it."""

    ciphertext: bytes
    secret: bytes = field(repr=False)


class Kem(Protocol):
    """Makes key pairs and secrets. It uses random numbers, so it is always passed as an
    argument."""

    def generate(self) -> KemKeyPair: ...

    def encapsulate(self, public: bytes) -> Encapsulation:
        """A secret for the owner of this key, or `Malformed` if it is not a key."""
        ...

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytes:
        """The secret in a ciphertext. One that was made for another key gives a useless secret, or
        `Malformed`."""
        ...
