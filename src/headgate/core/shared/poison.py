"""Poison: messages that consumers were lost with, until no attempt is left.

A message may be the reason why its consumer was lost, so every loss counts against the messages
that the consumer had. `redelivery.py` has the counts of an app, and how long consumers are spared
such a message.
"""

from __future__ import annotations

from headgate.core.facts import Poisoned
from headgate.core.model.ids import QueueId
from headgate.core.model.message import MessageEntry
from headgate.core.shared.app import App
from headgate.core.shared.context import SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.turn import Turn


class Poison:
    """Counts losses against messages, and takes those without attempts left out of their app.

    `SharedQueues` owns it and calls `tick`; whatever takes a message from a lost consumer calls
    `blame` after that.
    """

    def __init__(
        self, context: SharedContext, delivery: SharedDelivery, releasing: Releasing
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._releasing = releasing
        self._blamed: set[QueueId] = set()
        """Queues with messages that a consumer was lost with."""

    def blame(self, queue: SharedQueue, app: App, entry: MessageEntry, turn: Turn) -> bool:
        """Count the loss of a consumer against this message, which may be the reason. Return
        whether it has no attempts left, and leaves the app."""
        attempts = app.redelivery.blame(entry.seq, turn.undo)
        turn.undo.add(self._blamed, queue.id)
        most = queue.domain.max_delivery_attempts
        # BMQ-56, BMQ-57: the last attempt removes it for this app; 0 is no limit.
        if not most or attempts < most:
            return False
        if queue.domain.dead_letter:
            turn.doomed.append((queue.id, app.id, entry.seq, attempts))
        else:
            turn.facts.append(Poisoned(turn.now, queue.id, app.id, entry.id, attempts))
            self._releasing.dereference(queue, entry, app, turn)
        return True

    def tick(self, turn: Turn) -> None:
        """Offer the messages that consumers were spared long enough, in every queue."""
        for queue_id in list(self._blamed):
            self._spare_no_longer(queue_id, turn)

    def _spare_no_longer(self, queue_id: QueueId, turn: Turn) -> None:
        """Offer the messages that consumers were spared long enough."""
        queue = self._context.queues.get(queue_id)
        apps = (
            [app for app in queue.apps.values() if app.redelivery.attempts]
            if queue is not None
            else []
        )
        if queue is None or not apps:
            turn.undo.discard(self._blamed, queue_id)
            return
        for app in apps:
            if app.back and app.redelivery.is_due(turn.now):
                self._delivery.touch(queue, app)
