"""What must hold in every world, however bad its weather.

A checker is told what happens by the methods it has, and raises what must not. It knows the
rules, not the core: it goes by commands, effects, facts and what the store was made to do.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core import facts as f
from headgate.core.commands import Command, Interest, Request
from headgate.core.domain import Mode
from headgate.core.effects import Deliver, Effect
from headgate.core.mailbox import Mailbox
from headgate.core.message import Stored
from headgate.core.names import WHOLE, AppId, Channel, MessageId, QueueId, Seq, ServiceId, SessionId
from headgate.core.shard import Shard
from headgate.core.steps import Batch, Load, QueueRecord
from headgate.core.tally import Tally
from headgate.errors import LimitReached
from headgate.testing.picture import CACHES, differences, snapshot
from headgate.testing.rig import at_once

if TYPE_CHECKING:
    from headgate.testing.network import Blob, Link
    from headgate.testing.world import Router, Taken, World


# What the store was made to do, written down a second time.


PASSED_OVER = CACHES | {"sessions", "outbox"}
"""What changes in memory while a turn waits, besides what may remember one that failed."""


@dataclass(slots=True, eq=False)
class Parcel:
    """A message from the moment it was committed. Numbers of messages may come again after a
    restart, and so may ids of messages that are forgotten; a parcel's number does not."""

    number: int
    stored: Stored
    left: set[AppId]
    gone: dict[AppId, int] = field(default_factory=dict)
    """The turn in which an app was done with it."""
    excused: set[AppId] = field(default_factory=set)
    """Apps that its domain lost, for a while at least: they may let go of it."""

    @property
    def id(self) -> MessageId:
        return self.stored.message.id

    @property
    def queue(self) -> QueueId:
        return self.stored.queue


@dataclass(slots=True)
class Changes:
    """What one batch came to."""

    appended: list[Parcel] = field(default_factory=list)
    released: list[tuple[Parcel, AppId]] = field(default_factory=list)
    """Apps that are done with a message."""
    swept_away: list[Parcel] = field(default_factory=list)
    """Messages that went with their queue."""
    created: list[QueueId] = field(default_factory=list)
    removed: list[QueueId] = field(default_factory=list)
    before: dict[QueueId, QueueRecord] | None = None
    """The records of all queues before it, if it changed any of them."""


class Ledger:
    """What is in the store, by the batches that were applied."""

    def __init__(self) -> None:
        self.records: dict[QueueId, QueueRecord] = {}
        self.parcels: dict[Seq, Parcel] = {}
        self.by_id: dict[tuple[QueueId, MessageId], Parcel] = {}
        """The latest of this id, whether or not it is still there."""
        self._count = 0

    def apply(self, batch: Batch, turn: int) -> Changes:
        changes = Changes()
        if batch.remove or batch.create or batch.associate:
            changes.before = dict(self.records)
        for queue in sorted(batch.remove):
            self._remove(queue, turn, changes)
        for queue, record in batch.create.items():
            self.records[queue] = record
            changes.created.append(queue)
        for seq in sorted(batch.append):
            self._append(batch.append[seq], changes)
        for seq, apps in batch.hold.items():
            if seq in self.parcels:
                self._release(self.parcels[seq], set(apps), turn, changes)
        for seq in sorted(batch.delete):
            if seq in self.parcels:
                self._release(self.parcels.pop(seq), set(), turn, changes)
        for queue, service in batch.associate.items():
            record = self.records[queue]
            self.records[queue] = QueueRecord(queue, record.domain, service)
        return changes

    def _remove(self, queue: QueueId, turn: int, changes: Changes) -> None:
        if self.records.pop(queue, None) is not None:
            changes.removed.append(queue)
        for parcel in [p for p in self.parcels.values() if p.queue == queue]:
            parcel.gone.update(dict.fromkeys(parcel.left, turn))
            changes.swept_away.append(self.parcels.pop(parcel.stored.seq))

    def _append(self, stored: Stored, changes: Changes) -> None:
        self._count += 1
        parcel = Parcel(self._count, stored, set(stored.apps))
        self.parcels[stored.seq] = parcel
        self.by_id[stored.queue, parcel.id] = parcel
        changes.appended.append(parcel)

    @staticmethod
    def _release(parcel: Parcel, left: set[AppId], turn: int, changes: Changes) -> None:
        for app in sorted(parcel.left - left):
            parcel.gone[app] = turn
            changes.released.append((parcel, app))
        parcel.left &= left

    def before(self, changes: Changes) -> Mapping[QueueId, QueueRecord]:
        """The records before changes that were the last."""
        return changes.before if changes.before is not None else self.records

    def tally(self, service: ServiceId) -> Tally:
        return tally_of(self.records, service)

    def services(self) -> set[ServiceId]:
        return {r.service for r in self.records.values() if r.service is not None}


