"""Driving a slot to its next step: connect, subscribe the service, subscribe pages, rest.

Every input ends here. Pending work is checked in the same call that adds it, so a worker cannot
stop while there is new work.
"""

from __future__ import annotations

from headgate.agent.engine.context import Account, EngineContext
from headgate.agent.engine.effects import CloseSession, Connect, ReadTally, SendSubs
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.slots import Phase, Slot
from headgate.agent.events import Down, ServiceDown
from headgate.agent.model import SessionMode, SlotKey

SERVICE_REFUSALS_MAX = 2
"""Service errors in a row after which the next session has no service."""


class Driving:
    """Moves slots on, and ends their sessions."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def advance_all(self, now: float) -> None:
        for key in list(self._context.slots):
            self.advance(key, now)
        for account in self._context.accounts.values():
            self.advance(account.shared_slot, now)

    def advance(self, key: SlotKey, now: float) -> None:
        """Take all steps that are possible for this slot now."""
        context = self._context
        account = context.account_of(key)
        if context.is_suspended:
            return
        if context.user(key.user).mode is SessionMode.ENTITY:
            # Each connection has a worker of its own, and pages are read for all of them.
            self._read_on(account, now)
        slot = context.slots.get(key)
        if slot is None:
            if not account.readings or self._is_entity(key):
                return
            slot = context.slot(key)
        if slot.service.state is ServiceState.ENDED:
            slot.service.wake(now)
        if not self._is_needed(slot, account):
            slot.worker.rest_until = None
            if slot.is_idle(now):
                del context.slots[key]
            return
        if not (context.is_online and context.is_foreground):
            return
        self._work(slot, account, now)

    def connect(self, slot: Slot) -> None:
        """Begin an attempt. It goes on even if the caller does not wait for it."""
        context, user = self._context, self._context.user(slot.key.user)
        account = context.account_of(slot.key)
        with_service = (
            user.services
            and user.mode is SessionMode.SHARED
            and account.service_refusals < SERVICE_REFUSALS_MAX
        )
        slot.connect(context.number(), with_service)
        context.emit(Connect(slot.key, slot.number, with_service))

    def drop(self, slot: Slot, now: float, close: bool) -> None:
        """Remove the session, in one step: active queues become pending. The application is
        notified after that."""
        context, announcements = self._context, self._context.announcements
        key, number, was_open = slot.key, slot.number, slot.is_open
        is_empty = slot.phase is Phase.EMPTY
        ended = slot.service.state is ServiceState.ENDED
        active = list(slot.states.active.values())
        counted = list(slot.states.counted.values())
        # S000-81: session and subscriptions go together, before anything is announced.
        slot.empty()
        slot.states.demote(counted_too=ended)
        tally = slot.service.lose()
        if close and not is_empty:
            context.emit(CloseSession(key, number))
        account = context.account_of(key)
        if was_open and not slot.with_service and account.service_refusals:
            # The session without a service is over; the service may be tried again.
            account.service_refusals = SERVICE_REFUSALS_MAX - 1
        # The event of the service speaks for connections that were counted.
        if ended:
            active += counted
        else:
            announcements.release(counted)
        down = announcements.release(active)
        router = context.routers[key.router]
        # S000-82: after the demotion.
        if down:
            context.announce(Down(key.user, router, down))
        # S001-74: lost while it was subscribed.
        if tally is not None:
            context.announce(ServiceDown(key.user, router, tally))

    def _is_entity(self, key: SlotKey) -> bool:
        return self._context.user(key.user).mode is SessionMode.ENTITY

    def _is_needed(self, slot: Slot, account: Account) -> bool:
        """Whether the slot still has work to do."""
        has_readings = bool(account.readings) and slot.key.connection is None
        return bool(
            slot.states.pending or slot.states.checks or slot.service.is_wanted or has_readings
        )

    def _work(self, slot: Slot, account: Account, now: float) -> None:
        worker = slot.worker
        if worker.rest_until is not None:
            if worker.is_resting(now):
                self._wake_after_rest(slot)
            else:
                # S000-84, S000-85, S000-86: rounds, in both modes, until nothing is pending.
                worker.rest_until = None
                slot.states.pending.begin_round()
                slot.states.checks.begin_round()
                slot.service.begin_round()
        if slot.phase is Phase.EMPTY and worker.rest_until is None:
            self.connect(slot)
        elif slot.is_open:
            self._send(slot, account, now)

    def _send(self, slot: Slot, account: Account, now: float) -> None:
        """Send the service, then pages; when all were sent once and some failed, rest."""
        context, states, service = self._context, slot.states, slot.service
        if service.state is ServiceState.PENDING and not (
            states.pending.sent or states.checks.sent
        ):
            service.state = ServiceState.ASKED
            context.emit(ReadTally(slot.session_key))
        # One at a time: otherwise a queue could count for the service twice.
        if service.is_ahead:
            return
        if not states.pending.sent and not states.checks.sent:
            limit = context.settings.page
            page = states.pending.take(limit) or states.checks.take(limit)
            if page:
                slot.page_answered = False
                # S000-58, S000-60: pending before it is sent, as many together as a page has.
                slot.page += 1
                context.emit(SendSubs(slot.session_key, page, slot.page))
        if slot.key.connection is None and not (states.pending.waiting or states.checks.waiting):
            # The next page is read while this one is answered; so at most two are in memory.
            self._read_on(account, now)
        self._rest(slot, account, now)

    def _rest(self, slot: Slot, account: Account, now: float) -> None:
        states = slot.states
        is_busy = (
            states.pending.sent
            or states.pending.waiting
            or states.checks.sent
            or states.checks.waiting
            or (account.readings and slot.key.connection is None)
        )
        if is_busy or slot.worker.rest_until is not None:
            return
        if states.pending.postponed or states.checks.postponed or slot.service.is_wanted:
            slot.worker.rest(now)
            self._wake_after_rest(slot)

    def _wake_after_rest(self, slot: Slot) -> None:
        """Wake the slot when its rest is over; once for each rest."""
        until = slot.worker.arm()
        if until is not None:
            self._context.wake(slot.key, until)

    def _read_on(self, account: Account, now: float) -> None:
        """Read the next page of wanted queues, unless one is being read."""
        if not account.readings or account.readings[0].is_under_way:
            return
        reading, context = account.readings[0], self._context
        if now < reading.retry_at:
            return
        context.emit(
            reading.ask(account.user, account.router, context.number(), context.settings.page)
        )
