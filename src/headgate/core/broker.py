"""Sessions, shard and channels: the one object that a shell holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from headgate.core.channels.channels import Channels
from headgate.core.delivery.back_pressure import BlockedPublishers
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.delivery.sessions import Session, Sessions
from headgate.core.effects import GoOn
from headgate.core.facts import Fact, SessionClosed, SessionEased, SessionOpened, SessionSlowed
from headgate.core.model.binding import Spoken
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.shard import Shard
from headgate.errors import LimitReached

KEPT_SHARE = 10
"""One place in so many is reserved for each wire with a listener."""

CLOSED_KEPT = 100
"""Closed sessions whose reason is remembered."""


Speaker: TypeAlias = Callable[[Sequence[Spoken]], None]


class Broker:
    """The core as the server holds it: sessions, channels, and the shard with all queues.

    One broker serves all wires. It knows which sessions are alive, and limits their number.
    """

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
        self.channel_budget = self.budget
        """The limits that block publishers on channels."""
        self._budgets: dict[str, Budget] = {}
        """The budgets of wires with limits of their own."""
        self.channels = Channels(limits)
        self.waiting = BlockedPublishers()
        self.speaker: Speaker | None = None
        """Publishes the messages that a turn has for channels, if a wire has channels."""
        self.shard = Shard(self.sessions, domains, limits, last, last_fact, journal=journal)
        self._wires: set[str] = set()
        self.closed: deque[SessionClosed] = deque(maxlen=CLOSED_KEPT)

    def expect(self, wire: str) -> None:
        """Reserve places for the clients of a wire, for which an endpoint listens."""
        self._wires.add(wire)

    def limit_apart(self, wire: str) -> Budget:
        """Give the wire with channels limits of its own. Its clients may change them without an
        effect on sessions of other wires."""
        shared = self.budget
        apart = Budget(shared.limit, shared.mailbox_soft, shared.mailbox_hard, shared)
        self.channel_budget = self._budgets[wire] = apart
        return apart

    def open_session(self, wire: str, name: str, now: float) -> tuple[Session, SessionOpened]:
        most = self.limits.sessions
        here = len(self.sessions) - self.sessions.elsewhere
        if here + self._kept_from(wire) >= most:
            raise LimitReached("sessions", most)
        id = self.sessions.next_id()
        session = Session(id, wire, name, now, Mailbox(id, self._budgets.get(wire, self.budget)))
        self.sessions.add(session)
        return session, SessionOpened(now, session.id, wire, name)

    def _kept_from(self, wire: str) -> int:
        """Number of places reserved for clients of other wires that have not come."""
        share, counts = self.limits.sessions // KEPT_SHARE, self.sessions.counts
        return sum(max(0, share - counts[other]) for other in self._wires if other != wire)

    def close_session(self, session: SessionId, reason: str, now: float) -> SessionClosed | None:
        """Remove a session at once; its `Disconnect` cleans up in the shard."""
        # S000-74: removed before anything else, so no waiting message reaches it.
        gone = self.sessions.remove(session)
        if gone is None:
            return None
        self.channels.disconnect(session)
        # RESP-63: a publisher that leaves no longer waits.
        self.waiting.forget(session)
        gone.mailbox.close()
        fact = SessionClosed(now, session, gone.wire, gone.name, reason, *gone.parts)
        self.closed.append(fact)
        return fact

    # Pressure.

    def pressed(self, now: float) -> list[Fact]:
        """Facts about the sessions that became slow or caught up since the last call."""
        crossings = self.budget.crossings[:]
        self.budget.crossings.clear()
        facts: list[Fact] = []
        for id, size, slow_since in crossings:
            session = self.sessions.get(id)
            if session is None:
                continue
            if slow_since is None:
                facts.append(SessionSlowed(now, id, session.name, size, *session.parts))
            else:
                seconds = now - slow_since
                facts.append(SessionEased(now, id, session.name, seconds, *session.parts))
        return facts

    def relieved(self, session: SessionId | None = None) -> list[GoOn]:
        """The publishers that may go on after the mailbox of a session shrank, on any wire, or the
        session is gone; without a session, all that may."""
        return [GoOn(publisher) for publisher in self.waiting.wake(self.channel_budget, session)]