def tally_of(records: Mapping[QueueId, QueueRecord], service: ServiceId) -> Tally:
    return Tally.of(q for q, record in records.items() if record.service == service)


# Checkers.


class Checker:
    """Has a method for each event it watches: `asked`, `applied`, `turn`, `crashed`,
    `reconfigured`, `published`, `flushed`, `heard`, `calmed`, `ended`."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def fail(self, what: str) -> NoReturn:
        self.world.violation(self.name, what)


class Answers(Checker):
    """Every request is answered once, to the one who asked."""

    name = "answers"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._asked: dict[object, Link] = {}

    def asked(self, link: Link, commands: Sequence[Command]) -> None:
        for command in commands:
            ref = getattr(command, "ref", None)
            if ref is not None:
                self._asked[ref] = link

    def turn(self, taken: Taken) -> None:
        refs = (getattr(effect, "ref", None) for effect in taken.outcome.effects)
        replies = Counter(ref for ref in refs if ref is not None)
        for effect in taken.outcome.effects:
            ref = getattr(effect, "ref", None)
            link = taken.router.links.get(effect.session)
            if ref is not None and link is not None and self._asked.get(ref) is not link:
                self.fail(f"{effect} answers what {link.client.name} did not ask")
        for command in taken.commands:
            ref = getattr(command, "ref", None)
            if ref is None or not isinstance(command, Request):
                continue
            count = replies.pop(ref, 0)
            link = self._asked.pop(ref)
            if count > 1 or (count == 0 and not link.closed):
                self.fail(f"{command} was answered {count} times")
        if replies:
            self.fail(f"answers to nobody: {list(replies)}")

    def crashed(self) -> None:
        self._asked.clear()


class Confirms(Checker):
    """Nothing is confirmed twice, and nothing is delivered after its confirm was answered."""

    name = "confirms"

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        ledger = self.world.ledger
        released = Counter((p.queue, p.id, app) for p, app in taken.changes.released)
        for fact in taken.outcome.facts:
            if isinstance(fact, f.Confirmed):
                key = (fact.queue, fact.message, fact.app)
                if not released[key] and fact.queue not in taken.changes.removed:
                    self.fail(f"{fact} of what the app was done with")
                released[key] -= 1
        commands = by_ref(taken.commands)
        done: set[tuple[QueueId, MessageId]] = set()
        for effect in taken.outcome.effects:
            if isinstance(effect, Deliver):
                parcel = ledger.by_id.get((effect.queue, effect.message.id))
                gone = parcel.gone.get(effect.app) if parcel is not None else None
                if gone is not None and gone < taken.number:
                    self.fail(f"{effect} after the confirm of turn {gone}")
                if (effect.queue, effect.message.id) in done:
                    self.fail(f"{effect} after its confirm was answered")
            command = commands.get(getattr(effect, "ref", None))
            if (
                isinstance(command, c.Confirm)
                and is_exclusive(command.queue)
                and isinstance(effect, e.Done | Deliver)
            ):
                done.update((command.queue, id) for id in command.messages)


class Losses(Checker):
    """Nothing is lost after a receipt: it is in the store when the receipt is given, it leaves
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
            parcel.excused |= set(parcel.stored.apps).difference(apps)

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
        """Somebody deleted the queue later in the same turn."""
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

    def _justify(self, taken: Taken) -> None:
        """Every message that left the store had a reason to."""
        confirmed = {
            (command.queue, command.app, id)
            for command in taken.commands
            if isinstance(command, c.Confirm)
            for id in command.messages
            if (command.session, command.queue, command.app, id) in self._handed
        }
        facts = taken.outcome.facts
        expired = {(x.queue, x.message) for x in facts if isinstance(x, f.Expired)}
        poisoned = {(x.queue, x.app, x.message) for x in facts if isinstance(x, f.Poisoned)}
        for parcel, app in taken.changes.released:
            key = (parcel.queue, app, parcel.id)
            if key in confirmed or key in poisoned:
                continue
            if (parcel.queue, parcel.id) in expired and self._is_old(parcel, taken):
                continue
            if app not in parcel.excused:
                self.fail(f"{parcel.id!r} left {parcel.queue!r} for no reason (app {app!r})")
        asked = {command.queue for command in taken.commands if isinstance(command, c.Delete)}
        for parcel in taken.changes.swept_away:
            if parcel.queue not in asked:
                self.fail(f"{parcel.id!r} went with {parcel.queue!r}, which nobody deleted")

    def _is_old(self, parcel: Parcel, taken: Taken) -> bool:
        return taken.now > parcel.stored.message.arrived and any(
            isinstance(command, c.Tick) for command in taken.commands
        )

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
        left = sorted((p.queue, p.id) for p in world.ledger.parcels.values())
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
            if isinstance(command, c.Open | c.Configure | c.Close):
                changed.add(command.queue)
            elif isinstance(command, c.Disconnect | c.Reconfigure):
                changed.update(queue for _, queue, _, _ in self._last)
                changed.update(p.queue for p in self.world.ledger.parcels.values())
        self._last = {key: n for key, n in self._last.items() if key[1] not in changed}
        return changed

    def crashed(self) -> None:
        self._last.clear()


