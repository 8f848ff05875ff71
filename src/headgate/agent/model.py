"""Identifiers and small values that the engine, the records and the shell share."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from headgate.core.model.value import value

UserId: TypeAlias = int
"""One user of an agent. No two users share a session."""

RouterId: TypeAlias = int
"""A router, by the number of its row in the records."""

ConnectionId: TypeAlias = bytes
"""A connection, as the application knows it; 12 bytes."""

RecipientId: TypeAlias = bytes
"""A receive queue, as its router knows it."""

QueueKey: TypeAlias = tuple[RouterId, RecipientId]
"""A receive queue, unique over all routers."""


class SessionMode(Enum):
    """How the queues of a user share sessions."""

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
    """One session of a slot. The number is the engine's for each attempt to connect, the session id
    is that of TLS. All reports of a session have both, so that those of a replaced session are
    recognised."""

    slot: SlotKey
    number: int
    session: bytes


@value
class QueueRow:
    """A receive queue in the records, without its keys."""

    id: RecipientId
    connection: ConnectionId
    associated: bool = False
    """Whether it belongs to the service that the user has at this router."""


class Which(Enum):
    """The selection of a user's receive queues at a router."""

    ALL = "all"
    SINGLE = "single"
    """The queues outside of the service."""
    ASSOCIATED = "associated"
