"""A summary of each router, for `headgate agent status`. This counts everything."""

from __future__ import annotations

from headgate.agent.model import RouterId, UserId
from headgate.agent.records import routers
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.wire.smp.codec.router_address import RouterAddress

QUEUES = (
    "SELECT router, count(*) FROM receive_queues WHERE user = ? AND deleted = 0 GROUP BY router"
)
IN_SERVICE = (
    "SELECT router, count(*) FROM receive_queues"
    " WHERE user = ? AND deleted = 0 AND assoc = 1 GROUP BY router"
)
TO_SEND = (
    "SELECT deliveries.router, count(*) FROM deliveries JOIN connections"
    " ON connections.id = deliveries.connection WHERE user = ? GROUP BY deliveries.router"
)
TO_READ = (
    "SELECT received.router, count(*) FROM received JOIN connections"
    " ON connections.id = received.connection WHERE user = ? AND acked = 0 GROUP BY received.router"
)


@value
class RouterSummary:
    """The numbers of a user at one router."""

    router: RouterAddress
    queues: int
    """Queues that it reads."""
    in_service: int
    """Queues among them that the router has in the user's service."""
    to_send: int
    """Messages that wait for the router."""
    to_read: int
    """Received messages that are not acknowledged."""


def summary(tables: Database, user: UserId) -> list[RouterSummary]:
    """The summaries of all routers, oldest first."""
    counted: list[dict[RouterId, int]] = [
        dict(tables.ask(question, user)) for question in (QUEUES, IN_SERVICE, TO_SEND, TO_READ)
    ]
    return [
        RouterSummary(router.address, *(counts.get(router.id, 0) for counts in counted))
        for router in routers.everything(tables)
    ]
