"""A server as a process runs it: opened, ready, and ended in the opposite order.

A router and a notification server differ in what they open. That they end within a bound of time,
whatever hangs, is the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

from headgate.server import systemd
from headgate.server.deadline import Deadline
from headgate.server.net.passed_sockets import passed_sockets
from headgate.server.net.poller import Loop
from headgate.server.process import handling_signals

logger = logging.getLogger("headgate")

T = TypeVar("T")


class Service(ABC):
    """One server that runs until it is told to stop. The process owns it, and calls
    `run_service`."""

    def __init__(self, stop_seconds: float) -> None:
        self.stage = "starting"
        """The stage it is in, as `/readyz` shows it; empty while it serves."""
        self.gave_up = False
        """Whether the stop did not wait for everything."""
        self.deadline = Deadline(stop_seconds, self._log_given_up)
        self.watchdog = systemd.Watchdog()

    async def run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            stop.set()
            self.deadline.start()

        with handling_signals(loop, stop, end, self.reload):
            async with AsyncExitStack() as stack:
                await self._open(stack, stop)
                self.deadline.start()
                self.stage = "stopping"
                systemd.notify(systemd.STOPPING)
                logger.info("stopping")
        if not self.gave_up:
            logger.info("stopped")

    def _announce_ready(self) -> None:
        """Everything listens."""
        for name in passed_sockets().names:
            advice = "its clients wait for ever: remove its socket unit, or add its section"
            fields = {"name": name, "advice": advice}
            logger.warning("a socket was passed that nobody listens on", extra={"fields": fields})
        systemd.notify(systemd.READY)

    async def _unless_stopped(self, work: Awaitable[T], stop: asyncio.Event) -> T | None:
        """Let something run, unless a signal comes first: then it is cancelled, and None."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            return None
        return working.result()

    @abstractmethod
    def reload(self) -> None:
        """Take over what may change in the configuration while it runs."""

    @abstractmethod
    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        """Open everything, serve until it is to stop, and return; `stack` ends what was opened."""

    @abstractmethod
    def _log_given_up(self) -> None:
        """Say what the stop does not wait for any longer."""


def run_service(service: Service) -> None:
    """Run a server until it has stopped, or has given up stopping in order."""
    try:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(service.run())
            if service.gave_up:  # a thread that hangs would be waited for
                logging.shutdown()
                sys.stdout.flush()
                os._exit(1)
    finally:
        service.deadline.cancel()