class Windows(Checker):
    """Never more unconfirmed than the window; of an exclusive queue, one."""

    name = "window"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._one: dict[tuple[SessionId, QueueId], MessageId] = {}
        self._wants: dict[tuple[SessionId, QueueId, AppId], tuple[Interest, ...]] = {}
        self._held: dict[
            tuple[SessionId, QueueId, AppId], dict[MessageId, tuple[str | None, int]]
        ] = {}
        """What is unconfirmed, with the text of the subscription it went to, and its size."""

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        self._let_go(taken)
        commands = by_ref(taken.commands)
        for effect in taken.outcome.effects:
            command = commands.get(getattr(effect, "ref", None))
            queue = getattr(effect, "queue", getattr(command, "queue", None))
            if queue is not None and not is_exclusive(queue):
                self._shared(effect, command, taken.number)
            else:
                self._exclusive(effect, command)
        # A session may be answered in the turn that it is gone in.
        self._forget_gone(taken)

    def _exclusive(self, effect: Effect, command: Command | None) -> None:
        if isinstance(effect, e.ServiceEnd):
            for key in [key for key in self._one if key[0] == effect.session]:
                del self._one[key]
        elif isinstance(effect, e.End | e.Deleted | e.Granted):
            self._one.pop((effect.session, effect.queue), None)
        elif isinstance(effect, Deliver) and not isinstance(command, c.Get):
            key = (effect.session, effect.queue)
            if effect.ref is None and key in self._one:
                self.fail(f"{effect} while {self._one[key]!r} is unconfirmed")
            self._one[key] = effect.message.id
        elif isinstance(effect, e.Done) and isinstance(command, c.Confirm):
            self._one.pop((effect.session, command.queue), None)
        elif isinstance(effect, e.Done) and isinstance(command, c.Delete):
            for key in [key for key in self._one if key[1] == command.queue]:
                del self._one[key]

    def _shared(self, effect: Effect, command: Command | None, turn: int) -> None:
        if isinstance(effect, e.Done):
            if isinstance(command, c.Open) and command.read:
                key = (command.session, command.queue, command.app)
                self._wants[key] = command.interests
                self._held[key] = {}
            elif isinstance(command, c.Configure):
                self._configured(command)
            elif isinstance(command, c.Close):
                self._wants.pop((command.session, command.queue, command.app), None)
                self._held.pop((command.session, command.queue, command.app), None)
        elif isinstance(effect, Deliver) and not is_broadcast(effect.queue):
            self._delivered(effect, turn)

    def _configured(self, command: c.Configure) -> None:
        """A text that was there before goes on with what is unconfirmed of it."""
        key = (command.session, command.queue, command.app)
        texts = {interest.expression for interest in command.interests}
        self._wants[key] = command.interests
        self._held[key] = {
            id: held for id, held in self._held.get(key, {}).items() if held[0] in texts
        }

    def _delivered(self, effect: Deliver, turn: int) -> None:
        key = (effect.session, effect.queue, effect.app)
        wants = self._wants.get(key, ())
        [index] = effect.interests
        if index >= len(wants):
            self.fail(f"{effect} for a subscription that the session does not have")
        window, text = wants[index].window, wants[index].expression
        held = [size for held, size in self._held[key].values() if held == text]
        if len(held) >= window.messages:
            self.fail(f"{effect} with {len(held)} unconfirmed in a window of {window.messages}")
        if window.bytes is not None and sum(held) >= window.bytes:
            self.fail(f"{effect} with {sum(held)} bytes in a window of {window.bytes}")
        parcel = self.world.ledger.by_id[effect.queue, effect.message.id]
        if parcel.gone.get(effect.app) != turn:  # else it was confirmed at once, from before
            self._held[key][effect.message.id] = (text, effect.message.size)

    def _let_go(self, taken: Taken) -> None:
        """What is not in a consumer's hands any more, for whatever reason."""
        self._forget_gone(taken)
        for fact in taken.outcome.facts:
            if isinstance(fact, f.Returned):
                self._held.get((fact.session, fact.queue, fact.app), {}).pop(fact.message, None)
        for parcel, app in taken.changes.released:
            for (_, queue, whose), held in self._held.items():
                if (queue, whose) == (parcel.queue, app):
                    held.pop(parcel.id, None)

    def calmed(self, world: World) -> None:
        """Where somebody wants everything, and nobody pauses, nothing waits."""
        interests: dict[tuple[QueueId, AppId], list[Interest]] = {}
        for (_, queue, app), wants in self._wants.items():
            interests.setdefault((queue, app), []).extend(wants)
        for parcel in world.ledger.parcels.values():
            for app in sorted(parcel.left):
                wants = tuple(interests.get((parcel.queue, app), ()))
                if (
                    any(interest.expression is None for interest in wants)
                    and all(interest.window.messages for interest in wants)
                    and app in world.domain_of(parcel.queue).apps
                ):
                    self.world.violation(
                        "stuck", f"{parcel.id!r} waits in {parcel.queue!r} for app {app!r}"
                    )

    def _forget_gone(self, taken: Taken) -> None:
        for command in taken.commands:
            if isinstance(command, c.Disconnect):
                self._forget(command.session)

    def _forget(self, session: SessionId) -> None:
        self._one = {key: id for key, id in self._one.items() if key[0] != session}
        self._wants = {key: w for key, w in self._wants.items() if key[0] != session}
        self._held = {key: h for key, h in self._held.items() if key[0] != session}

    def crashed(self) -> None:
        self._one.clear()
        self._wants.clear()
        self._held.clear()


