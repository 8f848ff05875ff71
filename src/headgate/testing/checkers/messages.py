"""No message is lost, confirmed twice or out of order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core import facts as f
from headgate.core.effects import Deliver, ref_of
from headgate.core.model.domain import Mode
from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, SessionId
from headgate.core.reader_commands import (
    Acknowledge,
    DropReader,
    MakeGroup,
    MoveGroup,
    Pull,
    RemoveMessages,
    TakeOver,
)
from headgate.core.turn.store_requests import Load
from headgate.testing.checkers.base import Checker, by_ref, is_broadcast, is_exclusive
from headgate.testing.checkers.ledger import Parcel
from headgate.testing.rig import at_once

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World


def _is_reconfigured(taken: Taken) -> bool:
    """Then both what was and what is may have been obeyed in the turn."""
    return any(isinstance(command, c.Reconfigure) for command in taken.commands)


class Confirms(Checker):
    """The law of confirms: nothing is confirmed twice, and nothing is delivered after its confirm
    was answered."""

    name = "confirms"

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        ledger = self.world.ledger
        released = Counter((p.queue, p.id, app) for p, app in taken.changes.released)
        # A group may go back to what it has confirmed, also in this turn.
        moved = {x.queue for x in taken.commands if isinstance(x, MakeGroup | MoveGroup)}
        for fact in taken.outcome.facts:
            if isinstance(fact, f.Confirmed):
                key = (fact.queue, fact.message, fact.app)
                if not released[key] and fact.queue not in moved | {*taken.changes.removed}:
                    self.fail(f"{fact} of what the app was done with")
                released[key] -= 1
        commands = by_ref(taken.commands)
        done: set[tuple[QueueId, MessageId]] = set()
        for effect in taken.outcome.effects:
            if isinstance(effect, Deliver):
                # A history may have an id twice; readers are told which of them it is.
                of_id = ledger.by_id.get((effect.queue, effect.message.id))
                parcel = ledger.parcels.get(effect.seq, of_id)
                gone = parcel.gone.get(effect.app) if parcel is not None else None
                is_again = effect.queue in moved
                if gone is not None and gone < taken.number and not is_again:
                    self.fail(f"{effect} after the confirm of turn {gone}")
                if (effect.queue, effect.message.id) in done:
                    self.fail(f"{effect} after its confirm was answered")
            command = commands.get(ref_of(effect))
            if (
                isinstance(command, c.Confirm)
                and is_exclusive(command.queue)
                and isinstance(effect, e.Done | Deliver)
            ):
                done.update((command.queue, id) for id in command.messages)


class Losses(Checker):
    """No message is lost after a receipt: it is in the store when the receipt is given, it leaves
    only for a reason, and at the end, when everybody took everything, nothing is left over."""

    name = "losses"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._handed: set[tuple[SessionId, QueueId, AppId, MessageId]] = set()

    def applied(self, taken: Taken) -> None:
        for parcel in taken.changes.appended:
            domain = self.world.domain_of(parcel.queue)
            if domain.mode is Mode.BROADCAST:
                self.fail(f"{parcel.id!r} was stored, {parcel.queue!r} is a broadcast")
            if domain.mode is Mode.FANOUT and WHOLE in parcel.left:
                self.fail(f"{parcel.id!r} was stored for nobody, {parcel.queue!r} is a fanout")
        self._excuse(taken.changes.appended)

    def reconfigured(self) -> None:
        self._excuse(self.world.ledger.parcels.values())

    def _excuse(self, parcels: Iterable[Parcel]) -> None:
        """Apps that are not of the domain, now or for a while, may let go of messages."""
        for parcel in parcels:
            apps = self.world.domain_of(parcel.queue).apps
            groups = self.world.ledger.groups.get(parcel.queue, ())
            parcel.excused |= set(parcel.stored.apps).difference(apps, groups)

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        for effect in taken.outcome.effects:
            if isinstance(effect, e.Receipt):
                self._receipt(effect, taken)
            elif isinstance(effect, Deliver):
                self._delivery(effect, taken)
        self._justify(taken)

    def _receipt(self, receipt: e.Receipt, taken: Taken) -> None:
        if (receipt.queue, receipt.message) in self.world.ledger.by_id:
            return
        if is_broadcast(receipt.queue) or self._was_deleted(receipt.queue, taken):
            return
        facts = taken.outcome.facts
        # The filters of all apps may refuse a message; then it is done for all of them.
        known = [fact for fact in facts if isinstance(fact, f.AutoConfirmed | f.Repeated)]
        if not any(fact.message == receipt.message for fact in known):
            self.fail(f"{receipt} for what is not in the store")

    @staticmethod
    def _was_deleted(queue: QueueId, taken: Taken) -> bool:
        """Whether the queue was deleted later in the same turn."""
        facts = taken.outcome.facts
        return any(isinstance(fact, f.QueueDeleted) and fact.queue == queue for fact in facts)

    def _delivery(self, effect: Deliver, taken: Taken) -> None:
        key = (effect.queue, effect.message.id)
        self._handed.add((effect.session, effect.queue, effect.app, effect.message.id))
        parcel = self.world.ledger.by_id.get(key)
        if is_broadcast(effect.queue):
            return
        if parcel is None and self._was_deleted(effect.queue, taken):
            return
        if parcel is None:
            self.fail(f"{effect} of what is not in the store")
        if parcel.stored.message.body != effect.message.body:
            self.fail(f"{effect} with another body")
        if not is_exclusive(effect.queue) and not _is_reconfigured(taken):
            self._age(effect, parcel, taken)

    def _age(self, effect: Deliver, parcel: Parcel, taken: Taken) -> None:
        """A message that is too old is delivered to nobody, unless its sender had it for long: then
        a younger one may stand before it."""
        if self._is_old(parcel, taken) and not any(
            other.queue == parcel.queue
            and other.stored.seq < parcel.stored.seq
            and not self._is_old(other, taken)
            for other in self.world.ledger.parcels.values()
        ):
            self.fail(f"{effect} of what is too old")

    def _justify(self, taken: Taken) -> None:
        """Every message that left the store had a reason to."""
        confirmed = {
            (command.queue, command.app, id)
            for command in taken.commands
            if isinstance(command, c.Confirm)
            for id in command.messages
            if (command.session, command.queue, command.app, id) in self._handed
        }
        acknowledged = {
            (command.queue, command.app, id.number)
            for command in taken.commands
            if isinstance(command, Acknowledge)
            for id in command.messages
        }
        removed = {
            (command.queue, id.number)
            for command in taken.commands
            if isinstance(command, RemoveMessages)
            for id in command.messages
        }
        facts = taken.outcome.facts
        moved = {(x.queue, x.app) for x in facts if isinstance(x, f.GroupDropped | f.Skipped)}
        # What is fetched and confirmed in one is confirmed when it is delivered.
        at_once = {
            (x.queue, x.app, x.message)
            for x in facts
            if isinstance(x, f.Confirmed) and x.session < 0
        }
        expired = {(x.queue, x.message) for x in facts if isinstance(x, f.Expired)}
        poisoned = {(x.queue, x.app, x.message) for x in facts if isinstance(x, f.Poisoned)}
        for parcel, app in taken.changes.released:
            key = (parcel.queue, app, parcel.id)
            if key in confirmed or key in poisoned or key in at_once:
                continue
            if (parcel.queue, app, parcel.stored.seq) in acknowledged:
                continue
            if (parcel.queue, parcel.stored.seq) in removed or (parcel.queue, app) in moved:
                continue
            if (parcel.queue, parcel.id) in expired and (
                self._is_old(parcel, taken) or _is_reconfigured(taken)
            ):
                continue
            if app not in parcel.excused:
                self.fail(f"{parcel.id!r} left {parcel.queue!r} for no reason (app {app!r})")
        asked = {command.queue for command in taken.commands if isinstance(command, c.Delete)}
        for parcel in taken.changes.swept_away:
            if parcel.queue not in asked:
                self.fail(f"{parcel.id!r} went with {parcel.queue!r}, which nobody deleted")

    def _is_old(self, parcel: Parcel, taken: Taken) -> bool:
        """By what the router has been told of its domain, which may have changed since."""
        domains = taken.router.broker.shard.domains
        ttl = domains[self.world.ledger.records[parcel.queue].domain].message_ttl
        return ttl is not None and taken.now - parcel.stored.message.arrived > ttl

    def crashed(self) -> None:
        self._handed.clear()

    def ended(self, world: World) -> None:
        loaded = at_once(world.store.inner.load(Load(backlogs=set(world.ledger.records))))
        kept = {
            (entry.seq, entry.id, tuple(sorted(entry.apps)))
            for _, entries in loaded.backlogs.values()
            for entry in entries
        }
        expected = {
            (seq, parcel.id, tuple(sorted(parcel.left)))
            for seq, parcel in world.ledger.parcels.items()
        }
        if kept != expected:
            self.fail(f"the store has {sorted(kept ^ expected)} other than what it was given")
        left = sorted((p.queue, p.id) for p in world.ledger.parcels.values() if p.left)
        if left:
            self.fail(f"nobody was given {left}")


class Order(Checker):
    """Deliveries of a subscription come in the order of arrival. Of shared queues that is said
    of first deliveries while nobody's subscriptions change."""

    name = "order"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._heads: dict[QueueId, int] = {}
        self._last: dict[tuple[SessionId, QueueId, AppId, tuple[int, ...]], int] = {}
        self._seen: set[tuple[int, AppId]] = set()

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        changed = self._changed(taken)
        for effect in taken.outcome.effects:
            if not isinstance(effect, Deliver) or is_broadcast(effect.queue):
                continue
            parcel = self.world.ledger.by_id.get((effect.queue, effect.message.id))
            if parcel is None:
                continue  # it went with its queue in the same turn
            if is_exclusive(effect.queue):
                if parcel.number < self._heads.get(effect.queue, 0):
                    self.fail(f"{effect} is older than what was delivered before")
                self._heads[effect.queue] = parcel.number
                continue
            is_first = (parcel.number, effect.app) not in self._seen
            self._seen.add((parcel.number, effect.app))
            if is_first and effect.queue not in changed:
                key = (effect.session, effect.queue, effect.app, effect.interests)
                if parcel.number < self._last.get(key, 0):
                    self.fail(f"{effect} is older than what the subscription got before")
                self._last[key] = parcel.number

    def _changed(self, taken: Taken) -> set[QueueId]:
        """Queues whose subscriptions change in this turn: all orders begin anew."""
        changed: set[QueueId] = set()
        for command in taken.commands:
            if isinstance(command, c.Open | c.Configure | c.Close | TakeOver | DropReader):
                changed.add(command.queue)
            elif isinstance(command, Pull):
                changed.update(want.queue for want in command.wants)
            elif isinstance(command, c.Disconnect | c.Reconfigure) or (
                isinstance(command, c.Tick) and taken.router.broker.shard.shared.has_readers
            ):
                changed.update(queue for _, queue, _, _ in self._last)
                changed.update(p.queue for p in self.world.ledger.parcels.values())
        self._last = {key: n for key, n in self._last.items() if key[1] not in changed}
        return changed

    def crashed(self) -> None:
        self._last.clear()
