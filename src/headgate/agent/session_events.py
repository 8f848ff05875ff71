"""Events of sessions, on their way to the engine and to the receiver of messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headgate.agent.engine.answers import Answer, Failure, failure_of
from headgate.agent.engine_driver import EngineDriver
from headgate.agent.model import QueueRow, RecipientId, SessionKey
from headgate.agent.ports import MessagePort
from headgate.agent.record_line import RecordLine
from headgate.agent.records import Database, receive_queues
from headgate.agent.router_session import RouterSession
from headgate.agent.slot_sessions import SlotSessions
from headgate.agent.subscribe_calls import SubscribeCalls
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import FailureKind
from headgate.client.smp.waiting import Outcome
from headgate.core.model.ids import ServiceId
from headgate.errors import HeadgateError
from headgate.wire.smp.codec import replies as r

log = logging.getLogger("headgate.agent")


class SessionEvents:
    """The reports of all sessions of a shell, which owns it; implements `SessionReports`. Reports
    are passed on in order, before the method returns; only ended queues are read from the records
    first, since the engine does not have those of a service."""

    def __init__(
        self,
        driver: EngineDriver,
        line: RecordLine[Database],
        tasks: Tasks,
        calls: SubscribeCalls,
    ) -> None:
        self.messages: MessagePort | None = None
        """The receiver of messages; set before anything is wanted."""
        self.sessions: SlotSessions | None = None
        """The reporting sessions; set before there are any."""
        self._driver = driver
        self._engine = driver.engine
        self._line = line
        self._tasks = tasks
        self._calls = calls
        self._ended: dict[int, dict[RecipientId, r.Reply]] = {}
        """END and DELD of each session, until the rows of their queues are read."""

    def took(self, session: RouterSession, queue: RecipientId, message: r.Msg) -> None:
        if self.messages is not None:
            self.messages.take(session.key, queue, message)

    def answered(self, session: RouterSession, answers: Sequence[Answer]) -> None:
        self._driver.do(self._engine.answered(session.key, answers, self._driver.now()))

    def service_answered(
        self, session: RouterSession, service: ServiceId, outcome: Outcome
    ) -> None:
        key, now = session.key, self._driver.now()
        match outcome:
            case r.Soks(tally):
                self._driver.do(self._engine.service_confirmed(key, service, tally, now))
            case HeadgateError():
                self._driver.do(self._engine.service_failed(key, failure_of(outcome), now))

    def event_came(self, session: RouterSession, entity: bytes, event: r.Reply) -> None:
        match event:
            case r.SmpEnd() | r.Deld():
                waiting = self._ended.setdefault(session.number, {})
                is_first = not waiting
                waiting[entity] = event
                if is_first:
                    self._tasks.run(self._take_ended(session.key), "reading queues that ended")
            case r.Ends():
                # The entity of ENDS is the service, not a queue.
                service, now = ServiceId(entity), self._driver.now()
                self._driver.do(self._engine.service_ended(session.key, service, now))
            case r.Alls():
                self._driver.do(self._engine.service_swept(session.key))
            case _:
                self.strayed(session, f"{event.tag.decode()} that nobody asked for")

    async def _take_ended(self, key: SessionKey) -> None:
        """Report ended queues, with their records."""
        driver, engine = self._driver, self._engine
        ended = self._ended[key.number]
        user, router = key.slot.user, key.slot.router
        while ended:
            wanted = [(router, queue) for queue in ended]
            found = await self._line.read_surely(receive_queues.get_many, wanted)
            for place in wanted:
                event, queue = ended.pop(place[1]), found.get(place)
                if queue is None or queue.deleted or queue.user != user:
                    continue
                row = QueueRow(queue.recipient_id, queue.connection, queue.assoc)
                if isinstance(event, r.Deld):
                    driver.do(engine.deleted(user, router, row, driver.now()))
                else:
                    driver.do(engine.ended(key, row, driver.now()))
        del self._ended[key.number]

    def strayed(self, session: RouterSession, text: str) -> None:
        # S000-66: reported; the session goes on.
        log.warning("%s: unexpected: %s", self._own_sessions.routers[session.slot.router], text)

    def ended(self, session: RouterSession, reason: str) -> None:
        was_ours = self._own_sessions.forget(session.number) is session
        self._tasks.run(session.link.wait_closed(), "closing a link", to_end=True)
        if self.messages is not None:
            self.messages.forget(session.key)
        if was_ours:
            # S000-81: session and subscriptions go in this one call.
            self._driver.do(self._engine.lost(session.key, self._driver.now()))
            self._calls.settle_slot(session.slot, Failure(FailureKind.TEMPORARY, reason))

    @property
    def _own_sessions(self) -> SlotSessions:
        assert self.sessions is not None, "sessions that report"
        return self.sessions
