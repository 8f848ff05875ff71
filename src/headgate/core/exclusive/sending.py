"""Sending to exclusive queues, and messages that are not read: quota and age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.core.commands import Send
from headgate.core.effects import Receipt
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.notifiers import Notifiers
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.facts import Accepted, Expired
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE
from headgate.core.model.message import MARKER, NOTIFY, Message, Stored, check
from headgate.core.model.parties import Parties, Purpose
from headgate.core.turn.store_requests import Past
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, QuotaReached, Unauthorised


class Sending:
    """Sending to exclusive queues: quota, age, and the trigger of a delivery.

    The shard calls it with each `Send`. An accepted message is in the turn's batch before it is
    offered.
    """

    def __init__(
        self,
        context: ExclusiveContext,
        authorization: Authorization,
        notifiers: Notifiers,
        delivery: ExclusiveDelivery,
    ) -> None:
        self._domains = context.domains
        self._cache = context.cache
        self._numbers = context.numbers
        self._limits = context.limits
        self._authorization = authorization
        self._notifiers = notifiers
        self._delivery = delivery

    def send(self, command: Send, turn: Turn) -> None:
        session, message = command.session, command.message
        cached = self._authorization.admit(command, turn)
        if cached is None:
            return
        queue = cached.record.queue
        domain = self._domains[cached.record.domain]
        # ACC-68: expired messages are removed before the quota is checked.
        self._expire_first(cached, domain, turn)
        try:
            self._check_sending(cached, message, turn)
            self._check_quota(cached, domain, message, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, queue, error)
            return
        was_empty = not cached.messages
        self._append(cached, message, turn)
        turn.effects.append(Receipt(session, command.ref, queue, message.id))
        if cached.record.parties is not None:
            self._sent(cached, cached.record.parties, message, turn)
        # S000-36, S000-37, S001-55, SMP-14: the first goes out at once; behind others it waits.
        if was_empty:
            self._delivery.offer_to_holder(cached, turn)

    def expire(self, aged: Iterable[Past], turn: Turn) -> None:
        """Remove expired messages. They are the first of their queues, unless a clock was set back;
        a marker stays, or the recipient would never learn that messages were refused."""
        for past in aged:
            domain = self._domains.get(past.domain)
            if domain is None or domain.mode is not Mode.EXCLUSIVE or past.is_marker:
                continue
            age = turn.sure - past.arrived
            # ACC-69, ACC-70: not before its time, and then without a SEND.
            if domain.message_ttl is None or age <= domain.message_ttl:
                continue
            if past.seq in turn.batch.delete or past.queue in turn.batch.remove:
                continue
            cached = self._cache.find(past.queue)
            if cached is None or cached.expire(past.seq, turn.undo):
                turn.batch.delete.add(past.seq)
                turn.facts.append(Expired(turn.now, past.queue, past.id, age))

    # Inside.

    def _check_sending(self, cached: CachedQueue, message: Message, turn: Turn) -> None:
        check(message, self._limits)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._limits.outbox_bytes)
        # ACC-26: a suspended queue refuses every SEND.
        if cached.record.parties is not None and cached.record.parties.is_off:
            raise Unauthorised

    def _check_quota(
        self, cached: CachedQueue, domain: Domain, message: Message, turn: Turn
    ) -> None:
        """Check the quota. A queue that marks its quota stays full until it is empty: the sender
        gets one refusal to stop, and the recipient a marker, to let the sender know when to go
        on."""
        quota = domain.max_messages
        # ACC-45: once full, it refuses until all messages are read.
        if quota is None or (not cached.record.is_full and cached.messages < quota):
            return
        if domain.marks_quota and not cached.record.is_full:
            marker = Message(message.id, b"", message.arrived, {MARKER: True})
            self._append(cached, marker, turn)
            self._cache.amend(cached, replace(cached.record, is_full=True), turn)
        raise QuotaReached("queue", "messages", quota)

    def _append(self, cached: CachedQueue, message: Message, turn: Turn) -> None:
        # SMP-17: numbers grow, and messages are read in their order.
        stored = Stored(self._numbers.next(), cached.record.queue, message, (WHOLE,))
        turn.batch.append[stored.seq] = stored
        cached.append(stored, turn.undo)
        turn.facts.append(Accepted(turn.now, stored.queue, message.id, message.size))

    def _sent(self, cached: CachedQueue, parties: Parties, message: Message, turn: Turn) -> None:
        """Notify the notifier if the sender asked for it. The first message to a secured queue for
        messaging ends the use of its link: the link's user is the sender."""
        # SMP-38, ACC-76: the sender's flag decides, not whether the message was delivered.
        if parties.notifier is not None and message.properties.get(NOTIFY) is True:
            self._notifiers.note(parties.notifier, message, turn)
        if (
            parties.link is not None
            and parties.purpose is Purpose.MESSAGING
            and parties.sender_key is not None
        ):
            unlinked = replace(cached.record, parties=replace(parties, link=None))
            self._cache.amend(cached, unlinked, turn)

    def _expire_first(self, cached: CachedQueue, domain: Domain, turn: Turn) -> None:
        """Remove expired messages in memory, to make room. As many are left as other commands of
        the turn may need: the turn cannot load more."""
        ttl = domain.message_ttl
        if ttl is None:
            return
        needed = max(1, turn.needs.get(cached.record.queue, 0))
        while len(cached.first) > needed or cached.is_complete:
            head = cached.head
            age = turn.sure - head.message.arrived if head is not None else 0.0
            if head is None or age <= ttl or head.message.is_marker:
                return
            cached.pop(turn.undo)
            turn.batch.delete.add(head.seq)
            turn.facts.append(Expired(turn.now, head.queue, head.message.id, age))
