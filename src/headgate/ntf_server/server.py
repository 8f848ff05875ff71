"""A notification server: records, apps, routers and providers, opened and closed together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from headgate.agent.shell_settings import ShellSettings
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.ntf_server.apps.commands import AppCommands
from headgate.ntf_server.apps.server import AppServer
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.journal import NtfJournal, NtfJournalSettings
from headgate.ntf_server.pushing.periodic import LOOK_SECONDS, push_periodically
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.ntf_server.pushing.pusher import Pusher
from headgate.ntf_server.records import Records
from headgate.ntf_server.records.places import source_of
from headgate.ntf_server.routers.intake import NoticeIntake
from headgate.ntf_server.routers.shell import NOTIFIER_SHELL, NotifierShell
from headgate.server.identity import Identity
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Provider

log = logging.getLogger("headgate.ntf")

OPEN_SECONDS: Final = 2.0
"""After which a store that cannot be opened is tried again."""


@value
class NtfSettings:
    """Settings of a server."""

    store: str = "sqlite:ntf.db"
    """Where the records are; a file is relative to the folder."""
    host: str = "127.0.0.1"
    port: int = 443
    services: bool = True
    """Subscribe as a service, with a certificate for each router."""
    trust_tally: bool = False
    """Leave subscriptions to the service where the router's tally equals ours."""
    periodic: bool = True
    apps: AppSettings = AppSettings()
    shell: ShellSettings = NOTIFIER_SHELL
    open_seconds: float = OPEN_SECONDS
    look_seconds: float = LOOK_SECONDS


class NtfServer:
    """A server that runs, until it is closed. Its records outlive it."""

    def __init__(
        self,
        records: Records,
        apps: AppServer,
        notifiers: NotifierShell,
        intake: NoticeIntake,
        pusher: Pusher,
        journal: NtfJournal | None,
        closing: AsyncExitStack,
    ) -> None:
        self.records = records
        self.apps = apps
        self.notifiers = notifiers
        self.intake = intake
        self.pusher = pusher
        self.journal = journal
        self._closing = closing

    @classmethod
    async def open(
        cls,
        host: NtfHost,
        identity: Identity,
        folder: Path,
        settings: NtfSettings,
        providers: Mapping[Provider, PushProvider],
        *,
        journal: NtfJournalSettings | None = None,
        waits: Callable[[StoreError], None] = lambda error: None,
    ) -> NtfServer:
        """Open the records, waiting for them if need be, then subscribe at all routers, then let
        apps in. It owns the providers from here on. `waits` is called with each error of a store
        that cannot be opened yet. Raises `ConfigError` for what waiting does not mend."""
        async with AsyncExitStack() as stack:
            unused = await stack.enter_async_context(AsyncExitStack())
            for provider in providers.values():
                unused.push_async_callback(provider.close)
            records = await open_records(settings, folder, waits)
            stack.push_async_callback(records.close)
            kept = None
            if journal is not None:
                source = source_of(settings.store, folder)
                kept = await NtfJournal.open(records, source, journal, _failed)
                stack.push_async_callback(kept.close)
            pusher = Pusher(records, providers)
            unused.pop_all()  # it closes them
            stack.push_async_callback(pusher.close)
            intake = NoticeIntake(records, pusher.push_notices, _failed)
            stack.push_async_callback(intake.close)
            notifiers = NotifierShell(
                records,
                intake.take,
                _failed,
                services=settings.services,
                trust_tally=settings.trust_tally,
                settings=settings.shell,
            )
            stack.push_async_callback(notifiers.close)
            await notifiers.start()
            pusher.start()
            commands = AppCommands(records, settings.apps, pusher, notifiers, host.clock)
            address = settings.host, settings.port
            apps = AppServer(host, commands, identity, settings.apps, address)
            stack.push_async_callback(apps.close)
            if settings.periodic:
                _keep_running(stack, records, pusher, host.clock, settings.look_seconds)
            if kept is not None:
                kept.count(intake, pusher, notifiers)
            return cls(records, apps, notifiers, intake, pusher, kept, stack.pop_all())

    @property
    def address(self) -> NtfAddress:
        return self.apps.address

    async def close(self) -> None:
        """Let nobody in, end the sessions with routers, and store what came."""
        await self._closing.aclose()

    async def __aenter__(self) -> NtfServer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def open_records(
    settings: NtfSettings, folder: Path, waits: Callable[[StoreError], None]
) -> Records:
    """The records. A store that cannot be opened may be there in a moment: it is waited for."""
    while True:
        try:
            return await Records.open(settings.store, folder)
        except StoreError as error:
            waits(error)
            fields = {"error": str(error), "again_in": settings.open_seconds}
            log.error("the store cannot be opened", extra={"fields": fields})
            await asyncio.sleep(settings.open_seconds)


def _keep_running(
    stack: AsyncExitStack,
    records: Records,
    pusher: Pusher,
    clock: Callable[[], float],
    seconds: float,
) -> None:
    work = push_periodically(records, pusher.push_check, clock, seconds)
    task = asyncio.create_task(work, name="periodic pushes")

    async def end() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(end)


def _failed(error: Exception) -> None:
    """A fault of our own, or of the disk: work goes on."""
    log.error("something failed", exc_info=error)
