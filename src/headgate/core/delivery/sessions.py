"""The sessions that are alive, and what of them the shards need to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import SessionId


class Session:
    """One connection's life."""

    __slots__ = ("id", "mailbox", "name", "opened", "wire")

    def __init__(
        self, id: SessionId, wire: str, name: str, opened: float, mailbox: Mailbox
    ) -> None:
        self.id = id
        self.wire = wire
        self.name = name
        self.opened = opened
        self.mailbox = mailbox


class Sessions:
    """Sessions by number. One that ends is gone from here at once, so that nothing that was
    waiting is delivered to it; what it held in the shards is cleaned up by its `Disconnect`."""

    def __init__(self) -> None:
        self._alive: dict[SessionId, Session] = {}
        self._last = 0
        self.counts: Counter[str] = Counter()
        """How many there are of each wire."""

    def next_id(self) -> SessionId:
        self._last += 1
        return SessionId(self._last)

    def add(self, session: Session) -> None:
        self._alive[session.id] = session
        self.counts[session.wire] += 1

    def remove(self, session: SessionId) -> Session | None:
        gone = self._alive.pop(session, None)
        if gone is not None:
            self.counts[gone.wire] -= 1
        return gone

    def get(self, session: SessionId) -> Session | None:
        return self._alive.get(session)

    def has_room(self, session: SessionId, more: int = 0) -> bool:
        """Whether it is there, and its mailbox has room for so many bytes more."""
        alive = self._alive.get(session)
        return alive is not None and alive.mailbox.has_room(more)

    def __contains__(self, session: object) -> bool:
        return session in self._alive

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._alive.values())
