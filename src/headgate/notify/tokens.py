"""Tokens: devices that an app has registered, and the table of their states.

=================================  =====================  ================  =======================
status                             event                  becomes           function
=================================  =====================  ================  =======================
none                               TNEW                   REGISTERED        `register`
REGISTERED, CONFIRMED, ACTIVE      TNEW again             the same          `register`
NEW, INVALID, EXPIRED              TNEW again             REGISTERED        `register`
REGISTERED                         provider took code     CONFIRMED         `confirm`
REGISTERED, CONFIRMED, ACTIVE      TVFY, right code       ACTIVE            `verify`
any                                TRPL                   REGISTERED        `replace_device`
any                                device is dead         INVALID           `invalidate`
any                                TDEL                   none              the store removes it
=================================  =====================  ================  =======================

Other events change nothing. A function that changes nothing returns the same token, so that its
caller has nothing to write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field, replace
from hmac import compare_digest
from typing import Final

from headgate.core.model.value import value
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.errors import Malformed, Prohibited, TooFrequent, Unauthorised
from headgate.wire.ntf.commands import TNew
from headgate.wire.ntf.devices import Device, Provider
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus

ID_BYTES: Final = 24
CODE_BYTES: Final = 32

INTERVAL_MINUTES_MIN: Final = 20
"""Fewest minutes between periodic pushes. More of them would keep a device from sleeping, and
providers begin to drop pushes."""

ALIVE: Final = frozenset({TokenStatus.REGISTERED, TokenStatus.CONFIRMED, TokenStatus.ACTIVE})
"""The states in which the right code verifies."""

MAY_SUBSCRIBE: Final = frozenset({TokenStatus.ACTIVE, TokenStatus.INVALID, TokenStatus.EXPIRED})
"""The states in which an app may manage its subscriptions: a device that is dead today may be
replaced tomorrow. Pushes need `ACTIVE`."""


@value
class FreshToken:
    """The random parts of a new token, drawn by the caller."""

    id: bytes
    private: bytes = field(repr=False)
    """An X25519 key, raw."""
    code: bytes = field(repr=False)


@value
class Token:
    """A device, and the app that registered it. One app is one verify key: two that register one
    device have two tokens, until one of them is verified."""

    id: bytes
    device: Device
    verify_key: bytes
    """The key that signs every command about the token."""
    private: bytes = field(repr=False)
    """Our X25519 key for this token, raw."""
    key: bytes = field(repr=False)
    """The key that seals pushes: agreed with the app, after HSalsa20."""
    code: bytes = field(repr=False)
    """Pushed to the device; showing it proves control of both."""
    status: TokenStatus
    reason: InvalidReason | None = None
    """The reason of INVALID."""
    interval_minutes: int = 0
    """Minutes between two periodic pushes; none if zero."""
    checked_at: int | None = None
    """When the last periodic push was sent, in seconds."""
    used_day: int = 0

    @property
    def public_key(self) -> bytes:
        """Our key for this token, as the app gets it."""
        return encode_key(KeyKind.X25519, public_of(self.private))

    @property
    def takes_messages(self) -> bool:
        """Whether messages are pushed."""
        return self.status is TokenStatus.ACTIVE


def check_provider(device: Device, enabled: Collection[Provider]) -> None:
    """Raise for a device of a provider that is not enabled; test devices are not, by default."""
    # ACC-115: test devices only where they are enabled.
    if device.provider not in enabled:
        raise Prohibited("this provider is not enabled")


def register(found: Token | None, request: TNew, fresh: FreshToken, day: int) -> Token:
    """The token that TNEW answers with; its code is to be pushed. `found` is the token of this
    device and this verify key, if there is one.

    A repeated TNEW, after a lost answer or push, gives the same id, key and code: both pushes
    verify, in whatever order they arrive.
    """
    assert len(fresh.id) == ID_BYTES, "ids are drawn from too many to be guessed"
    assert len(fresh.code) == CODE_BYTES, "codes are drawn from too many to be guessed"
    if found is None:
        key = _agreed(fresh.private, request.dh)
        return Token(
            fresh.id,
            request.device,
            request.verify_key,
            fresh.private,
            key,
            fresh.code,
            TokenStatus.REGISTERED,
            used_day=day,
        )
    assert (found.device, found.verify_key) == (request.device, request.verify_key), (
        "a token is found by its device and its verify key"
    )
    if not compare_digest(_agreed(found.private, request.dh), found.key):
        raise Unauthorised
    # ACC-108: a registered token stays as it is, verified or not.
    if found.status in ALIVE:
        return use(found, day)
    # The app of a device that was taken for dead shows that it is not.
    return use(replace(found, status=TokenStatus.REGISTERED, reason=None), day)


def confirm(token: Token, code: bytes) -> Token:
    """Note that the provider accepted a push with this code."""
    if token.status is TokenStatus.REGISTERED and compare_digest(token.code, code):
        return replace(token, status=TokenStatus.CONFIRMED)
    return token


def verify(token: Token, code: bytes) -> Token:
    """Verify the token with a code of the app. If it is right, the `superseded` ones are to be
    removed."""
    is_right = compare_digest(token.code, code)
    if not is_right or token.status not in ALIVE:
        raise Unauthorised
    if token.status is TokenStatus.ACTIVE:
        return token
    return replace(token, status=TokenStatus.ACTIVE)


def superseded(verified: Token, others: Iterable[Token]) -> list[Token]:
    """The tokens of the same device, which are removed with their subscriptions because this one
    was verified. A device has one owner."""
    return [each for each in others if each.device == verified.device and each.id != verified.id]


def replace_device(token: Token, device: Device, is_taken: bool, code: bytes) -> Token:
    """The token with another device and another code, which is to be pushed; its subscriptions
    stay. `is_taken` is true if there is another token of this device and this verify key.

    A repeated TRPL before verification gives the same code, as with TNEW.
    """
    if is_taken:
        raise Unauthorised
    is_repeated = device == token.device and token.status in ALIVE - {TokenStatus.ACTIVE}
    return replace(
        token,
        device=device,
        code=token.code if is_repeated else code,
        status=TokenStatus.REGISTERED,
        reason=None,
    )


def invalidate(token: Token, device: Device, reason: InvalidReason) -> Token:
    """Note that the provider accepts no more pushes for this device. Subscriptions stay: the app
    may come back. An answer about a device that was replaced since is ignored."""
    if device != token.device:
        return token
    if (token.status, token.reason) == (TokenStatus.INVALID, reason):
        return token
    return replace(token, status=TokenStatus.INVALID, reason=reason)


def check_may_subscribe(token: Token) -> None:
    """Raise unless SNEW, SCHK and SDEL may be carried out."""
    if token.status not in MAY_SUBSCRIBE:
        raise Unauthorised


def set_interval(token: Token, minutes: int) -> Token:
    """The token with periodic pushes every so many minutes, or with none."""
    if 0 < minutes < INTERVAL_MINUTES_MIN:
        raise TooFrequent(f"periodic pushes come every {INTERVAL_MINUTES_MIN} minutes at most")
    if minutes == token.interval_minutes:
        return token
    return replace(token, interval_minutes=minutes)


def is_check_due(token: Token, now: int) -> bool:
    """Whether a periodic push is due. The first one is due at once."""
    if token.status is not TokenStatus.ACTIVE or not token.interval_minutes:
        return False
    return token.checked_at is None or now - token.checked_at >= token.interval_minutes * 60


def mark_checked(token: Token, now: int) -> Token:
    """Note that a periodic push was sent."""
    return replace(token, checked_at=now)


def use(token: Token, day: int) -> Token:
    """The token with the day of its last use: written once a day, not at every use."""
    return token if token.used_day == day else replace(token, used_day=day)


def _agreed(private: bytes, dh: bytes) -> bytes:
    try:
        return shared_key(private, raw_key(dh))
    except Malformed:
        raise Unauthorised from None
