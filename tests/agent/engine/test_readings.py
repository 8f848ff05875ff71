"""Pages of the records, one at a time and in order."""

from __future__ import annotations

from headgate.agent.engine.effects import ReadPage
from headgate.agent.engine.readings import Reading
from headgate.agent.model import Which


def test_pages_follow_each_other() -> None:
    reading = Reading(Which.SINGLE)
    assert reading.ask(1, 2, 10, 50) == ReadPage(1, 2, 10, None, 50, Which.SINGLE)
    assert reading.is_under_way
    reading.advance(b"m")
    assert not reading.is_under_way
    assert reading.ask(1, 2, 11, 50).after == b"m"


def test_a_page_that_could_not_be_read_is_asked_for_again() -> None:
    reading = Reading(Which.ALL)
    reading.ask(1, 2, 10, 50)
    reading.advance(b"m")
    reading.ask(1, 2, 11, 50)
    reading.fail(retry_at=5.0)
    assert reading.retry_at == 5.0
    assert reading.ask(1, 2, 12, 50).after == b"m"
