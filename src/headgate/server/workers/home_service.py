"""Worker 0: the router of one process, with its Redis clients linked to those of other workers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Never

import msgspec

from headgate.core.model.value import EMPTY
from headgate.server.admin.pages import SpreadTable, Table
from headgate.server.config import Config
from headgate.server.router import Router
from headgate.server.serve import RouterService
from headgate.server.wires.resp import RESP, RespServer
from headgate.server.wires.wire import Listening, Wire
from headgate.server.workers.front_service import Place, channel_server
from headgate.server.workers.lanes import HomeLane
from headgate.server.workers.membership import IDS_PER_START, Membership, WorkerRouter
from headgate.server.workers.reports import TABLES, Reports, worker_gauges
from headgate.server.workers.shares import share_of
from headgate.wire.resp.workers.places import HOME


class HomeService(RouterService):
    """The service of worker 0. It owns everything that exists once: the store, the journal, the
    admin port, keys and users."""

    _membership: Membership
    _nobodys: RespServer
    """The channels, if there is no listener for Redis clients."""

    def __init__(
        self, config: Config, ready_file: Path | None, environ: Mapping[str, str], place: Place
    ) -> None:
        self._place = place
        self._reports = Reports()
        super().__init__(share_of(config, place[2]), ready_file, environ, EMPTY, None)
        self.desk.elsewhere = self._reports

    _make_router: Callable[..., Router] = WorkerRouter

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        self._membership = Membership(*self._place)
        stack.callback(self._membership.close)
        await self._membership.welcomed()
        await super()._open(stack, stop)
        self._membership.stop()

    async def _start_router(self) -> bool:
        has_started = await super()._start_router()
        _, number, workers, start = self._place
        first = number + workers * IDS_PER_START * (start - 1)
        self.router.broker.sessions.spread(first, workers)
        return has_started and await self._membership.opened()

    def _open_wire(self, wire: Wire) -> Listening:
        return wire.open(self.router, self.config, self._membership.listen)

    def _listen_admin(self) -> socket.socket:
        assert self._membership.admin is not None, "welcomed"
        return self._membership.admin

    async def _meet(self) -> None:
        """Wait for the other workers before the router reports that it is ready. By now everything
        that they read exists, such as the identity of the SMP listener."""
        router, server = self.router, self.listening.get(RESP.name)
        assert isinstance(router, WorkerRouter), "made here"
        if not isinstance(server, RespServer):
            server = self._nobodys = channel_server(router, self.config, self._membership)
        self._membership.attach(router, server, HomeLane(router))
        assert router.relay is not None, "attached"
        self._reports.attach(router.relay)
        router.summed = self._reports.summed
        await self._membership.ready()
        await self._membership.went()

    def _notify(self, state: str) -> None:
        self._membership.notify(state)

    def _start_anew(self, child: int | None) -> Never:
        """End: the supervisor starts all workers anew."""
        os._exit(1)

    def problems(self) -> list[str]:
        return super().problems() + self._membership.state.problems

    def status(self) -> Mapping[str, object]:
        workers = [msgspec.to_builtins(worker) for worker in self._membership.state.workers]
        found = {**super().status(), "workers": workers}
        for name in TABLES:
            table = found.get(name)
            if isinstance(table, Table):
                found[name] = SpreadTable(table, partial(self._reports.rows, name))
        return found

    def _workers(self) -> Mapping[int, Mapping[str, float]]:
        return {HOME: worker_gauges(self.router), **self._reports.gauges()}

    def drain(self, is_draining: bool) -> None:
        super().drain(is_draining)
        self._membership.drain(is_draining)

    async def _read(self) -> Config:
        return share_of(await super()._read(), self._place[2])
