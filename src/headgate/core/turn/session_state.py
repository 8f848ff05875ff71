"""The state of each session in a shard."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.commands import Sweep
from headgate.core.delivery.gate import ShutGate
from headgate.core.delivery.sessions import Sessions
from headgate.core.model.ids import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.turn import Turn
from headgate.core.turn.unconfirmed import Unconfirmed
from headgate.core.turn.undo import Undo


class ServiceMembership:
    """A session's membership of the service whose identity it has."""

    __slots__ = ("counted", "damaged", "service", "swept", "tally")

    def __init__(self, service: ServiceId) -> None:
        self.service = service
        self.tally: Tally = NOTHING
        """The queues that this session receives as the service's subscriber."""
        self.swept = False
        """Subscribed as a whole: its tally is the service's, and every queue of it counts."""
        self.counted: set[QueueId] = set()
        """While not swept: the queues that were subscribed to one by one."""
        self.damaged: list[QueueId] = []
        """Queues that the sweep could not read."""


class SessionState:
    """The state of one session. Made by its first command to the shard, removed by its
    `Disconnect`."""

    __slots__ = (
        "client",
        "gates",
        "getting",
        "lost",
        "membership",
        "opened",
        "opens",
        "queues",
        "sweep",
        "waiting",
        "watched",
    )

    def __init__(self) -> None:
        self.queues: set[QueueId] = set()
        """Exclusive queues that it subscribed to one by one."""
        self.watched: set[bytes] = set()
        """Notifiers that it is, one by one."""
        self.gates: dict[QueueId, ShutGate] = {}
        """The unconfirmed messages of exclusive queues. An absent gate is open."""
        self.getting: dict[QueueId, MessageId | None] = {}
        """Exclusive queues that it reads with `Get`, and the message it read last."""
        self.waiting: dict[QueueId, None] = {}
        """Exclusive queues whose first message waits for room in the mailbox."""
        self.membership: ServiceMembership | None = None
        self.sweep: Sweep | None = None
        """A sweep that waits for room in the mailbox."""
        self.client = ""
        """The user name that a client of shared queues proved; none if it needed no proof."""
        self.opened: dict[tuple[QueueId, AppId], None] = {}
        """Shared queues it has open."""
        self.opens: dict[QueueId, int] = {}
        """Number of apps of each that it has open."""
        self.lost: bool | None = None
        """While its `Disconnect` is carried out: whether the connection broke."""


class SessionStates:
    """The states of sessions: their subscriptions, unconfirmed deliveries and waiting queues.

    A state is made by a session's first command and removed by its `Disconnect`. In between the
    session may be gone already: `find` hides those, `kept` does not.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._session_states: dict[SessionId, SessionState] = {}
        self.unconfirmed = Unconfirmed()

    def find(self, session: SessionId) -> SessionState | None:
        """The state of a live session, if it has one."""
        # S000-76: a session that is gone is not found, though its clean-up is still to come.
        return self._session_states.get(session) if session in self.sessions else None

    def kept(self, session: SessionId) -> SessionState | None:
        """The state of a session, which may be gone, until its `Disconnect`."""
        return self._session_states.get(session)

    def take(self, session: SessionId, undo: Undo) -> SessionState | None:
        """The state of a session, made if it has none; None for a session that is gone."""
        if session not in self.sessions:
            return None
        state = self._session_states.get(session)
        if state is None:
            state = SessionState()
            undo.put(self._session_states, session, state)
        return state

    def has_room(self, session: SessionId, turn: Turn) -> bool:
        """Whether a delivery may go to a session now: it is alive, and its mailbox is easy and
        would be with what this turn has for it. If that is why it may not, the session is
        looked at again in a later turn."""
        alive = self.sessions.get(session)
        if alive is None:
            return False
        if alive.mailbox.has_room(turn.sent.get(session, 0)):
            return True
        turn.look_again(session)
        return False

    def leave(self, session: SessionId, undo: Undo) -> None:
        """Remove the state of a session, which usually is gone already."""
        undo.pop(self._session_states, session)

    def settle(self, gated: Iterable[SessionId]) -> None:
        """Count these sessions' unconfirmed deliveries anew, after the turn is committed."""
        for session in gated:
            state = self._session_states.get(session)
            # Each delivery makes a new gate, at the end: the first is the oldest.
            gates = state.gates if state is not None else None
            if gates:
                self.unconfirmed.set(session, len(gates), next(iter(gates.values())).at)
            else:
                self.unconfirmed.set(session, 0, None)

    def __len__(self) -> int:
        return len(self._session_states)

    def items(self) -> list[tuple[SessionId, SessionState]]:
        return list(self._session_states.items())
