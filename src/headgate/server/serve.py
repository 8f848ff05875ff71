"""Open everything, run until a signal, close in reverse.

The admin port opens first and closes last: ``/readyz`` then says that the router is starting,
or stopping, instead of refusing the connection. The ready file is written when everything
listens and removed when the router stops cleanly.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import logging
import os
import resource
import signal
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import headgate.store
from headgate.core.domain import Domain
from headgate.core.values import EMPTY
from headgate.errors import ConfigError, HeadgateError
from headgate.server import admin, log, notices
from headgate.server.bmq import BmqServer
from headgate.server.config import Config, Listen, load_config
from headgate.server.identity import Identity
from headgate.server.journal import JournalSettings
from headgate.server.listener import bind
from headgate.server.metrics import Metrics
from headgate.server.poller import Loop
from headgate.server.resp import RespServer
from headgate.server.router import Router
from headgate.server.sinks import SinkDesk
from headgate.server.smp import SmpServer
from headgate.store.base import Store
from headgate.store.urls import masked
from headgate.wire.resp.hub import Hub

STOP_SECONDS = 10.0
"""How long the turn under way may take to end."""

DESCRIPTORS_RESERVED = 128
"""File descriptors for other things than sessions: the store, the admin port, the log."""

GC_THRESHOLDS = (50_000, 20, 50)
"""How often Python looks for cycles. A publish makes four tuples and lists that are gone a moment
later; with the default of 700 the search for cycles among them took a third of the CPU."""

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
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(_Service(config, ready_file, environ, domains, play).run())


def open_store(config: Config) -> Store:
    """The store of a configuration, not opened yet."""
    return headgate.store.open_store(config.store.url, config.directory)


def database(config: Config) -> Path | None:
    """The file of the store, if it has one."""
    kind, _, name = config.store.url.partition(":")
    return config.directory / name if kind == "sqlite" else None


def is_durable(config: Config) -> bool:
    """Whether anything outlives the router's process."""
    return config.store.url != "memory:"


def journal_settings(config: Config) -> JournalSettings | None:
    """Where and how the journal of a configuration is kept, if it is."""
    journal = config.journal
    if not journal.enabled or not is_durable(config):
        return None
    return JournalSettings(
        directory=config.directory / journal.directory,
        segment_bytes=journal.segment_size,
        keep_seconds=journal.keep,
        keep_bytes=journal.max_bytes,
    )


def is_running(config: Config) -> bool:
    """Whether a router holds the lock beside the database."""
    path = database(config)
    if path is None:
        return False
    try:
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def make_directory(config: Config) -> None:
    """Make the state directory, and see whether it can be written."""
    folder = config.directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"the state directory {folder} cannot be written: {error.strerror};"
            " change its rights, or set directory in the configuration"
        ) from error


