"""The context that all parts of shared queues share."""

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
    """A chore: a reason to look at a queue now and then."""

    FORGET = 1
    """Ids were remembered long enough."""
    STUCK = 2
    """Messages have not moved for long."""
    UNUSED = 3
    """The queue may be unused."""
    TRIM = 4
    """The history is too long or too old."""
    IDLE = 5
    """Groups may be idle."""


@dataclass(frozen=True, slots=True)
class SharedContext:
    """The state that the parts of shared queues share. `SharedQueues` makes it; every part takes
    what it needs, and owns none of it."""

    domains: dict[str, Domain]
    limits: Limits
    session_states: SessionStates
    numbers: NumberSequence
    bodies: BodyCache
    queues: dict[QueueId, SharedQueue] = field(default_factory=dict)
    """All queues in memory."""
    states: dict[str, DomainState] = field(default_factory=dict)
    """Domain states by name."""
    chores: Agenda[tuple[bytes, int]] = field(default_factory=Agenda)
    """When to look at a queue, and for which chore."""
