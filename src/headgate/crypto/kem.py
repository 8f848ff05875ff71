"""Key encapsulation, as the double ratchet asks for it: a port.

The wire works without it. Who has the extra `pq` hands over `headgate.crypto.sntrup761.Sntrup761`;
tests hand over one that draws nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, Protocol

from headgate.core.model.value import value

KEM_PUBLIC_BYTES: Final = 1158
KEM_CIPHERTEXT_BYTES: Final = 1039
"""Of sntrup761, the one kind that there is on this wire."""


@value
class KemKeyPair:
    """A public key that goes to the peer, and the private one that opens what it sends back."""

    public: bytes
    private: bytes = field(repr=False)


@value
class Encapsulation:
    """A secret, and the ciphertext out of which the owner of the public key gets it."""

    ciphertext: bytes
    secret: bytes = field(repr=False)


class Kem(Protocol):
    """Makes key pairs and secrets. It draws random numbers, so it always comes as an argument."""

    def generate(self) -> KemKeyPair: ...

    def encapsulate(self, public: bytes) -> Encapsulation:
        """A secret for the owner of this key, or `Malformed` if it is none."""
        ...

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytes:
        """The secret inside. One that was not made for this key gives a secret that fits
        nothing, or `Malformed`."""
        ...