def file_descriptors(config: Config) -> tuple[int, int]:
    """How many this process may have at most, and how many the sessions could need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    listens = config.listen != Listen()
    needed = DESCRIPTORS_RESERVED + (config.limits.sessions if listens else 0)
    return (needed if most == resource.RLIM_INFINITY else most), needed


class _Service:
    def __init__(
        self,
        config: Config,
        ready_file: Path | None,
        environ: Mapping[str, str],
        domains: Mapping[str, Domain],
        play: Play | None,
    ) -> None:
        self.config = config
        self.play = play
        self.ready_file = ready_file
        self.environ = environ
        self.router = Router(
            store=open_store(config),
            domains={**config.all_domains(), **domains},
            limits=replace(config.limits, sessions=sessions_possible(config)),
            journal=journal_settings(config),
        )
        self.resp: RespServer | None = None
        self.smp: SmpServer | None = None
        self.bmq: BmqServer | None = None
        self.stage = "starting"
        self.metrics = Metrics(self.gauges)
        self.lines = log.FactLog(config.limits.log_lines_per_second, time.monotonic)

    # What the admin port asks.

    def problems(self) -> list[str]:
        return [f"router: {self.stage}"] if self.stage else self.router.problems()

    def gauges(self) -> Mapping[str, float]:
        return {} if self.stage else self.router.gauges()

    def status(self) -> Mapping[str, object]:
        return {"stage": self.stage} if self.stage else self.router.status()

    async def run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        with _signals(loop, stop, self.reload):
            async with AsyncExitStack() as stack:
                await self._open(stack, stop)
                self.stage = "stopping"
                notify("STOPPING=1")
                logger.info("stopping")
        logger.info("stopped")

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        config = self.config
        if self.ready_file is not None and not is_running(config):
            with suppress(OSError):  # writing it will fail too, and say why
                self.ready_file.unlink(missing_ok=True)  # of a router that was killed
        for warning in config.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        if is_durable(config):
            make_directory(config)
        raise_descriptors(config)
        listening = stack.enter_context(bind("admin", config.admin.host, config.admin.port))
        sinks = SinkDesk(self.router, self._staging(stack), self._hub)
        token = config.admin.token
        journal = journal_settings(config)
        app = admin.make_app(
            problems=self.problems,
            status=self.status,
            metrics=self.metrics.exposition,
            journal=None if journal is None else journal.directory,
            sinks=sinks,
            explain=self.router.explain,
            rows=config.limits.status_rows,
            token=None if token is None else token.reveal(),
        )
        host, port = listening.getsockname()[:2]
        served = await stack.enter_async_context(admin.serving(app, listening))
        self.router.watch(self.metrics.observe)
        self.router.watch(self.lines.observe)
        await self.router.start()
        if is_durable(config):
            # Saved when the last turn is over, which the next line sees to.
            stack.callback(notices.save, self.router.broker.shard.watchers, config.directory)
            notices.restore(self.router.broker.shard.watchers, config.directory)
        stack.push_async_callback(self._stop_router)
        ready: dict[str, dict[str, object]] = {"admin": {"host": host, "port": port}}
        if config.listen.resp is not None:
            self.resp = RespServer(self.router, config.listen.resp, config.directory)
            stack.callback(self.resp.close)
            ready["resp"] = dict(zip(("host", "port"), self.resp.address, strict=True))
        if config.listen.smp is not None:
            identity = Identity.open(
                config.directory / config.smp.identity, socket.gethostname(), time.time()
            )
            self.smp = SmpServer(self.router, config.listen.smp, config.smp, identity)
            stack.callback(self.smp.close)
            ready["smp"] = dict(zip(("host", "port"), self.smp.address, strict=True))
            ready["smp"]["fingerprint"] = identity.fingerprint_text
        if config.listen.bmq is not None:
            self.bmq = BmqServer(self.router, config.listen.bmq, config.directory)
            stack.callback(self.bmq.close)
            ready["bmq"] = dict(zip(("host", "port"), self.bmq.address, strict=True))
        await stack.enter_async_context(sinks.opened())
        self.stage = ""
        if self.ready_file is not None:
            stack.enter_context(_ready(self.ready_file, ready))
        notify("READY=1")
        addresses = {"admin": f"http://{host}:{port}"}
        if self.resp is not None:
            addresses["resp"] = "{}:{}".format(*self.resp.address)
        if self.smp is not None:
            addresses["smp"] = self.smp.identity.address(*self.smp.address)
        if self.bmq is not None:
            addresses["bmq"] = "tcp://{}:{}".format(*self.bmq.address)
        told = {**addresses, "store": masked(config.store.url), **self._counts()}
        logger.info("serving", extra={"fields": told})
        if self.play is None or await self._played(self.play, addresses, stop):
            await self._until(stop, served)

    async def _played(self, play: Play, addresses: Mapping[str, str], stop: asyncio.Event) -> bool:
        """Let the play run, unless a signal comes first. Whether to go on serving."""
        playing = asyncio.ensure_future(play(self.router, addresses))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([playing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not playing.done():
            playing.cancel()
            with suppress(asyncio.CancelledError):
                await playing
            return False
        return playing.result()

    def _staging(self, stack: AsyncExitStack) -> Path:
        """Where sinks stage: in the state directory, or nowhere that lasts if nothing does."""
        if is_durable(self.config):
            return self.config.directory / "sinks"
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-sinks-")))

    def _hub(self) -> Hub | None:
        return self.resp.hub if self.resp is not None else None

    def _counts(self) -> dict[str, object]:
        return {"domains": len(self.config.domains), "directory": str(self.config.directory)}

    async def _until(self, stop: asyncio.Event, served: asyncio.Task[None]) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stop.wait()
            self.lines.flush()
            if served.done() and not stop.is_set():
                raise HeadgateError("the admin port failed; the log says why")

    async def _stop_router(self) -> None:
        self.stage = "stopping"
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.router.stop()
        except TimeoutError:
            logger.error("the turn under way did not end", extra={"fields": {"s": STOP_SECONDS}})

    def reload(self) -> None:
        """Take the domains and the log level of the file as it is now."""
        if self.stage:
            logger.warning("configuration not reloaded", extra={"fields": {"router": self.stage}})
            return
        old = self.config
        try:
            new = load_config(old.source, self.environ)
            self.router.reconfigure(new.all_domains())
        except HeadgateError as error:
            told = {"error": str(error), "kept": "the old one"}
            logger.error("configuration not reloaded", extra={"fields": told})
            return
        self.config = new
        logger.setLevel(new.log.level.upper())
        for warning in new.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        changed = {e.key for e in set(new.entries) ^ set(old.entries)}
        later = sorted(k for k in changed if not k.startswith(("domains.", "log.level")))
        later += sorted(f"domains.{name}" for name in old.domains.keys() - new.domains.keys())
        counts = self._counts() | ({"after_restart": " ".join(later)} if later else {})
        logger.info("configuration reloaded", extra={"fields": counts})


@contextmanager
def _signals(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event, reload: Callable[[], None]
) -> Iterator[None]:
    def end(number: signal.Signals) -> None:
        if stop.is_set():  # asked twice: do not wait any longer
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)


@contextmanager
def _ready(path: Path, content: object) -> Iterator[None]:
    """A file that is there, whole, while the router is ready."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(content) + "\n")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ConfigError(f"the ready file {path} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def sessions_possible(config: Config) -> int:
    """As many sessions as the limit and the file descriptors allow: one more gets an error that
    says so, instead of no answer."""
    most, needed = file_descriptors(config)
    fewer = max(1, most - DESCRIPTORS_RESERVED)
    return fewer if most < needed else config.limits.sessions


def raise_descriptors(config: Config) -> None:
    """Allow as many file descriptors as the sessions could need, or say that there are fewer."""
    most, needed = file_descriptors(config)
    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != resource.RLIM_INFINITY and now < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, needed), hard))
    if most < needed:
        told = {"sessions": sessions_possible(config), "file_descriptors": most}
        logger.info("fewer sessions than limits.sessions", extra={"fields": told})


def notify(state: str) -> None:
    """Tell systemd, if it started us."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(address)
        channel.sendall(state.encode())
