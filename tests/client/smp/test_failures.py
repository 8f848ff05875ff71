"""What each failure means."""

from __future__ import annotations

import pytest

from headgate.client.smp.failures import FailureKind, kind_of_failure
from headgate.errors import (
    BadService,
    HostNotFound,
    Malformed,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    RequestRefused,
    TimedOut,
    UnexpectedReply,
)
from headgate.wire.smp.codec.blocks import LargeMessage

TEMPORARY, HOST, SERVICE, BLOCKED, PERMANENT = FailureKind

KINDS: list[tuple[Exception, FailureKind]] = [
    (NotConnected("the router closed the connection"), TEMPORARY),
    (TimedOut("SUB", 30.0), TEMPORARY),
    (ConnectionResetError(), TEMPORARY),
    (HostNotFound("no such name"), HOST),
    (NotThisRouter("another router"), HOST),
    (NoCommonVersion("6 to 6"), HOST),
    (BadService("this session has no service"), SERVICE),
    (UnexpectedReply("PONG is no answer to SUB"), PERMANENT),
    (LargeMessage(0), PERMANENT),
    (Malformed("no key"), PERMANENT),
]

WORDS = {
    "STORE": TEMPORARY,
    "STORE unavailable": TEMPORARY,
    "INTERNAL": TEMPORARY,
    "HANDSHAKE BAD_SERVICE": TEMPORARY,
    "HANDSHAKE BAD_AUTH": PERMANENT,
    "SERVICE": SERVICE,
    "NO_SERVICE": SERVICE,
    "PROXY BROKER NO_SERVICE": SERVICE,
    "PROXY BROKER TIMEOUT": PERMANENT,
    "BLOCKED reason=spam": BLOCKED,
    'BLOCKED reason=spam,notice={"ttl":1}': BLOCKED,
    "AUTH": PERMANENT,
    "CMD PROHIBITED": PERMANENT,
    "CMD SYNTAX": PERMANENT,
    "QUOTA": PERMANENT,
    "NO_MSG": PERMANENT,
    "LARGE_MSG": PERMANENT,
    "BLOCK": PERMANENT,
    "SERVICES": PERMANENT,
    "STORED": PERMANENT,
    "": PERMANENT,
}


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=lambda each: type(each).__name__)
def test_failures_of_connections(error: Exception, kind: FailureKind) -> None:
    assert kind_of_failure(error) is kind


@pytest.mark.parametrize("word", WORDS)
def test_errors_of_a_router(word: str) -> None:
    """S001-83, S004-19: three are of the service, and BAD_SERVICE is temporary."""
    assert kind_of_failure(RequestRefused(word)) is WORDS[word]
