"""Facts of services and notices."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.facts.subscriptions import DISPLACEMENTS
from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import QueueId, ServiceId, SessionId

SERVICE_DRIFT = FactCounter(
    "service_drift", "Services whose tally differed from the router's, and how.", ("kind",)
)


@fact(
    FactCounter(
        "services_identified", "Certificates of services that were seen for the first time."
    ),
    rare=False,
    log="info",
)
class ServiceIdentified:
    """A certificate was used for the first time, and is a service's from now on."""

    at: float
    service: ServiceId
    role: str


@fact(
    FactCounter("service_subscriptions", "Sessions that became the subscriber of a service."),
    SERVICE_DRIFT,
    rare=False,
    log="info",
)
class ServiceSubscribed:
    """A session became the subscriber of a service; `drift` says how its tally differed."""

    at: float
    service: ServiceId
    session: SessionId
    count: int
    drift: str


@fact(DISPLACEMENTS, rare=False, log="info")
class ServiceDisplaced:
    """A new session took over a service with this many queues."""

    at: float
    service: ServiceId
    session: SessionId
    by: SessionId
    count: int


@fact(
    FactCounter("queues_associated", "Queues that became a service's, or nobody's."),
    rare=False,
    log=None,
)
class Associated:
    """A queue was associated with a service, or with none."""

    at: float
    queue: QueueId
    service: ServiceId | None


@fact(
    FactCounter("service_sweeps", "Services whose queues have all been looked at."),
    rare=False,
    log=None,
)
class SweepEnded:
    """A sweep looked at all queues of a service."""

    at: float
    service: ServiceId
    session: SessionId


@fact(FactCounter("watched", "Sessions that became the notifier of a queue."), rare=True, log=None)
class Watched:
    """A session gets notices of a queue from now on. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId


@fact(DISPLACEMENTS, rare=True, log="info")
class WatcherDisplaced:
    """A new session gets the notices of a queue. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@fact(
    FactCounter("notices_sent", "Notices that notifiers were told.", adds="count"),
    rare=True,
    log=None,
)
class NoticesSent:
    """Notices were sent to notifiers."""

    at: float
    count: int


@fact(
    FactCounter(
        "notices_dropped",
        "Notices that nobody took and that were given up: too old, or too many.",
        adds="count",
    ),
    rare=True,
    log="warning",
)
class NoticesDropped:
    """Notices without a receiver were dropped: too old, or too many."""

    at: float
    count: int
    reason: str


ServiceFact: TypeAlias = (
    ServiceIdentified
    | ServiceSubscribed
    | ServiceDisplaced
    | Associated
    | SweepEnded
    | Watched
    | WatcherDisplaced
    | NoticesSent
    | NoticesDropped
)
