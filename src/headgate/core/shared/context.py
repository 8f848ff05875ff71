"""The context that all parts of shared queues work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.queue import DomainState, SharedQueue
from headgate.core.turn.agenda import Agenda
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.session_state import SessionStates


class Chore(IntEnum):
    """A chore: what a queue is looked at for, now and then."""

    FORGET = 1
    """Ids that were remembered long enough."""
    STUCK = 2
    """Messages that nobody took for long."""
    UNUSED = 3
    """Whether anybody has use for it."""
    TRIM = 4
    """History that is too much or too old."""
    IDLE = 5
    """Groups that nobody reads by."""


@dataclass(frozen=True, slots=True)
class SharedContext:
    """The state that the parts of shared queues share. `SharedQueues` makes it; every part takes
    from it what it needs, and owns none of it."""

    domains: dict[str, Domain]
    limits: Limits
    session_states: SessionStates
    numbers: NumberSequence
    bodies: BodyCache
    queues: dict[QueueId, SharedQueue] = field(default_factory=dict)
    """Every queue that is in memory."""
    states: dict[str, DomainState] = field(default_factory=dict)
    """By the names of the domains."""
    chores: Agenda[tuple[bytes, int]] = field(default_factory=Agenda)
    """When a queue is to be looked at, and for what."""
