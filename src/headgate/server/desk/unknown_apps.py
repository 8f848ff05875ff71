"""Apps that somebody reads and their domains do not have: the reader waits in vain, and no wire has
a word for it."""

from __future__ import annotations

from headgate.core import facts as f
from headgate.core.broker import Broker
from headgate.core.model.ids import AppId, QueueId
from headgate.core.shared.explain import unknown_reason
from headgate.server.desk.asking import shown, shown_bytes
from headgate.server.desk.attention import UnknownApp
from headgate.server.desk.names import short_name

KEPT = 50
KINDS = (f.AppUnknown, f.AppRemoved)


class UnknownApps:
    """Reports of apps that their domains do not have, kept while somebody still reads them."""

    def __init__(self) -> None:
        self._since: dict[tuple[QueueId, AppId], float] = {}

    def take(self, fact: f.AppUnknown | f.AppRemoved) -> None:
        """Note readers of apps that their domain does not have, and apps that it now has."""
        self._since.setdefault((fact.queue, fact.app), fact.at)
        if len(self._since) > KEPT:
            del self._since[next(iter(self._since))]

    def found(self, broker: Broker) -> list[UnknownApp]:
        """Apps that are still read, and still not there."""
        rows = []
        for (queue_id, app_id), since in list(self._since.items()):
            queue = broker.shard.shared.queues.get(queue_id)
            app = None if queue is None else queue.apps.get(app_id)
            if queue is None or app is None or queue.has_app(app_id) or not app.consumers:
                del self._since[queue_id, app_id]
                continue
            session = next(reversed(app.consumers))
            reader = broker.sessions.get(session)
            rows.append(
                UnknownApp(
                    shown_bytes(queue_id, 400),
                    shown(app_id),
                    session,
                    "" if reader is None else short_name(reader),
                    len(app.consumers),
                    shown(unknown_reason(queue.domain, app_id), 1000),
                    since,
                )
            )
        return rows
