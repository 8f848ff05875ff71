"""Totals over all shared queues, unconfirmed and undelivered, kept up to date by each turn, so that
no caller has to go through all queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headgate.core.model.ids import AppId, QueueId
from headgate.core.shared.app import App
from headgate.core.shared.queue import SharedQueue


class SharedTotals:
    """The totals, owned by the shared queues. Only committed turns change it, so nothing is ever
    undone. An app is `behind` while it has undelivered messages."""

    def __init__(self, queues: Mapping[QueueId, SharedQueue]) -> None:
        self._queues = queues
        self.unconfirmed = 0
        self.unconfirmed_by_domain: Counter[str] = Counter()
        self.behind: dict[tuple[QueueId, AppId], tuple[SharedQueue, App]] = {}
        """Apps with undelivered messages, the one that is behind for longest first."""
        self._counted: dict[tuple[QueueId, AppId], int] = {}
        """Number of unconfirmed messages of each app, if it has any."""

    def follow(self, changed: Iterable[tuple[App, SharedQueue]]) -> None:
        """Update the totals for the apps that a turn has changed."""
        for app, queue in changed:
            key = (queue.id, app.id)
            is_here = self._queues.get(queue.id) is queue and queue.apps.get(app.id) is app
            count = len(app.outstanding) if is_here else 0
            before = self._counted.get(key, 0)
            if count != before:
                self._count(key, queue.domain.name, count, count - before)
            if is_here and app.undelivered():
                self.behind[key] = (queue, app)
            else:
                self.behind.pop(key, None)

    def _count(self, key: tuple[QueueId, AppId], domain: str, count: int, more: int) -> None:
        self.unconfirmed += more
        self.unconfirmed_by_domain[domain] += more
        if count:
            self._counted[key] = count
        else:
            del self._counted[key]
