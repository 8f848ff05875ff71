"""When to try again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.notify.outcomes import LATER_SECONDS, LATER_SECONDS_MAX, Later, later
from tests.support.smp_examples import SECONDS


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, LATER_SECONDS),
        ("", LATER_SECONDS),
        ("soon", LATER_SECONDS),
        ("-5", LATER_SECONDS),
        ("0", 1),
        (" 30 ", 30),
        ("999999", LATER_SECONDS_MAX),
        ("9" * 5000, LATER_SECONDS_MAX),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120),
        ("Tue, 14 Nov 2023 22:15:20 -0000", 120),
        ("Tue, 14 Nov 2023 21:15:20 GMT", 1),
        ("Tue, 14 Nov 2099 21:15:20 GMT", LATER_SECONDS_MAX),
    ],
)
def test_a_provider_says_when_in_seconds_or_by_a_date(
    retry_after: str | None, seconds: int
) -> None:
    assert later(retry_after, SECONDS) == Later(seconds)


@given(st.text(max_size=50) | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ [\d:]+ \S+"))
def test_whatever_a_provider_says_the_wait_has_an_end(text: str) -> None:
    assert 1 <= later(text, SECONDS).seconds <= LATER_SECONDS_MAX
