"""JSON Web Tokens with ES256, which identify the sender to push services."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from headgate.crypto.p256 import sign


def signing_input(header: Mapping[str, object], claims: Mapping[str, object]) -> str:
    """The signed text: both parts, with their fields in order."""
    return f"{_encoded(header)}.{_encoded(claims)}"


def json_token(
    private: EllipticCurvePrivateKey, header: Mapping[str, object], claims: Mapping[str, object]
) -> str:
    signed = signing_input(header, claims)
    return f"{signed}.{unpadded(sign(private, signed.encode()))}"


def unpadded(data: bytes) -> str:
    """URL-safe base64 without padding, as tokens and keys of push services are written."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _encoded(fields: Mapping[str, object]) -> str:
    return unpadded(json.dumps(fields, separators=(",", ":")).encode())