class Exclusive(Checker):
    """One subscriber of an exclusive queue or a service at a time; END to the displaced, once;
    deliveries to the one who has it."""

    name = "exclusive"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.plain: dict[QueueId, SessionId] = {}
        self.services: dict[ServiceId, SessionId] = {}
        self._whose: dict[QueueId, ServiceId | None] = {}
        self._owed: set[tuple[SessionId, ServiceId]] = set()
        """Who has to be told the end of a service before the turn is over."""
        self._moved: dict[QueueId, set[ServiceId | None]] = {}
        """Queues that a session moved in this turn which had hung up while its subscribe was
        waiting: nobody is told that it did."""
        self._whole: set[tuple[ServiceId, SessionId]] = set()
        """Services that were subscribed as a whole, not only by some of their queues."""
        self._got: set[tuple[SessionId, QueueId]] = set()
        """What a session reads with GET; that is not pushed to it."""

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        commands = by_ref(taken.commands)
        records = self.world.ledger.before(taken.changes)
        self._whose = {q: r.service for q, r in records.items()}
        self._moved = {}
        for command in taken.commands:
            if isinstance(command, c.Subscribe) and command.session not in taken.router.links:
                self._moved.setdefault(command.queue, set()).add(command.service)
        for effect in taken.outcome.effects:
            self._look_at(effect, commands.get(getattr(effect, "ref", None)), taken)
        if self._owed:
            self.fail(f"no END of the service to {sorted(self._owed)}")
        for command in taken.commands:
            if isinstance(command, c.Disconnect):
                gone = command.session
                self.plain = {q: s for q, s in self.plain.items() if s != gone}
                self.services = {x: s for x, s in self.services.items() if s != gone}

    def _look_at(self, effect: Effect, command: Command | None, taken: Taken) -> None:
        alive = taken.router.links
        if isinstance(effect, e.Granted):
            subscribes = isinstance(command, c.Subscribe) or (
                isinstance(command, c.Create) and command.subscribe
            )
            self._granted(effect, subscribes, alive)
        elif isinstance(effect, e.ServiceGranted):
            self._take_service(effect.session, effect.service, alive)
            self._whole.add((effect.service, effect.session))
        elif isinstance(command, c.Get) and isinstance(effect, e.Done | Deliver):
            self._got.add((command.session, command.queue))
        elif isinstance(effect, e.End):
            if effect.session in alive and effect.session not in self._holders(effect.queue):
                self.fail(f"{effect}, who was not the subscriber")
            self.plain.pop(effect.queue, None)
            self._whose[effect.queue] = None
        elif isinstance(effect, e.ServiceEnd):
            self._service_ended(effect, alive)
        elif isinstance(effect, e.Deleted):
            if effect.session in alive and effect.session not in self._holders(effect.queue):
                self.fail(f"{effect}, who was not the subscriber")
            self.plain.pop(effect.queue, None)
        elif isinstance(effect, e.Done) and isinstance(command, c.Delete):
            self.plain.pop(command.queue, None)
            self._whose.pop(command.queue, None)
        elif (
            isinstance(effect, Deliver)
            and is_exclusive(effect.queue)
            and effect.session in alive
            and effect.session not in self._holders(effect.queue)
        ):
            self.fail(f"{effect}, who is not the subscriber")

    def _granted(
        self, effect: e.Granted, subscribes: bool, alive: Mapping[SessionId, Link]
    ) -> None:
        session, queue, service = effect.session, effect.queue, effect.service
        if not subscribes:
            self._whose[queue] = service
            return
        holder = self.plain.get(queue)
        whose = self._whose.get(queue)
        if holder is None and whose is not None and whose != service:
            holder = self.services.get(whose)
        if holder is not None and holder != session and holder in alive:
            self.fail(f"{effect} while #{holder} has it and got no END")
        self._whose[queue] = service
        if service is None:
            self.plain[queue] = session
        else:
            self.plain.pop(queue, None)
            self._take_service(session, service, alive)

    def _take_service(
        self, session: SessionId, service: ServiceId, alive: Mapping[SessionId, Link]
    ) -> None:
        holder = self.services.get(service)
        if holder is not None and holder != session and holder in alive:
            if session not in alive:
                return  # it may have been gone already, and then took nothing
            self._owed.add((holder, service))
        self.services[service] = session

    def _service_ended(self, effect: e.ServiceEnd, alive: Mapping[SessionId, Link]) -> None:
        """The grant of the new subscriber comes before or after it, in the same turn."""
        key = (effect.session, effect.service)
        self._whole.discard((effect.service, effect.session))
        if key in self._owed:
            self._owed.discard(key)
        elif self.services.get(effect.service) == effect.session:
            del self.services[effect.service]
        elif effect.session in alive:
            self.fail(f"{effect}, who was not the subscriber")

    def _holders(self, queue: QueueId) -> set[SessionId]:
        """Who may be given the queue's messages."""
        whose = {self._whose.get(queue), *self._moved.get(queue, ())}
        holders = {self.services[s] for s in whose if s is not None and s in self.services}
        if queue in self.plain:
            holders.add(self.plain[queue])
        return holders

    def crashed(self) -> None:
        self.plain.clear()
        self.services.clear()
        self._owed.clear()
        self._whole.clear()
        self._got.clear()

    def calmed(self, world: World) -> None:
        """Who has a queue, and confirms what comes, has been given everything."""
        for parcel in world.ledger.parcels.values():
            queue = parcel.queue
            holder = self.plain.get(queue)
            service = world.ledger.records[queue].service
            if service is not None and (service, self.services.get(service)) in self._whole:
                holder = self.services[service]
                if (holder, queue) in self._got:
                    continue
            if is_exclusive(queue) and holder is not None:
                self.world.violation(
                    "stuck", f"{parcel.id!r} waits in {queue!r} though #{holder} has it"
                )


