"""Messages that leave a shared queue: confirmed, or dropped by an app."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import Confirm
from headgate.core.facts import AppRemoved, Confirmed
from headgate.core.model.ids import MessageId, SessionId
from headgate.core.model.message import MessageEntry
from headgate.core.shared.app import App
from headgate.core.shared.context import SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.history import History, remember
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import judge_less
from headgate.core.shared.runs import ConfirmedRun
from headgate.core.turn.turn import BREATH_WORK, Turn


class Releasing:
    """Releases messages from one app, or from all. The last app that is done with a message deletes
    it from the queue and the store, unless the domain keeps a history."""

    def __init__(self, context: SharedContext, delivery: SharedDelivery, history: History) -> None:
        self._context = context
        self._delivery = delivery
        self._history = history

    def confirm(self, command: Confirm, turn: Turn) -> Iterator[None]:
        """Confirm messages. Messages that the session does not have are ignored: they expired, or
        were given back."""
        queue = self._context.queues[command.queue]
        app = queue.apps.get(command.app)
        session = command.session
        if app is not None and session in app.consumers:
            messages, place = command.messages, 0
            run: ConfirmedRun | None = ConfirmedRun(queue, app, session)
            while place < len(messages):
                turn.work += 1
                if turn.work >= BREATH_WORK and turn.take_breath():
                    yield
                seen = 0
                if run is not None and run.is_plain():
                    seen, had_any, roomy = run.confirm(messages, place, turn)
                    if had_any:
                        self._delivery.touch(queue, app, roomy)
                if not seen:
                    run = None
                    self._confirm_one(queue, app, session, messages[place], turn)
                place += seen or 1
        turn.done(session, command.ref)

    def _confirm_one(
        self, queue: SharedQueue, app: App, session: SessionId, message: MessageId, turn: Turn
    ) -> None:
        seq = queue.by_id.get(message)
        held = app.outstanding.get(seq) if seq is not None else None
        if seq is None or held is None or held.session != session:
            return
        entry, now = queue.entries[seq], turn.now
        seconds = now - self._delivery.take_back(queue, app, seq, turn)
        waited = now - entry.arrived
        turn.facts.append(Confirmed(now, queue.id, app.id, message, session, seconds, waited))
        self.dereference(queue, entry, app, turn)

    def dereference(self, queue: SharedQueue, entry: MessageEntry, app: App, turn: Turn) -> None:
        """Release a message from one app; the last app deletes it."""
        app.forget(entry.seq, turn.undo)
        self._delivery.note(queue, app)
        # S003-10, BMQ-72: the last app that is done with a message deletes it.
        if entry.apps == (app.id,):
            self.retire(queue, entry, turn)
            return
        apps = tuple(name for name in entry.apps if name != app.id)
        kept = MessageEntry(entry.seq, entry.id, entry.arrived, entry.size, entry.properties, apps)
        turn.undo.put(queue.entries, entry.seq, kept)
        turn.batch.hold[entry.seq] = apps

    def retire(self, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
        """Turn a message that all apps are done with into history, or delete it."""
        if queue.domain.keeps:
            self._history.keep(queue, entry, turn)
        else:
            self.delete(queue, entry, turn)

    def let_go(self, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
        """Release a message from all apps, with or without a consumer."""
        for name in entry.apps:
            app = queue.apps[name]
            if entry.seq in app.outstanding:
                self._delivery.take_back(queue, app, entry.seq, turn)
            app.forget(entry.seq, turn.undo)
            self._delivery.note(queue, app)
        self.delete(queue, entry, turn)

    def delete(self, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
        batch = turn.batch
        queue.remove(entry, turn.undo)
        if batch.hold:
            batch.hold.pop(entry.seq, None)
        batch.delete.add(entry.seq)
        remember(queue, (entry,), turn)
        judge_less(queue, turn)

    def drop_app(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        """Remove an app that the domain no longer has. Its consumers stay, and receive nothing."""
        # BMQ-77: a removed app drops its messages.
        left = [e for e in queue.entries.values() if app.id in e.apps]
        for entry in left:
            if entry.seq in app.outstanding:
                self._delivery.take_back(queue, app, entry.seq, turn)
            self.dereference(queue, entry, app, turn)
        app.prune(queue.entries, turn.undo)
        if left:
            turn.facts.append(AppRemoved(turn.now, queue.id, app.id, len(left)))
