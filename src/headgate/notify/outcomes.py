"""Outcomes of a push, the same for all providers."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.wire.ntf.statuses import InvalidReason

LATER_SECONDS: Final = 60
"""Seconds to wait if the provider does not say when to try again."""

LATER_SECONDS_MAX: Final = 3600
"""Seconds, at most, that a provider can make us wait."""


@value
class Delivered:
    """The provider accepted the push."""


@value
class Later:
    """The provider wants the push again later."""

    seconds: int


@value
class Dead:
    """The provider accepts no more pushes for this device."""

    reason: InvalidReason


@value
class Failed:
    """The provider refused this push. The next one repeats its content."""

    text: str
    """For the log: it names no device."""


PushOutcome: TypeAlias = Delivered | Later | Dead | Failed


def later(retry_after: str | None, now: float) -> Later:
    """The outcome for a Retry-After header, which is a number of seconds or a date."""
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
    # Every date of HTTP is in universal time, also without saying so.
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
