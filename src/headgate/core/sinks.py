"""Sinks: batches from outside that land in a queue once, however often they are sent.

A sink numbers its batches upwards and repeats one until it knows that it landed. The router
remembers the last number of each sink, in the same transaction as the messages, so a batch that
comes again is answered and not done again.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.commands import ForgetSink, Land, RememberBatch
from headgate.core.domain import Domain, Mode
from headgate.core.facts import Repeated, SinkCommitted, SinkForgotten
from headgate.core.limits import Limits
from headgate.core.message import Message, check
from headgate.core.names import AppId, MessageId
from headgate.core.shared import Meter, SharedQueue
from headgate.core.sharing import Sharing, wanting
from headgate.core.steps import SinkRecord
from headgate.core.turn import Turn
from headgate.errors import HeadgateError, LimitReached, QuotaReached

FORGET_SECONDS = 90 * 86_400.0
"""A sink that landed nothing for so long is forgotten."""

LOOK_SECONDS = 3600.0
"""How often that is looked for."""


class Sinks:
    """What the shard knows of sinks. All of them are in memory, bounded by `limits.sinks`."""

    def __init__(self, sharing: Sharing, limits: Limits) -> None:
        self._sharing = sharing
        self._limits = limits
        self._look_at = 0.0
        self.records: dict[str, SinkRecord] = {}

    def adopt(self, records: Mapping[str, SinkRecord]) -> None:
        """Take what the store remembers, when the router starts."""
        self.records.update(records)

    def has(self, sink: str, batch: int) -> bool:
        """Whether a batch landed: it, or one after it, is the last."""
        record = self.records.get(sink)
        return record is not None and batch <= record.batch

    def check_room(self, sink: str) -> None:
        """Raise if there are too many sinks for one more."""
        if sink not in self.records and len(self.records) >= self._limits.sinks:
            raise LimitReached("sinks", self._limits.sinks)

    # What a session asks.

    def land(self, command: Land, turn: Turn) -> None:
        try:
            if not self.has(command.sink, command.batch):
                self.check_room(command.sink)
                self._land(command, turn)
                self._note(command.sink, command.batch, len(command.messages), turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        turn.done(command.session, command.ref)

    def remember(self, command: RememberBatch, turn: Turn) -> None:
        if not self.has(command.sink, command.batch):
            self._note(command.sink, command.batch, command.messages, turn)
        turn.done(command.session, command.ref)

    def forget(self, command: ForgetSink, turn: Turn) -> None:
        if command.sink in self.records:
            self._forget(command.sink, turn)
        turn.done(command.session, command.ref)

    def tick(self, turn: Turn) -> None:
        """Forget who was not here for long, so many in one turn."""
        if turn.now < self._look_at:
            return
        old = [s for s, r in self.records.items() if turn.now - r.at > FORGET_SECONDS]
        for sink in old[: self._limits.expiries]:
            self._forget(sink, turn)
        if len(old) <= self._limits.expiries:
            turn.undo.assign(self, "_look_at", turn.now + LOOK_SECONDS)

    # Inside.

    def _land(self, command: Land, turn: Turn) -> None:
        """Look at all messages before the first is taken, so that nothing has to be undone."""
        sharing = self._sharing
        domain = sharing.domain_of(command)
        queue = sharing.find(command, turn)
        sharing.check_producers(domain, queue, command.session)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._limits.outbox_bytes)
        chosen = self._choose(command, domain, queue, turn)
        state = sharing.states.get(domain.name)
        _check_room(
            queue.meter if queue is not None else Meter("queue"),
            state.meter if state is not None else Meter("domain"),
            domain,
            chosen,
        )
        if queue is None:
            queue = sharing.make(command, turn)
        for message, apps in chosen:
            if apps is None:
                turn.facts.append(Repeated(turn.now, queue.id, message.id))
            else:
                sharing.take(queue, message, message.size, apps, turn)

    def _choose(
        self, command: Land, domain: Domain, queue: SharedQueue | None, turn: Turn
    ) -> list[tuple[Message, tuple[AppId, ...] | None]]:
        """Each message with the apps that want it, or none if its id is known already."""
        ids: set[MessageId] = set()
        chosen: list[tuple[Message, tuple[AppId, ...] | None]] = []
        for message in command.messages:
            check(message, self._limits)
            if message.id in ids or (queue is not None and queue.remembers(message.id, turn.now)):
                chosen.append((message, None))
            else:
                chosen.append((message, wanting(domain, message.properties)))
                ids.add(message.id)
        return chosen

    def _note(self, sink: str, batch: int, messages: int, turn: Turn) -> None:
        record = SinkRecord(batch, turn.now)
        turn.undo.put(self.records, sink, record)
        turn.batch.sinks[sink] = record
        turn.facts.append(SinkCommitted(turn.now, sink, batch, messages))

    def _forget(self, sink: str, turn: Turn) -> None:
        record = turn.undo.pop(self.records, sink)
        assert record is not None, "only what is remembered is forgotten"
        turn.batch.sinks[sink] = None
        turn.facts.append(SinkForgotten(turn.now, sink, record.batch))


def _check_room(
    queue: Meter,
    whole: Meter,
    domain: Domain,
    chosen: list[tuple[Message, tuple[AppId, ...] | None]],
) -> None:
    """Raise unless the queue and its domain have room for all that would be stored."""
    if domain.mode is Mode.BROADCAST:
        return
    sizes = [message.size for message, apps in chosen if apps]
    for meter, messages_max, bytes_max in (
        (queue, domain.max_messages, domain.max_bytes),
        (whole, domain.domain_max_messages, domain.domain_max_bytes),
    ):
        if messages_max is not None and meter.messages + len(sizes) > messages_max:
            raise QuotaReached(meter.scope, "messages", messages_max)
        if bytes_max is not None and meter.bytes + sum(sizes) > bytes_max:
            raise QuotaReached(meter.scope, "bytes", bytes_max)
