"""What a failure is to the engine."""

from __future__ import annotations

import pytest

from headgate.agent.engine.answers import failure_of
from headgate.client.smp.failures import FailureKind
from headgate.errors import NotConnected, RequestRefused


@pytest.mark.parametrize("text", ["STORE unavailable", "INTERNAL", "HANDSHAKE BAD_SERVICE"])
def test_what_passes_is_tried_again(text: str) -> None:
    """S004-19: also a service that cannot be looked up now, and a store that fails."""
    assert failure_of(RequestRefused(text)).kind is FailureKind.TEMPORARY


@pytest.mark.parametrize("text", ["SERVICE", "NO_SERVICE", "PROXY BROKER NO_SERVICE"])
def test_three_errors_are_of_the_service(text: str) -> None:
    """S001-83."""
    assert failure_of(RequestRefused(text)).kind is FailureKind.SERVICE


@pytest.mark.parametrize("text", ["AUTH", "CMD PROHIBITED", "PROXY BROKER TIMEOUT", "QUOTA", "new"])
def test_every_other_error_is_permanent(text: str) -> None:
    """S000-61."""
    assert failure_of(RequestRefused(text)).kind is FailureKind.PERMANENT


@pytest.mark.parametrize("error", [RequestRefused("BLOCKED reason=spam"), NotConnected("no route")])
def test_the_reason_is_kept(error: Exception) -> None:
    assert failure_of(error).text == str(error)
