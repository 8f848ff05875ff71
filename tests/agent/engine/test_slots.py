"""Each row of the table of slots, as far as one slot decides it."""

from __future__ import annotations

import pytest

from headgate.agent.engine.answers import TIMED_OUT
from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.slots import Phase, Slot
from headgate.agent.engine.worker import Worker
from headgate.agent.model import SessionKey, SlotKey

KEY = SlotKey(1, 1)


def slot() -> Slot:
    return Slot(KEY, Worker(Delays(), 1, "slot"))


def open_slot(number: int = 3) -> Slot:
    some = slot()
    some.connect(number, with_service=False)
    some.open(b"session", 10.0)
    return some


def test_a_session_is_known_by_number_and_session_id() -> None:
    """S000-80, S000-90."""
    some = open_slot()
    assert some.is_current(SessionKey(KEY, 3, b"session"))
    assert not some.is_current(SessionKey(KEY, 2, b"session"))
    assert not some.is_current(SessionKey(KEY, 3, b"other"))
    some.empty()
    assert not some.is_current(SessionKey(KEY, 3, b"session"))


def test_there_is_one_attempt_at_a_time() -> None:
    some = open_slot()
    with pytest.raises(AssertionError, match="one attempt"):
        some.connect(4, with_service=False)


def test_a_failure_is_remembered_for_a_moment() -> None:
    some = slot()
    some.connect(1, with_service=False)
    some.fail(TIMED_OUT, until=13.0)
    assert some.phase is Phase.EMPTY
    assert some.recent_failure(12.9) is TIMED_OUT
    assert some.recent_failure(13.0) is None


def test_a_slot_that_nobody_needs_can_go() -> None:
    some = slot()
    assert some.is_idle(0.0)
    some.states.locked.add(b"a")
    assert not some.is_idle(0.0)
    assert not open_slot().is_idle(0.0)
