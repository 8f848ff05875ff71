"""A query is followed to its end, and a signal ends it without interrupting anybody."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from headgate.cli.pipeline.following import follow, heeding_signals


class Query:
    """A query that lives for so many seconds, or until it is stopped."""

    def __init__(self, seconds: int, error: Exception | None = None) -> None:
        self._left: float = seconds
        self._error = error
        self.is_whole = True
        self.status = {"isTriggerActive": False}
        self.lastProgress: SimpleNamespace | None = None

    @property
    def isActive(self) -> bool:
        return self._left > 0

    def awaitTermination(self, seconds: float) -> None:
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
    assert follow(Query(3), lambda: ticks.append(1))  # type: ignore[arg-type]
    assert len(ticks) == 4, "each second, and in the end"


def test_what_ended_it_is_raised() -> None:
    with pytest.raises(OSError, match="no room"):
        follow(Query(1, OSError("no room")), nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_heeded_between_two_calls(number: signal.Signals) -> None:
    query = Query(1000)
    query.at_work = lambda: os.kill(os.getpid(), number)  # type: ignore[method-assign]
    before: Callable[..., object] | int | None = signal.getsignal(number)
    interrupts = pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else nullcontext()
    with interrupts:
        assert not follow(query, nothing)  # type: ignore[arg-type]
    assert query.is_whole
    assert not query.isActive
    assert signal.getsignal(number) == before


class Busy(Query):
    """A query that is told to end while it is amid a batch, which takes so many calls."""

    def __init__(self, calls: int, signals: int = 1) -> None:
        super().__init__(1000)
        self.status = {"isTriggerActive": True}
        self.done = False
        self._calls, self._signals = calls, signals

    def at_work(self) -> None:
        self._calls -= 1
        if self._signals:
            self._signals -= 1
            os.kill(os.getpid(), signal.SIGTERM)
        if self._calls == 0:
            self.done = True
            self.lastProgress = SimpleNamespace(batchId=7)

    def stop(self) -> None:
        super().stop()
        self._calls = 0


@pytest.mark.parametrize("is_asked", [False, True])
def test_the_batch_that_is_at_work_is_done_before_the_end(is_asked: bool) -> None:
    query = Busy(5, 0 if is_asked else 1)
    assert not follow(query, nothing, lambda: is_asked)  # type: ignore[arg-type]
    assert query.done
    assert query._calls == 0, "and no more than that"


def test_a_second_signal_ends_it_at_once() -> None:
    query = Busy(5, 2)
    assert not follow(query, nothing)  # type: ignore[arg-type]
    assert not query.done


def test_a_signal_from_before_the_query_was_there_is_heeded() -> None:
    query = Query(1000)
    with heeding_signals() as noted:
        os.kill(os.getpid(), signal.SIGTERM)
        assert not follow(query, nothing, noted=noted)  # type: ignore[arg-type]
    assert not query.isActive
