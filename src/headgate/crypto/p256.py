"""P-256 in the form of push services: points of 65 bytes, agreed secrets, signatures of 64 bytes.

Signing uses no randomness: the nonce of each signature is derived from key and message, as in RFC
6979. So the same input has the same signature, and bad randomness cannot reveal a key.
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
"""The first byte of a point with both of its coordinates."""

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
    """The public key, in the form of the wire."""
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def decode_point(point: bytes) -> EllipticCurvePublicKey:
    """The public key in these bytes, or `Malformed`: it must be uncompressed and on the curve."""
    try:
        if len(point) == POINT_BYTES and point[0] == UNCOMPRESSED:
            return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
    except ValueError:
        pass
    raise Malformed("no point of P-256")


def agree(private: EllipticCurvePrivateKey, point: bytes) -> bytes:
    """The shared secret: the first coordinate."""
    return private.exchange(ECDH(), decode_point(point))


def sign(private: EllipticCurvePrivateKey, message: bytes) -> bytes:
    """An ES256 signature: both numbers at full length, not as DER."""
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
