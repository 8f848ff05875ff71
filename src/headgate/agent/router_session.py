"""One session with a router: a link, its number, and the answers to be reported together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from headgate.agent.engine.answers import Answer, NotSubscribed, Subscribed, failure_of
from headgate.agent.model import RecipientId, SessionKey, SlotKey
from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.waiting import Outcome
from headgate.core.model.ids import ServiceId
from headgate.errors import HeadgateError, NotConnected, RequestRefused
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r


class SessionReports(Protocol):
    """The shell, to which a session reports. Its methods return at once."""

    def took(self, session: RouterSession, queue: RecipientId, message: r.Msg) -> None:
        """Take a message, in any answer or event."""

    def answered(self, session: RouterSession, answers: Sequence[Answer]) -> None:
        """Take answers to subscribes that came together."""

    def service_answered(
        self, session: RouterSession, service: ServiceId, outcome: Outcome
    ) -> None:
        """Take the answer to the subscribe of a service."""

    def event_came(self, session: RouterSession, entity: bytes, event: r.Reply) -> None:
        """Take an event that is not a message."""

    def strayed(self, session: RouterSession, text: str) -> None:
        """Take a report that belongs to no request; the session goes on."""

    def ended(self, session: RouterSession, reason: str) -> None:
        """Note that the session is over; called once."""


class RouterSession:
    """The handler of one link. Owned by the shell that opened it, until it is over.

    Answers to subscribes that the link reads in one go are reported in one call, before any later
    event and before the end.
    """

    def __init__(self, reports: SessionReports, slot: SlotKey, number: int) -> None:
        self.slot = slot
        self.number = number
        self._reports = reports
        self._answers: list[Answer] = []
        self._link: Link | None = None
        self._key: SessionKey | None = None

    def open(self, link: Link) -> None:
        """Set the link of this handler."""
        self._link = link
        self._key = SessionKey(self.slot, self.number, link.session_id)

    @property
    def link(self) -> Link:
        assert self._link is not None, "a session that was opened"
        return self._link

    @property
    def key(self) -> SessionKey:
        assert self._key is not None, "a session that was opened"
        return self._key

    # Requests.

    async def ask(self, requests: Sequence[Request]) -> list[Outcome]:
        """The outcome of each request. A message in an answer is taken in its place."""

        def each(place: int, outcome: Outcome) -> None:
            if isinstance(outcome, r.Msg):
                self.flush()
                self._reports.took(self, requests[place].entity, outcome)

        return await self.link.ask_all(requests, each=each)

    async def subscribe(self, requests: Sequence[Request]) -> None:
        """Subscribe queues; their answers are reported as they come."""

        def each(place: int, outcome: Outcome) -> None:
            self._take_answer(requests[place].entity, outcome)

        await self.link.ask_all(requests, each=each)

    async def subscribe_service(self, request: Request) -> None:
        """Subscribe a service; its answer is reported in its place."""

        def each(place: int, outcome: Outcome) -> None:
            self._take_service_answer(request.entity, outcome)

        await self.link.ask_all([request], each=each)

    def flush(self) -> None:
        """Report the collected answers."""
        answers, self._answers = self._answers, []
        if answers:
            # S000-63, S000-73: answers that came together are announced together.
            self._reports.answered(self, answers)

    def _take_answer(self, queue: RecipientId, outcome: Outcome) -> None:
        if self._is_loss(outcome):
            return
        if not self._answers:
            # The reader goes on to the next block without a pause if it has one.
            asyncio.get_running_loop().call_soon(self.flush)
        if isinstance(outcome, r.Msg):
            # S000-62: like any other message, whatever it answers.
            self._reports.took(self, queue, outcome)
        self._answers.append(answer_of(queue, outcome))

    def _take_service_answer(self, service: bytes, outcome: Outcome) -> None:
        if not self._is_loss(outcome):
            self.flush()
            self._reports.service_answered(self, ServiceId(service), outcome)

    def _is_loss(self, outcome: Outcome) -> bool:
        """Whether a request failed because its session is over, which is reported as the end."""
        return isinstance(outcome, NotConnected) and not self.link.is_open

    # Calls of the link.

    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        self.flush()
        if isinstance(event, r.Msg):
            self._reports.took(self, entity, event)
        else:
            self._reports.event_came(self, entity, event)

    def answered_late(self, link: Link, request: Request, reply: r.Reply) -> None:
        outcome = RequestRefused(reply.text) if isinstance(reply, r.Err) else reply
        match request.command:
            case c.Sub() | c.NSub():
                # S000-70, S004-17: it counts as much as a timely one.
                self._take_answer(request.entity, outcome)
            case c.Subs() | c.NSubs():
                self._take_service_answer(request.entity, outcome)
            case _ if isinstance(reply, r.Msg):
                self.flush()
                self._reports.took(self, request.entity, reply)
            case _:
                pass  # its caller has left, and it changes nothing

    def unexpected(self, link: Link, report: Unexpected) -> None:
        self._reports.strayed(self, report.why)
        if isinstance(report.reply, r.Msg):
            # It answers a request so old that it is forgotten. The router has delivered it in this
            # session, and delivers no more of the queue before it is acknowledged.
            self.flush()
            self._reports.took(self, report.entity, report.reply)

    def lost(self, link: Link, reason: str) -> None:
        self.flush()
        self._reports.ended(self, reason)


def answer_of(queue: RecipientId, outcome: Outcome) -> Answer:
    """The engine's form of an answer to SUB."""
    match outcome:
        case HeadgateError():
            return NotSubscribed(queue, failure_of(outcome))
        case r.Sok(service):
            return Subscribed(queue, None if service is None else ServiceId(service))
        case r.Msg():
            return Subscribed(queue, by_message=True)
        case _:
            return Subscribed(queue)
