"""Looking at messages without receiving them: a range of a queue, or all after an id.

Nothing is delivered and nothing changes. Messages kept as history are read from the store, all of
one request at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator
from dataclasses import replace
from heapq import merge
from itertools import islice

from headgate.core.model.ids import Ref, Seq, SessionId
from headgate.core.model.message import MessageEntry
from headgate.core.model.stream_id import StreamId, id_of
from headgate.core.reader_commands import Browse, Range, Trim, Withdraw
from headgate.core.reader_effects import BrowseDone, Counted
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.history import History
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.read_share import share_of
from headgate.core.turn.store_requests import Load, Loaded, Parts
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, KeepsNothing, LimitReached, Prohibited

LAST = StreamId(1 << 64, 0)
"""Larger than any message id."""


class Browsing:
    """Carries out `Range`, `Browse` and `Trim`.

    A session whose browse waits has no other request. The wait ends with the turn in which a
    message comes to one of its queues.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        catalog: Catalog,
        history: History,
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._catalog = catalog
        self._history = history
        self.waiting: dict[SessionId, Browse] = {}

    def range(self, command: Range, turn: Turn) -> Parts:
        limits = self._context.limits
        if command.session not in self._context.session_states.sessions:
            return
        if turn.sent_bytes > limits.range_bytes:
            turn.again.append(command)
            return
        try:
            self._catalog.of_reader(command, command.client, "read")
            queue = self._catalog.find(command, turn)
            seqs: list[Seq] = []
            if queue is not None and (command.count is None or command.count > 0):
                most = limits.range_messages
                wanted = most + 1 if command.count is None else min(command.count, most + 1)
                seqs = _between(
                    queue, command.first, command.last, wanted, is_reversed=command.newest_first
                )
                turn.work += len(queue.entries) // 1000 + len(seqs)
                if len(seqs) > most:
                    raise LimitReached("range_messages", most)
                entries = yield from self._entries(queue, seqs, turn)
                if sum(entry.size for entry in entries) > limits.range_bytes and len(entries) > 1:
                    raise LimitReached("range_bytes", limits.range_bytes)
                yield from self._delivering(queue, entries, command.session, command.ref, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        turn.effects.append(BrowseDone(command.session, command.ref))

    def showing(
        self,
        queue: SharedQueue,
        first: StreamId,
        last: StreamId,
        shows: int,
        session: SessionId,
        ref: Ref,
        turn: Turn,
    ) -> Parts:
        """Show the oldest messages, and the newest if the survey asks for one message."""
        seqs = _between(queue, first, last, shows, is_reversed=False)
        if shows == 1:
            seqs += _between(queue, first, last, 1, is_reversed=True)
        entries = yield from self._entries(queue, seqs, turn)
        most = self._context.limits.range_bytes
        if shows > 1 and sum(entry.size for entry in entries) > most:
            raise LimitReached("range_bytes", most)
        yield from self._delivering(queue, entries, session, ref, turn)

    def trim(self, command: Trim, turn: Turn) -> None:
        """Remove as many as a turn may; the rest is another turn's."""
        try:
            self._catalog.of_reader(command, command.client, "write")
            queue = self._catalog.find(command, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        to = command.to
        removed = 0 if queue is None else self._history.trim(queue, to, turn)
        if removed and turn.expiries <= 0 and (to.most is None or removed < to.most):
            left = None if to.most is None else to.most - removed
            rest = replace(to, most=left)
            turn.again.append(replace(command, to=rest, removed=command.removed + removed))
            return
        turn.effects.append(Counted(command.session, command.ref, command.removed + removed))

    def browse(self, command: Browse, turn: Turn) -> Parts:
        session = command.session
        if turn.sent_bytes > self._context.limits.range_bytes:
            turn.again.append(command)
            return
        if self._context.session_states.take(session, turn.undo) is None:
            return
        try:
            if session in self.waiting:
                raise Prohibited("the session waits for messages already")
            for want in command.wants:
                domain = self._catalog.of_reader(want, command.client, "read")
                if not domain.keeps:
                    raise KeepsNothing(domain.name)
                self._catalog.find(want, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, command.wants[0].queue, error)
            return
        wants = []
        for want in command.wants:
            queue = self._context.queues.get(want.queue)
            last = StreamId(0, 0) if queue is None else queue.last_id
            wants.append(replace(want, after=last) if want.after is None else want)
        command = replace(command, wants=tuple(wants))
        found = yield from self._looking(command, turn)
        if found or not command.waits:
            turn.effects.append(BrowseDone(session, command.ref))
        else:
            turn.undo.put(self.waiting, session, command)

    def waking(self, turn: Turn) -> Parts:
        """Answer the browses that wait for a queue to which a message came."""
        queues = {stored.queue for stored in turn.batch.append.values()}
        for session, command in list(self.waiting.items()) if queues else ():
            if all(want.queue not in queues for want in command.wants):
                continue
            if (yield from self._looking(command, turn)):
                turn.undo.pop(self.waiting, session)
                turn.effects.append(BrowseDone(session, command.ref))

    def withdraw(self, command: Withdraw, turn: Turn) -> None:
        browse = self.waiting.get(command.session)
        if browse is not None and browse.ref == command.ref:
            turn.undo.pop(self.waiting, command.session)
            turn.effects.append(BrowseDone(command.session, command.ref))

    def disconnect(self, session: SessionId, turn: Turn) -> None:
        turn.undo.pop(self.waiting, session)

    # Inside.

    def _looking(self, command: Browse, turn: Turn) -> Generator[Load | None, Loaded, int]:
        """Answer with the messages that are there now; return how many."""
        limits, count = self._context.limits, 0
        share = share_of(limits, len(command.wants))
        most = min(command.count or share.messages, share.messages)
        for want in command.wants:
            queue = self._context.queues.get(want.queue)
            assert want.after is not None, "it is known by now"
            if queue is None or queue.last_id <= want.after:
                continue
            after = StreamId(want.after.milliseconds, want.after.number + 1)
            seqs = _between(queue, after, LAST, most, is_reversed=False)
            entries = yield from self._entries(queue, seqs, turn)
            room, some = share.bytes, 0
            while some < len(entries) and room > 0:
                room -= entries[some].size
                some += 1
            session, ref = command.session, command.ref
            yield from self._delivering(queue, entries[:some], session, ref, turn)
            count += some
        return count

    def _entries(
        self, queue: SharedQueue, seqs: list[Seq], turn: Turn
    ) -> Generator[Load | None, Loaded, list[MessageEntry]]:
        """The entries of these messages; those not in memory are read."""
        known, appended = queue.entries, turn.batch.append
        missing = {seq for seq in seqs if seq not in known and seq not in appended}
        loaded = (yield Load(entries=missing)).entries if missing else {}
        entries = []
        for seq in seqs:
            entry = known.get(seq) or loaded.get(seq)
            if entry is None:
                message = appended[seq].message
                entry = MessageEntry(
                    seq, message.id, message.arrived, message.size, message.properties, ()
                )
            entries.append(entry)
        return entries

    def _delivering(
        self,
        queue: SharedQueue,
        entries: list[MessageEntry],
        session: SessionId,
        ref: Ref,
        turn: Turn,
    ) -> Parts:
        for entry in entries:
            turn.work += 1
            if turn.take_breath():
                yield None
            self._delivery.show_entry(queue, entry, session, ref, turn)


def _between(
    queue: SharedQueue, first: StreamId, last: StreamId, most: int, *, is_reversed: bool
) -> list[Seq]:
    """Messages with ids between two, both included, in the queue or in its history."""
    kept, entries = queue.kept, queue.entries
    lines: list[list[Seq]] = []
    places = range(len(kept))
    begin = bisect_left(places, first, key=kept.id_at)
    end = bisect_right(places, last, key=kept.id_at)
    some = slice(max(begin, end - most), end) if is_reversed else slice(begin, begin + most)
    lines.append([Seq(seq) for seq in kept.seqs[some.start : min(some.stop, end)]])
    numbers = list(entries)
    begin = bisect_left(numbers, first, key=lambda seq: id_of(entries[seq]))
    end = bisect_right(numbers, last, key=lambda seq: id_of(entries[seq]))
    some = slice(max(begin, end - most), end) if is_reversed else slice(begin, begin + most)
    lines.append(numbers[some.start : min(some.stop, end)])
    if is_reversed:
        return list(islice(merge(*map(reversed, lines), reverse=True), most))
    return list(islice(merge(*lines), most))


def ends_of(queue: SharedQueue) -> tuple[StreamId | None, StreamId | None]:
    """The ids of the oldest and the newest message, in the queue or in its history."""
    ids = [id_of(queue.entries[seq]) for seq in islice(queue.entries, 1)]
    ids += [id_of(queue.entries[seq]) for seq in islice(reversed(queue.entries), 1)]
    if queue.kept:
        ids += [queue.kept.id_at(0), queue.kept.id_at(len(queue.kept) - 1)]
    return (min(ids), max(ids)) if ids else (None, None)
