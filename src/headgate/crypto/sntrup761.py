"""sntrup761 of the package pqcrypto, which the extra `pq` installs.

The only module here that uses random numbers: the library does not take them as arguments. No
module here imports it; the owner of the agent's randomness does, and passes it on as a `Kem`.
"""

from __future__ import annotations

from pqcrypto.kem import sntrup_761

from headgate.crypto.kem import Encapsulation, KemKeyPair
from headgate.errors import Malformed


class Sntrup761:
    """A `headgate.crypto.kem.Kem`. A key pair takes about 20 ms, the rest less than one."""

    __slots__ = ()

    def generate(self) -> KemKeyPair:
        public, private = sntrup_761.keygen()
        return KemKeyPair(bytes(public), bytes(private))

    def encapsulate(self, public: bytes) -> Encapsulation:
        try:
            ciphertext, secret = sntrup_761.encaps(public)
        except (ValueError, RuntimeError):
            raise Malformed("no key of sntrup761") from None
        return Encapsulation(bytes(ciphertext), bytes(secret))

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytes:
        try:
            return bytes(sntrup_761.decaps(pair.private, ciphertext))
        except (ValueError, RuntimeError):
            raise Malformed("no ciphertext of sntrup761") from None
