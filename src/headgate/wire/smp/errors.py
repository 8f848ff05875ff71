"""Errors as clients see them. Every client without rights to a queue gets the same one."""

from __future__ import annotations

from headgate.errors import (
    BadMessage,
    BadService,
    HeadgateError,
    LimitReached,
    NoMessage,
    NoSuchQueue,
    Prohibited,
    QueueExists,
    QuotaReached,
    StoreError,
    Unauthorised,
)

# WIRE-48: the same error for a missing right and for a missing queue.
TEXTS: dict[type[HeadgateError], str] = {
    Unauthorised: "AUTH",
    NoSuchQueue: "AUTH",
    QueueExists: "AUTH",
    NoMessage: "NO_MSG",
    Prohibited: "CMD PROHIBITED",
    BadService: "SERVICE",
    QuotaReached: "QUOTA",
    BadMessage: "LARGE_MSG",
    # Clients try again later after this one. The cause is in the router's log.
    StoreError: "STORE unavailable",
}


def error_text(error: HeadgateError) -> str:
    if isinstance(error, LimitReached):
        return "LARGE_MSG" if error.name == "body_bytes" else f"STORE limit {error.name}"
    return TEXTS.get(type(error), "INTERNAL")
