"""Dead letters: messages that consumers were lost with too often go to another queue.

They move in the turn that gives them up, so none is lost in between and none is there twice. If
there is no room for one, it stays in line, and the next loss tries again.
"""

from __future__ import annotations

from hashlib import sha256

from headgate.core.facts import DeadLettered, DeadLetterRefused, Poisoned
from headgate.core.model.ids import AppId, MessageId, QueueId, Seq
from headgate.core.model.message import (
    Declared,
    Fields,
    Message,
    MessageEntry,
    Properties,
    PropertyValue,
)
from headgate.core.model.property_type import type_of
from headgate.core.model.value import value
from headgate.core.shared.accepting import Accepting, wanting
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import SharedContext
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.store_requests import Load, Parts
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, Prohibited

TURN_BYTES = 16 * 1024 * 1024
"""Bytes of dead letters in one turn; a message beyond that stays in line until its next loss."""

QUEUE, APP, ATTEMPTS = "hg.queue", "hg.app", "hg.attempts"


@value
class DeadQueue:
    """The queue for the dead letters of another queue, in the form that the catalog takes."""

    domain: str
    queue: QueueId


class DeadLetters:
    """Stores messages without attempts left in another queue, and removes them where they were.

    Owned by `SharedQueues`; the shard calls it once at the end of a turn that doomed any. Both
    happen in that turn, or nothing does.
    """

    def __init__(
        self,
        context: SharedContext,
        catalog: Catalog,
        releasing: Releasing,
        accepting: Accepting,
    ) -> None:
        self._context = context
        self._catalog = catalog
        self._releasing = releasing
        self._accepting = accepting

    def burying(self, turn: Turn) -> Parts:
        """Decide about all messages without attempts left that the turn found."""
        load = Load()
        left = TURN_BYTES
        doomed: list[tuple[SharedQueue, App, MessageEntry, int, DeadQueue, bool]] = []
        for queue_id, app_id, seq, attempts in turn.doomed:
            found = self._find(queue_id, app_id, seq)
            if found is None:
                continue
            queue, app, entry = found
            target = DeadQueue(*(queue.domain.dead_letters_of(queue_id) or ("", queue_id)))
            left -= entry.size
            doomed.append((queue, app, entry, attempts, target, left >= 0))
            if left >= 0:
                self._catalog.missing(target, load)
                if seq not in turn.batch.append and self._context.bodies.find(seq) is None:
                    load.bodies.add(seq)
        bodies: dict[Seq, bytes] = {}
        if load:
            loaded = yield load
            turn.loaded.backlogs |= loaded.backlogs
            self._catalog.adopt(loaded, turn)
            bodies = loaded.bodies
        for queue, app, entry, attempts, target, has_room in doomed:
            turn.work += 4
            if turn.take_breath():
                yield None
            # Another app may have given it up just now, so that fewer apps are left.
            entry = queue.entries[entry.seq]
            try:
                if not has_room:
                    raise Prohibited("there are too many at once")
                self._bury(queue, app, entry, attempts, target, bodies, turn)
            except HeadgateError as error:
                reason = str(error)
                turn.facts.append(
                    DeadLetterRefused(turn.now, queue.id, app.id, entry.id, target.queue, reason)
                )
                app.redelivery.give_back(entry.seq, turn.undo)
                app.look_again((entry.seq,), turn.undo)

    def _find(
        self, queue_id: QueueId, app_id: AppId, seq: Seq
    ) -> tuple[SharedQueue, App, MessageEntry] | None:
        """A message to move, with its queue and app; it may have been confirmed or claimed
        since."""
        queue = self._context.queues.get(queue_id)
        app = queue.apps.get(app_id) if queue is not None else None
        entry = queue.entries.get(seq) if queue is not None else None
        if queue is None or app is None or entry is None:
            return None
        if app_id not in entry.apps or seq in app.outstanding:
            return None
        return queue, app, entry

    def _bury(
        self,
        queue: SharedQueue,
        app: App,
        entry: MessageEntry,
        attempts: int,
        target: DeadQueue,
        bodies: dict[Seq, bytes],
        turn: Turn,
    ) -> None:
        """Add a message to the dead letters; raise if that is impossible."""
        self._catalog.domain_of(target)
        there = self._catalog.find(target, turn) or self._catalog.make(target, turn)
        appended = turn.batch.append.get(entry.seq)
        body = self._context.bodies.find(entry.seq)
        if appended is not None:
            body = appended.message.body
        elif body is None:
            body = bodies[entry.seq]
        most = self._context.limits.message_properties
        properties = _with_reasons(entry.properties, queue.id, app.id, attempts, most)
        id = MessageId(sha256(entry.id + b"\0" + queue.id + b"\0" + app.id.encode()).digest()[:16])
        letter = Message(id, body, turn.now, properties)
        if not (there.domain.keeps or wanting(there.domain, there, properties)):
            raise Prohibited("no app there wants it, so it would be gone")
        if not there.remembers(id, turn.sure):
            self._accepting.accept(there, letter, letter.size, turn)
        turn.facts.append(Poisoned(turn.now, queue.id, app.id, entry.id, attempts))
        turn.facts.append(DeadLettered(turn.now, queue.id, app.id, entry.id, target.queue, id))
        self._releasing.dereference(queue, entry, app, turn)


def _with_reasons(
    properties: Properties, queue: QueueId, app: AppId, attempts: int, most: int
) -> Properties:
    """The properties of a dead letter: its own, then the reasons, as far as the limit allows."""
    why: dict[str, PropertyValue] = {
        QUEUE: queue.decode(errors="backslashreplace"),
        APP: app,
        ATTEMPTS: attempts,
    }
    own = {name: item for name, item in properties.items() if name not in why}
    all_ = {**own, **dict(list(why.items())[: most - len(own)])}
    if not isinstance(properties, Declared):
        return all_
    declared = dict(zip(properties, properties.types, strict=True))
    types = bytes(declared[n] if n in own else type_of(item) for n, item in all_.items())
    if isinstance(properties, Fields):
        return Fields(all_, types, properties.body)
    return Declared(all_, types)
