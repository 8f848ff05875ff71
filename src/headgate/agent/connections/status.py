"""The statuses of a connection, and the table of all changes between them."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.agent.records.connections import ConnectionStatus as S


class Happening(Enum):
    """An event that changes the status of a connection."""

    INVITE = "invite"
    JOIN = "join"
    CONFIRMED = "the peer's confirmation was opened"
    ANSWERED = "the router has our answer to it"
    INFORMED = "the peer's answer was opened"
    REFUSED = "a router refused our key, our confirmation or our request"
    DELETE = "delete"


STATUSES: Final[dict[tuple[S, Happening], S]] = {
    (S.NEW, Happening.INVITE): S.INVITED,
    (S.NEW, Happening.JOIN): S.JOINING,
    (S.INVITED, Happening.CONFIRMED): S.CONFIRMED,
    (S.CONFIRMED, Happening.ANSWERED): S.READY,
    (S.JOINING, Happening.INFORMED): S.READY,
    (S.JOINING, Happening.REFUSED): S.FAILED,
    (S.CONFIRMED, Happening.REFUSED): S.FAILED,
    # A request to a deleted address will not be confirmed.
    (S.INVITED, Happening.REFUSED): S.FAILED,
    **{(status, Happening.DELETE): S.DELETING for status in S},
}
"""All other combinations leave the status alone, or are refused."""


def next_status(status: S, happening: Happening) -> S | None:
    """The status after an event, or None if that cannot happen to such a connection."""
    return STATUSES.get((status, happening))