class Tallies(Checker):
    """The tally of a service equals a recount of the queues that are associated with it."""

    name = "tallies"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._swept: set[tuple[SessionId, ServiceId]] = set()

    def applied(self, taken: Taken) -> None:
        batch = taken.batch
        assert batch is not None, "something was applied"
        if not (batch.tallies or batch.associate or batch.remove or batch.create):
            return
        services = self.world.ledger.services() | set(batch.tallies)
        kept = at_once(self.world.store.inner.load(Load(services=services))).services
        for service in sorted(services):
            counted = self.world.ledger.tally(service)
            if kept.get(service, Tally()) != counted:
                self.fail(f"{service!r} has {kept.get(service)}, counted were {counted}")

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        moments = self._moments(taken)
        for effect in taken.outcome.effects:
            key = (effect.session, getattr(effect, "service", None))
            if isinstance(effect, e.ServiceGranted):
                self._swept.add((effect.session, effect.service))
                self._compare(effect, moments)
            elif isinstance(effect, e.ServiceEnd) and key in self._swept:
                self._swept.discard((effect.session, effect.service))
                self._compare(effect, moments)

    def _moments(self, taken: Taken) -> list[dict[QueueId, QueueRecord]]:
        """The queues and their services after each change of the turn."""
        records = dict(self.world.ledger.before(taken.changes))
        moments = [dict(records)]
        for fact in taken.outcome.facts:
            if isinstance(fact, f.Associated):
                records[fact.queue] = QueueRecord(fact.queue, "", fact.service)
                moments.append(dict(records))
        return moments

    def _compare(
        self,
        effect: e.ServiceGranted | e.ServiceEnd,
        moments: Iterable[Mapping[QueueId, QueueRecord]],
    ) -> None:
        counted = [tally_of(records, effect.service) for records in moments]
        if effect.tally not in counted:
            self.fail(f"{effect} says {effect.tally}, counted were {counted}")

    def crashed(self) -> None:
        self._swept.clear()


