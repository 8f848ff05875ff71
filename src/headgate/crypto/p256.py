"""P-256 as push services want it: points of 65 bytes, agreed secrets, signatures of 64 bytes.

Signing draws nothing: the number that each signature needs is derived from key and message, as RFC
6979 says. So the same input has the same signature, and a bad source of randomness cannot give a
key away.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headgate.errors import Malformed

POINT_BYTES: Final = 65
UNCOMPRESSED: Final = 0x04
"""How a point begins that has both of its coordinates."""

SCALAR_BYTES: Final = 32
SIGNATURE_BYTES: Final = 2 * SCALAR_BYTES


def private_key(raw: bytes) -> EllipticCurvePrivateKey:
    """The key of a number of 32 bytes, or `Malformed`."""
    try:
        if len(raw) == SCALAR_BYTES:
            return derive_private_key(int.from_bytes(raw, "big"), SECP256R1())
    except ValueError:
        pass
    raise Malformed("no private key of P-256")


def point_of(private: EllipticCurvePrivateKey) -> bytes:
    """The public key, as it travels."""
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def decode_point(point: bytes) -> EllipticCurvePublicKey:
    """The public key of these bytes, or `Malformed`: it must be written in full and be on the
    curve."""
    try:
        if len(point) == POINT_BYTES and point[0] == UNCOMPRESSED:
            return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
    except ValueError:
        pass
    raise Malformed("no point of P-256")


def agree(private: EllipticCurvePrivateKey, point: bytes) -> bytes:
    """What both owners get: the first coordinate."""
    return private.exchange(ECDH(), decode_point(point))


def sign(private: EllipticCurvePrivateKey, message: bytes) -> bytes:
    """ES256: both numbers of the signature in full, not their DER."""
    r, s = decode_dss_signature(private.sign(message, ECDSA(SHA256(), deterministic_signing=True)))
    return r.to_bytes(SCALAR_BYTES, "big") + s.to_bytes(SCALAR_BYTES, "big")


def is_signature(point: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of this point made the signature."""
    if len(signature) != SIGNATURE_BYTES:
        return False
    r, s = signature[:SCALAR_BYTES], signature[SCALAR_BYTES:]
    der = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    try:
        decode_point(point).verify(der, message, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True
