"""Errors as clients see them. Whoever has no right to a queue is told one thing."""

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

# WIRE-48: one word for whoever has no right, and for what is not there.
TEXTS: dict[type[HeadgateError], str] = {
    Unauthorised: "AUTH",
    NoSuchQueue: "AUTH",
    QueueExists: "AUTH",
    NoMessage: "NO_MSG",
    Prohibited: "CMD PROHIBITED",
    BadService: "SERVICE",
    QuotaReached: "QUOTA",
    BadMessage: "LARGE_MSG",
    # Clients try again later after this one. What failed is in the router's own log.
    StoreError: "STORE unavailable",
}


def error_text(error: HeadgateError) -> str:
    if isinstance(error, LimitReached):
        return "LARGE_MSG" if error.name == "body_bytes" else f"STORE limit {error.name}"
    return TEXTS.get(type(error), "INTERNAL")
