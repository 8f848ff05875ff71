"""A front and the worker that has the shard, in one loop: what one says to the other are bytes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from headgate.core.model.domain import Domain
from headgate.core.model.ids import SessionId
from headgate.server.workers.front_sessions import FrontSessions
from headgate.server.workers.membership import WorkerRouter
from headgate.server.workers.remote_router import RemoteRouter
from headgate.store.memory import MemoryStore

FRONTED = os.environ.get("TEST_FRONT") == "1"
"""Whether tests that start a router of their own put a front before it."""
WORKERS = 2


class Front:
    """A front of a router. Its clients are connected to `remote`."""

    remote: RemoteRouter
    sessions: FrontSessions | None = None

    def __init__(self, home: WorkerRouter, domains: Mapping[str, Domain]) -> None:
        self._home = home
        self._domains = domains
        self.local = WorkerRouter(
            store=MemoryStore(), domains={}, limits=home.limits, clock=home.clock
        )

    async def start(self, end: Callable[[SessionId, str], None]) -> None:
        await self.local.start()
        self._home.broker.sessions.spread(0, WORKERS)
        self.local.broker.sessions.spread(1, WORKERS)
        self.remote = RemoteRouter(self.local, self._domains, WORKERS, end)
        self.local.watch(self._home.announce)
        self.join(self._home)

    def join(self, home: WorkerRouter) -> None:
        """Link it to a worker that has the shard."""
        loop = asyncio.get_running_loop()
        self._home = home
        sessions = self.sessions = FrontSessions(
            home, lambda blob: self._say(loop.call_soon, self.remote.receive, blob, sessions)
        )
        home.turned = sessions.turned
        self.remote.joined(lambda blob: self._say(loop.call_soon, sessions.receive, blob, sessions))

    def _say(
        self,
        soon: Callable[..., object],
        receive: Callable[[bytes], None],
        blob: bytes,
        sessions: FrontSessions,
    ) -> None:
        def arrive() -> None:
            if self.sessions is sessions:
                receive(blob)

        soon(arrive)

    def part(self) -> None:
        """The worker that has the shard is gone."""
        self.sessions = None
        self.remote.left()

    async def stop(self) -> None:
        await self.local.stop()
