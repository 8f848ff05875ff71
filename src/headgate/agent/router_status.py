"""The status of a router for an agent at one moment."""

from __future__ import annotations

from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.slots import Phase
from headgate.agent.model import ConnectionId, UserId
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.wire.smp.codec.router_address import RouterAddress


@value
class RouterStatus:
    """The status of one router for an agent; in entity mode, of one connection there."""

    user: UserId
    router: RouterAddress
    connection: ConnectionId | None
    phase: Phase
    pending: int
    """Queues that wait for an answer, of those read so far."""
    active: int
    is_reading: bool
    service: ServiceState
    tally: Tally
    """The tally of the service, as the router confirmed it."""
