"""What apps are answered for an error."""

from __future__ import annotations

import pytest

from headgate.errors import (
    HeadgateError,
    LimitReached,
    NoMessage,
    Prohibited,
    StoreError,
    TooFrequent,
    Unauthorised,
)
from headgate.wire.ntf.errors import error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unauthorised(), "AUTH"),
        (Prohibited("test devices"), "CMD PROHIBITED"),
        (TooFrequent("every minute"), "QUOTA"),
        (LimitReached("subscriptions_per_token", 1), "QUOTA"),
        (StoreError("the disk is full"), "STORE unavailable"),
        (NoMessage(b"queue"), "INTERNAL"),
    ],
)
def test_each_error_has_its_word(error: HeadgateError, text: str) -> None:
    assert error_text(error) == text
