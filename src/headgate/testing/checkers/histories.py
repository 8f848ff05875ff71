"""Groups that clients make, what they are to get, and what stays when all of them have it."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from headgate.core import facts as f
from headgate.core.effects import Deliver, Failed, ref_of
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.message import Properties
from headgate.core.model.stream_id import StreamId, stream_id
from headgate.core.reader_commands import Add, Browse, Feed, MakeGroup, Range, RemoveMessages, Trim
from headgate.core.reader_effects import Added, BrowseDone, Fed
from headgate.core.shared.dead_letters import APP, QUEUE
from headgate.expr.predicate import Predicate, compile_expression
from headgate.testing.checkers.base import Checker, by_ref
from headgate.testing.checkers.ledger import Parcel

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken


@lru_cache
def _compiled(text: str) -> Predicate:
    return compile_expression(text)


def _id(parcel: Parcel) -> StreamId:
    return stream_id(parcel.stored.message.arrived, parcel.stored.seq)


class Histories(Checker):
    """The law of histories, by the batches: every group gets what it is to get, a history loses
    only its oldest and only for a reason, a dead letter is there when its message is gone, and a
    channel feeds all of its queues or none."""

    name = "histories"

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        self._added(taken)
        self._wanted(taken)
        self._trimmed(taken)
        self._dead(taken)
        self._fed(taken)
        if len(taken.commands) == 1:
            self._made(taken)
            self._looked(taken)

    def _keeps(self, queue: QueueId, taken: Taken) -> bool:
        record = self.world.ledger.records.get(queue)
        return record is not None and taken.router.broker.shard.domains[record.domain].keeps

    def _added(self, taken: Taken) -> None:
        """What a queue with a history took is there by the id that was answered."""
        here = {(parcel.queue, _id(parcel)) for parcel in taken.changes.appended}
        for effect in taken.outcome.effects:
            if (
                isinstance(effect, Added)
                and self._keeps(effect.queue, taken)
                and (effect.queue, effect.id) not in here
            ):
                self.fail(f"{effect} of what was not stored")

    def _wanted(self, taken: Taken) -> None:
        """A message that came is for every group there is, unless that does not want it."""
        facts = taken.outcome.facts
        changed = {x.queue for x in facts if isinstance(x, f.GroupCreated | f.GroupDropped)}
        for parcel in taken.changes.appended:
            groups = self.world.ledger.groups.get(parcel.queue)
            if groups is None or parcel.queue in changed:
                continue
            properties = parcel.stored.message.properties
            wanted = {app for app, each in groups.items() if _wants(each.where, properties)}
            if wanted != set(parcel.stored.apps):
                self.fail(f"{parcel.id!r} is for {parcel.stored.apps}, {wanted} want it")

    def _trimmed(self, taken: Taken) -> None:
        """What leaves a history is told, and was asked for or had to make room; the oldest go."""
        ledger, facts = self.world.ledger, taken.outcome.facts
        counted: Counter[QueueId] = Counter()
        for fact in facts:
            if isinstance(fact, f.Trimmed):
                counted[fact.queue] += fact.messages
            elif isinstance(fact, f.Purged | f.Expired):
                counted[fact.queue] += 1
        gone = Counter(x.queue for x in taken.changes.deleted if self._keeps(x.queue, taken))
        for queue, count in gone.items():
            if counted[queue] != count:
                self.fail(
                    f"{count} messages left the history of {queue!r}, facts of {counted[queue]}"
                )
            domain = taken.router.broker.shard.domains[ledger.records[queue].domain]
            is_asked = any(
                getattr(x, "queue", None) == queue
                and (isinstance(x, Trim | RemoveMessages) or (isinstance(x, Add) and x.trim))
                for x in taken.commands
            )
            kept = sum(x.queue == queue and not x.left for x in ledger.parcels.values())
            has_room = domain.max_messages is None and kept < domain.keep_messages
            if has_room and not is_asked:
                self.fail(f"{count} messages left the history of {queue!r}, which had room")
            if any(isinstance(x, RemoveMessages) for x in taken.commands):
                continue
            last = max(_id(x) for x in taken.changes.deleted if x.queue == queue)
            settled = {id(parcel) for parcel, _ in taken.changes.released}
            for parcel in ledger.parcels.values():
                is_new = id(parcel) in settled or parcel in taken.changes.appended
                if parcel.queue == queue and not (parcel.left or is_new) and _id(parcel) < last:
                    self.fail(f"{parcel.id!r} of {queue!r} stays, and a later one went")

    def _dead(self, taken: Taken) -> None:
        """What is given up is a dead letter by then, and says why."""
        ledger, facts = self.world.ledger, taken.outcome.facts
        letters = {
            (x.queue, x.app, x.message): (x.target, x.letter)
            for x in facts
            if isinstance(x, f.DeadLettered)
        }
        for fact in facts:
            if not isinstance(fact, f.Poisoned):
                continue
            record = ledger.records[fact.queue]
            if not taken.router.broker.shard.domains[record.domain].dead_letter:
                continue
            found = letters.get((fact.queue, fact.app, fact.message))
            letter = ledger.by_id.get(found) if found is not None else None
            if letter is None:
                self.fail(f"{fact} without a dead letter")
            self._compare(letter, fact)

    def _compare(self, letter: Parcel, fact: f.Poisoned) -> None:
        message = letter.stored.message
        dead = self.world.ledger.by_id[fact.queue, fact.message].stored.message
        if message.body != dead.body:
            self.fail(f"{fact} has a dead letter with another body")
        why = message.properties.get(QUEUE), message.properties.get(APP)
        if why != (fact.queue.decode(), fact.app):
            self.fail(f"{fact} has a dead letter that says {why}")

    def _fed(self, taken: Taken) -> None:
        """Every queue of a channel has what was published, or none has, and nobody heard it."""
        commands = by_ref(taken.commands)
        heard = Counter(x.message.id for x in taken.outcome.spoken if x.is_fed)
        here = {(parcel.queue, parcel.id) for parcel in taken.changes.appended}
        dropped = Counter(x.queue for x in taken.outcome.facts if isinstance(x, f.FeedDropped))
        for effect in taken.outcome.effects:
            feed = commands.get(ref_of(effect))
            if not isinstance(feed, Feed):
                continue
            parts: list[tuple[QueueId, MessageId]] = [(x.queue, x.message.id) for x in feed.parts]
            there = sum(part in self.world.ledger.by_id for part in parts)
            is_heard = heard[feed.parts[0].message.id] > 0
            if isinstance(effect, Failed):
                if is_heard or any(part in here for part in parts):
                    self.fail(f"{feed} was refused, and is heard or in a queue")
            elif isinstance(effect, Fed):
                gone = sum(dropped[queue] > 0 for queue, _ in parts)
                if not is_heard or effect.taken != there or there + gone < len(parts):
                    self.fail(f"{effect}: heard {is_heard}, in {there} of {len(parts)} queues")

    def _made(self, taken: Taken) -> None:
        """A group that begins in the past is to get all that is there by then."""
        [command] = taken.commands
        is_made = any(isinstance(x, f.GroupCreated) for x in taken.outcome.facts)
        if not isinstance(command, MakeGroup) or not is_made:
            return
        # Two of one id may be there, if that was forgotten in between; one of them is given.
        expected = {
            parcel.id
            for parcel in self.world.ledger.parcels.values()
            if parcel.queue == command.queue
            and command.after is not None
            and _id(parcel) > command.after
            and _wants(command.where, parcel.stored.message.properties)
        }
        found = {x.id for x, app in taken.changes.referred if app == command.app}
        if found != expected:
            self.fail(f"{command} is to get {sorted(expected)}, was given {sorted(found)}")

    def _looked(self, taken: Taken) -> None:
        """A look sees all that is there."""
        [command] = taken.commands
        if not isinstance(command, Range | Browse):
            return
        if not any(isinstance(x, BrowseDone) for x in taken.outcome.effects):
            return  # it was refused, or waits, or nobody is there any more
        delivered = [x.seq for x in taken.outcome.effects if isinstance(x, Deliver) and x.seq]
        found = sorted(self.world.ledger.parcels.values(), key=_id)
        if isinstance(command, Range):
            found = [
                x
                for x in found
                if x.queue == command.queue and command.first <= _id(x) <= command.last
            ]
            if command.newest_first:
                found.reverse()
        else:
            [view] = command.wants
            if view.after is None:
                return
            found = [x for x in found if x.queue == view.queue and _id(x) > view.after]
        expected = [x.stored.seq for x in found][: command.count]
        if delivered != expected:
            self.fail(f"{command} delivered {delivered}, there are {expected}")


def _wants(where: str | None, properties: Properties) -> bool:
    return where is None or _compiled(where).matches(properties)
