"""History: messages that every app has confirmed are kept for a while, if the domain says so.

Only messages that all apps have confirmed are trimmed. History counts towards the quota of its
queue and is removed first when there is no room, so that it never takes the place of a new message.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.facts import Trimmed
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq
from headgate.core.model.message import MessageEntry
from headgate.core.reader_commands import TrimTo
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import judge_less
from headgate.core.turn.turn import Turn

SLACK = 1000
"""Messages beyond `keep_messages` that may wait for the next tick; with more they are removed at
once."""

ROOM = 100
"""Messages removed at once where there is no room: the next ones need some too."""


class History:
    """Keeps confirmed messages, and trims them.

    Owned by the shared queues. The `expiries` of a turn bound what it trims.
    """

    def __init__(self, context: SharedContext) -> None:
        self._context = context

    def keep(self, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
        """Turn a message that the last app has confirmed into history: it leaves all lines, and
        stays."""
        queue.keep(entry, turn.undo)
        turn.batch.hold[entry.seq] = ()
        remember(queue, (entry,), turn)
        self.settle(queue, turn)

    def add(self, queue: SharedQueue, entry: MessageEntry, turn: Turn) -> None:
        """Add a new message that no app wants as history."""
        queue.add_kept(entry, turn.undo)
        self.settle(queue, turn)

    def settle(self, queue: SharedQueue, turn: Turn) -> None:
        """Plan the trimming of history."""
        most = queue.domain.keep_messages
        beyond = len(queue.kept) - most if most else 0
        if beyond > SLACK:
            self._trim_first(queue, min(beyond, max(0, turn.expiries)), turn)
        self.plan(queue, turn)

    def plan(self, queue: SharedQueue, turn: Turn) -> None:
        """Plan to look at a queue when some of its history has to go."""
        when = self._due(queue, turn.sure)
        if when is not None:
            self._context.chores.put(when, (queue.id, Chore.TRIM))

    def tick(self, queue: SharedQueue, turn: Turn) -> None:
        """Trim history that is too long or too old."""
        if not queue.kept:
            return
        domain, kept = queue.domain, queue.kept
        count = 0
        if not domain.keeps:
            count = len(kept)
        elif domain.keep_messages:
            count = max(0, len(kept) - domain.keep_messages)
        age = _age(domain)
        if age is not None:
            while count < len(kept) and turn.sure - kept.arrived[count] > age:
                count += 1
        count = min(count, max(0, turn.expiries))
        if count:
            self._trim_first(queue, count, turn)
        if not queue.entries and not queue.kept:
            self._context.chores.put(turn.now, (queue.id, Chore.UNUSED))
        self.plan(queue, turn)

    def trim(self, queue: SharedQueue, to: TrimTo, turn: Turn) -> int:
        """Remove messages that all apps have confirmed, oldest first, as far as asked for; return
        how many."""
        kept = queue.kept
        count = len(kept)
        if to.messages is not None:
            count = min(count, len(queue.entries) + len(kept) - to.messages)
        if to.before is not None:
            count = min(count, kept.place_of(to.before))
        if to.most is not None:
            count = min(count, to.most)
        count = max(0, min(count, turn.expiries))
        if count:
            self._trim_first(queue, count, turn)
        return count

    def make_room(self, queue: SharedQueue, size: int, turn: Turn) -> None:
        """Trim history until there is room for a message, or none is left: that of the queue
        itself, and of others if the domain is full."""
        for each in (queue, *queue.state.members.values()):
            while each.kept and turn.expiries > 0 and not queue.has_room(size):
                if each is not queue and queue.state.has_room(size):
                    return
                self._trim_first(each, min(ROOM, len(each.kept), turn.expiries), turn)

    def remove(self, queue: SharedQueue, place: int, turn: Turn) -> None:
        """Remove one message of the history."""
        seq, size = queue.kept.remove(place, turn.undo)
        self._delete(queue, [seq], size, turn)

    def _trim_first(self, queue: SharedQueue, count: int, turn: Turn) -> None:
        turn.expiries -= count
        turn.work += count // 4
        seqs, size = queue.kept.remove_first(count, turn.undo)
        self._delete(queue, seqs, size, turn)
        turn.facts.append(Trimmed(turn.now, queue.id, count))

    @staticmethod
    def _delete(queue: SharedQueue, seqs: list[Seq], size: int, turn: Turn) -> None:
        for seq in seqs:
            turn.batch.hold.pop(seq, None)
        turn.batch.delete.update(seqs)
        queue.meter.change(-len(seqs), -size, turn.undo)
        queue.state.meter.change(-len(seqs), -size, turn.undo)
        judge_less(queue, turn)

    def _due(self, queue: SharedQueue, now: float) -> float | None:
        domain, kept = queue.domain, queue.kept
        if not kept:
            return None
        if not domain.keeps or 0 < domain.keep_messages < len(kept):
            return now
        age = _age(domain)
        return None if age is None else kept.arrived[0] + age


def _age(domain: Domain) -> float | None:
    """Seconds after which a message in the history goes; it expires like others, too."""
    ages = [age for age in (domain.keep_time or None, domain.message_ttl) if age is not None]
    return min(ages, default=None)


def remember(queue: SharedQueue, entries: Iterable[MessageEntry], turn: Turn) -> None:
    """Have the store recognise the ids of messages that leave the queue, if they came lately."""
    seconds = queue.domain.deduplication_time
    known = queue.remembered.known(entries, turn.sure, seconds) if seconds else None
    if known:
        turn.batch.remember.setdefault(queue.id, {}).update(known)
