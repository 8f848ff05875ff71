"""``headgate ntf serve``: open everything, run until a signal, close in reverse.

As with the router, the admin port opens first and closes last, the ready file is there while apps
are served, and a stop that hangs is given up. A store that is away when the server starts is waited
for, and ``/readyz`` says so meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from headgate.errors import HeadgateError, StoreError
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.census import Census
from headgate.ntf_server.config import NtfConfig, load_ntf_config
from headgate.ntf_server.from_config import (
    address_of,
    host_name,
    journal_settings,
    lock_file,
    push_settings,
    web_push_settings,
)
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.journal import NtfJournalSettings
from headgate.ntf_server.metrics import NtfMetrics
from headgate.ntf_server.push_times import PushTimes, timed
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.ntf_server.pushing.providers import open_providers, web_push_public_key
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.ntf_server.status import tables
from headgate.server import clock, log, systemd
from headgate.server.admin import tokens
from headgate.server.admin.common import COMMON_PATHS, CommonPages, guarded
from headgate.server.admin.guard import Names, Tokens, Visitors
from headgate.server.admin.http_server import serving
from headgate.server.admin.login import Login
from headgate.server.clock import Clock
from headgate.server.file_descriptors import DESCRIPTORS_RESERVED, raise_limit
from headgate.server.identity import Identity
from headgate.server.net.listener import bind
from headgate.server.process import ready_file
from headgate.server.reloading import waits_for_restart
from headgate.server.service import Service, run_service
from headgate.server.state_directory import is_locked, make_directory
from headgate.server.store_health import StoreHealth
from headgate.store.backends import masked
from headgate.wire.ntf.devices import Provider

STOP_SECONDS: Final = 15.0
"""From the signal to the end of the process, whatever hangs."""

CLOSE_SECONDS: Final = 2.0
"""Of these, what is left for the rest when the server was given up."""

SAVE_SECONDS: Final = 60
"""How often the time is written down, for the next start to compare with."""

STATUS_ROWS: Final = 1000
"""Routers on one page of the status."""

logger = logging.getLogger("headgate")


def serve_ntf(
    config: NtfConfig, ready_file: Path | None, environ: Mapping[str, str] = os.environ
) -> None:
    """Run the notification server of a configuration until SIGTERM or SIGINT."""
    log.set_up(config.log.level, config.log.format)
    run_service(_NtfService(config, ready_file, environ))


class _NtfService(Service):
    """A server that runs: opened part by part, ready, reloaded, and ended in the opposite order."""

    def __init__(
        self, config: NtfConfig, ready_file: Path | None, environ: Mapping[str, str]
    ) -> None:
        super().__init__(STOP_SECONDS)
        self.config = config
        self.ready_file = ready_file
        self.environ = environ
        self.store_problem = ""
        """Why the store cannot be opened yet."""
        self.metrics = NtfMetrics()
        self.clock = Clock(clock.load(config.directory))
        """Of the journal: what is too old in it goes for good."""
        self.host = NtfHost()
        self.lines = log.FactLog(self.host.limits.log_lines_per_second, time.monotonic)
        self.health: StoreHealth | None = None
        self.server: NtfServer | None = None
        self._reloading: asyncio.Task[None] | None = None

    # What the admin port asks.

    def problems(self) -> list[str]:
        """The reasons why the server is not ready; none when it is."""
        if self.stage:
            waits = [f"store: {self.store_problem}"] if self.store_problem else []
            return [f"server: {self.stage}", *waits]
        assert self.server is not None, "a server that is not at any stage is open"
        assert self.health is not None, "a server that is open is looked after"
        found = [] if self.health.problem is None else [f"store: {self.health.problem}"]
        journal = self.server.journal
        if journal is not None and journal.problem is not None:
            found.append(f"journal: {journal.problem}")
        return found

    def status(self) -> Mapping[str, object]:
        if self.server is None or self.stage:
            return {"stage": self.stage}
        return tables(self.server)

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        config = self.config
        lock = lock_file(config)
        if self.ready_file is not None and (lock is None or not is_locked(lock)):
            with suppress(OSError):  # writing it will fail too, and say why
                self.ready_file.unlink(missing_ok=True)  # of a server that was killed
        for warning in config.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        make_directory(config)
        listening = stack.enter_context(bind("admin", config.admin.host, config.admin.port))
        token = stack.enter_context(tokens.kept(config, lasts=True))
        visitors, known = Visitors(), Tokens(token.text)
        login = Login(known, visitors, lambda peer: None)
        journal = journal_settings(config)
        folder = None if journal is None else journal.directory
        pages = CommonPages(
            self.problems, self.status, self.metrics.exposition, STATUS_ROWS, folder, login
        )
        names = Names(config.admin.host, config.admin.names)
        app = guarded(pages.routes(COMMON_PATHS), COMMON_PATHS, known, names, visitors)
        host, port = listening.getsockname()[:2]
        served = await stack.enter_async_context(serving(app, listening))
        self.host.watch(self.metrics.observe)
        self.host.watch(self.lines.observe)
        identity = await asyncio.to_thread(
            Identity.open, config.identity, host_name(config), time.time()
        )
        stack.callback(self._save_clock)
        server = await self._opened(identity, stack, stop)
        if server is None:
            return
        address = address_of(config, identity, server.address.port)
        self.stage = ""
        token_file = None if token.file is None else str(token.file)
        ready = {
            "admin": {"host": host, "port": port, "token_file": token_file},
            "ntf": {
                "host": server.address.hosts[0],
                "port": server.address.port,
                "fingerprint": identity.fingerprint_text,
                "address": address.text,
            },
        }
        if self.ready_file is not None:
            stack.enter_context(ready_file(self.ready_file, ready))
        self._announce_ready()
        fields = {
            "admin": f"http://{host}:{port}",
            "ntf": address.text,
            "store": masked(config.ntf.store),
            "directory": str(config.directory),
            "providers": " ".join(sorted(each.name.lower() for each in self.metrics.times)),
        }
        if config.ntf.webpush.enabled:
            fields["web_push_key"] = web_push_public_key(web_push_settings(config))
        logger.info("serving", extra={"fields": fields})
        await self._until(stop, served)

    async def _opened(
        self, identity: Identity, stack: AsyncExitStack, stop: asyncio.Event
    ) -> NtfServer | None:
        """The server, whose store is waited for; None if it is told to stop before."""
        config = self.config
        providers = open_providers(push_settings(config))
        self.metrics.times = {each: PushTimes() for each in providers}
        opening = NtfServer.open(
            self.host,
            identity,
            config.directory,
            self._settings(providers),
            timed(providers, self.metrics.times),
            journal=self._journal(),
            waits=self._wait_for_store,
        )
        server = await self._unless_stopped(opening, stop)
        if server is None:
            return None
        self.server = server
        stack.push_async_callback(self._close, server)
        self.health = StoreHealth(server.records.probe)
        census = Census(server.records)
        for work, name in ((self.health.run(), "store health"), (census.run(), "census")):
            task = asyncio.create_task(work, name=name)
            stack.callback(task.cancel)
        self.metrics.show(server, census)
        return server

    def _settings(self, providers: Mapping[Provider, PushProvider]) -> NtfSettings:
        ntf, listen = self.config.ntf, self.config.listen.ntf
        apps = AppSettings(providers=frozenset(providers))
        allowed = raise_limit(apps.connections + DESCRIPTORS_RESERVED)
        room = max(1, min(apps.connections, allowed - DESCRIPTORS_RESERVED))
        return NtfSettings(
            store=ntf.store,
            host=listen.host,
            port=listen.port,
            services=ntf.services,
            trust_tally=ntf.trust_tally,
            periodic=ntf.periodic,
            apps=replace(apps, connections=room),
        )

    def _journal(self) -> NtfJournalSettings | None:
        segments = journal_settings(self.config)
        if segments is None:
            return None
        return NtfJournalSettings(segments, self.clock, lambda: self.clock.sure)

    def _wait_for_store(self, error: StoreError) -> None:
        self.store_problem = str(error)

    async def _until(self, stop: asyncio.Event, served: asyncio.Task[None]) -> None:
        for second in count(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stop.wait()
            if stop.is_set():
                return
            self.lines.flush()
            self.watchdog.feed(has_moved=True)  # its loop goes round, which is what others wait for
            self.clock.follow()
            if second % SAVE_SECONDS == 0:
                await asyncio.to_thread(self._save_clock)
            if served.done():
                raise HeadgateError("the admin port failed; the log says why")

    def _save_clock(self) -> None:
        clock.save(self.config.directory, self.clock.sure)

    async def _close(self, server: NtfServer) -> None:
        self.stage = "stopping"
        try:
            async with asyncio.timeout(STOP_SECONDS - CLOSE_SECONDS):
                await server.close()
        except TimeoutError:
            self.gave_up = True
            self._log_given_up()
            if server.journal is not None:
                server.journal.sealer.kill()

    def _log_given_up(self) -> None:
        problem = None if self.health is None else self.health.problem
        fields = {"stage": self.stage, "store": problem or self.store_problem or "answers"}
        logger.error("ended without waiting any longer", extra={"fields": fields})

    # Reloading.

    def reload(self) -> None:
        """Take the certificates and the log level as they are now, one time after another."""
        self._reloading = asyncio.create_task(self._reload(self._reloading), name="reload")

    async def _reload(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        if self.stage or self.server is None:
            logger.warning("configuration not reloaded", extra={"fields": {"server": self.stage}})
            return
        with systemd.reloading():
            await self._take_over(self.server)

    async def _take_over(self, server: NtfServer) -> None:
        """Use what the configuration says now."""
        config = self.config
        try:
            new = await asyncio.to_thread(load_ntf_config, config.source, self.environ)
            identity = await asyncio.to_thread(Identity.load, config.identity, time.time())
            server.apps.reload(identity)
        except HeadgateError as error:
            fields = {"error": str(error), "kept": "the old one"}
            logger.error("configuration not reloaded", extra={"fields": fields})
            return
        logger.setLevel(new.log.level.upper())
        for warning in new.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        later = waits_for_restart(config, new)
        extra = {"after_restart": " ".join(later)} if later else {}
        logger.info("configuration reloaded", extra={"fields": extra})
