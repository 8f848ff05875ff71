"""A worker other than worker 0: Redis clients, and links to the others."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TypeAlias

from headgate.errors import HeadgateError
from headgate.server.clock import Clock
from headgate.server.config import Config, load_config
from headgate.server.file_descriptors import raise_descriptors, sessions_possible
from headgate.server.serve import STOP_SECONDS
from headgate.server.service import Service
from headgate.server.wires.resp import RespServer
from headgate.server.workers.membership import IDS_PER_START, Membership, WorkerRouter
from headgate.server.workers.shares import share_of
from headgate.store.memory import MemoryStore

Place: TypeAlias = tuple[socket.socket, int, int, int]
"""The control socket, the number of the worker, how many there are, and which start it is."""

logger = logging.getLogger("headgate")


class FrontService(Service):
    """Serves the Redis clients that the supervisor hands over. It keeps nothing: keys and users
    are worker 0's, and so is everything durable."""

    def __init__(self, config: Config, environ: Mapping[str, str], place: Place) -> None:
        super().__init__(STOP_SECONDS)
        self._place = place
        self._environ = environ
        self._config = share_of(config, place[2])
        self._clock = Clock(None)
        self._server: RespServer | None = None

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
        assert config.listen.resp is not None, "the configuration was checked"
        server = RespServer(router, config.listen.resp, config.directory, membership.listen)
        self._server = server
        stack.callback(server.close)
        stack.callback(membership.stop)
        membership.attach(router, server)
        readying = asyncio.create_task(membership.ready())
        stack.callback(readying.cancel)
        self.stage = ""
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stop.wait()
            self._clock.follow()

    def reload(self) -> None:
        """Read the certificate again, and the log level. Where the file is wrong, worker 0 says
        so."""
        with suppress(HeadgateError):
            if self._server is not None:
                self._server.reload()
            level = load_config(self._config.source, self._environ).log.level
            logger.setLevel(level.upper())

    def _log_given_up(self) -> None:
        logger.error("ended without waiting any longer", extra={"fields": {"pid": os.getpid()}})
