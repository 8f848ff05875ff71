"""Sessions, shard and channels: the one object a shell holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headgate.core.channels import Channels
from headgate.core.domain import Domain
from headgate.core.facts import SessionClosed, SessionOpened
from headgate.core.limits import Limits
from headgate.core.mailbox import Budget, Mailbox, Waiting
from headgate.core.names import Seq, SessionId
from headgate.core.sessions import Session, Sessions
from headgate.core.shard import Shard
from headgate.errors import LimitReached

CLOSED_KEPT = 100
"""Sessions of the past that can still be asked why they ended."""


class Broker:
    def __init__(
        self,
        domains: Mapping[str, Domain],
        limits: Limits,
        last: Seq,
        last_fact: int = 0,
        *,
        journal: bool = False,
    ) -> None:
        self.limits = limits
        self.sessions = Sessions()
        self.budget = Budget(
            limits.budget_bytes, limits.mailbox_bytes_soft, limits.mailbox_bytes_hard
        )
        self.channels = Channels(limits)
        self.waiting = Waiting()
        self.shard = Shard(self.sessions, domains, limits, last, last_fact, journal=journal)
        self.closed: deque[SessionClosed] = deque(maxlen=CLOSED_KEPT)

    def open_session(self, wire: str, name: str, now: float) -> tuple[Session, SessionOpened]:
        if len(self.sessions) >= self.limits.sessions:
            raise LimitReached("sessions", self.limits.sessions)
        id = self.sessions.next_id()
        session = Session(id, wire, name, now, Mailbox(id, self.budget))
        self.sessions.add(session)
        return session, SessionOpened(now, session.id, wire, name)

    def close_session(self, session: SessionId, reason: str, now: float) -> SessionClosed | None:
        """The session is gone from here on; its `Disconnect` cleans up in the shard."""
        gone = self.sessions.remove(session)
        if gone is None:
            return None
        self.channels.disconnect(session)
        gone.mailbox.close(now)
        fact = SessionClosed(now, session, gone.wire, gone.name, reason)
        self.closed.append(fact)
        return fact
