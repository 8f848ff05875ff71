"""The service of a user at a router, as one slot has it subscribed."""

from __future__ import annotations

from enum import Enum

from headgate.agent.events import Mismatch
from headgate.core.model.drift import Drift
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.model.value import value


class ServiceState(Enum):
    """The state of a service's subscription."""

    NONE = "none"
    """The session has no service, or it is not wanted."""
    PENDING = "pending"
    """Wanted, and not answered by the current session."""
    ASKED = "asked"
    """The expected tally is being read, or the subscribe is under way."""
    POSTPONED = "postponed"
    """It failed and is tried in the next round."""
    ACTIVE = "active"
    ENDED = "ended"
    """Another client took it; it is left alone for some minutes."""


@value
class Confirmation:
    """The outcome of a router's answer to a service's subscribe."""

    drift: Mismatch | None
    lost_all: bool
    """Whether the associations are lost: every queue has to be subscribed singly."""


class ServiceSubscription:
    """The subscription of a service in a slot, with the tally that the current session confirmed.
    Only its engine changes it."""

    __slots__ = ("announced", "ended_until", "expected", "id", "state", "tally")

    def __init__(self) -> None:
        self.state = ServiceState.NONE
        self.id: ServiceId | None = None
        """The id in the current session: None if it has no service."""
        self.expected: Tally | None = None
        self.tally = NOTHING
        self.announced = False
        """Whether the application got `ServiceUp` for this session."""
        self.ended_until = 0.0

    @property
    def is_active(self) -> bool:
        return self.state is ServiceState.ACTIVE

    @property
    def is_wanted(self) -> bool:
        """Whether there is work for it."""
        return self.state in (ServiceState.PENDING, ServiceState.ASKED, ServiceState.POSTPONED)

    @property
    def is_ahead(self) -> bool:
        """Whether single queues have to wait for it."""
        # S001-81: the service first, then the queues.
        return self.state in (ServiceState.PENDING, ServiceState.ASKED)

    def want(self) -> None:
        """Note that its queues are wanted."""
        if self.id is not None and self.state is ServiceState.NONE:
            self.state = ServiceState.PENDING

    def ask_again(self) -> None:
        """Request a service that ended."""
        if self.state is ServiceState.ENDED:
            self.state = ServiceState.PENDING

    def open(self, service: ServiceId | None, is_wanted: bool) -> None:
        """Note a new session, with or without a service."""
        self.id = service
        if service is None:
            self.clear()
        elif self.state is not ServiceState.ENDED:
            self.state = ServiceState.PENDING if is_wanted else ServiceState.NONE

    def expect(self, tally: Tally) -> bool:
        """Note the tally in the records; return whether a subscribe is needed."""
        # S001-68: before the subscribe is sent.
        self.expected = tally
        if tally.count:
            return True
        # Nothing is associated, so there is nothing to subscribe: queues will add themselves.
        self.state = ServiceState.ACTIVE
        return False

    def confirm(self, service: ServiceId, tally: Tally) -> Confirmation:
        """Note that the router has subscribed it, with this tally."""
        expected = self.expected or NOTHING
        # S001-69, S001-73: the router's tally is the active one, and any difference is reported.
        self.state = ServiceState.ACTIVE
        self.announced = True
        self.tally = tally
        # S001-82: it answered for another service.
        if service != self.id:
            self.tally = NOTHING
            return Confirmation(Mismatch.SERVICE, lost_all=True)
        drift = tally.drift(expected)
        mismatch = None if drift is Drift.NONE else Mismatch(drift.value)
        # S004-23: a router that has none of them lost them.
        return Confirmation(mismatch, lost_all=expected.count > 0 and tally.count == 0)

    def add(self, queue: QueueId) -> None:
        """Add a queue that was confirmed singly as one of the service."""
        # S001-70: it was not part of the router's earlier confirmation.
        self.tally = self.tally.plus(queue)

    def remove(self, queue: QueueId) -> None:
        if self.tally.count:
            self.tally = self.tally.minus(queue)

    def postpone(self) -> None:
        self.state = ServiceState.POSTPONED

    def begin_round(self) -> None:
        if self.state is ServiceState.POSTPONED:
            self.state = ServiceState.PENDING

    def end(self, until: float) -> Tally:
        """Note that another client took it; return what the session had."""
        # S001-72: neither active nor pending.
        had = self.tally
        self.clear()
        self.state = ServiceState.ENDED
        self.ended_until = until
        return had

    def wake(self, now: float) -> None:
        """Request a service that ended again, when its pause is over."""
        if self.state is ServiceState.ENDED and now >= self.ended_until:
            self.state = ServiceState.PENDING

    def lose(self) -> Tally | None:
        """Note that the session is gone; return what it had, if the application has to know."""
        is_held = self.state is not ServiceState.ENDED and (self.announced or self.tally.count)
        had = self.tally if is_held else None
        # S001-71: an active service is pending.
        if self.state in (ServiceState.ACTIVE, ServiceState.ASKED, ServiceState.POSTPONED):
            self.state = ServiceState.PENDING
        self.announced = False
        self.tally = NOTHING
        self.expected = None
        self.id = None
        return had

    def clear(self) -> None:
        """Remove the service, or its state."""
        self.state = ServiceState.NONE
        self.announced = False
        self.tally = NOTHING
        self.expected = None
