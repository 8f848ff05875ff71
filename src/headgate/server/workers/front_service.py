"""A worker other than worker 0: clients, and links to the others."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TypeAlias, cast

from headgate.core.model.ids import SessionId
from headgate.errors import HeadgateError
from headgate.server.clock import Clock
from headgate.server.config import Config, load_config
from headgate.server.config.sections import ListenResp
from headgate.server.file_descriptors import raise_descriptors, sessions_possible
from headgate.server.net.endpoint import Listen
from headgate.server.router_port import RouterPort
from headgate.server.serve import STOP_SECONDS
from headgate.server.service import Service
from headgate.server.wires.all_wires import WIRES
from headgate.server.wires.resp import RESP, RespServer
from headgate.server.wires.wire import Listening
from headgate.server.workers.lanes import FrontLane
from headgate.server.workers.membership import IDS_PER_START, Membership, WorkerRouter
from headgate.server.workers.remote_router import RemoteRouter
from headgate.server.workers.reports import Reporting
from headgate.server.workers.shares import share_of
from headgate.store.memory import MemoryStore

Place: TypeAlias = tuple[socket.socket, int, int, int]
"""The control socket, the number of the worker, the number of all workers, and its start."""

OpenRemote: TypeAlias = Callable[[RouterPort, Config, Listen], Listening]
"""Opens the listener of a durable wire, which does not need channels."""

REPORT_SECONDS = 1.0

logger = logging.getLogger("headgate")


class FrontService(Service):
    """Serves the clients that the supervisor hands over. It stores nothing: keys, users and queues
    are worker 0's. For SMP and BlazingMQ clients it does the work that needs no shard: TLS, blocks,
    signatures, parsing."""

    def __init__(self, config: Config, environ: Mapping[str, str], place: Place) -> None:
        super().__init__(STOP_SECONDS)
        self._place = place
        self._environ = environ
        self._config = share_of(config, place[2])
        self._clock = Clock(None)
        self._domains = self._config.all_domains()
        """The present domains: a reload replaces them."""
        self._servers: list[Listening] = []

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        config = self._config
        raise_descriptors(config)
        membership = Membership(*self._place)
        stack.callback(membership.close)
        _, number, workers, start = self._place
        router = WorkerRouter(
            store=MemoryStore(),
            domains={},
            limits=replace(config.limits, sessions=sessions_possible(config)),
            clock=self._clock,
        )
        await router.start()
        stack.push_async_callback(router.stop)
        router.broker.sessions.spread(number + workers * IDS_PER_START * (start - 1), workers)
        await membership.welcomed()
        if not await self._unless_stopped(membership.placed(), stop):
            return
        remote = RemoteRouter(router, self._domains, workers, self._end)
        server = channel_server(router, config, membership)
        self._servers.append(server)
        stack.callback(self._close)
        stack.callback(membership.stop)
        router.remote = remote
        server.hub.know_domains(self._domains)
        membership.attach(router, server, FrontLane(remote))
        assert membership.relay is not None, "attached"
        membership.every(REPORT_SECONDS, Reporting(router, membership.relay).report)
        opening = asyncio.create_task(self._open_durable(remote, membership))
        stack.callback(opening.cancel)
        self.stage = ""
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stop.wait()
            if opening.done():
                opening.result()
            self._clock.follow()

    async def _open_durable(self, remote: RemoteRouter, membership: Membership) -> None:
        """Open the durable wires. By then worker 0 has made what must exist only once, as an
        identity."""
        await membership.linked()
        for wire in WIRES:
            if wire is not RESP and wire.listen(self._config) is not None:
                open = cast("OpenRemote", wire.open)
                self._servers.append(open(remote, self._config, membership.listen))
        await membership.ready()

    def _close(self) -> None:
        for server in self._servers:
            server.close()

    def _end(self, session: SessionId, reason: str) -> None:
        for server in self._servers:
            server.end(session, reason)

    def reload(self) -> None:
        """Read the certificates, the domains and the log level again. Worker 0 reports errors in
        the file."""
        with suppress(HeadgateError):
            for server in self._servers:
                server.reload()
            config = load_config(self._config.source, self._environ)
            self._domains.update(config.all_domains())
            logger.setLevel(config.log.level.upper())

    def _log_given_up(self) -> None:
        logger.error("ended without waiting any longer", extra={"fields": {"pid": os.getpid()}})


def channel_server(router: WorkerRouter, config: Config, membership: Membership) -> RespServer:
    """The server of Redis clients, whose channels link the workers, even without a listener."""
    section = config.listen.resp or ListenResp()
    return RespServer(router, section, config.directory, membership.listen)
