"""How long those wait who do not show who they are."""

from __future__ import annotations

from headgate.core.login import failed_logins
from headgate.core.login.failed_logins import (
    FORGIVEN_SECONDS,
    FREE,
    LONGEST_SECONDS,
    REMEMBERED,
    FailedLogins,
)


def test_the_first_failures_are_answered_at_once_and_then_each_waits_twice_as_long() -> None:
    waits = [(found := FailedLogins()).failed("a", 0.0)]
    waits += [found.failed("a", 1.0) for _ in range(11)]
    assert waits[:6] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.4]
    assert waits[-1] == LONGEST_SECONDS
    assert waits == sorted(waits)


def test_another_address_does_not_wait() -> None:
    found = FailedLogins()
    for _ in range(FREE + 5):
        found.failed("a", 0.0)
    assert found.failed("b", 0.0) == 0.0
    assert found.failed("a", 0.0) > 0


def test_an_address_is_forgiven_after_a_while_without_failures() -> None:
    found = FailedLogins()
    for _ in range(FREE + 5):
        found.failed("a", 0.0)
    assert found.failed("a", FORGIVEN_SECONDS - 1) > 0
    assert found.failed("a", 2 * FORGIVEN_SECONDS) == 0.0


def test_so_many_addresses_are_remembered() -> None:
    found = FailedLogins()
    for number in range(REMEMBERED + 10):
        found.failed(str(number), 0.0)
    assert len(found) == failed_logins.REMEMBERED
