"""A query is started again if its source was too slow for Spark, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.pipeline.source import starting
from headgate.pipeline.source.starting import SLOW, STARTS, started

LATE, NOT_BEGUN = SLOW


class Query:
    """A query that is looked at so often before it has its source, or fails."""

    def __init__(self, looks: int, error: str | None, progress: int = 0) -> None:
        self._looks, self._error = looks, error
        self.recentProgress = [object()] * progress

    @property
    def isActive(self) -> bool:
        return self._looks > 0 or self._error is None

    @property
    def status(self) -> dict[str, str]:
        self._looks -= 1
        return {"message": "Initializing sources" if self._looks >= 0 else "Processing new data"}

    def exception(self) -> Exception | None:
        return None if self._error is None or self.isActive else RuntimeError(self._error)


def tried(monkeypatch: pytest.MonkeyPatch, *queries: Query) -> tuple[int, Any]:
    """How many of these were started, and which is the one that is followed."""
    monkeypatch.setattr(starting, "LOOK_SECONDS", 0.0)
    left = list(queries)
    found: Any = started(lambda: left.pop(0))  # type: ignore[arg-type,return-value]
    return len(queries) - len(left), found


def test_a_query_that_has_its_source_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(3, None)
    assert tried(monkeypatch, query, Query(0, None)) == (1, query)


def test_one_whose_python_was_too_slow_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, query = Query(2, f"[STREAM_FAILED] {LATE}. SQLSTATE: XXKST"), Query(1, None)
    assert tried(monkeypatch, slow, query, Query(0, None)) == (2, query)


def test_a_server_whose_python_was_too_slow_is_asked_again() -> None:
    """Spark Connect says so before there is a query; one was not begun again then."""
    query: Any = Query(1, None)
    answers = [RuntimeError(f"SocketTimeoutException: {NOT_BEGUN}"), query]

    def start() -> Any:  # noqa: ANN401
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert started(start) is query
    answers = [RuntimeError("no room"), query]
    with pytest.raises(RuntimeError, match="no room"):
        started(start)


def test_it_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [Query(1, LATE) for _ in range(STARTS + 1)]
    assert tried(monkeypatch, *slow) == (STARTS, slow[STARTS - 1])


@pytest.mark.parametrize("query", [Query(1, "no room"), Query(1, LATE, progress=1)])
def test_other_failures_are_told(monkeypatch: pytest.MonkeyPatch, query: Query) -> None:
    """So are those of a query that has done a batch: it is not known how far it is."""
    assert tried(monkeypatch, query, Query(0, None)) == (1, query)
