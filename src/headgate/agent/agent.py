"""The agent as an application uses it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from headgate.agent.agent_options import (
    AgentOptions,
    SessionWord,
    options_of,
    parsed_router,
    session_mode,
)
from headgate.agent.connections.calls import ConnectionCalls
from headgate.agent.connections.connections import Connections, openers, sealers
from headgate.agent.connections.parts import find_kem
from headgate.agent.event_sorting import EventSorting
from headgate.agent.event_stream import AgentEvent
from headgate.agent.fetching import Fetching
from headgate.agent.model import ConnectionId, RouterId, SessionMode, UserId
from headgate.agent.notify_calls import NotifyCalls
from headgate.agent.notifying import Notifying
from headgate.agent.operations import Operations
from headgate.agent.queue_calls import QueueCalls
from headgate.agent.queues import Queues
from headgate.agent.receiving import Receiving
from headgate.agent.records import Database, Records, routers, users
from headgate.agent.router_status import RouterStatus
from headgate.agent.sending import Sending
from headgate.agent.shell import Shell
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.subscribe_calls import SubscribeResult
from headgate.agent.upkeep import Upkeep
from headgate.errors import Closed, ConfigError
from headgate.wire.smp.codec.router_address import RouterAddress

log = logging.getLogger("headgate.agent")


class Opening:
    """An agent that is being opened: await it, or use it as a context manager."""

    def __init__(self, open_records: Callable[[], Awaitable[Records]], options: AgentOptions):
        self._open_records = open_records
        self._options = options
        self._agent: Agent | None = None

    def __await__(self) -> Generator[object, None, Agent]:
        return self._open().__await__()

    async def __aenter__(self) -> Agent:
        self._agent = await self._open()
        return self._agent

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._agent is not None, "a context that was entered"
        await self._agent.close()

    async def _open(self) -> Agent:
        records = await self._open_records()
        try:
            agent = Agent(records, self._options)
        except BaseException:
            await records.close()
            raise
        try:
            await agent._start()
        except BaseException:
            await agent.close()
            raise
        return agent


class Agent(QueueCalls, ConnectionCalls, NotifyCalls):
    """A client of SMP routers that remembers, reconnects and subscribes again.

    Open it with a file, or in memory; it belongs to one event loop, and the file to one agent at a
    time. The connections in the file are subscribed at once, unless the agent is opened without
    that, and `events()` reports the progress: no call waits for a router. Every coroutine may be
    cancelled. `close` waits for the file, not for the network.
    """

    def __init__(self, records: Records, options: AgentOptions) -> None:
        self.user: UserId = 0
        """The user of all calls that name none."""
        self._options = options
        self._records = records
        self._on_error = options.on_error
        self._events = EventSorting(options.settings.retry_seconds, self._failed)
        clock = options.clock
        self._shell = Shell(
            records,
            self._events.put,
            self._failed,
            options.settings,
            clock=clock,
            connect=options.connect,
        )
        self._operations = Operations()
        kem = find_kem()
        self._receiving = Receiving(
            records,
            self._shell,
            self._events.put,
            openers=openers(clock, kem, options.draw),
            operations=self._operations,
            clock=clock,
        )
        self._shell.messages = self._receiving
        self._sending = Sending(
            records,
            self._shell,
            self._events.put,
            sealers=sealers(),
            operations=self._operations,
            clock=clock,
            draw=options.draw,
        )
        self._queues = Queues(
            records,
            self._shell,
            self._sending,
            drop=self._receiving.drop,
            subscribe=options.subscribe,
            operations=self._operations,
            clock=clock,
            draw=options.draw,
        )
        self._connections = Connections(
            records,
            self._shell,
            self._receiving,
            self._sending,
            self._events.put,
            messages=self._events.messages,
            kem=kem,
            operations=self._operations,
            clock=clock,
            draw=options.draw,
        )
        self._fetching = Fetching(
            records, self._shell, self._events.put, operations=self._operations, clock=clock
        )
        self._notifying = Notifying(
            records,
            self._shell,
            options.settings.timing,
            operations=self._operations,
            draw=options.draw,
        )
        self._upkeep = Upkeep(records, operations=self._operations, clock=clock)
        self._router_ids: dict[RouterAddress, RouterId] = {}
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        routers: Iterable[str | RouterAddress] = (),
        services: bool = False,
        session: SessionWord = "shared",
        subscribe: bool = True,
        repair: bool = True,
        timeout: float = 30.0,
        on_error: Callable[[Exception], None] | None = None,
        settings: ShellSettings | None = None,
    ) -> Opening:
        """Open the agent of a file, or make one.

        `routers` have new queues, unless a call names a router. `services`: subscribe all queues of
        a router with one request. `session`: one session for each router, or one for each
        connection there. `subscribe`: subscribe the connections in the file, and new ones; a
        program that only sends or fetches does without, since messages that it gets and does not
        acknowledge count as shown. `repair`: after a drift, subscribe the queues of a service once
        more. `timeout`: seconds that an answer may take. `on_error` is called with internal errors,
        which are logged and tried again. `settings` have all numbers, and replace `repair` and
        `timeout`.

        Raises `StoreError` if another agent has the file, and `ConfigError` if services are
        combined with a session for each connection.
        """
        options = options_of(routers, services, session, repair, timeout, on_error, settings)
        options = replace(options, subscribe=subscribe)
        return Opening(lambda: Records.open(Path(path)), options)

    @classmethod
    def memory(
        cls,
        *,
        routers: Iterable[str | RouterAddress] = (),
        services: bool = False,
        session: SessionWord = "shared",
        repair: bool = True,
        timeout: float = 30.0,
        on_error: Callable[[Exception], None] | None = None,
        settings: ShellSettings | None = None,
    ) -> Opening:
        """An agent without a file, which forgets everything when it is closed."""
        options = options_of(routers, services, session, repair, timeout, on_error, settings)
        return Opening(Records.memory, options)

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _start(self) -> None:
        """Load the records, and begin to subscribe."""
        options = self._options
        known, known_users, self.user = await self._records.write(
            _prepare, options.routers, services=options.services
        )
        for router in known:
            self._add_router(router.id, router.address)
        for user in known_users:
            # Services and sessions are settings of this run, for its user.
            if user.id == self.user:
                on, mode = options.services, options.mode
            else:
                on, mode = user.services, SessionMode.SHARED
            self._shell.add_user(user.id, services=on, mode=mode)
        for user in known_users:
            await self._shell.load_services(user.id)
        # Unread events come before those that the routers send again.
        await self._connections.resume()
        if options.subscribe:
            await self.subscribe_all()
        await self._sending.wake_all()
        await self._queues.wake_all()
        self._upkeep.start()

    # Events.

    def events(self) -> AsyncIterator[AgentEvent]:
        """All events, in order, except messages that are read by `Connection.messages`. The
        iteration may be left and resumed: each event is given once, and none is lost. It ends when
        the agent is closed."""
        return self._events.events

    # Users.

    async def add_user(self, *, services: bool = False) -> UserId:
        """Add a user with sessions and services of its own; calls that name no user are for the
        first. It is still there when the file is opened again."""
        self._check_open()
        adding = self._records.write(users.add, services=services)
        adding.add_done_callback(lambda done: self._user_added(done, services))
        # Even if the caller is cancelled here, the user is added.
        return await asyncio.shield(adding)

    def _user_added(self, done: asyncio.Future[UserId], services: bool) -> None:
        if not done.cancelled() and done.exception() is None:
            # S004-22: with services from the beginning, if requested.
            self._shell.add_user(done.result(), services=services)

    # Subscribing.

    async def subscribe(
        self, connections: Iterable[ConnectionId]
    ) -> dict[ConnectionId, SubscribeResult]:
        """Subscribe connections, and keep them subscribed; return the result for each. A pending
        one is tried again automatically."""
        self._check_open()
        wanted = list(connections)
        # S000-54: waiting messages and commands go on, too.
        await self._sending.wake(wanted)
        return await self._shell.subscribe(wanted)

    async def subscribe_all(self, first: UserId | None = None) -> None:
        """Subscribe all connections in the records, those of this user first. Returns when it has
        begun."""
        self._check_open()
        everyone = [user.id for user in await self._records.read(users.everyone)]
        everyone.sort(key=lambda user: user != (self.user if first is None else first))
        for user in everyone:
            for router in await self._records.read(routers.of_user, user):
                self._shell.subscribe_all(user, router)

    # Settings of the application.

    def set_online(self, online: bool) -> None:
        """Set whether there is a network. Turning it on tries everything at once."""
        self._shell.set_online(online)

    def set_services(self, on: bool, user: UserId | None = None) -> None:
        """Switch services on or off. No message is lost; queues are subscribed again."""
        self._shell.set_services(self.user if user is None else user, on)

    def set_session(self, session: SessionWord, user: UserId | None = None) -> None:
        """Use one session for each router, or for each connection. Queues are subscribed again."""
        self._shell.set_mode(self.user if user is None else user, session_mode(session))

    async def suspend(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109
        """Let operations under way finish, for at most so many seconds. From now on nothing is
        shown, acknowledged or begun; the last event is `Suspended`."""
        self._check_open()
        # S000-71: events not shown yet stay until the agent is resumed.
        self._events.hold()
        until = asyncio.get_running_loop().time() + timeout
        try:
            # These ask routers, so they finish first.
            async with asyncio.timeout_at(until):
                await self._operations.suspend()
        except TimeoutError:
            pass
        if not self._operations.is_suspended:
            return  # it was resumed meanwhile
        await self._shell.suspend(max(0.0, until - asyncio.get_running_loop().time()))
        if self._shell.is_suspended:
            self._events.suspended()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._shell.resume()
        self._operations.resume()
        self._events.release()

    # State.

    @property
    def path(self) -> Path:
        return self._records.path

    def status(self) -> list[RouterStatus]:
        """The state of each router for the agent, now."""
        return [
            RouterStatus(
                slot.slot.user,
                self._shell.address_of(slot.slot.router),
                slot.slot.connection,
                slot.phase,
                slot.pending,
                slot.active,
                slot.is_reading,
                slot.service,
                slot.tally,
            )
            for slot in self._shell.status()
        ]

    # The end.

    async def close(self) -> None:
        """Close all sessions and the file. Earlier calls are stored."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="agent: end")
        # Even if the caller is cancelled, the agent closes.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            self._operations.resume()
            await self._connections.close()
            await self._receiving.close()
            await self._sending.close()
            await self._queues.close()
            await self._fetching.close()
            await self._upkeep.close()
            await self._shell.close()
        finally:
            self._events.close()
            await self._records.close()

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Closed("the agent is closed; open it again")

    def _add_router(self, router: RouterId, address: RouterAddress) -> None:
        self._router_ids[address] = router
        self._shell.add_router(router, address)

    async def _router(self, address: str | RouterAddress) -> RouterId:
        """The number of a router, which is stored if it is new."""
        parsed = parsed_router(address)
        if parsed not in self._router_ids:
            self._add_router(await self._records.write(routers.keep, parsed), parsed)
        return self._router_ids[parsed]

    async def _router_for(self, router: str | RouterAddress | None, what: str) -> RouterAddress:
        if router is None:
            if not self._options.routers:
                raise ConfigError(f"name the router at which to make {what}")
            router = self._options.routers[0]
        parsed = parsed_router(router)
        await self._router(parsed)
        return parsed

    def _failed(self, error: Exception) -> None:
        """Report an internal error, which is tried again."""
        log.error("the agent goes on after a failure", exc_info=error)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                log.exception("on_error failed")


def _prepare(
    tables: Database, addresses: Sequence[RouterAddress], *, services: bool
) -> tuple[list[routers.Router], list[users.User], UserId]:
    """Store routers, and make the first user. Returns all routers, all users, and the first of
    them."""
    for address in addresses:
        routers.keep(tables, address)
    everyone = users.everyone(tables)
    if not everyone:
        users.add(tables, services=services)
    elif everyone[0].services != services:
        users.switch_services(tables, everyone[0].id, on=services)
    everyone = users.everyone(tables)
    return routers.everything(tables), everyone, everyone[0].id
