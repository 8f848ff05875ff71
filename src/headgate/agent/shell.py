"""The shell of an agent: carries out the decisions of its engine.

It owns an engine with its driver, its place in the records, and one session for each slot. Every
event becomes a call of the engine, and the returned effects are carried out in order. See
docs/design/agent.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headgate.agent.clock import AgentClock, SystemClock, jitter_seed
from headgate.agent.engine import effects as e
from headgate.agent.engine.answers import Failure, failure_of
from headgate.agent.engine.engine import SlotStatus
from headgate.agent.engine.slots import Phase
from headgate.agent.engine_driver import EngineDriver
from headgate.agent.engine_requests import EngineRequests
from headgate.agent.events import Deleted, End, SubscriptionEvent, Suspended
from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    SessionMode,
    SlotKey,
    UserId,
)
from headgate.agent.ports import MessagePort
from headgate.agent.record_line import RecordLine
from headgate.agent.records import Records, services, users
from headgate.agent.router_session import RouterSession
from headgate.agent.service_credentials import credentials_of
from headgate.agent.session_events import SessionEvents
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.slot_sessions import ConnectLink, SlotSessions
from headgate.agent.stored_effects import store
from headgate.agent.subscribe_calls import (
    NOT_NEEDED,
    UNKNOWN,
    SubscribeCall,
    SubscribeCalls,
    SubscribeResult,
    best_of,
    of_connections,
)
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import FailureKind
from headgate.client.smp.handler import LinkHandler
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.service import Service
from headgate.client.smp.waiting import Outcome
from headgate.core.model.ids import ServiceId
from headgate.errors import Closed, HeadgateError, NotConnected, StoreError
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.session import MESSAGING_SINCE

log = logging.getLogger("headgate.agent")

NOT_NOW: Final = Failure(FailureKind.TEMPORARY, "there is no session now; it is tried again")
NOT_WANTED: Final = Failure(FailureKind.PERMANENT, "the queue is gone")


class Shell:
    """Sessions with routers, for the users of one agent; implements `RouterPort` and `FetchPort`.

    Its owner adds routers and users, then subscribes. `announce` is called with every event, and
    `failed` with every internal error and every error of the disk; both return at once. All calls
    are made in one event loop. Every coroutine may be cancelled: what it began goes on, and nothing
    else changes (S004-26).
    """

    def __init__(
        self,
        records: Records,
        announce: Callable[[SubscriptionEvent], None],
        failed: Callable[[Exception], None],
        settings: ShellSettings | None = None,
        *,
        clock: AgentClock | None = None,
        connect: ConnectLink = Link.connect,
    ) -> None:
        """Tests pass a clock and links of their own."""
        self.settings = settings or ShellSettings()
        self._clock = clock or SystemClock()
        self._announce = announce
        self._failed = failed
        self._tasks = Tasks(failed)
        self._driver = EngineDriver(
            self.settings.engine, jitter_seed(self._clock), self._carry_out, failed
        )
        self._engine = self._driver.engine
        self._line = RecordLine(records, self.settings.retry_seconds, failed)
        self._calls = SubscribeCalls()
        self._events = SessionEvents(self._driver, self._line, self._tasks, self._calls)
        self._sessions = self._events.sessions = SlotSessions(
            self.settings,
            self._credentials,
            self._tasks,
            self._events,
            self._connected,
            self._connect_failed,
            connect,
        )
        self._requests = EngineRequests(self._driver, self._line, self._sessions, failed)
        self._modes: dict[UserId, SessionMode] = {}
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._asking = 0
        """Number of callers' requests under way."""
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def messages(self) -> MessagePort | None:
        """Set the receiver of messages, before anything is wanted."""
        return self._events.messages

    @messages.setter
    def messages(self, port: MessagePort) -> None:
        self._events.messages = port

    # Users and routers.

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        """Add a router, before any other call names it; or another address of a known one."""
        self._sessions.routers[router] = address
        self._engine.add_router(router, address)

    def address_of(self, router: RouterId) -> RouterAddress:
        return self._sessions.routers[router]

    def add_user(
        self, user: UserId, *, services: bool = False, mode: SessionMode = SessionMode.SHARED
    ) -> None:
        """Add a user, before any other call names it. Raises `ConfigError` if the two do not go
        together."""
        self._engine.add_user(user, services=services, mode=mode)
        self._modes[user] = mode

    async def load_services(self, user: UserId) -> None:
        """Load the services of a user from the records. Called once, at the start."""
        for router in await self._line.read(services.of_user, user):
            kept = await self._line.read(services.get, user, router)
            if kept is not None:
                self._driver.do(
                    self._engine.load_service(user, router, kept.service_id, kept.tally)
                )

    def set_services(self, user: UserId, on: bool) -> None:
        """Switch services of a user on or off. Raises `ConfigError` if sessions are not shared."""
        self._check_open()
        effects = self._engine.set_services(user, on, self._driver.now())
        self._line.write(users.switch_services, user, on=on)
        self._driver.do(effects)

    def set_mode(self, user: UserId, mode: SessionMode) -> None:
        """Change how queues of a user share sessions. Raises `ConfigError` if it has services."""
        self._check_open()
        effects = self._engine.set_mode(user, mode, self._driver.now())
        self._modes[user] = mode
        self._driver.do(effects)

    # Wanted queues.

    async def subscribe(
        self, connections: Iterable[ConnectionId]
    ) -> dict[ConnectionId, SubscribeResult]:
        """Subscribe connections and keep them subscribed. Return the result for each, once its
        router has answered or cannot be reached now; queues of one router do not wait for
        another's."""
        self._check_open()
        # These show what is cleared while the rows are read.
        stamps = {
            (user, router): self._engine.stamp(user, router)
            for user in self._modes
            for router in self._sessions.routers
        }
        wanted = list(dict.fromkeys(connections))
        # S000-52: exactly the queues in the records.
        known, found = await self._line.read(of_connections, wanted)
        self._check_open()
        call = SubscribeCall([queue for queues in found.values() for queue in queues])
        groups: dict[tuple[UserId, RouterId], list[QueueRow]] = {}
        for queue in call.queues.values():
            rows = groups.setdefault((queue.user, queue.router), [])
            rows.append(QueueRow(queue.recipient_id, queue.connection, queue.assoc))
        self._calls.add(call)
        try:
            for (user, router), rows in groups.items():
                # S000-59: each group goes its own way.
                as_of = stamps.get((user, router))
                self._driver.do(self._engine.want(user, router, rows, self._driver.now(), as_of))
            self._settle_absent(call)
            results = await call.wait()
        finally:
            self._calls.remove(call)
        return {
            # S000-53: without the network.
            each: (
                (best_of(found[each], results) if found[each] else NOT_NEEDED)
                if each in known
                else UNKNOWN
            )
            for each in wanted
        }

    def subscribe_all(self, user: UserId, router: RouterId) -> None:
        """Subscribe all queues of a user at a router and keep them subscribed."""
        self._check_open()
        self._driver.do(self._engine.want_all(user, router, self._driver.now()))

    def lock(self, user: UserId, router: RouterId, row: QueueRow) -> bool:
        """Begin to fetch a message; False if the queue is subscribed."""
        return self._engine.lock(user, router, row)

    def unlock(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        """End a fetch: the message is acknowledged, or there was none."""
        self._engine.unlock(user, router, row)

    async def connect_alone(self, router: RouterId, handler: LinkHandler) -> Link:
        """A link beside the sessions; see `FetchPort`."""
        self._check_open()
        return await self._sessions.connect_alone(router, handler)

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: bytes | None,
        *,
        subscribed: bool = True,
    ) -> None:
        """Note a queue made in this session, for the service that IDS names. It is in the records
        with its keys, not associated."""
        named = None if service is None else ServiceId(service)
        self._driver.do(
            self._engine.created(
                session, queue, connection, named, self._driver.now(), subscribed=subscribed
            )
        )

    def removed(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        """Note a queue that we deleted, or are about to."""
        self._driver.do(self._engine.remove(user, router, row, self._driver.now()))
        self._calls.settle((router, row.id), NOT_WANTED)

    # Requests.

    async def ask(
        self,
        user: UserId,
        router: RouterId,
        connection: ConnectionId | None,
        requests: Sequence[Request],
    ) -> tuple[SessionKey | None, list[Outcome]]:
        """The outcome of each request, and its session; see `RouterPort`. While the agent is
        suspended it waits."""
        # S000-71: no request begins.
        while not self._resumed.is_set():
            await self._resumed.wait()
        self._check_open()
        self._asking += 1
        try:
            try:
                slot = self._slot(user, router, connection)
                session = await self._sessions.need(
                    slot, lambda: self._driver.do(self._engine.need(slot, self._driver.now()))
                )
            except HeadgateError as error:
                return None, [error] * len(requests)
            return session.key, await session.ask(requests)
        finally:
            self._asking -= 1
            self._driver.stir()

    def _slot(self, user: UserId, router: RouterId, connection: ConnectionId | None) -> SlotKey:
        # S000-56, S000-57: requests go to the session in which the queues are subscribed.
        is_shared = self._modes.get(user, SessionMode.SHARED) is SessionMode.SHARED
        return SlotKey(user, router, None if is_shared else connection)

    # Settings of the application.

    def set_online(self, online: bool) -> None:
        """Set whether there is a network; without one nothing is tried."""
        self._check_open()
        self._driver.do(self._engine.set_online(online, self._driver.now()))

    async def suspend(self, seconds: float) -> None:
        """Let requests under way finish, for at most so long, and begin no more."""
        self._check_open()
        self._resumed.clear()
        self._driver.do(self._engine.suspend())
        try:
            async with asyncio.timeout(seconds):
                while (self._engine.is_busy() or self._asking) and not self._resumed.is_set():
                    await self._driver.change()
        except TimeoutError:
            self._driver.do(self._engine.suspend_now())

    def resume(self) -> None:
        self._check_open()
        self._resumed.set()
        self._driver.do(self._engine.resume(self._driver.now()))

    @property
    def is_suspended(self) -> bool:
        return not self._resumed.is_set()

    def status(self) -> list[SlotStatus]:
        return self._engine.status()

    # Effects.

    def _carry_out(self, effect: e.Effect) -> None:
        match effect:
            case e.Connect():
                self._sessions.connect(effect)
            case e.CloseSession(slot, number):
                self._sessions.close_one(slot, number)
            case e.ConnectRefused(slot, failure):
                error = self._sessions.error_of(slot) or NotConnected(failure.text)
                self._sessions.refuse(slot, error)
            case e.ReadPage():
                self._tasks.run(self._requests.read_page(effect), "reading queues")
            case e.ReadTally(session):
                self._tasks.run(self._requests.read_tally(session), "reading a tally")
            case e.SendSubs(session, queues):
                self._tasks.run(self._requests.send_subs(session, queues), "subscribing")
            case e.SendServiceSub():
                self._tasks.run(self._requests.send_service_sub(effect), "subscribing a service")
            case e.Settled(slot, outcomes):
                for outcome in outcomes:
                    self._calls.settle((slot.router, outcome.queue), outcome.failure)
            case e.Announce(event):
                if isinstance(event, End | Deleted):
                    self._calls.settle_connection(event.connection, NOT_WANTED)
                if not isinstance(event, Suspended):  # the agent announces it
                    self._announce(event)
            case e.Report(slot, text):
                log.error("%s: %s", self._sessions.routers[slot.router], text)
            case _:
                is_stored = store(self._line, effect)
                assert is_stored, "an effect that is known"

    # Sessions.

    async def _credentials(self, slot: SlotKey) -> Service:
        return await credentials_of(self._line, slot.user, slot.router, self._clock.now())

    def _connected(self, session: RouterSession) -> None:
        link = session.link
        service = None if link.service_id is None else ServiceId(link.service_id)
        # S001-23: a router that is too old was not shown the service.
        shown = link.version >= MESSAGING_SINCE
        self._driver.do(
            self._engine.connected(session.key, service, self._driver.now(), shown=shown)
        )

    def _connect_failed(self, slot: SlotKey, number: int, error: HeadgateError) -> None:
        failure = failure_of(error)
        if isinstance(error, StoreError):
            # The disk's error is not the router's, and it passes.
            self._failed(error)
            failure = Failure(FailureKind.TEMPORARY, str(error))
        self._driver.do(self._engine.connect_failed(slot, number, failure, self._driver.now()))
        self._calls.settle_slot(slot, failure)

    # Callers of `subscribe`.

    def _settle_absent(self, call: SubscribeCall) -> None:
        """Settle the queues whose slot is neither connecting nor open: they will not be answered
        soon."""
        phases = {status.slot: status.phase for status in self._engine.status()}
        for key, queue in call.queues.items():
            slot = self._slot(queue.user, queue.router, queue.connection)
            if phases.get(slot, Phase.EMPTY) is Phase.EMPTY:
                error = self._sessions.error_of(slot)
                call.settle(key, NOT_NOW if error is None else failure_of(error))

    # The end.

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the agent is closed; open it again")

    async def close(self) -> None:
        """End sessions and tasks, and finish the jobs of the records, which stay open."""
        if self._closing is None:
            self._is_closed = True
            self._driver.close()
            self._closing = asyncio.create_task(self._close(), name="agent: closing")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._sessions.close()
        self._resumed.set()
        await self._tasks.close()
        await self._line.close()
