"""Failures, and what callers can do about them: try again, do without the service, or give up.

The table is pure, so that agents can be tested against it without a router.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.errors import (
    BadService,
    HeadgateError,
    HostNotFound,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    RequestRefused,
)
from headgate.wire.smp.handshake import TransportError


class FailureKind(Enum):
    """The kind of a failure: what to do about it."""

    TEMPORARY = "temporary"
    """Try again: the outcome is unknown."""
    HOST = "host"
    """Try again, but rarely: an address, a name or a router has to be corrected first."""
    SERVICE = "service"
    """Try again without the service."""
    BLOCKED = "blocked"
    """The operator of the router blocked the queue; there may be a notice about it."""
    PERMANENT = "permanent"
    """Do not try again."""


# S004-19: a router that cannot look up a service now may do so later.
TEMPORARY_WORDS: Final = ("STORE", "INTERNAL", TransportError.BAD_SERVICE.value.decode())
# S001-83: three errors of a router, beside our own `BadService`.
SERVICE_WORDS: Final = ("SERVICE", "NO_SERVICE", "PROXY BROKER NO_SERVICE")
BLOCKED_WORD: Final = "BLOCKED"


def kind_of_failure(error: BaseException) -> FailureKind:
    """The kind of a failure of connecting or of a request."""
    match error:
        case HostNotFound() | NotThisRouter() | NoCommonVersion():
            return FailureKind.HOST
        case BadService():
            return FailureKind.SERVICE
        case RequestRefused(error=text):
            return _kind_of_refusal(text)
        case NotConnected() | OSError():
            return FailureKind.TEMPORARY
        case _:
            return FailureKind.PERMANENT


def may_pass(outcome: object) -> bool:
    """Whether an outcome is a temporary failure."""
    return isinstance(outcome, HeadgateError) and kind_of_failure(outcome) in (
        FailureKind.TEMPORARY,
        FailureKind.HOST,
    )


def _kind_of_refusal(text: str) -> FailureKind:
    def begins(*words: str) -> bool:
        return any(text == word or text.startswith(f"{word} ") for word in words)

    if begins(*TEMPORARY_WORDS):
        return FailureKind.TEMPORARY
    if begins(*SERVICE_WORDS):
        return FailureKind.SERVICE
    return FailureKind.BLOCKED if begins(BLOCKED_WORD) else FailureKind.PERMANENT
