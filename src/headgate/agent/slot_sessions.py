"""The sessions of a shell, the attempts to open them, and the callers that wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from headgate.agent.engine.effects import Connect
from headgate.agent.model import RouterId, SlotKey
from headgate.agent.router_session import RouterSession, SessionReports
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import may_pass
from headgate.client.smp.handler import LinkHandler
from headgate.client.smp.link import Link
from headgate.client.smp.service import Service
from headgate.client.smp.timing import Timing
from headgate.errors import HeadgateError, NotConnected
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Role, Versions

CLOSED: Final = "the session was closed on this side; ask again"


class ConnectLink(Protocol):
    """Makes a link, as `Link.connect` does."""

    async def __call__(
        self,
        address: RouterAddress,
        handler: LinkHandler,
        *,
        service: Service | None,
        role: Role,
        versions: Versions,
        timing: Timing,
        slot: int,
    ) -> Link: ...


class SlotSessions:
    """The sessions of a shell: at most one session or one attempt for each slot, by number. Owned
    by a shell, which gets their `reports` and the ends of attempts (`connected`, `refused`), and
    provides the `credentials` of services."""

    def __init__(
        self,
        settings: ShellSettings,
        credentials: Callable[[SlotKey], Awaitable[Service]],
        tasks: Tasks,
        reports: SessionReports,
        connected: Callable[[RouterSession], None],
        refused: Callable[[SlotKey, int, HeadgateError], None],
        connect: ConnectLink,
    ) -> None:
        self.routers: dict[RouterId, RouterAddress] = {}
        self._settings = settings
        self._credentials = credentials
        self._tasks = tasks
        self._reports = reports
        self._connected = connected
        self._refused = refused
        self._connect_link = connect
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._turns: dict[RouterId, asyncio.Semaphore] = {}
        """The attempts that may connect with a router now."""
        self._sessions: dict[int, RouterSession] = {}
        self._open: dict[SlotKey, RouterSession] = {}
        self._needed: dict[SlotKey, list[asyncio.Future[RouterSession]]] = {}
        self._errors: dict[SlotKey, HeadgateError] = {}
        """The error of the last attempt of a slot."""

    def get(self, number: int) -> RouterSession | None:
        """The session of this number, if it is there."""
        return self._sessions.get(number)

    def error_of(self, slot: SlotKey) -> HeadgateError | None:
        """The error of the last attempt, unless there was a session after it."""
        return self._errors.get(slot)

    async def need(self, slot: SlotKey, ask_for: Callable[[], None]) -> RouterSession:
        """The session of a slot. If there is none, call `ask_for` and wait; raise the reason if
        there will be none. The attempt goes on if the caller is cancelled, and serves the next
        one."""
        session = self._open.get(slot)
        if session is not None:
            return session
        waiting: asyncio.Future[RouterSession] = asyncio.get_running_loop().create_future()
        self._needed.setdefault(slot, []).append(waiting)
        try:
            ask_for()
            return await waiting
        finally:
            found = self._needed.get(slot, [])
            if waiting in found:
                found.remove(waiting)
                if not found:
                    del self._needed[slot]

    def refuse(self, slot: SlotKey, error: HeadgateError) -> None:
        """Raise this error for all callers that wait for a session of this slot."""
        for waiting in self._needed.pop(slot, []):
            if not waiting.done():
                waiting.set_exception(error)

    def connect(self, effect: Connect) -> None:
        """Begin an attempt, in a task of its own."""
        number = effect.number
        task = self._tasks.run(self._connect(effect), f"connecting {number}")
        self._attempts[number] = task
        task.add_done_callback(lambda _: self._attempts.pop(number, None))

    def close_one(self, slot: SlotKey, number: int) -> None:
        """End a session or an attempt. The end of a session is reported, but not as ours."""
        attempt = self._attempts.pop(number, None)
        session = self.forget(number)
        if session is not None:
            session.link.close()
        elif attempt is not None:
            attempt.cancel()
            self.refuse(slot, NotConnected(CLOSED))

    def forget(self, number: int) -> RouterSession | None:
        """Forget the session of this number, which has ended."""
        session = self._sessions.pop(number, None)
        if session is not None and self._open.get(session.slot) is session:
            del self._open[session.slot]
        return session

    def close(self) -> None:
        """End all sessions and attempts; waiting callers get `NotConnected`."""
        for attempt in self._attempts.values():
            attempt.cancel()
        for slot in list(self._needed):
            self.refuse(slot, NotConnected("the agent was closed"))
        for number in list(self._sessions):
            session = self.forget(number)
            assert session is not None, "a session that was listed"
            session.link.close()

    async def _connect(self, effect: Connect) -> None:
        slot, number = effect.slot, effect.number
        session = RouterSession(self._reports, slot, number)
        turn = self._turns.get(slot.router)
        if turn is None:
            turn = self._turns[slot.router] = asyncio.Semaphore(self._settings.connecting_max)
        async with turn:
            link = await self._link(effect, session)
        if link is not None:
            session.open(link)
            self._succeed(session)

    async def connect_alone(self, router: RouterId, handler: LinkHandler) -> Link:
        """A link outside of the sessions, which does not affect them."""
        return await self._connect_link(
            self.routers[router],
            handler,
            service=None,
            role=self._settings.engine.role,
            versions=self._settings.versions,
            timing=self._settings.timing,
            slot=0,
        )

    async def _link(self, effect: Connect, session: RouterSession) -> Link | None:
        """The link of a session; None if it cannot be made, which is reported."""
        slot, number = effect.slot, effect.number
        try:
            service = None
            if effect.with_service:
                service = await self._credentials(slot)
            return await self._connect_link(
                self.routers[slot.router],
                session,
                service=service,
                role=self._settings.engine.role,
                versions=self._settings.versions,
                timing=self._settings.timing,
                slot=number,
            )
        except HeadgateError as error:
            self._fail(slot, number, error)
            return None
        except Exception as error:
            # An internal error must not leave the slot waiting for ever.
            self._fail(slot, number, NotConnected(f"connecting failed: {error!r}"))
            raise

    def _fail(self, slot: SlotKey, number: int, error: HeadgateError) -> None:
        # A waiting caller has requested nothing yet. An error of the disk, or a service that the
        # router refuses, is no answer to a message that was to be sent.
        shown = error if may_pass(error) else NotConnected(f"there is no session: {error}")
        self._errors[slot] = shown
        self._refused(slot, number, error)
        self.refuse(slot, shown)

    def _succeed(self, session: RouterSession) -> None:
        slot = session.slot
        self._sessions[session.number] = session
        self._open[slot] = session
        self._errors.pop(slot, None)
        # The engine is called first; no command is sent before it knows the session.
        self._connected(session)
        if self._open.get(slot) is session:
            for waiting in self._needed.pop(slot, []):
                if not waiting.done():
                    waiting.set_result(session)
