"""The notification server of a world. Its process comes and goes, its disk stays.

All of it is real but the listener: apps call what carries out their commands.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, cast

from headgate.agent.engine import effects as e
from headgate.agent.router_session import RouterSession
from headgate.core.model.ids import ServiceId
from headgate.crypto.proof import Verifier
from headgate.errors import StoreError
from headgate.ntf_server.apps.commands import AppCommands
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.pushing.periodic import push_periodically
from headgate.ntf_server.pushing.pusher import Pusher
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.routers.intake import NoticeIntake
from headgate.ntf_server.routers.shell import NotifierShell
from headgate.ntf_server.testing.app import Unanswered, WorldApp
from headgate.ntf_server.testing.disk import NtfDisk, NtfDiskRecords
from headgate.ntf_server.testing.provider import WorldProvider
from headgate.testing.agents.loop import Process
from headgate.wire.ntf.commands import NtfCommand
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.replies import NtfReply
from headgate.wire.ntf.transmissions import NtfRequest
from headgate.wire.smp.codec import replies as r

if TYPE_CHECKING:
    from headgate.ntf_server.testing.world import NtfWorld

EPOCH = 1_700_000_000.0
"""When the loop's time began, by the clock on the wall."""
SETTINGS = AppSettings(providers=frozenset({Provider.APNS_TEST}))


class Believer:
    """A verifier that takes the name of a key for its signature."""

    def entity(
        self, signed: bytes, authorization: bytes, keys: list[bytes], correlation: bytes
    ) -> bool:
        return authorization in keys


class WatchedShell(NotifierShell):
    """The shell of a server in a world that watches what it does about ENDS."""

    ended_services: dict[tuple[int, ServiceId], float]
    """When another server took which service at which router."""
    world: NtfWorld

    def event_came(self, session: RouterSession, entity: bytes, event: r.Reply) -> None:
        if isinstance(event, r.Ends):
            self.ended_services[session.slot.router, ServiceId(entity)] = self._now()
        super().event_came(session, entity, event)

    def _carry_out(self, effect: e.Effect) -> None:
        if isinstance(effect, e.SendServiceSub):
            ended = self.ended_services.get((effect.session.slot.router, effect.service))
            if ended is not None and self._now() < ended + self.settings.engine.end_seconds:
                self.world.broken("fight", "a service is taken back as soon as it was lost")
        super()._carry_out(effect)


class WorldServer:
    """A notification server, owned by a world."""

    def __init__(self, world: NtfWorld) -> None:
        self.world = world
        self.random = Random(f"{world.seed} server")
        self.disk = NtfDisk()
        self.disk.open()
        self.services = self.random.random() < 0.8
        self.process: Process | None = None
        self.commands: AppCommands | None = None
        self.pusher: Pusher | None = None
        self.intake: NoticeIntake | None = None
        self.shell: WatchedShell | None = None
        self.provider: WorldProvider | None = None
        self._is_leaving = asyncio.Event()
        self._main: asyncio.Task[None] | None = None

    # Its life.

    def start(self) -> None:
        if self.process is None:
            self.process = process = Process("server")
            self._is_leaving = asyncio.Event()
            self.world.trace.add("server", f"starts, services: {self.services}")
            self._main = process.run(self._run(process))

    async def kill(self) -> None:
        """End without warning."""
        process = self._gone()
        if process is not None:
            self.world.trace.add("server", "is killed")
            self.world.network.ended(process)
            await process.kill()
            self.world.stopped()

    async def leave(self) -> None:
        """End as a server does that is asked to."""
        if self.process is None:
            return
        self.world.trace.add("server", "closes")
        self._is_leaving.set()
        assert self._main is not None, "a process runs something"
        await asyncio.wait([self._main])
        process = self._gone()
        assert process is not None, "it was running"
        self.world.network.ended(process)
        await process.kill()
        self.world.stopped()

    def _gone(self) -> Process | None:
        process, self.process = self.process, None
        self.commands = self.pusher = self.intake = self.shell = self.provider = None
        return process

    async def _run(self, process: Process) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._open(process, stack)
                await self._is_leaving.wait()
                self.commands = None
        except Exception as error:
            if process.is_alive:
                self.world.broken("raised", f"the server: {error!r}", error)

    async def _open(self, process: Process, stack: AsyncExitStack) -> None:
        """As `NtfServer.open`, without a listener."""
        world = self.world
        records = NtfDiskRecords(self.disk, process, self.random, world.weather)
        await records.start()
        stack.push_async_callback(records.close)
        self.provider = WorldProvider(world, self.random)
        pusher = Pusher(records, {Provider.APNS_TEST: self.provider})
        stack.push_async_callback(pusher.close)
        intake = NoticeIntake(records, pusher.push_notices, self._failed)
        stack.push_async_callback(intake.close)
        shell = WatchedShell(
            records,
            self._took,
            self._failed,
            services=self.services,
            clock=self._clock,
            draw=self.random.randbytes,
            connect=partial(world.network.connect, process),
        )
        shell.world, shell.ended_services = world, {}
        stack.push_async_callback(shell.close)
        self.pusher, self.intake, self.shell = pusher, intake, shell
        await shell.start()
        pusher.start()
        self.commands = AppCommands(
            records, SETTINGS, pusher, shell, self._clock, self.random.randbytes
        )
        periodic = asyncio.create_task(push_periodically(records, pusher.push_check, self._clock))

        async def end() -> None:
            periodic.cancel()
            await asyncio.wait([periodic])

        stack.push_async_callback(end)

    def _clock(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            self.world.broken("raised", f"the server: {error!r}", error)

    def _took(self, router: RouterNumber, notice: RouterNotice) -> None:
        if self.intake is not None:
            self.world.received(notice)
            self.intake.take(router, notice)

    # What apps ask.

    async def ask(self, app: WorldApp, command: NtfCommand, entity: bytes) -> NtfReply:
        """The answer to an app, if there is one."""
        network = self.world.network
        await asyncio.sleep(network.arrival() - network.now)
        if self.commands is None or self.process is None or self._is_lost():
            raise Unanswered
        request = NtfRequest(b"", entity, command, app.verify_key, b"")
        verifier = cast("Verifier", Believer())
        task = self.process.run(self.commands.answer(request, verifier, app.name))
        await asyncio.wait([task])
        await asyncio.sleep(network.arrival() - network.now)
        if task.cancelled() or self._is_lost():
            raise Unanswered
        reply: NtfReply = task.result()
        return reply

    def _is_lost(self) -> bool:
        network = self.world.network
        return network.random.random() < network.weather.loss
