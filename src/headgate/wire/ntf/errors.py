"""Errors as apps see them. Every app without rights to a token gets the same one."""

from __future__ import annotations

from headgate.errors import (
    HeadgateError,
    LimitReached,
    Prohibited,
    StoreError,
    TooFrequent,
    Unauthorised,
)

TEXTS: dict[type[HeadgateError], str] = {
    Unauthorised: "AUTH",
    Prohibited: "CMD PROHIBITED",
    TooFrequent: "QUOTA",
    LimitReached: "QUOTA",
    # Apps try again later after this one. What failed is in the server's own log.
    StoreError: "STORE unavailable",
}


def error_text(error: HeadgateError) -> str:
    return TEXTS.get(type(error), "INTERNAL")
