"""What happened in each queue, counted from the facts, and how the expressions of an app do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Any

from headgate.core.apps import App
from headgate.core.dispatch import Group
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

GROUPS_MAX = 100
"""Groups of one app that are told. Telling all of a hundred thousand would hold everybody up."""


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


def groups_of(app: App) -> list[dict[str, object]]:
    """The groups of an app that matched most, as rows."""
    busiest = nlargest(GROUPS_MAX, app.groups, key=lambda group: group.score.matched)
    return [_row(app, group) for group in busiest]


def _row(app: App, group: Group) -> dict[str, object]:
    """What an index ruled out, and what somebody else took before the group was asked, is
    missed like what it was false for."""
    score = group.score
    gates = [member.gate for member in group.members]
    return {
        "expression": group.text,
        "priority": group.priority,
        "consumers": len({member.session for member in group.rotation}),
        "matched": score.matched,
        "missed": app.groups.looked_at - score.since - score.matched,
        "undecided": {
            "sampled": score.sampled,
            **{failure.lower(): count for failure, count in score.failures.items()},
        },
        "in_flight": sum(len(gate.outstanding) for gate in gates),
        "in_flight_bytes": sum(gate.size for gate in gates),
        "waiting": app.waiting_for(group),
    }
