"""Answers of routers to subscribes, and their effect on queues.

A batch is handled as a whole. Every answer changes the state of one queue in its slot; records,
outcomes and announcements are collected, and leave once for each kind at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.agent.engine.answers import Answer, Failure, NotSubscribed, Subscribed
from headgate.agent.engine.context import EngineContext
from headgate.agent.engine.driving import Driving
from headgate.agent.engine.effects import Outcome, SetAssociated, Settled, StoreNotice
from headgate.agent.engine.sessions import Sessions
from headgate.agent.engine.slots import Slot
from headgate.agent.events import ProblemKind, Refusal, Up
from headgate.agent.model import ConnectionId, RecipientId, SessionKey
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import QueueId


class AnswerBatch:
    """Changes of a slot by a batch of answers, collected until all of it is known."""

    def __init__(self) -> None:
        self.raised: list[ConnectionId] = []
        self.outcomes: list[Outcome] = []
        self.associated: list[RecipientId] = []
        self.separated: list[RecipientId] = []
        self.refusals: list[Refusal] = []
        self.blocked: list[Refusal] = []


class SubscriptionAnswers:
    """The part of an engine that takes answers to subscribes, timely and late ones. Owned by the
    engine; answers of a session that is over are ignored."""

    def __init__(self, context: EngineContext, driving: Driving, sessions: Sessions) -> None:
        self._context = context
        self._driving = driving
        self._sessions = sessions

    def take(self, session: SessionKey, answers: Sequence[Answer], now: float) -> None:
        """Take answers to subscribes, timely or late, of one batch."""
        context = self._context
        slot = context.current(session)
        if slot is None:
            return
        refused = self._service_failure(slot, answers)
        if refused is not None:
            self._sessions.fall_back(slot, refused.text, now)
            self._driving.advance(slot.key, now)
            return
        had_page = bool(slot.states.pending.sent or slot.states.checks.sent)
        batch = AnswerBatch()
        for answer in answers:
            if isinstance(answer, Subscribed):
                self._subscribed(slot, answer, batch)
            else:
                self._not_subscribed(slot, answer, batch)
        self._conclude(slot, batch)
        page_done = had_page and not (slot.states.pending.sent or slot.states.checks.sent)
        if page_done and not slot.page_answered and slot.has_nothing_active:
            # A session without answers would be kept for ever.
            self._sessions.close(slot, now)
        self._driving.advance(slot.key, now)

    def _service_failure(self, slot: Slot, answers: Sequence[Answer]) -> Failure | None:
        """The first service error, if the session has a service."""
        if slot.service.id is None:
            return None
        for answer in answers:
            if isinstance(answer, NotSubscribed) and answer.failure.kind is FailureKind.SERVICE:
                return answer.failure
        return None

    def _subscribed(self, slot: Slot, answer: Subscribed, batch: AnswerBatch) -> None:
        states, service, queue = slot.states, slot.service, answer.queue
        ours = service.id is not None and answer.service == service.id
        slot.page_answered = True
        if queue in states.checks:
            self._checked(slot, answer, ours, batch)
            return
        is_flagged = queue in states.flagged
        # S000-61, S001-66: OK, SOK for none or another service, and a message make it active.
        connection = states.count(queue) if ours else states.activate(queue)
        if connection is None:
            self._context.ignored += 1
            return
        if ours:
            self._context.account_of(slot.key).service_refusals = 0
            if not is_flagged:
                # S004-17: whether the answer is timely or late.
                batch.associated.append(queue)
            service.add(QueueId(queue))
        elif is_flagged and not answer.by_message:
            states.flagged.discard(queue)
            batch.separated.append(queue)
        self._context.announcements.hold(connection)
        # S000-70: a late answer counts as a timely one does.
        batch.raised.append(connection)
        batch.outcomes.append(Outcome(queue, connection))

    def _checked(self, slot: Slot, answer: Subscribed, ours: bool, batch: AnswerBatch) -> None:
        """Handle a queue of the service that was subscribed once more. It stays counted if it still
        belongs to it."""
        connection = slot.states.checks.discard(answer.queue)
        assert connection is not None, "a queue that was checked"
        if not (ours or answer.by_message):
            batch.separated.append(answer.queue)
            slot.service.remove(QueueId(answer.queue))
            slot.states.active[answer.queue] = connection
            self._context.announcements.hold(connection)
            batch.raised.append(connection)

    def _not_subscribed(self, slot: Slot, answer: NotSubscribed, batch: AnswerBatch) -> None:
        states, queue, failure = slot.states, answer.queue, answer.failure
        is_check = queue in states.checks
        pending = states.checks if is_check else states.pending
        if queue not in pending:
            self._context.ignored += 1
            return
        if failure.kind in (FailureKind.TEMPORARY, FailureKind.HOST):
            # S000-87: it stays pending, and the worker tries again.
            connection = pending.postpone(queue)
            if not is_check:
                batch.outcomes.append(Outcome(queue, connection, failure))
            return
        slot.page_answered = True
        removed = pending.discard(queue)
        assert removed is not None, "a queue that was pending"
        if is_check or queue in states.flagged:
            # A queue that the router does not have is none of the service's.
            batch.separated.append(queue)
            states.flagged.discard(queue)
        self._context.account_of(slot.key).left_out[queue] = failure.text
        batch.outcomes.append(Outcome(queue, removed, failure))
        refusal = Refusal(removed, failure.text)
        if failure.kind is FailureKind.BLOCKED:
            self._context.emit(StoreNotice(slot.key.router, queue, failure.text))
            batch.blocked.append(refusal)
        else:
            batch.refusals.append(refusal)

    def _conclude(self, slot: Slot, batch: AnswerBatch) -> None:
        """Store and announce what a batch changed, each kind once."""
        context, key = self._context, slot.key
        for queues, associated in ((batch.associated, True), (batch.separated, False)):
            if queues:
                # S001-86, S004-25: by their ids, all at once.
                context.emit(SetAssociated(key.user, key.router, tuple(queues), associated))
        if batch.separated:
            context.account_of(key).clears += 1
        if batch.associated:
            context.account_of(key).has_flags = True
        if batch.outcomes:
            context.emit(Settled(key, tuple(batch.outcomes)))
        up = context.announcements.raise_up(batch.raised)
        if up:
            # S000-63, S000-73: connections that the batch made active, together, after the change.
            context.announce(Up(key.user, context.routers[key.router], up))
        if batch.refusals:
            context.problem(key, ProblemKind.REFUSED, refusals=tuple(batch.refusals))
        if batch.blocked:
            context.problem(key, ProblemKind.BLOCKED, refusals=tuple(batch.blocked))
