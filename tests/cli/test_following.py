"""A query is followed to its end, and a signal ends it without interrupting anybody."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from headgate.cli.pipeline.following import follow


class Query:
    """A query that lives for so many seconds, or until it is stopped."""

    def __init__(self, seconds: int, error: Exception | None = None) -> None:
        self._left = seconds
        self._error = error
        self.is_whole = True

    @property
    def isActive(self) -> bool:
        return self._left > 0

    def awaitTermination(self, seconds: int) -> None:
        self.is_whole = False  # as a call to Java that must not be interrupted
        self.at_work()
        self.is_whole = True
        self._left -= seconds

    def at_work(self) -> None:
        pass

    def stop(self) -> None:
        self._left = 0

    def exception(self) -> Exception | None:
        return self._error


def nothing() -> None:
    pass


def test_a_query_is_followed_until_it_ends() -> None:
    ticks: list[int] = []
    follow(Query(3), lambda: ticks.append(1))  # type: ignore[arg-type]
    assert len(ticks) == 3


def test_what_ended_it_is_raised() -> None:
    with pytest.raises(OSError, match="no room"):
        follow(Query(1, OSError("no room")), nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_heeded_between_two_calls(number: signal.Signals) -> None:
    query = Query(1000)
    query.at_work = lambda: os.kill(os.getpid(), number)  # type: ignore[method-assign]
    before: Callable[..., object] | int | None = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        follow(query, nothing)  # type: ignore[arg-type]
    assert query.is_whole
    assert not query.isActive
    assert signal.getsignal(number) == before
