"""A slot: one transport session at a time, and its work for the queues."""

from __future__ import annotations

from enum import Enum

from headgate.agent.engine.answers import Failure
from headgate.agent.engine.queue_states import QueueStates
from headgate.agent.engine.services import ServiceState, ServiceSubscription
from headgate.agent.engine.worker import Worker
from headgate.agent.model import SessionKey, SlotKey


class Phase(Enum):
    """The phase of a slot: what it has so far."""

    EMPTY = "empty"
    CONNECTING = "connecting"
    OPEN = "open"


class Slot:
    """The session of a user at a router, or the attempt to open one. Sessions have numbers; a
    report with another number is of an earlier session."""

    __slots__ = (
        "failed_until",
        "failure",
        "key",
        "number",
        "opened_at",
        "page",
        "page_answered",
        "phase",
        "service",
        "session",
        "states",
        "with_service",
        "worker",
    )

    def __init__(self, key: SlotKey, worker: Worker) -> None:
        self.key = key
        self.worker = worker
        self.phase = Phase.EMPTY
        self.number = 0
        self.session = b""
        self.with_service = False
        """Whether the session was to show the service."""
        self.opened_at = 0.0
        self.failure: Failure | None = None
        self.failed_until = 0.0
        self.page = 0
        """The number of the last page sent."""
        self.page_answered = False
        """Whether the last page has an answer other than temporary errors."""
        self.states = QueueStates()
        self.service = ServiceSubscription()

    @property
    def is_open(self) -> bool:
        return self.phase is Phase.OPEN

    @property
    def session_key(self) -> SessionKey:
        assert self.is_open, "a session that is open"
        return SessionKey(self.key, self.number, self.session)

    def is_current(self, session: SessionKey) -> bool:
        # S000-80, S000-90: number and session id are those of the present session.
        return self.is_open and (self.number, self.session) == (session.number, session.session)

    def recent_failure(self, now: float) -> Failure | None:
        """The failure of the last attempt, if it is recent."""
        return self.failure if now < self.failed_until else None

    def connect(self, number: int, with_service: bool) -> None:
        assert self.phase is Phase.EMPTY, "one attempt at a time"
        self.phase = Phase.CONNECTING
        self.number = number
        self.with_service = with_service

    def fail(self, failure: Failure, until: float) -> None:
        self.phase = Phase.EMPTY
        self.failure = failure
        self.failed_until = until

    def open(self, session: bytes, now: float) -> None:
        self.phase = Phase.OPEN
        self.session = session
        self.opened_at = now
        self.failure = None
        self.failed_until = 0.0

    def empty(self) -> None:
        self.phase = Phase.EMPTY
        self.session = b""

    @property
    def has_nothing_active(self) -> bool:
        return not (self.states.active or self.states.counted or self.service.is_active)

    def is_idle(self, now: float) -> bool:
        """Whether the session could be closed without loss."""
        return (
            self.phase is Phase.EMPTY
            and self.recent_failure(now) is None
            and self.states.is_empty
            and self.service.state is ServiceState.NONE
        )
