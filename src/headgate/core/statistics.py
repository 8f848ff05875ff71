"""What happened in each queue, counted from the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from headgate.core.facts import (
    Accepted,
    AutoConfirmed,
    Confirmed,
    Delivered,
    Expired,
    Fact,
    Missed,
    Poisoned,
    PutAside,
    QueueDeleted,
    Refused,
    Repeated,
    Returned,
)
from headgate.core.names import AppId, QueueId

COUNTED: dict[type[Any], str] = {
    Accepted: "accepted",
    Refused: "refused",
    Repeated: "repeated",
    AutoConfirmed: "auto_confirmed",
    Delivered: "delivered",
    Confirmed: "confirmed",
    PutAside: "put_aside",
    Missed: "missed",
    Returned: "returned",
    Poisoned: "poisoned",
    Expired: "expired",
}

QUEUES_MAX = 10_000
"""Queues whose counts are kept; the one that began first is forgotten first."""


class Statistics:
    """Counts by queue and, for facts that name one, by app."""

    def __init__(self) -> None:
        self._counts: dict[QueueId, Counter[tuple[AppId | None, str]]] = {}

    def observe(self, facts: Iterable[Fact]) -> None:
        fact: Any
        for fact in facts:
            name = COUNTED.get(type(fact))
            if name is not None:
                counts = self._counts.get(fact.queue)
                if counts is None:
                    counts = self._begin(fact.queue)
                counts[None, name] += 1
                app = getattr(fact, "app", None)
                if app is not None:
                    counts[app, name] += 1
            elif type(fact) is QueueDeleted:
                self._counts.pop(fact.queue, None)

    def of(self, queue: QueueId, app: AppId | None = None) -> dict[str, int]:
        """The counts of a queue, or of one of its apps."""
        counts = self._counts.get(queue, Counter())
        return {name: count for (whose, name), count in counts.items() if whose == app}

    def _begin(self, queue: QueueId) -> Counter[tuple[AppId | None, str]]:
        counts: Counter[tuple[AppId | None, str]] = Counter()
        self._counts[queue] = counts
        if len(self._counts) > QUEUES_MAX:
            del self._counts[next(iter(self._counts))]
        return counts
