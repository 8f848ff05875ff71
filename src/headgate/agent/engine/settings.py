"""The numbers of an engine, in one value: for a messaging client or for a notifier."""

from __future__ import annotations

from headgate.agent.engine.backoff import Delays
from headgate.core.model.value import value
from headgate.wire.smp.handshake import Role


@value
class EngineSettings:
    """Settings of an engine: its role, the size of its pages and the length of its pauses."""

    role: Role = Role.MESSAGING
    page: int = 1350
    """Queues that are subscribed together: ten blocks of 135."""
    delays: Delays = Delays()
    failure_seconds: float = 3.0
    """Seconds for which a failed connect answers further callers, so that they do not try one after
    another."""
    end_seconds: float = 300.0
    """Seconds for which a service that another client took is left alone."""
    problem_seconds: float = 3600.0
    """Seconds between two reports of an unreachable router to the application."""
    failures_max: int = 5
    """Errors of the shell in a minute before the slot waits the longest pause."""
    repair: bool = True
    """After a drift, subscribe every queue of the service once more."""
    trust_tally: bool = True
    """Leave the queues of a service to its subscription. Otherwise they are also subscribed singly
    when all queues are requested."""
    has_sweep_end: bool = True
    """Whether the router marks the end of the messages that waited for a service (ALLS)."""


MESSAGING = EngineSettings()

# S001-90: a notifier subscribes its service first, then every queue, in smaller pages.
NOTIFIER = EngineSettings(
    role=Role.NOTIFIER,
    page=900,
    delays=Delays(first=1.0, longest=10.0),
    failure_seconds=30.0,
    trust_tally=False,
    has_sweep_end=False,
)
