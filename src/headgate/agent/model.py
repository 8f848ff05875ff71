"""Identifiers and small values that the engine, the records and the shell of an agent share."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from headgate.core.model.value import value

UserId: TypeAlias = int
"""One user of an agent. No two users share a session."""

RouterId: TypeAlias = int
"""A router, by the number of its row in the records."""

ConnectionId: TypeAlias = bytes
"""A connection as the application knows it; 12 bytes."""

RecipientId: TypeAlias = bytes
"""A receive queue, as its router knows it."""

QueueKey: TypeAlias = tuple[RouterId, RecipientId]
"""A receive queue among those of all routers."""


class SessionMode(Enum):
    """The way in which the queues of a user share sessions."""

    SHARED = "shared"
    """One session for each router."""
    ENTITY = "entity"
    """One session for each connection at each router."""


@value
class SlotKey:
    """The place of one transport session: a user, a router and, in entity mode, a connection.
    Sessions follow each other in it; there is at most one at a time."""

    user: UserId
    router: RouterId
    connection: ConnectionId | None = None


@value
class SessionKey:
    """One session of a slot. The number is drawn from one counter of the engine for each attempt
    to connect, the session id is that of TLS. Whatever a session reports carries both, so that
    reports of a session that was replaced can be known."""

    slot: SlotKey
    number: int
    session: bytes


@value
class QueueRow:
    """A receive queue as the records have it, without its keys."""

    id: RecipientId
    connection: ConnectionId
    associated: bool = False
    """Whether it belongs to the service that the user has at this router."""


class Which(Enum):
    """The choice of a user's receive queues at a router that are read."""

    ALL = "all"
    SINGLE = "single"
    """Those that do not belong to the service."""
    ASSOCIATED = "associated"