class Memory(Checker):
    """A failed turn leaves memory as it was, and what memory caches is what the store has."""

    name = "memory"

    def turn(self, taken: Taken) -> None:
        shard = taken.router.broker.shard
        if taken.failed:
            after = snapshot(shard, PASSED_OVER)
            if taken.before is not None and after != taken.before:
                lines = "; ".join(differences(taken.before, after)[:5])
                self.fail(f"turn {taken.number} failed and left a trace: {lines}")
        if taken.failed or taken.number % 8 == 0:
            self._compare(shard)

    def _compare(self, shard: Shard) -> None:
        ledger = self.world.ledger
        for queue, backlog in shard.backlogs._backlogs.items():
            if not is_exclusive(queue):
                continue
            kept = [p.stored for p in ledger.parcels.values() if p.queue == queue]
            if backlog.record != ledger.records.get(queue):
                self.fail(f"{queue!r} is {backlog.record}, stored is {ledger.records.get(queue)}")
            if backlog.messages != len(kept) or list(backlog.first) != kept[: len(backlog.first)]:
                self.fail(f"{queue!r} is remembered with other messages than are stored")
        for queue, shared in shard.sharing.queues.items():
            if is_broadcast(queue):
                continue
            stored = {p.stored.seq: p.left for p in ledger.parcels.values() if p.queue == queue}
            here = {seq: set(entry.apps) for seq, entry in shared.entries.items()}
            # An app that the domain lost while the router was down is let go of in memory only.
            if stored.keys() != here.keys() or any(not here[seq] <= stored[seq] for seq in here):
                self.fail(f"{queue!r} is remembered as {here}, stored is {stored}")
            if shared.meter.messages != len(here):
                self.fail(f"{queue!r} counts {shared.meter.messages} messages, has {len(here)}")


