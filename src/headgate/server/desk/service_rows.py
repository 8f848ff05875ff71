"""Services with a subscriber, as the API shows them: what the router counts, and what happened when
they subscribed."""

from __future__ import annotations

from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import ServiceId
from headgate.server.desk.answers import ServiceRow, ServicesAnswer

if TYPE_CHECKING:
    from headgate.server.router import Router

KEPT = 1000
SEEN = 10_000
IDS = 8
KINDS = (f.ServiceIdentified, f.ServiceSubscribed, f.SweepEnded)


class KnownService:
    """A service, as facts have told of it."""

    __slots__ = ("count", "drift", "ended", "role", "subscribed")

    def __init__(self) -> None:
        self.role = ""
        self.count = 0
        self.drift = "unknown"
        self.subscribed: float | None = None
        self.ended: float | None = None


class ServiceRows:
    """Rows of services, with what facts said of those that came last."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._known: dict[ServiceId, KnownService] = {}

    def take(self, fact: Fact) -> None:
        """Remember what a fact of one of these kinds says."""
        match fact:
            case f.ServiceIdentified():
                self._find(fact.service).role = fact.role
            case f.ServiceSubscribed():
                known = self._find(fact.service)
                known.count, known.drift = fact.count, fact.drift
                known.subscribed, known.ended = fact.at, None
            case f.SweepEnded():
                self._find(fact.service).ended = fact.at

    def _find(self, service: ServiceId) -> KnownService:
        known = self._known.pop(service, None) or KnownService()
        self._known[service] = known
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return known

    def answer(self, sort: str, limit: int, offset: int) -> ServicesAnswer:
        exclusive = self._router.broker.shard.exclusive
        services = list(islice(exclusive.services.subscribers, SEEN))
        if sort == "queues":
            services = nlargest(offset + limit, services, key=self._queues)
        return ServicesAnswer(
            rows=[self._row(each) for each in services[offset : offset + limit]],
            total=len(exclusive.services.subscribers),
            queues_in_memory=len(self._router.broker.shard.cache),
            notices_waiting=exclusive.notifiers.count,
        )

    def _queues(self, service: ServiceId) -> int:
        shard = self._router.broker.shard
        holder = shard.exclusive.services.holder(service)
        state = None if holder is None else shard.session_states.kept(holder)
        if state is None or state.membership is None:
            return 0
        return state.membership.tally.count

    def _row(self, service: ServiceId) -> ServiceRow:
        known = self._known.get(service) or KnownService()
        counted = self._queues(service)
        return ServiceRow(
            service=service[:IDS].hex(),
            role=known.role,
            session=self._router.broker.shard.exclusive.services.holder(service) or 0,
            queues_counted=counted,
            queues_expected=known.count if known.drift == "none" else None,
            drift=known.drift,
            swept=counted if known.ended is not None else 0,
            sweep_total=counted,
            sweep_started=known.subscribed,
            sweep_ended=known.ended,
        )
