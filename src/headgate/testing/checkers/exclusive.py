"""An exclusive queue has one subscriber, and services add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core import facts as f
from headgate.core.commands import Command
from headgate.core.effects import Deliver, Effect, ref_of
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.parties import QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Load
from headgate.testing.checkers.base import Checker, by_ref, is_exclusive
from headgate.testing.checkers.ledger import tally_of
from headgate.testing.rig import at_once

if TYPE_CHECKING:
    from headgate.testing.network import Link
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World


class Exclusive(Checker):
    """The law of exclusive queues: one subscriber of an exclusive queue or a service at a time; END
    to the displaced, once; deliveries to the one who has it."""

    name = "exclusive"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.plain: dict[QueueId, SessionId] = {}
        self.services: dict[ServiceId, SessionId] = {}
        self._whose: dict[QueueId, ServiceId | None] = {}
        self._owed: set[tuple[SessionId, ServiceId]] = set()
        """Sessions that must get the end of a service before the turn is over."""
        self._moved: dict[QueueId, set[ServiceId | None]] = {}
        """Queues that a session moved in this turn which had hung up while its subscribe was
        waiting: nobody is told that it did."""
        self._whole: set[tuple[ServiceId, SessionId]] = set()
        """Services that were subscribed as a whole, not only by some of their queues."""
        self._got: set[tuple[SessionId, QueueId]] = set()
        """Queues that a session reads with GET; their messages are not pushed to it."""

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
            self._look_at(effect, commands.get(ref_of(effect)), taken)
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
        """The sessions that may get the queue's messages."""
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
