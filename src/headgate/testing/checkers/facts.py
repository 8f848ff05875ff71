"""Facts equal what happened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from headgate.core import effects as e
from headgate.core import facts as f
from headgate.core.effects import Deliver, Effect
from headgate.errors import LimitReached
from headgate.testing.checkers.base import Checker, is_broadcast
from headgate.testing.checkers.ledger import Changes

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken


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