class Facts(Checker):
    """Facts equal what happened: to the effects, and to what the store was made to do."""

    name = "facts"

    def turn(self, taken: Taken) -> None:
        facts, effects = taken.outcome.facts, taken.outcome.effects
        if taken.failed:
            if [type(fact) for fact in facts] != [f.TurnFailed]:
                self.fail(f"turn {taken.number} failed, its facts are {facts}")
            return
        self._against_effects(facts, effects)
        self._against_store(facts, taken.changes)

    def _against_effects(self, facts: list[f.Fact], effects: list[Effect]) -> None:
        deliveries = [
            (x.queue, x.app, x.message.id, x.session, x.attempts)
            for x in effects
            if isinstance(x, Deliver)
        ]
        delivered = [
            (x.queue, x.app, x.message, x.session, x.attempts)
            for x in facts
            if isinstance(x, f.Delivered)
        ]
        self._same("deliveries", delivered, deliveries)
        self._same(
            "receipts",
            [(x.queue, x.message) for x in facts if isinstance(x, f.Accepted | f.Repeated)],
            [(x.queue, x.message) for x in effects if isinstance(x, e.Receipt)],
        )
        self._same(
            "displacements",
            [(x.queue, x.session) for x in facts if isinstance(x, f.Displaced)],
            [(x.queue, x.session) for x in effects if isinstance(x, e.End)],
        )
        self._same(
            "displacements of services",
            [(x.service, x.session) for x in facts if isinstance(x, f.ServiceDisplaced)],
            [(x.service, x.session) for x in effects if isinstance(x, e.ServiceEnd)],
        )
        self._same(
            "sweeps",
            [(x.service, x.session) for x in facts if isinstance(x, f.SweepEnded)],
            [(x.service, x.session) for x in effects if isinstance(x, e.SweepDone)],
        )
        failures = [x.error for x in effects if isinstance(x, e.Failed)]
        self._same(
            "refusals",
            [x.reason for x in facts if isinstance(x, f.Refused)],
            [type(x).__name__ for x in failures if not isinstance(x, LimitReached)],
        )

    def _against_store(self, facts: list[f.Fact], changes: Changes) -> None:
        deleted = {x.queue for x in facts if isinstance(x, f.QueueDeleted)}
        accepted = {(x.queue, x.message) for x in facts if isinstance(x, f.Accepted)}
        appended = {(p.queue, p.id) for p in changes.appended}
        if not appended <= accepted:
            self.fail(f"stored, not accepted: {sorted(appended - accepted)}")
        kept = {pair for pair in accepted - appended if not is_broadcast(pair[0])}
        auto = {(x.queue, x.message) for x in facts if isinstance(x, f.AutoConfirmed)}
        if lost := {pair for pair in kept - auto if pair[0] not in deleted}:
            self.fail(f"accepted, not stored: {sorted(lost)}")
        created = Counter(x.queue for x in facts if isinstance(x, f.QueueCreated))
        if missing := set(changes.created) - set(created):
            self.fail(f"queues made without a fact: {sorted(missing)}")
        if missing := set(created) - set(changes.created) - deleted:
            self.fail(f"queues told and not made: {sorted(missing)}")
        if missing := set(changes.removed) - deleted:
            self.fail(f"queues removed without a fact: {sorted(missing)}")
        self._associations(facts, changes)

    def _associations(self, facts: list[f.Fact], changes: Changes) -> None:
        services = {q: r.service for q, r in self.world.ledger.before(changes).items()}
        for fact in facts:
            if isinstance(fact, f.QueueCreated):
                services[fact.queue] = None
            elif isinstance(fact, f.QueueDeleted):
                services.pop(fact.queue, None)
            elif isinstance(fact, f.Associated):
                services[fact.queue] = fact.service
        # A queue that is deleted says that it is nobody's, before or after that it is gone.
        records = self.world.ledger.records
        now = {q: r.service for q, r in records.items()}
        if {q: services.get(q) for q in now} != now:
            self.fail(f"by the facts the services of queues are {services}, stored are {now}")

    def _same(self, what: str, facts: list[Any], effects: list[Any]) -> None:
        if Counter(facts) != Counter(effects):
            self.fail(f"{what}: facts say {facts}, effects were {effects}")


