"""The statuses of a connection: the whole table of how it goes from one to another."""

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
    # A request to a contact that was deleted has nobody who could confirm.
    (S.INVITED, Happening.REFUSED): S.FAILED,
    **{(status, Happening.DELETE): S.DELETING for status in S},
}
"""Everything that is not here leaves the status alone, or is refused."""


def next_status(status: S, happening: Happening) -> S | None:
    """The status after it, or none if it does not happen to such a connection."""
    return STATUSES.get((status, happening))
