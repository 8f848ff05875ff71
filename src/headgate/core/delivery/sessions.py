"""The sessions that are alive, with the state that shards need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import SessionId


class Traffic(Protocol):
    """Bytes through the socket of a session, counted by the owner of the socket."""

    bytes_in: int
    bytes_out: int
    heard: float
    """When data of the client last came, by the owner's clock."""


class NoTraffic:
    """The traffic of a session without a socket."""

    bytes_in = 0
    bytes_out = 0
    heard = 0.0


NO_TRAFFIC: Traffic = NoTraffic()


class Session:
    """One connection's life."""

    __slots__ = (
        "agent",
        "called",
        "id",
        "is_listed_elsewhere",
        "mailbox",
        "opened",
        "peer",
        "traffic",
        "user",
        "wire",
    )

    def __init__(
        self, id: SessionId, wire: str, name: str, opened: float, mailbox: Mailbox
    ) -> None:
        self.id = id
        self.wire = wire
        self.called = name
        """The name that it chose."""
        self.peer = ""
        """Its address, if the wire keeps it."""
        self.agent = ""
        """Its library or program, as it said."""
        self.user = ""
        """The user that it proved to be."""
        self.opened = opened
        self.mailbox = mailbox
        self.traffic = NO_TRAFFIC
        self.is_listed_elsewhere = False
        """Whether the worker with its socket lists and counts it, and not this one."""

    @property
    def name(self) -> str:
        """The name of the session in facts and in the log."""
        return " ".join(part for part in (self.peer, self.called) if part)

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The address, name, agent and user of the session, in the order of the facts' fields."""
        return self.peer, self.called, self.agent, self.user


class Sessions:
    """Sessions by number. One that ends is removed at once, so that no waiting message is delivered
    to it; its `Disconnect` cleans up in the shard."""

    def __init__(self) -> None:
        self._alive: dict[SessionId, Session] = {}
        self._last = 0
        self._step = 1
        self.counts: Counter[str] = Counter()
        """Number of sessions of each wire."""
        self.elsewhere = 0
        """Number of sessions whose sockets are at other workers, which have room for them."""

    def spread(self, first: int, step: int) -> None:
        """Number sessions so that other workers can number theirs in between."""
        self._last, self._step = first, step

    def worker_of(self, session: SessionId) -> int:
        """The worker that has the socket of a session; 0 where there is one process."""
        return session % self._step

    def next_id(self) -> SessionId:
        self._last += self._step
        return SessionId(self._last)

    def add(self, session: Session) -> None:
        self._alive[session.id] = session
        self.counts[session.wire] += not session.is_listed_elsewhere

    def remove(self, session: SessionId) -> Session | None:
        gone = self._alive.pop(session, None)
        if gone is not None:
            self.counts[gone.wire] -= not gone.is_listed_elsewhere
        return gone

    def get(self, session: SessionId) -> Session | None:
        return self._alive.get(session)

    def listed(self) -> list[Session]:
        """The sessions that this process lists; other workers list the others."""
        return [session for session in self._alive.values() if not session.is_listed_elsewhere]

    def has_room(self, session: SessionId, more: int = 0) -> bool:
        """Whether it is alive, and its mailbox has room for so many bytes more."""
        alive = self._alive.get(session)
        return alive is not None and alive.mailbox.has_room(more)

    def __contains__(self, session: object) -> bool:
        return session in self._alive

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._alive.values())
