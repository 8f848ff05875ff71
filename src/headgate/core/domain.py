"""A domain: the mode and the bounds that its queues share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from headgate.core.limits import MiB
from headgate.core.message import Properties
from headgate.core.names import WHOLE, AppId
from headgate.core.values import EMPTY, value
from headgate.expr.predicate import Predicate

DAY = 86_400.0

ATTEMPTS_MANY, ATTEMPTS_FEW = 4, 2
"""A message with more attempts left is not delayed; one with more is delayed a little."""

SMP_DOMAIN = "smp"
"""The domain of the queues of SimpleX clients, which is in no file: its settings are in [smp]."""


class Mode(Enum):
    EXCLUSIVE = "exclusive"
    """One subscriber, displaced by the next; one message unconfirmed at a time."""
    PRIORITY = "priority"
    """Each message to one of the consumers with the highest priority."""
    FANOUT = "fanout"
    """Each message to one consumer of every app."""
    BROADCAST = "broadcast"
    """Each message to every consumer of the moment; nothing is stored."""


@value
class Domain:
    """A limit of None is no limit. A limit of N admits N."""

    name: str
    mode: Mode
    apps: tuple[AppId, ...] = (WHOLE,)
    """Only a fanout domain has others than the one without a name."""

    filters: Mapping[AppId, tuple[Predicate, ...]] = EMPTY
    """The application subscriptions: an app gets what at least one of its own is true for,
    and everything if it has none."""

    max_messages: int | None = 100_000
    """Messages in one queue."""
    max_bytes: int | None = 256 * MiB
    """Bytes in one queue."""
    domain_max_messages: int | None = 1_000_000
    """Messages in all queues of the domain."""
    domain_max_bytes: int | None = 1024 * MiB
    """Bytes in all queues of the domain."""

    message_ttl: float | None = 7 * DAY
    """Seconds after which a message is removed, delivered or not."""
    max_delivery_attempts: int = 0
    """Crashes of consumers that a message survives, per app; 0 is any number."""
    suspicious_delay_low: float = 1.0
    """Seconds between a consumer's last message and one that consumers were lost with, if that has
    three or four attempts left; 0 is at once."""
    suspicious_delay_high: float = 3.0
    """The same for a message with one or two attempts left."""
    max_consumers: int = 0
    """Sessions that read one queue; 0 is any number."""
    max_producers: int = 0
    """Sessions that write to one queue; 0 is any number."""
    max_queues: int = 10_000
    """Queues that clients may create in the domain; 0 is any number."""
    max_idle_time: float = 0.0
    """Seconds without progress after which a queue with undelivered messages is called
    stuck; 0 is never."""
    deduplication_time: float = 300.0
    """Seconds for which a message id is remembered, so that a repeated one is not stored."""
    marks_quota: bool = False
    """Exclusive queues only: the message that goes beyond the quota leaves a marker, and nothing
    more is taken until all has been read."""
    journal_bodies: bool = False
    """Whether bodies may be written to the journal."""

    def delay(self, attempts: int) -> float:
        """Seconds that a consumer is spared a message with which so many others were lost."""
        left = self.max_delivery_attempts - attempts
        if not attempts or not self.max_delivery_attempts or left > ATTEMPTS_MANY:
            return 0.0
        return self.suspicious_delay_low if left > ATTEMPTS_FEW else self.suspicious_delay_high

    def wants(self, app: AppId, properties: Properties) -> bool:
        """Whether an app references a message with these properties.

        A run-time error is no match. Evaluated once, when the message arrives.
        """
        filters = self.filters.get(app)
        return not filters or any(f.matches(properties) for f in filters)
