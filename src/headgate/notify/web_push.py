"""Web Push, and so UnifiedPush: requests to an endpoint, and the meaning of its answers.

The body is encrypted for the receiver (RFC 8291): the push service sees its size only. A token (RFC
8292) identifies the sender and is valid for one push service: that cannot use it at another.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import digest
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headgate.crypto.p256 import POINT_BYTES, agree, point_of
from headgate.errors import Malformed
from headgate.notify.json_tokens import json_token, unpadded
from headgate.notify.outcomes import Dead, Delivered, Failed, PushOutcome, later
from headgate.notify.push_content import CheckPush, Push
from headgate.wire.ntf.devices import WebPushDevice
from headgate.wire.ntf.statuses import InvalidReason

SALT_BYTES: Final = 16
RECORD_BYTES: Final = 4096
"""Size of the one record, and the most that a push service must accept."""

HEADER_BYTES: Final = SALT_BYTES + 4 + 1 + POINT_BYTES
TAG_BYTES: Final = 16
LAST_RECORD: Final = b"\2"
"""The end of the plaintext of the last record; zeros may follow."""

PLAINTEXT_BYTES_MAX: Final = RECORD_BYTES - HEADER_BYTES - TAG_BYTES - len(LAST_RECORD)

TTL_SECONDS: Final = 30 * 24 * 3600
"""Seconds that a push service keeps a push for a device that is off."""

TOKEN_SECONDS: Final = 12 * 3600
"""Seconds that a token is valid; RFC 8292 allows a day."""

ORIGINS_MAX: Final = 1000
"""Tokens that are kept. Anybody can name a new push service."""


def encrypt(
    plaintext: bytes, device: WebPushDevice, private: EllipticCurvePrivateKey, salt: bytes
) -> bytes:
    """The body of a push. `private` and `salt` are drawn for this push only."""
    assert len(plaintext) <= PLAINTEXT_BYTES_MAX, "a push fits into one record"
    assert len(salt) == SALT_BYTES, "a salt has its length"
    sender = point_of(private)
    secret = agree(private, device.key)
    key, nonce = _keys(secret, device.auth, device.key, sender, salt)
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(sender)]) + sender
    return head + AESGCM(key).encrypt(nonce, plaintext + LAST_RECORD, None)


def decrypt(body: bytes, private: EllipticCurvePrivateKey, auth: bytes) -> bytes:
    """The plaintext for the receiver, or `Malformed`."""
    salt, sender = body[:SALT_BYTES], body[SALT_BYTES + 5 : HEADER_BYTES]
    size = int.from_bytes(body[SALT_BYTES : SALT_BYTES + 4], "big")
    sealed = body[HEADER_BYTES:]
    if len(body) < HEADER_BYTES or body[SALT_BYTES + 4] != POINT_BYTES or len(sealed) > size:
        raise Malformed("no push of one record")
    key, nonce = _keys(agree(private, sender), auth, point_of(private), sender, salt)
    try:
        padded = AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\0")
    except InvalidTag:
        raise Malformed("does not decrypt") from None
    if not padded.endswith(LAST_RECORD):
        raise Malformed("the last record is missing")
    return padded.removesuffix(LAST_RECORD)


def _keys(
    secret: bytes, auth: bytes, receiver: bytes, sender: bytes, salt: bytes
) -> tuple[bytes, bytes]:
    """Key and nonce of the record. Each HKDF of the RFC ends within one block, so that extracting
    and expanding are one HMAC each."""
    ikm = _hmac(_hmac(auth, secret), b"WebPush: info\0" + receiver + sender + b"\1")
    prk = _hmac(salt, ikm)
    key = _hmac(prk, b"Content-Encoding: aes128gcm\0\1")[:16]
    return key, _hmac(prk, b"Content-Encoding: nonce\0\1")[:12]


def _hmac(key: bytes, message: bytes) -> bytes:
    return digest(key, message, sha256)


class SenderTokens:
    """Tokens that authenticate us to push services: one for an origin, renewed after half of its
    time."""

    __slots__ = ("_contact", "_headers", "_private")

    def __init__(self, private: EllipticCurvePrivateKey, contact: str) -> None:
        """`contact` is a mailto or https address of the server's operator."""
        self._private = private
        self._contact = contact
        self._headers: dict[str, tuple[int, str]] = {}
        """The expiry and the header of each token."""

    def authorization(self, origin: str, now: int) -> str:
        """The header for pushes to this origin."""
        expires, header = self._headers.get(origin, (0, ""))
        # Not one header for all: a push service could use it to push elsewhere in our name.
        if expires - now < TOKEN_SECONDS // 2:
            if len(self._headers) >= ORIGINS_MAX:
                self._headers.clear()
            expires = now + TOKEN_SECONDS
            header = authorization(self._private, origin, expires, self._contact)
            self._headers[origin] = expires, header
        return header


def authorization(private: EllipticCurvePrivateKey, origin: str, expires: int, contact: str) -> str:
    claims = {"aud": origin, "exp": expires, "sub": contact}
    token = json_token(private, {"typ": "JWT", "alg": "ES256"}, claims)
    return f"vapid t={token}, k={unpadded(point_of(private))}"


def headers(push: Push, authorization: str) -> dict[str, str]:
    """The headers that we set. A periodic push does not wake a device that saves its battery, and
    replaces the one before it if that is still waiting."""
    common = {
        "TTL": str(TTL_SECONDS),
        "Content-Encoding": "aes128gcm",
        "Authorization": authorization,
    }
    if isinstance(push, CheckPush):
        return common | {"Urgency": "low", "Topic": "check"}
    return common | {"Urgency": "high"}


def outcome(status: int, retry_after: str | None, now: float) -> PushOutcome:
    """The meaning of a push service's answer. A redirect is not followed."""
    if status in (200, 201, 202):
        return Delivered()
    if status in (404, 410):
        return Dead(InvalidReason.UNREGISTERED)
    if status == 429 or 500 <= status <= 599:
        return later(retry_after, now)
    return Failed(f"the push service answered {status}")
