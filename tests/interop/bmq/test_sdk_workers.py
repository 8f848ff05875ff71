"""A part of the other tests once more, with two workers. `TEST_WORKERS=2` does so for all."""

from __future__ import annotations

from tests.interop.bmq.test_sdk_sharing import (
    DOMAINS,
    producer,
    test_a_window_counts_bytes,
    test_three_equal_consumers_take_strict_turns,
    test_uneven_consumers_lose_and_repeat_nothing,
    uri,
)

WORKERS = 2

__all__ = [
    "DOMAINS",
    "producer",
    "test_a_window_counts_bytes",
    "test_three_equal_consumers_take_strict_turns",
    "test_uneven_consumers_lose_and_repeat_nothing",
    "uri",
]
