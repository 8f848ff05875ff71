"""Outcomes of a push, whichever provider it went through."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.wire.ntf.statuses import InvalidReason

LATER_SECONDS: Final = 60
"""Where the provider does not say when to try again."""

LATER_SECONDS_MAX: Final = 3600
"""No provider can make us wait for longer."""


@value
class Delivered:
    """The provider took it."""


@value
class Later:
    """The provider takes it some other time."""

    seconds: int


@value
class Dead:
    """The provider takes nothing for this device any more."""

    reason: InvalidReason


@value
class Failed:
    """The provider did not take this one. The next message repeats what it said."""

    text: str
    """For the log: it names no device."""


PushOutcome: TypeAlias = Delivered | Later | Dead | Failed


def later(retry_after: str | None, now: float) -> Later:
    """By the header Retry-After, which is a number of seconds or a date."""
    seconds = _seconds(retry_after.strip(), now) if retry_after is not None else None
    if seconds is None:
        return Later(LATER_SECONDS)
    return Later(max(1, min(seconds, LATER_SECONDS_MAX)))


def _seconds(text: str, now: float) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 10 else LATER_SECONDS_MAX
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # Every date of HTTP is in universal time, also where it does not say so.
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
