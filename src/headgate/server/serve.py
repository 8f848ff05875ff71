"""Open everything, run until a signal, close in reverse.

The admin port opens first and closes last: ``/readyz`` then says that the router is starting,
or stopping, instead of refusing the connection. The ready file is written when everything
listens and removed when the router stops cleanly.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Never

from starlette.applications import Starlette

from headgate.core.facts import AdminRefused
from headgate.core.model.domain import Domain
from headgate.core.model.value import EMPTY
from headgate.errors import ConfigError, HeadgateError
from headgate.server import clock, log, notice_file, standby, systemd
from headgate.server.admin import tokens
from headgate.server.admin.app import make_app
from headgate.server.admin.guard import Names, Visitors
from headgate.server.admin.http_server import serving
from headgate.server.admin.metrics import Metrics
from headgate.server.admin.sinks import SinkAdmin
from headgate.server.admin.tokens import Token
from headgate.server.clock import Clock
from headgate.server.config import Config, load_config
from headgate.server.desk.desk import Desk
from headgate.server.desk.files import StaticFiles
from headgate.server.file_descriptors import raise_descriptors, sessions_possible
from headgate.server.net.listener import bind
from headgate.server.process import ready_file
from headgate.server.reloading import Reloading, counts
from headgate.server.router import Router
from headgate.server.service import Service, run_service
from headgate.server.state_directory import (
    is_durable,
    is_running,
    journal_settings,
    make_directory,
    open_store,
)
from headgate.server.status import domain_gauges
from headgate.server.wires.all_wires import WIRES
from headgate.server.wires.resp import RESP, RespServer
from headgate.server.wires.wire import Listening, Wire
from headgate.store.backends import masked
from headgate.wire.resp.hub import Hub

STOP_SECONDS = 15.0
"""From the signal to the end of the process, whatever hangs."""

CLOSE_SECONDS = 2.0
"""Of these, what is left for the rest when the store was given up."""

SAVE_SECONDS = 60
"""How often the time is written down, for the next start to compare with."""

WAIT_SECONDS = 0.5
"""How often a router that is not started yet looks whether it waits for another."""

STANDBY = "standby"
"""The stage of a router that waits for another to be gone."""

NO_LISTENER = "no [listen.*] section: no client can connect; see headgate config default"

GC_THRESHOLDS = (30_000, 1, 800)
"""How often Python looks for cycles. A publish makes four tuples and lists that are gone a moment
later; with the default of 700 the search for cycles among them took a third of the CPU, and with
10,000 messages of BlazingMQ clients that are under way still took a tenth. New objects are looked
at twice, sixty to ninety thousand at a time: for five milliseconds nobody is served. A million took
60."""

logger = logging.getLogger("headgate")


Play = Callable[[Router, Mapping[str, str]], Awaitable[bool]]
"""Something to do once the router serves, told its addresses; whether to go on serving after
it."""


def serve(
    config: Config,
    ready_file: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    domains: Mapping[str, Domain] = EMPTY,
    play: Play | None = None,
) -> None:
    """Run the router of a configuration, with more domains if given, until SIGTERM or SIGINT."""
    log.set_up(config.log.level, config.log.format)
    if config.workers.number > 1:
        if domains or play is not None:
            raise ConfigError("workers.count: set it to 1 for what is started this way")
        from headgate.server.workers.supervisor import supervise

        supervise(config, ready_file, environ)
        return
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    run_service(RouterService(config, ready_file, environ, domains, play))


class RouterService(Service):
    """A router that runs: opened part by part, ready, reloaded, and ended in the opposite order.

    `serve` makes it and `run_service` runs it. Everything that was opened is closed, however far
    the start came.
    """

    def __init__(
        self,
        config: Config,
        ready_file: Path | None,
        environ: Mapping[str, str],
        domains: Mapping[str, Domain],
        play: Play | None,
    ) -> None:
        super().__init__(STOP_SECONDS)
        self.reloading = Reloading(config, self._read, self._take_over)
        self._reload_task: asyncio.Task[None] | None = None
        self.is_draining = False
        """Whether no new sessions are taken."""
        self.play = play
        self.ready_file = ready_file
        self.environ = environ
        self.clock = Clock(clock.load(config.directory) if is_durable(config) else None)
        self.ownership = standby.ownership_of(config)
        """Of the store; None if no other router is to have it."""
        self._logged_rival = ""
        """The owner that it waits for, as it was last logged."""
        self.router = self._make_router(
            store=open_store(config, self.ownership),
            domains={**config.all_domains(), **domains},
            limits=replace(config.limits, sessions=sessions_possible(config)),
            journal=journal_settings(config),
            clock=self.clock,
            sure=lambda: self.clock.sure,
            lost=self._step_down,
        )
        self.listening: dict[str, Listening] = {}
        """The wires that the configuration has, by name."""
        self.addresses: dict[str, str] = {}
        """Where each of them, and the admin port, can be reached."""
        self.visitors = Visitors()
        self.metrics = Metrics()
        self.desk = Desk(
            self.router,
            self.metrics,
            stage=lambda: self.stage or ("draining" if self.is_draining else ""),
            started=lambda: self.reloading.started,
            latest=lambda: self.config,
            operating=self,
            listening=lambda: self.addresses,
        )
        self.lines = log.FactLog(config.limits.log_lines_per_second, time.monotonic)

    _make_router: Callable[..., Router] = Router

    @property
    def config(self) -> Config:
        """The configuration as it was last read."""
        return self.reloading.config

    def _open_wire(self, wire: Wire) -> Listening:
        """Listen for the clients of a wire that the configuration has."""
        return wire.open(self.router, self.config)

    def _listen_admin(self) -> socket.socket:
        """The socket of the admin port."""
        return bind("admin", self.config.admin.host, self.config.admin.port)

    async def _meet(self) -> None:
        """Wait for whoever else has to be ready: nobody, if the router is this process."""

    # What the admin port asks.

    def problems(self) -> list[str]:
        if self.stage == STANDBY:
            return [f"router: {STANDBY}: {self._waits_for()}"]
        if self.stage:
            return [f"router: {self.stage}"]
        draining = ["router: draining"] if self.is_draining else []
        return draining + self.router.problems()

    def measured(self) -> bytes:
        if self.stage:
            return self.metrics.exposition({})
        gauges = self.router.gauges() | self.desk.gauges()
        domains = domain_gauges(self.router.broker.shard)
        return self.metrics.exposition(gauges, domains, self._workers())

    def _workers(self) -> Mapping[int, Mapping[str, float]]:
        """The gauges of each worker, of a router that has several."""
        return EMPTY

    def status(self) -> Mapping[str, object]:
        if self.stage == STANDBY:
            return {"stage": self.stage, "waits_for": self._waits_for()}
        return {"stage": self.stage} if self.stage else self.router.tables()

    def _waits_for(self) -> str:
        """Of one that waits: who has the store, or why that is not known."""
        assert self.ownership is not None, "who waits knows whom for"
        return self.ownership.rival

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        config = self.config
        if self.ready_file is not None and not is_running(config):
            with suppress(OSError):  # writing it will fail too, and say why
                self.ready_file.unlink(missing_ok=True)  # of a router that was killed
        for warning in config.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        if not config.listen.each():
            logger.warning("configuration", extra={"fields": {"warning": NO_LISTENER}})
        if is_durable(config):
            make_directory(config)
        raise_descriptors(config)
        listening = stack.enter_context(self._listen_admin())
        host, port = listening.getsockname()[:2]
        sinks = SinkAdmin(self.router, self._staging(stack), self._hub)
        token = stack.enter_context(tokens.kept(config, lasts=is_durable(config)))
        app = self._admin_app(sinks, token)
        served = await stack.enter_async_context(serving(app, listening))
        self.router.watch(self.metrics.observe)
        self.router.watch(self.lines.observe)
        if not await self._unless_stopped(self._start_router(), stop):
            return
        if is_durable(config):
            stack.callback(self._save_clock)
            stack.callback(self._keep_mark)
            # Saved when the last turn is over, which the next line sees to.
            stack.callback(
                notice_file.save, self.router.broker.shard.exclusive.notifiers, config.directory
            )
            notice_file.restore(self.router.broker.shard.exclusive.notifiers, config.directory)
        stack.push_async_callback(self._stop_router)
        token_file = None if token.file is None else str(token.file)
        ready = {
            "admin": {"host": host, "port": port, "token_file": token_file},
            **self._open_wires(stack),
        }
        self.addresses = {"admin": f"http://{host}:{port}"}
        self.addresses |= {name: opened.url for name, opened in self.listening.items()}
        await stack.enter_async_context(sinks.opened())
        await stack.enter_async_context(self.desk.opened())
        if not await self._unless_stopped(self._met(), stop):
            return
        self.stage = ""
        if self.ready_file is not None:
            stack.enter_context(ready_file(self.ready_file, ready))
        self._announce_ready()
        if self.ownership is not None:
            self._notify("STATUS=serving")
        given = {name: opened.public_url for name, opened in self.listening.items()}
        fields = {**self.addresses, **given, "store": masked(config.store.url), **counts(config)}
        logger.info("serving", extra={"fields": fields})
        if self.play is None or await self._unless_stopped(
            self.play(self.router, self._shown(self.addresses, token)), stop
        ):
            await self._until(stop, served)

    def _admin_app(self, sinks: SinkAdmin, token: Token) -> Starlette:
        """The application of the admin port."""
        config = self.config
        journal = journal_settings(config)
        operator = config.admin.operator_token
        return make_app(
            problems=self.problems,
            status=self.status,
            metrics=self.measured,
            journal=None if journal is None else journal.directory,
            sinks=sinks,
            explain=self.router.explaining,
            rows=config.limits.status_rows,
            token=token.text,
            operator_token=None if operator is None else operator.reveal(),
            more=self.desk.routes(),
            page=StaticFiles(),
            refused=self._log_refused,
            names=Names(config.admin.host, config.admin.names),
            visitors=self.visitors,
        )

    def _open_wires(self, stack: AsyncExitStack) -> dict[str, dict[str, object]]:
        """Listen for all clients; what the ready file says of each wire."""
        ready: dict[str, dict[str, object]] = {}
        for wire in WIRES:
            if wire.listen(self.config) is not None:
                opened = self._open_wire(wire)
                stack.callback(opened.close)
                self.listening[wire.name] = opened
                host_port = dict(zip(("host", "port"), opened.address, strict=True))
                ready[wire.name] = {**host_port, **opened.details}
        return ready

    async def _met(self) -> bool:
        await self._meet()
        return True

    def _log_refused(self, peer: str) -> None:
        if not self.stage:
            self.router.announce([AdminRefused(self.router.clock(), peer)])

    async def _start_router(self) -> bool:
        """Start it, which may take as long as another router has the store."""
        starting = asyncio.ensure_future(self.router.start())
        try:
            while not starting.done():
                await asyncio.wait([starting], timeout=WAIT_SECONDS)
                if not starting.done():
                    self._stand_by()
        finally:
            starting.cancel()
        starting.result()
        self.stage = "starting"
        return True

    def _stand_by(self) -> None:
        """Another has the store, or it cannot be reached: say so, and keep to the machine's time
        meanwhile."""
        self.clock.follow()
        if self.stage == STANDBY:
            self.watchdog.feed(has_moved=True)  # waiting is all that it has to do
        if self.ownership is None or self.ownership.rival == self._logged_rival:
            return
        self._logged_rival, self.stage = self.ownership.rival, STANDBY
        self._notify(f"READY=1\nSTATUS=standby: {self._logged_rival}")
        fields = {"store": masked(self.config.store.url), "waits_for": self._logged_rival}
        logger.info("standby", extra={"fields": fields})

    def _step_down(self, why: str) -> None:
        """Another has the store, or may have it: drop everything that is remembered, and wait. No
        client is told anything; each finds its connection closed."""
        fields = {"why": why, "advice": "nothing has to be done: this router waits now"}
        logger.error("the store is another router's", extra={"fields": fields})
        self._keep_mark()
        if self.ready_file is not None:
            with suppress(OSError):
                self.ready_file.unlink(missing_ok=True)
        child = None
        if self.router.journal is not None and self.router.journal.process is not None:
            self.router.journal.kill()
            child = self.router.journal.process.pid
        logging.shutdown()
        if self.stage == "stopping":
            os._exit(1)
        self._start_anew(child)

    def _notify(self, state: str) -> None:
        """Tell systemd a state of the router."""
        systemd.notify(state)

    def _start_anew(self, child: int | None) -> Never:
        """Wait for the store again, with nothing remembered."""
        systemd.notify("STATUS=standby")
        standby.start_anew(() if child is None else (child,))

    def _keep_mark(self) -> None:
        if self.ownership is not None:
            standby.keep_mark(self.config, self.ownership.mark)

    def _shown(self, addresses: Mapping[str, str], token: Token) -> dict[str, str]:
        """The means to get into the admin port, for a play; they are not logged."""
        file = {} if token.file is None else {"token_file": str(token.file)}
        login = f"{addresses['admin']}/login?code={self.visitors.invite()}"
        return {**addresses, **file, "login": login}

    def _staging(self, stack: AsyncExitStack) -> Path:
        """Where sinks stage: in the state directory, or nowhere that lasts if nothing does."""
        if is_durable(self.config):
            return self.config.directory / "sinks"
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-sinks-")))

    def _hub(self) -> Hub | None:
        """Of Redis clients, whom rows for channels go through."""
        resp = self.listening.get(RESP.name)
        return resp.hub if isinstance(resp, RespServer) else None

    async def _until(self, stop: asyncio.Event, served: asyncio.Task[None]) -> None:
        if not self.clock.is_sure:
            self._log_doubt()
        for second in count(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stop.wait()
            if stop.is_set():
                return
            self.lines.flush()
            self.watchdog.feed(self.router.turns.has_moved())
            if self.clock.follow():
                self._log_doubt()
            if second % SAVE_SECONDS == 0 and is_durable(self.config):
                await asyncio.to_thread(self._save_clock)
                await asyncio.to_thread(self._keep_mark)
            if served.done():
                raise HeadgateError("the admin port failed; the log says why")

    def _save_clock(self) -> None:
        clock.save(self.config.directory, self.clock.sure)

    def _log_doubt(self) -> None:
        fields = {"machine": _iso(time.time()), "router": _iso(self.clock())}
        if self.clock.is_sure:
            logger.info("the clock is not doubted any more", extra={"fields": fields})
            return
        fields |= {
            "sure": _iso(self.clock.sure),
            "meanwhile": "nothing is removed because of its age",
            "advice": "set the machine's clock right; if it is, restart the router, and it takes"
            " over that time",
        }
        logger.warning("the machine's clock may be wrong", extra={"fields": fields})

    async def _stop_router(self) -> None:
        self.stage = "stopping"
        try:
            async with asyncio.timeout(STOP_SECONDS - CLOSE_SECONDS):
                await self.router.stop()
        except TimeoutError:
            self.gave_up = True
            self._log_given_up()
            self.router.abandon()

    def _log_given_up(self) -> None:
        fields = {
            "waited_for": self.router.waits_for or f"what comes with {self.stage}",
            "problems": self.router.problems(),
        }
        logger.error("ended without waiting any longer", extra={"fields": fields})

    def reload(self) -> None:
        """Take the domains and the log level of the file as it is now, one time after another."""
        self._reload_task = asyncio.create_task(self._reload(self._reload_task), name="reload")

    async def _reload(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        if self.stage:
            logger.warning("configuration not reloaded", extra={"fields": {"router": self.stage}})
            return
        with suppress(HeadgateError), systemd.reloading():  # an error is logged
            await self.reloading.reload()

    async def reload_now(self) -> tuple[list[str], list[str]]:
        return await self.reloading.reload()

    async def compare(self) -> tuple[list[str], list[str]]:
        return await self.reloading.compare()

    async def _read(self) -> Config:
        """A thousand domains take half a second to be read, in which others are served."""
        source = self.reloading.started.source
        return await asyncio.to_thread(load_config, source, self.environ)

    def _take_over(self, new: Config) -> None:
        """Use new certificates and domains. Certificates are read from the files that the router
        was started with; where one cannot be used, the old one stays."""
        for opened in self.listening.values():
            opened.reload()
        self.router.reconfigure(new.all_domains())

    def drain(self, is_draining: bool) -> None:
        """Take no new sessions and be not ready, or be as before."""
        self.is_draining = is_draining
        for opened in self.listening.values():
            opened.drain(is_draining)


def _iso(at: float) -> str:
    """A time as people write it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
