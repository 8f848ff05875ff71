"""Statistics of each queue, counted from the facts, and of the expressions of each app."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from heapq import nlargest
from typing import Any

from headgate.core.facts import Fact, QueueDeleted
from headgate.core.model.fact_kind import FACT_KINDS
from headgate.core.model.ids import AppId, QueueId
from headgate.core.shared.app import App
from headgate.core.shared.dispatch import Group
from headgate.core.turn.slices import GLANCE_UNITS, GLANCES, Slices, best

COUNTED: dict[type[Any], tuple[str, bool]] = {
    kind: (known.per_queue, "app" in kind.__slots__)
    for kind, known in FACT_KINDS.items()
    if known.per_queue is not None
}
"""The facts counted by queue, the name of each count, and whether the fact names an app."""

QUEUES_MAX = 10_000
"""Queues whose counts are kept; the oldest is dropped first."""

GROUPS_MAX = 100
"""Groups of one app that are reported. A hundred thousand would hold up everything else."""


class Statistics:
    """Counts by queue and, for facts that name one, by app.

    Owned by the shard, which passes the facts of committed turns.
    """

    def __init__(self) -> None:
        self._counts: dict[QueueId, dict[AppId | None, Counter[str]]] = {}
        """Of each queue the facts that name an app by that app, and the others under None."""

    def observe(self, facts: Iterable[Fact]) -> None:
        fact: Any
        for fact in facts:
            counted = COUNTED.get(type(fact))
            if counted is not None:
                name, has_app = counted
                counts = self._counts.get(fact.queue)
                if counts is None:
                    counts = self._begin(fact.queue)
                # BMQ-91: counted from what happened, for the queue and for its app.
                counts[fact.app if has_app else None][name] += 1
            elif type(fact) is QueueDeleted:
                self._counts.pop(fact.queue, None)

    def of(self, queue: QueueId, app: AppId | None = None) -> dict[str, int]:
        """The counts of a queue, or of one of its apps."""
        return self.by_app(queue).get(app, {})

    def by_app(self, queue: QueueId) -> dict[AppId | None, dict[str, int]]:
        """The counts of each app of a queue, and under None those of the queue."""
        found = self._counts.get(queue)
        if found is None:
            return {}
        whole: Counter[str] = Counter()
        for counts in found.values():
            whole.update(counts)
        return {None: dict(whole), **{app: dict(c) for app, c in found.items() if app is not None}}

    def _begin(self, queue: QueueId) -> dict[AppId | None, Counter[str]]:
        counts: dict[AppId | None, Counter[str]] = defaultdict(Counter)
        self._counts[queue] = counts
        if len(self._counts) > QUEUES_MAX:
            del self._counts[next(iter(self._counts))]
        return counts


def groups_of(app: App) -> Slices[list[dict[str, object]]]:
    """The groups of an app with the most matches, as rows."""
    busiest = yield from best(app.groups, GROUPS_MAX, partial(nlargest, key=_matched))
    rows = []
    for group in busiest:
        rows.append(_row(app, group))
        yield 2 + (len(group.members) + len(group.waiting)) // GLANCES * GLANCE_UNITS
    return rows


def _matched(group: Group) -> int:
    return group.stats.matched


def _row(app: App, group: Group) -> dict[str, object]:
    """The row of a group. `missed` also counts messages that the index skipped and messages
    that a higher priority took."""
    stats = group.stats
    gates = [member.gate for member in group.members]
    is_fetched = any(member.session < 0 for member in group.members)
    return {
        "expression": group.text,
        "priority": group.priority,
        "consumers": len({member.session for member in group.rotation}),
        "matched": stats.matched,
        "missed": app.groups.looked_at - stats.since - stats.matched,
        "undecided": {
            "sampled": stats.sampled,
            **{failure.lower(): count for failure, count in stats.failures.items()},
        },
        "reason": stats.reason(),
        "in_flight": sum(len(gate.outstanding) for gate in gates),
        "in_flight_bytes": sum(gate.size for gate in gates),
        "waiting": app.waiting_for(group),
        "window": None if is_fetched else sum(gate.window.messages for gate in gates),
    }