class Budgets(Checker):
    """Mailboxes are charged what they hold, and a publisher puts at most one message more into
    those over their limit."""

    name = "budget"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._bytes_max = 0
        self._publishers: set[SessionId] = set()

    def published(
        self, link: Link, channel: Channel, body: bytes, audience: Sequence[Mailbox[object]]
    ) -> None:
        limits, budget = self.world.limits, link.router.broker.budget
        held = [mailbox.bytes for mailbox in audience]
        limit = limits.mailbox_bytes_hard
        if budget.bytes > limits.budget_bytes:
            limit = limits.mailbox_bytes_soft
        if any(size > limit for size in held):
            self.fail(f"#{link.id} published to mailboxes with {held} bytes")
        if link.id in self._publishers:
            self._publishers.clear()
        self._publishers.add(link.id)
        self._bytes_max = max(self._bytes_max, len(body))

    def flushed(self, router: Router) -> None:
        links = list(router.links.values())
        held = sum(link.session.mailbox.bytes for link in links)
        if router.broker.budget.bytes != held:
            self.fail(f"charged are {router.broker.budget.bytes} bytes, held are {held}")
        limits = self.world.limits
        publishers = sum(link.client.name.startswith("publisher") for link in links)
        more = publishers * self._bytes_max
        listeners = [link for link in links if link.client.name.startswith("listener")]
        for link in listeners:
            size = link.session.mailbox.bytes
            if size > limits.mailbox_bytes_hard + more:
                self.fail(f"#{link.id} holds {size} bytes, {publishers} publish")
        easy = (len(links)) * limits.mailbox_bytes_soft
        if held > limits.budget_bytes + more * len(listeners) + easy:
            self.fail(f"{held} bytes are held, the budget is {limits.budget_bytes}")

    def turn(self, taken: Taken) -> None:
        self._publishers.clear()

    def ended(self, world: World) -> None:
        if world.router is not None:
            self.flushed(world.router)


class Hearing(Checker):
    """Who listens to a channel hears everything that is published meanwhile, in order."""

    name = "channels"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._due: dict[int, deque[bytes]] = {}

    def published(
        self, link: Link, channel: Channel, body: bytes, audience: Sequence[Mailbox[object]]
    ) -> None:
        channels = link.router.broker.channels
        for other in link.router.links.values():
            if channel in channels.of(other.id):
                self._due.setdefault(other.number, deque()).append(body)

    def heard(self, link: Link, blob: Blob) -> None:
        due = self._due.get(link.number, deque())
        for frame in blob.splitlines(keepends=True):
            if not due or due[0] != frame:
                self.fail(f"{link.client.name} hears {frame!r}, due is {list(due)[:1]}")
            due.popleft()

    def calmed(self, world: World) -> None:
        for link in world.router.links.values() if world.router is not None else ():
            if not link.is_cut and self._due.get(link.number):
                self.fail(f"{link.client.name} never heard {list(self._due[link.number])}")


def all_checkers(world: World) -> list[Checker]:
    kinds: tuple[type[Checker], ...] = (
        Answers,
        Losses,
        Confirms,
        Order,
        Windows,
        Exclusive,
        Tallies,
        Memory,
        Facts,
        Budgets,
        Hearing,
    )
    return [kind(world) for kind in kinds]


def by_ref(commands: Iterable[Command]) -> dict[object, Command]:
    """Requests, by what their answers carry."""
    return {c.ref: c for c in commands if isinstance(c, Request) and c.ref is not None}


def is_exclusive(queue: QueueId) -> bool:
    return queue.startswith(b"x")


def is_broadcast(queue: QueueId) -> bool:
    return queue.startswith(b"live/")
