"""Errors as clients see them: a status for a request, another for a message."""

from __future__ import annotations

from headgate.errors import (
    BadSubscription,
    HeadgateError,
    NoSuchQueue,
    Overloaded,
    QuotaReached,
    Refused,
    StoreError,
)
from headgate.wire.bmq.codec.control import Category, Status
from headgate.wire.bmq.codec.messages import AckStatus


class BadRequest(Refused):
    """A request that contradicts itself, or the session's earlier requests."""


CATEGORIES: tuple[tuple[type[HeadgateError], Category], ...] = (
    (BadRequest, Category.INVALID_ARGUMENT),
    (BadSubscription, Category.INVALID_ARGUMENT),
    (NoSuchQueue, Category.INVALID_ARGUMENT),
    (Refused, Category.REFUSED),
    (Overloaded, Category.REFUSED),
    (StoreError, Category.NOT_READY),
)
"""The category of each error; the first that fits."""


def status_of(error: HeadgateError) -> Status:
    for kind, category in CATEGORIES:
        if isinstance(error, kind):
            return Status(category, category, str(error))
    return Status(Category.UNKNOWN, Category.UNKNOWN, str(error))


def ack_status_of(error: HeadgateError) -> AckStatus:
    """The status of an error for a posted message. The wire has few; most errors are unknown."""
    if isinstance(error, QuotaReached):
        return AckStatus.LIMIT_MESSAGES if error.unit == "messages" else AckStatus.LIMIT_BYTES
    if isinstance(error, StoreError):
        return AckStatus.STORAGE_FAILURE
    return AckStatus.UNKNOWN
