"""The context that all parts of exclusive queues share."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.session_state import SessionStates


@dataclass(frozen=True, slots=True)
class ExclusiveContext:
    """The state that the parts of exclusive queues share. `ExclusiveQueues` makes it; every part
    takes what it needs, and owns none of it."""

    domains: dict[str, Domain]
    limits: Limits
    session_states: SessionStates
    cache: QueueCache
    numbers: NumberSequence
