"""What clients are sent for an error of the core."""

from __future__ import annotations

import pytest

from headgate.errors import (
    BadMessage,
    BadService,
    ConfigError,
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
from headgate.wire.smp.errors import TEXTS, error_text

CASES = [
    (Unauthorised(), "AUTH"),
    (NoSuchQueue(b"q"), "AUTH"),
    (QueueExists(b"q"), "AUTH"),
    (NoMessage(b"q"), "NO_MSG"),
    (Prohibited("not here"), "CMD PROHIBITED"),
    (BadService("not signed"), "SERVICE"),
    (QuotaReached("queue", "messages", 128), "QUOTA"),
    (BadMessage("too long"), "LARGE_MSG"),
    (StoreError("the disk of the router is full"), "STORE unavailable"),
    (LimitReached("body_bytes", 1), "LARGE_MSG"),
    (LimitReached("queues_per_session", 1), "STORE limit queues_per_session"),
    (ConfigError("anything else"), "INTERNAL"),
]


@pytest.mark.parametrize(("error", "text"), CASES, ids=[type(error).__name__ for error, _ in CASES])
def test_each_error_has_its_word(error: HeadgateError, text: str) -> None:
    """WIRE-48: nothing of what went wrong inside is in it, and no right and no queue are one."""
    assert error_text(error) == text


def test_the_words_are_all_shown() -> None:
    assert TEXTS.keys() <= {type(error) for error, _ in CASES}
