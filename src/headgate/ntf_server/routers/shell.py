"""The shell of the engine: sessions with routers, in which notifiers are subscribed.

It owns an engine in the role of a notifier, its place in the records, and one session for each
router. Events go to the engine as calls, and the effects that come back are carried out in their
order. Its conclusions about a subscription are written into the row of it by the table of
`headgate.notify.subscriptions`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from headgate.agent.engine import effects as e
from headgate.agent.engine.answers import Answer, Failure, failure_of
from headgate.agent.engine.engine import SlotStatus
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.settings import NOTIFIER
from headgate.agent.engine_driver import EngineDriver
from headgate.agent.events import Down, End, Problem, ServiceEnd, ServiceUp, SubscriptionEvent
from headgate.agent.model import QueueRow, SessionKey, SlotKey, Which
from headgate.agent.record_line import RecordLine
from headgate.agent.router_session import RouterSession
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.slot_sessions import ConnectLink, SlotSessions
from headgate.agent.tasks import Tasks
from headgate.client.smp import requests
from headgate.client.smp.failures import FailureKind
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.service import Service
from headgate.client.smp.waiting import Outcome
from headgate.core.model.ids import ServiceId
from headgate.core.model.tally import NOTHING
from headgate.errors import HeadgateError, StoreError
from headgate.notify import subscriptions as deciding
from headgate.notify.subscriptions import NotifierSubscription, router_key
from headgate.ntf_server.records import Records, Tables, routers, subscriptions
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.subscriptions import RemovedSubscription
from headgate.ntf_server.routers.credentials import credentials_of
from headgate.ntf_server.routers.keys import notifier_key
from headgate.ntf_server.routers.stored_effects import settle, store
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import SERVICE_FROM

log = logging.getLogger("headgate.ntf")

USER: Final = 1
"""The engine knows users; the server is one."""

NOTIFIER_SHELL: Final = ShellSettings(engine=NOTIFIER)

ASSOCIATED: Final = {Which.ALL: None, Which.SINGLE: False, Which.ASSOCIATED: True}


class NotifierShell:
    """Sessions with all routers that have subscriptions; implements `apps.ports.SubscribePort`.

    `took` is called with every notice, and `failed` with every error that is a fault of our own or
    of the disk; both return at once. All calls are made in one event loop.
    """

    def __init__(
        self,
        records: Records,
        took: Callable[[RouterNumber, RouterNotice], None],
        failed: Callable[[Exception], None],
        *,
        services: bool = True,
        trust_tally: bool = False,
        settings: ShellSettings = NOTIFIER_SHELL,
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], bytes] = secrets.token_bytes,
        connect: ConnectLink = Link.connect,
    ) -> None:
        engine = replace(settings.engine, trust_tally=trust_tally)
        self.settings = replace(settings, engine=engine)
        self._took = took
        self._failed = failed
        self._clock = clock
        self._tasks = Tasks(failed)
        self._driver = EngineDriver(engine, int.from_bytes(draw(4), "big"), self._carry_out, failed)
        self._engine = self._driver.engine
        # S001-88, ACC-114: a setting; where it is off, what was associated is subscribed singly.
        self._engine.add_user(USER, services=services)
        self._line: RecordLine[Tables] = RecordLine(records, settings.retry_seconds, failed)
        self._sessions = SlotSessions(
            self.settings,
            self._credentials,
            self._tasks,
            self,
            self._connected,
            self._connect_failed,
            connect,
        )
        self._numbers: dict[deciding.RouterKey, RouterNumber] = {}
        self._ended: dict[int, dict[bytes, r.Reply]] = {}
        """END and DELD of each session, until the rows of their subscriptions are read."""
        self._is_closed = False
        self.drifts: Counter[str] = Counter()
        """How the tallies of routers differed from ours, since the beginning."""

    async def start(self) -> None:
        """Subscribe everything that is wanted: at each router the service first, then all
        subscriptions one by one, page by page."""
        for record in await self._line.read_surely(routers.everyone):
            # ACC-113: nothing is active that no session of this run has confirmed, and all that is
            # wanted is asked for.
            self._line.write(subscriptions.lose, record.number)
            self._add_router(record.number, record.address)
            if record.service_id is not None or record.tally.count or record.credentials:
                loaded = self._engine.load_service(
                    USER, record.number, record.service_id, record.tally
                )
                self._do(loaded)
        for number in await self._line.read_surely(subscriptions.routers_wanted):
            self._do(self._engine.want_all(USER, number, self._now()))

    async def close(self) -> None:
        """End sessions and tasks, and have stored what was to be stored. The records stay open."""
        self._is_closed = True
        self._driver.close()
        self._sessions.close()
        await self._tasks.close()
        await self._line.close()

    # What apps want.

    def want(self, router: RouterNumber, subscription: NotifierSubscription) -> None:
        if not self._is_closed:
            self._add_router(router, subscription.router)
            row = _row(subscription)
            self._do(self._engine.want(USER, router, [row], self._now()))

    def forget(self, removed: Iterable[RemovedSubscription]) -> None:
        rows: dict[RouterNumber, list[QueueRow]] = {}
        for each in removed:
            row = QueueRow(each.notifier, each.id, each.was_associated)
            rows.setdefault(each.router, []).append(row)
        for router, gone in rows.items():
            if not self._is_closed and router in self._sessions.routers:
                self._do(self._engine.remove_all(USER, router, gone, self._now()))

    def is_service_active(self, router: RouterNumber) -> bool:
        is_known = router in self._sessions.routers
        return is_known and self._engine.service_of(USER, router) is ServiceState.ACTIVE

    def status(self) -> list[SlotStatus]:
        return self._engine.status()

    def address_of(self, router: int) -> RouterAddress:
        """Of a router that the status names."""
        return self._sessions.routers[router]

    def _add_router(self, router: RouterNumber, address: RouterAddress) -> None:
        self._sessions.routers[router] = address
        self._numbers[router_key(address)] = router
        self._engine.add_router(router, address)

    # Carrying out.

    def _now(self) -> float:
        return self._driver.now()

    def _do(self, effects: Iterable[e.Effect]) -> None:
        self._driver.do(effects)

    def _carry_out(self, effect: e.Effect) -> None:
        match effect:
            case e.Connect():
                self._sessions.connect(effect)
            case e.CloseSession(slot, number):
                self._sessions.close_one(slot, number)
            case e.ConnectRefused():
                pass  # nobody waits for a session
            case e.ReadPage():
                self._tasks.run(self._read_page(effect), "reading subscriptions")
            case e.ReadTally(session):
                self._tasks.run(self._read_tally(session), "reading a tally")
            case e.SendSubs(session, queues, page):
                self._tasks.run(self._send_subs(session, page, queues), "subscribing")
            case e.SendServiceSub(session, service, expected):
                asked = requests.subscribe_notifier_service(service, expected)
                self._tasks.run(self._send_service_sub(session, asked), "subscribing a service")
            case e.Settled(slot, outcomes):
                settle(self._line, RouterNumber(slot.router), outcomes)
            case e.Announce(event):
                self._announce(event)
            case e.Report(slot, text):
                self._log(logging.ERROR, RouterNumber(slot.router), text)
            case _:
                is_stored = store(self._line, effect)
                assert is_stored, "an effect that is known"

    def _announce(self, event: SubscriptionEvent) -> None:
        match event:
            case Down(router=address):
                # One statement for all; what is associated is as active as its service.
                self._line.write(subscriptions.lose, self._numbers[router_key(address)])
            case End(connection=id):
                self._line.write(subscriptions.change_one, id, deciding.end)
            case ServiceUp(router=address, tally=tally, drift=drift) if drift is not None:
                # S004-28: logged, and work goes on; what follows repairs it.
                self.drifts[drift.value] += 1
                number = self._numbers[router_key(address)]
                text = f"the router has {tally.count} of our subscriptions, not those we expected"
                self._log(logging.WARNING, number, text, drift=drift.value, hash=tally.hash.hex())
            case ServiceEnd(router=address):
                number = self._numbers[router_key(address)]
                self._log(
                    logging.ERROR,
                    number,
                    "another server subscribed with our certificate; it is left alone for now",
                )
            case Problem(router=address, kind=kind, text=text) if text:
                number = self._numbers[router_key(address)]
                self._log(logging.WARNING, number, text, kind=kind.value)
            case _:
                pass  # rows are written when answers are settled

    def _log(self, level: int, router: RouterNumber, text: str, **fields: object) -> None:
        shown = {"router": str(self._sessions.routers[router]), **fields}
        log.log(level, text, extra={"fields": shown})

    # Sessions.

    async def _credentials(self, slot: SlotKey) -> Service:
        return await credentials_of(self._line, RouterNumber(slot.router), self._clock())

    def _connected(self, session: RouterSession) -> None:
        link = session.link
        service = None if link.service_id is None else ServiceId(link.service_id)
        shown = link.version >= SERVICE_FROM
        self._do(self._engine.connected(session.key, service, self._now(), shown=shown))
        self._tasks.run(self._retry_services(session.slot), "trying services again")

    async def _retry_services(self, slot: SlotKey) -> None:
        """Try a refused service once more in each session."""
        number = RouterNumber(slot.router)
        try:
            again = await self._line.change(subscriptions.retry_services, number)
        except StoreError as error:
            self._failed(error)
            return
        if again and not self._is_closed:
            self._do(self._engine.want(USER, number, map(_row, again), self._now()))

    def _connect_failed(self, slot: SlotKey, number: int, error: HeadgateError) -> None:
        failure = failure_of(error)
        if isinstance(error, StoreError):
            # The disk is no fault of the router, and it passes.
            self._failed(error)
            failure = Failure(FailureKind.TEMPORARY, str(error))
        self._do(self._engine.connect_failed(slot, number, failure, self._now()))

    # Reading the records.

    async def _read_page(self, effect: e.ReadPage) -> None:
        router, limit = RouterNumber(effect.router), effect.limit
        wanted = partial(subscriptions.wanted, associated=ASSOCIATED[effect.which])
        try:
            found = await self._line.read(wanted, router, effect.after or b"", limit + 1)
        except StoreError as error:
            self._failed(error)
            self._do(self._engine.read_failed(USER, router, effect.request, self._now()))
            return
        rows = list(map(_row, found[:limit]))
        more = len(found) > limit
        self._do(self._engine.page_read(USER, router, effect.request, rows, more, self._now()))

    async def _read_tally(self, session: SessionKey) -> None:
        try:
            record = await self._line.read(routers.get, RouterNumber(session.slot.router))
        except StoreError as error:
            self._failed(error)
            failure = Failure(FailureKind.TEMPORARY, str(error))
            self._do(self._engine.service_failed(session, failure, self._now()))
        else:
            tally = NOTHING if record is None else record.tally
            self._do(self._engine.tally_read(session, tally, self._now()))

    # Subscribing.

    async def _send_subs(self, key: SessionKey, page: int, notifiers: Sequence[bytes]) -> None:
        number = RouterNumber(key.slot.router)
        try:
            found = await self._line.change(subscriptions.send, number, notifiers)
            session = self._sessions.get(key.number)
            if session is None:
                return  # its end was reported, and all is pending again
            missing = [notifier for notifier in notifiers if notifier not in found]
            if missing:
                self._do(self._engine.withdrawn(key, page, missing, self._now()))
            if found:
                await session.subscribe(
                    [
                        requests.subscribe_notifier(each.notifier, notifier_key(each.notifier_key))
                        for each in found.values()
                    ]
                )
        except Exception as error:
            self._step_failed(key, error)

    async def _send_service_sub(self, key: SessionKey, request: Request) -> None:
        session = self._sessions.get(key.number)
        if session is None:
            return
        try:
            await session.subscribe_service(request)
        except Exception as error:
            self._step_failed(key, error)

    def _step_failed(self, key: SessionKey, error: Exception) -> None:
        """A step failed by itself, not by its router: the engine tries it again."""
        self._failed(error)
        self._do(self._engine.step_failed(key, str(error), self._now()))

    # Called by sessions.

    def took(self, session: RouterSession, queue: bytes, message: r.Msg) -> None:
        self.strayed(session, "a message, though no queue is subscribed")

    def answered(self, session: RouterSession, answers: Sequence[Answer]) -> None:
        self._do(self._engine.answered(session.key, answers, self._now()))

    def service_answered(
        self, session: RouterSession, service: ServiceId, outcome: Outcome
    ) -> None:
        key, now = session.key, self._now()
        match outcome:
            case r.Soks(tally):
                self._do(self._engine.service_confirmed(key, service, tally, now))
            case HeadgateError():
                self._do(self._engine.service_failed(key, failure_of(outcome), now))

    def event_came(self, session: RouterSession, entity: bytes, event: r.Reply) -> None:
        match event:
            case r.NMsg(nonce, sealed):
                notice = RouterNotice(entity, int(self._clock()), nonce, sealed)
                self._took(RouterNumber(session.slot.router), notice)
            case r.SmpEnd() | r.Deld():
                waiting = self._ended.setdefault(session.number, {})
                is_first = not waiting
                waiting[entity] = event
                if is_first:
                    self._tasks.run(self._take_ended(session.key), "reading what ended")
            case r.Ends():
                # The entity of ENDS is the service, not a notifier.
                ended = self._engine.service_ended(session.key, ServiceId(entity), self._now())
                self._do(ended)
            case _:
                self.strayed(session, f"{event.tag.decode()} that nobody asked for")

    async def _take_ended(self, key: SessionKey) -> None:
        """Report subscriptions that ended, with what the records have of them."""
        ended, number = self._ended[key.number], RouterNumber(key.slot.router)
        while ended:
            wanted = list(ended)
            found = await self._line.read_surely(subscriptions.of_notifiers, number, wanted)
            for notifier in wanted:
                event, subscription = ended.pop(notifier), found.get(notifier)
                if subscription is None:
                    continue
                row = _row(subscription)
                if isinstance(event, r.Deld):
                    self._do(self._engine.deleted(USER, number, row, self._now()))
                else:
                    self._do(self._engine.ended(key, row, self._now()))
        del self._ended[key.number]

    def strayed(self, session: RouterSession, text: str) -> None:
        self._log(logging.WARNING, RouterNumber(session.slot.router), f"unexpected: {text}")

    def ended(self, session: RouterSession, reason: str) -> None:
        was_ours = self._sessions.forget(session.number) is session
        self._tasks.run(session.link.wait_closed(), "closing a link", to_end=True)
        if was_ours:
            self._do(self._engine.lost(session.key, self._now()))


def _row(subscription: NotifierSubscription) -> QueueRow:
    return QueueRow(subscription.notifier, subscription.id, subscription.is_associated)
