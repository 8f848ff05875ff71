"""Apple's push service: its requests, and the meaning of its answers."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from headgate.notify.json_tokens import json_token
from headgate.notify.outcomes import Dead, Delivered, Failed, PushOutcome, later
from headgate.notify.push_content import MessagesPush, Push
from headgate.wire.ntf.devices import ApnsDevice
from headgate.wire.ntf.statuses import InvalidReason

BODY_BYTES_MAX: Final = 4096

TOKEN_SECONDS: Final = 30 * 60
"""Seconds that a token is used. Apple accepts one for an hour, and wants no new one within 20
minutes."""

DEAD: Final = {
    (400, "BadDeviceToken"): InvalidReason.BAD,
    (400, "DeviceTokenNotForTopic"): InvalidReason.TOPIC,
    (410, "ExpiredToken"): InvalidReason.EXPIRED,
    (410, "Unregistered"): InvalidReason.UNREGISTERED,
}

REASON_MAX: Final = 64
"""Characters of a reason: Apple's are shorter."""


class ProviderTokens:
    """Tokens that authenticate us to Apple: one at a time, renewed after half an hour, and once
    when Apple refuses it."""

    __slots__ = ("_bearer", "_issued", "_key_id", "_private", "_renewed", "_team")

    def __init__(self, private: EllipticCurvePrivateKey, key_id: str, team: str) -> None:
        self._private = private
        self._key_id = key_id
        self._team = team
        self._bearer: str | None = None
        self._issued = 0
        self._renewed = False
        """Whether a refusal has led to a new token since Apple last accepted one."""

    def authorization(self, now: int) -> str:
        """The header of a push."""
        if self._bearer is None or now - self._issued >= TOKEN_SECONDS:
            token = provider_token(self._private, self._key_id, self._team, now)
            self._bearer = f"bearer {token}"
            self._issued = now
        return self._bearer

    def answered(self, status: int) -> None:
        """Note an answer of Apple. After 403 the next push has a new token; if that is refused too,
        the key is wrong, and more tokens would not help."""
        if status == 200:
            self._renewed = False
        elif status == 403 and not self._renewed:
            self._renewed = True
            self._bearer = None


def provider_token(private: EllipticCurvePrivateKey, key_id: str, team: str, now: int) -> str:
    return json_token(private, {"alg": "ES256", "kid": key_id}, {"iss": team, "iat": now})


def path(device: ApnsDevice) -> str:
    """The path of a push. A device may hold any bytes; all are escaped."""
    return f"/3/device/{quote(device.token, safe='')}"


def headers(push: Push, topic: str, authorization: str) -> dict[str, str]:
    """The headers that we set."""
    common = {"apns-topic": topic, "authorization": authorization}
    if isinstance(push, MessagesPush):
        return common | {"apns-push-type": "alert"}
    return common | {"apns-push-type": "background", "apns-priority": "5"}


def outcome(status: int, body: bytes, retry_after: str | None, now: float) -> PushOutcome:
    """The meaning of Apple's answer."""
    if status == 200:
        return Delivered()
    reason = reason_in(body)
    if (dead := DEAD.get((status, reason))) is not None:
        return Dead(dead)
    if status in (429, 503):
        return later(retry_after, now)
    return Failed(f"Apple answered {status} {reason}".rstrip())


def reason_in(body: bytes) -> str:
    """The reason in Apple's JSON; empty if there is none."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reason = fields.get("reason") if isinstance(fields, dict) else None
    if not isinstance(reason, str) or not (reason.isascii() and reason.isalnum()):
        return ""
    return reason[:REASON_MAX]
