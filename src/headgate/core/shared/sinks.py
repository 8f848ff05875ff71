"""Sinks: batches from outside that are added to a queue once, however often they are sent.

A sink numbers its batches upwards and repeats one until it knows that it was committed. The router
stores the last number of each sink in the same transaction as the messages, so a repeated batch is
answered and not added again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from headgate.core.commands import ForgetSink, Land, RememberBatch
from headgate.core.facts import Repeated, SinkCommitted, SinkForgotten
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId, MessageId
from headgate.core.model.message import Message, check
from headgate.core.shared.accepting import Accepting, wanting
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import SharedContext
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import Meter
from headgate.core.turn.store_requests import SinkRecord
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, QuotaReached

FORGET_SECONDS = 90 * 86_400.0
"""Seconds without a batch after which a sink is forgotten."""

LOOK_SECONDS = 3600.0
"""Seconds between two searches for such sinks."""


class Sinks:
    """The sinks that the shard knows.

    Owned by `SharedQueues`; the shard calls it for batches of the pipeline. All sinks are in
    memory, bounded by `limits.sinks`.
    """

    def __init__(
        self, context: SharedContext, catalog: Catalog, expiry: Expiry, accepting: Accepting
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._catalog = catalog
        self._expiry = expiry
        self._accepting = accepting
        self._look_at = 0.0
        self.records: dict[str, SinkRecord] = {}

    def adopt(self, records: Mapping[str, SinkRecord]) -> None:
        """Take over the stored sinks, when the router starts."""
        self.records.update(records)

    def has(self, sink: str, batch: int) -> bool:
        """Whether a batch was committed: it, or a later one, is the last."""
        record = self.records.get(sink)
        return record is not None and batch <= record.batch

    def check_room(self, sink: str) -> None:
        """Raise if there are too many sinks for one more."""
        if sink not in self.records and len(self.records) >= self._limits.sinks:
            raise LimitReached("sinks", self._limits.sinks)

    # Requests of sessions.

    def land(self, command: Land, turn: Turn) -> Iterator[None]:
        try:
            if not self.has(command.sink, command.batch):
                self.check_room(command.sink)
                yield from self._landing(command, turn)
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
        """Forget sinks without batches for long, up to a number in one turn."""
        if turn.now < self._look_at:
            return
        old = [s for s, r in self.records.items() if turn.sure - r.at > FORGET_SECONDS]
        for sink in old[: self._limits.expiries]:
            self._forget(sink, turn)
        if len(old) <= self._limits.expiries:
            turn.undo.assign(self, "_look_at", turn.now + LOOK_SECONDS)

    # Inside.

    def _landing(self, command: Land, turn: Turn) -> Iterator[None]:
        """Check all messages before the first is added, so that nothing has to be undone."""
        catalog = self._catalog
        domain = catalog.domain_of(command)
        queue = catalog.find(command, turn)
        catalog.check_producers(domain, queue, command.session)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._limits.outbox_bytes)
        chosen = yield from self._choosing(command, domain, queue, turn)
        self._expiry.expire(turn, queue)
        state = self._context.states.get(domain.name)
        _check_room(
            queue.meter if queue is not None else Meter("queue"),
            state.meter if state is not None else Meter("domain"),
            domain,
            chosen,
        )
        if queue is None:
            queue = catalog.make(command, turn)
        for message, apps in chosen:
            turn.work += 1
            if turn.take_breath():
                yield
            if apps is None:
                turn.facts.append(Repeated(turn.now, queue.id, message.id))
            else:
                self._accepting.take(queue, message, message.size, apps, turn)

    def _choosing(
        self, command: Land, domain: Domain, queue: SharedQueue | None, turn: Turn
    ) -> Generator[None, None, list[tuple[Message, tuple[AppId, ...] | None]]]:
        """The apps that want each message, or None if its id is known already."""
        ids: set[MessageId] = set()
        chosen: list[tuple[Message, tuple[AppId, ...] | None]] = []
        for message in command.messages:
            turn.work += 1
            if turn.take_breath():
                yield
            check(message, self._limits)
            if message.id in ids or (queue is not None and queue.remembers(message.id, turn.sure)):
                chosen.append((message, None))
            else:
                chosen.append((message, wanting(domain, queue, message.properties)))
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
    """Raise unless the queue and its domain have room for all messages to be stored."""
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
