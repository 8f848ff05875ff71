"""Sessions whose sockets other workers of the router have, as its desk sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from headgate.core.model.ids import SessionId
from headgate.server.desk.answers import ClosedRow, SessionAnswer, SessionRow

Rank: TypeAlias = tuple[float, ...]
"""The order of rows."""


class SessionQuestion(msgspec.Struct, frozen=True, array_like=True):
    """A question for sessions of other workers: which are wanted, and in what order."""

    sort: str
    wire: str
    text: str
    """Part of a name or of a user, in lower case."""
    slow: bool
    most: int


class RankedRow(msgspec.Struct, frozen=True, array_like=True):
    """A row, and what it is put in order by among those of others."""

    rank: Rank
    row: SessionRow


class FoundSessions(msgspec.Struct, frozen=True, array_like=True):
    """The sessions that one worker found for a question: the first in that order, and how many
    there are."""

    rows: list[RankedRow]
    total: int
    wires: dict[str, int]
    closed: list[ClosedRow]


class Elsewhere(Protocol):
    """The other workers, as far as they have sessions that this process does not know."""

    def in_trouble(self) -> Sequence[SessionRow]:
        """The sessions there that need attention most, as of a second ago."""
        ...

    def held_up(self, session: SessionId) -> int:
        """The number of publishers of other workers that wait for a session, as of a second ago."""
        ...

    def name_of(self, session: SessionId) -> str:
        """The name of a session there, if it is in trouble."""
        ...

    async def sessions(self, asked: SessionQuestion) -> list[FoundSessions]:
        """The rows of each worker that answers in time."""
        ...

    async def session(self, session: SessionId) -> SessionAnswer | None:
        """A session of another worker, with what it holds."""
        ...

    async def close(self, session: SessionId, reason: str) -> bool:
        """Close one of them; whether it was there."""
        ...


class NobodyElsewhere:
    """The other workers of a router of one process: none."""

    def in_trouble(self) -> Sequence[SessionRow]:
        return ()

    def held_up(self, session: SessionId) -> int:
        return 0

    def name_of(self, session: SessionId) -> str:
        return ""

    async def sessions(self, asked: SessionQuestion) -> list[FoundSessions]:
        return []

    async def session(self, session: SessionId) -> SessionAnswer | None:
        return None

    async def close(self, session: SessionId, reason: str) -> bool:
        return False


NOBODY_ELSEWHERE = NobodyElsewhere()
