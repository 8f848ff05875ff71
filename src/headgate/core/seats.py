"""What a session holds in a shard."""

from __future__ import annotations

from headgate.core.commands import Sweep
from headgate.core.gate import Gate
from headgate.core.names import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.core.sessions import Sessions
from headgate.core.tally import NOTHING, Tally
from headgate.core.turn import Turn
from headgate.core.undo import Undo


class Tie:
    """A session's tie to the service whose identity it has."""

    __slots__ = ("counted", "damaged", "service", "swept", "tally")

    def __init__(self, service: ServiceId) -> None:
        self.service = service
        self.tally: Tally = NOTHING
        """The queues that this session receives as the service's subscriber."""
        self.swept = False
        """Subscribed as a whole: its tally is the service's, and every queue counts."""
        self.counted: set[QueueId] = set()
        """While not swept: the queues that were counted one by one."""
        self.damaged: list[QueueId] = []
        """Queues that the sweep could not read."""


class Seat:
    """Made when a session first asks something of the shard, gone with its `Disconnect`."""

    __slots__ = (
        "gates",
        "getting",
        "opened",
        "opens",
        "queues",
        "sweep",
        "tie",
        "waiting",
        "watched",
    )

    def __init__(self) -> None:
        self.queues: set[QueueId] = set()
        """Exclusive queues it subscribed to one by one."""
        self.watched: set[bytes] = set()
        """Notifiers that it is, one by one."""
        self.gates: dict[QueueId, Gate[MessageId]] = {}
        """What is in flight of exclusive queues. An absent gate is open."""
        self.getting: dict[QueueId, MessageId | None] = {}
        """Exclusive queues it reads with `Get`, and what it read last."""
        self.waiting: dict[QueueId, None] = {}
        """Exclusive queues whose head waits for room in the mailbox."""
        self.tie: Tie | None = None
        self.sweep: Sweep | None = None
        """A sweep that waits for room in the mailbox."""
        self.opened: dict[tuple[QueueId, AppId], None] = {}
        """Shared queues it has open."""
        self.opens: dict[QueueId, int] = {}
        """How many apps of each."""


class Seats:
    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._seats: dict[SessionId, Seat] = {}

    def find(self, session: SessionId) -> Seat | None:
        """The seat of a session that is alive, if it has one."""
        return self._seats.get(session) if session in self.sessions else None

    def kept(self, session: SessionId) -> Seat | None:
        """The seat of a session that may be gone, until its `Disconnect`."""
        return self._seats.get(session)

    def take(self, session: SessionId, undo: Undo) -> Seat | None:
        """The seat of a session, made if need be; none for a session that is gone."""
        if session not in self.sessions:
            return None
        seat = self._seats.get(session)
        if seat is None:
            seat = Seat()
            undo.put(self._seats, session, seat)
        return seat

    def has_room(self, session: SessionId, turn: Turn) -> bool:
        """Whether a delivery may go to a session now: it is alive, and its mailbox is easy and
        would be with what this turn has for it. If that is why it may not, the session is
        looked at again in a later turn."""
        if self.sessions.has_room(session, turn.sent.get(session, 0)):
            return True
        if session in self.sessions:
            turn.look_again(session)
        return False

    def leave(self, session: SessionId, undo: Undo) -> None:
        """Give up a seat. The session may be gone already, and usually is."""
        undo.pop(self._seats, session)

    def __len__(self) -> int:
        return len(self._seats)

    def items(self) -> list[tuple[SessionId, Seat]]:
        return list(self._seats.items())
