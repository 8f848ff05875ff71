"""Sending to exclusive queues, and what becomes of messages that nobody reads: quota and age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.core.admission import Admission
from headgate.core.backlogs import Backlog, Backlogs
from headgate.core.commands import Send
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Receipt
from headgate.core.facts import Accepted, Expired
from headgate.core.limits import Limits
from headgate.core.message import MARKER, NOTIFY, Message, Stored, check
from headgate.core.names import WHOLE
from headgate.core.numbers import Numbers
from headgate.core.parties import Parties, Purpose
from headgate.core.queues import Queues
from headgate.core.steps import Past
from headgate.core.turn import Turn
from headgate.core.watching import Watchers
from headgate.errors import HeadgateError, LimitReached, QuotaReached, Unauthorised


class Posting:
    def __init__(
        self,
        domains: dict[str, Domain],
        admission: Admission,
        queues: Queues,
        watchers: Watchers,
        backlogs: Backlogs,
        numbers: Numbers,
        limits: Limits,
    ) -> None:
        self._domains = domains
        self._admission = admission
        self._queues = queues
        self._watchers = watchers
        self._backlogs = backlogs
        self._numbers = numbers
        self._limits = limits

    def send(self, command: Send, turn: Turn) -> None:
        session, message = command.session, command.message
        backlog = self._admission.admit(command, turn)
        if backlog is None:
            return
        queue = backlog.record.queue
        domain = self._domains[backlog.record.domain]
        self._expire_first(backlog, domain, turn)
        try:
            self._check_sending(backlog, message, turn)
            self._check_quota(backlog, domain, message, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, queue, error)
            return
        was_empty = not backlog.messages
        self._append(backlog, message, turn)
        turn.effects.append(Receipt(session, command.ref, queue, message.id))
        if backlog.record.parties is not None:
            self._sent(backlog, backlog.record.parties, message, turn)
        if was_empty:
            self._queues.offer_to_holder(backlog, turn)

    def expire(self, aged: Iterable[Past], turn: Turn) -> None:
        """Remove messages whose time is over. They are the first of their queues, unless a clock
        was set back; a marker stays, or the recipient would never learn that something was
        refused."""
        for past in aged:
            domain = self._domains.get(past.domain)
            if domain is None or domain.mode is not Mode.EXCLUSIVE or past.is_marker:
                continue
            age = turn.now - past.arrived
            if domain.message_ttl is None or age <= domain.message_ttl:
                continue
            if past.seq in turn.batch.delete or past.queue in turn.batch.remove:
                continue
            backlog = self._backlogs.find(past.queue)
            if backlog is None or backlog.expire(past.seq, turn.undo):
                turn.batch.delete.add(past.seq)
                turn.facts.append(Expired(turn.now, past.queue, past.id, age))

    # Inside.

    def _check_sending(self, backlog: Backlog, message: Message, turn: Turn) -> None:
        check(message, self._limits)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._limits.outbox_bytes)
        if backlog.record.parties is not None and backlog.record.parties.is_off:
            raise Unauthorised

    def _check_quota(self, backlog: Backlog, domain: Domain, message: Message, turn: Turn) -> None:
        """A queue that marks its quota stays full until it is empty: the sender is told to stop
        once, and the recipient, by the marker, that there is a sender to be told to go on."""
        quota = domain.max_messages
        if quota is None or (not backlog.record.is_full and backlog.messages < quota):
            return
        if domain.marks_quota and not backlog.record.is_full:
            marker = Message(message.id, b"", message.arrived, {MARKER: True})
            self._append(backlog, marker, turn)
            self._backlogs.amend(backlog, replace(backlog.record, is_full=True), turn)
        raise QuotaReached("queue", "messages", quota)

    def _append(self, backlog: Backlog, message: Message, turn: Turn) -> None:
        stored = Stored(self._numbers.next(), backlog.record.queue, message, (WHOLE,))
        turn.batch.append[stored.seq] = stored
        backlog.append(stored, turn.undo)
        turn.facts.append(Accepted(turn.now, stored.queue, message.id, message.size))

    def _sent(self, backlog: Backlog, parties: Parties, message: Message, turn: Turn) -> None:
        """The notifier is told if the sender asked for it. The first message to a secured queue
        for messaging shows that its link has served: whoever had it is the sender."""
        if parties.notifier is not None and message.properties.get(NOTIFY) is True:
            self._watchers.note(parties.notifier, message, turn)
        if (
            parties.link is not None
            and parties.purpose is Purpose.MESSAGING
            and parties.sender_key is not None
        ):
            unlinked = replace(backlog.record, parties=replace(parties, link=None))
            self._backlogs.amend(backlog, unlinked, turn)

    def _expire_first(self, backlog: Backlog, domain: Domain, turn: Turn) -> None:
        """What is in memory and too old makes room for what comes. As many are left as other
        commands of the turn may need: there is no reading on in the middle of it."""
        ttl = domain.message_ttl
        needed = max(1, turn.needs.get(backlog.record.queue, 0))
        while ttl is not None and (len(backlog.first) > needed or backlog.is_complete):
            head = backlog.head
            age = turn.now - head.message.arrived if head is not None else 0.0
            if head is None or age <= ttl or head.message.is_marker:
                return
            backlog.pop(turn.undo)
            turn.batch.delete.add(head.seq)
            turn.facts.append(Expired(turn.now, head.queue, head.message.id, age))
