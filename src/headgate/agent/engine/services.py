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
    """The session has no service, or nothing is wanted of it."""
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
    """The associations are worth nothing: every queue has to be subscribed for itself."""


class ServiceSubscription:
    """The subscription of a service in a slot, with the tally that the current session confirmed.
    Only its engine changes it."""

    __slots__ = ("announced", "ended_until", "expected", "id", "state", "tally")

    def __init__(self) -> None:
        self.state = ServiceState.NONE
        self.id: ServiceId | None = None
        """Of the current session: None if it has no service."""
        self.expected: Tally | None = None
        self.tally = NOTHING
        self.announced = False
        """The application was given `ServiceUp` of this session."""
        self.ended_until = 0.0

    @property
    def is_active(self) -> bool:
        return self.state is ServiceState.ACTIVE

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to do for it."""
        return self.state in (ServiceState.PENDING, ServiceState.ASKED, ServiceState.POSTPONED)

    @property
    def is_ahead(self) -> bool:
        """Whether single queues have to wait for it."""
        # S001-81: the service first, then the queues.
        return self.state in (ServiceState.PENDING, ServiceState.ASKED)

    def want(self) -> None:
        """Somebody wants its queues."""
        if self.id is not None and self.state is ServiceState.NONE:
            self.state = ServiceState.PENDING

    def ask_again(self) -> None:
        """Somebody asks for a service that ended."""
        if self.state is ServiceState.ENDED:
            self.state = ServiceState.PENDING

    def open(self, service: ServiceId | None, is_wanted: bool) -> None:
        """There is a new session, with or without a service."""
        self.id = service
        if service is None:
            self.clear()
        elif self.state is not ServiceState.ENDED:
            self.state = ServiceState.PENDING if is_wanted else ServiceState.NONE

    def expect(self, tally: Tally) -> bool:
        """Note what the records have; whether a subscribe is needed."""
        # S001-68: before the subscribe leaves.
        self.expected = tally
        if tally.count:
            return True
        # Nothing is associated, so there is nothing to subscribe: queues will add themselves.
        self.state = ServiceState.ACTIVE
        return False

    def confirm(self, service: ServiceId, tally: Tally) -> Confirmation:
        """The router has subscribed it, with this tally."""
        expected = self.expected or NOTHING
        # S001-69, S001-73: what the router has is what is active, and any difference is shown.
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
        """A queue was confirmed as one of the service, for itself."""
        # S001-70: it was not in what the router confirmed before.
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
        """Another client took it. What the session had."""
        # S001-72: neither active nor pending.
        had = self.tally
        self.clear()
        self.state = ServiceState.ENDED
        self.ended_until = until
        return had

    def wake(self, now: float) -> None:
        """A service that ended is asked for again when its pause is over."""
        if self.state is ServiceState.ENDED and now >= self.ended_until:
            self.state = ServiceState.PENDING

    def lose(self) -> Tally | None:
        """The session is gone. What it had, if the application has to know."""
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
        """There is no service any more, or nothing of it."""
        self.state = ServiceState.NONE
        self.announced = False
        self.tally = NOTHING
        self.expected = None
