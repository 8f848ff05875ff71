"""Worker 0: the router of one process, whose Redis clients are linked to those of other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from headgate.core.model.value import EMPTY
from headgate.server.config import Config
from headgate.server.router import Router
from headgate.server.serve import RouterService
from headgate.server.wires.resp import RESP, RespServer
from headgate.server.wires.wire import Listening, Wire
from headgate.server.workers.front_service import Place
from headgate.server.workers.membership import IDS_PER_START, Membership, WorkerRouter
from headgate.server.workers.shares import share_of


class HomeService(RouterService):
    """The service of worker 0. It has what is single: the store, the journal, the admin port, the
    listeners of durable wires, keys and users."""

    _membership: Membership

    def __init__(
        self, config: Config, ready_file: Path | None, environ: Mapping[str, str], place: Place
    ) -> None:
        self._place = place
        super().__init__(share_of(config, place[2]), ready_file, environ, EMPTY, None)

    _make_router: Callable[..., Router] = WorkerRouter

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        self._membership = Membership(*self._place)
        stack.callback(self._membership.close)
        await super()._open(stack, stop)
        self._membership.stop()

    def _open_wire(self, wire: Wire) -> Listening:
        if wire is not RESP:
            return super()._open_wire(wire)
        config, router = self.config, self.router
        assert config.listen.resp is not None, "its section is there"
        assert isinstance(router, WorkerRouter), "made here"
        _, number, workers, start = self._place
        router.broker.sessions.spread(number + workers * IDS_PER_START * (start - 1), workers)
        server = RespServer(router, config.listen.resp, config.directory, self._membership.listen)
        self._membership.attach(router, server)
        return server

    async def _meet(self) -> None:
        """Wait for the others before anybody is told that the router is ready."""
        await self._membership.ready()
        await self._membership.went()

    def problems(self) -> list[str]:
        return super().problems() + self._membership.state.problems

    def status(self) -> Mapping[str, object]:
        workers = [msgspec.to_builtins(worker) for worker in self._membership.state.workers]
        return {**super().status(), "workers": workers}

    def drain(self, is_draining: bool) -> None:
        super().drain(is_draining)
        self._membership.drain(is_draining)

    async def _read(self) -> Config:
        return share_of(await super()._read(), self._place[2])
