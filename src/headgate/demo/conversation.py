"""An act of the scene: two agents go on talking after their router was stopped and started again.

They are as far from each other as two programs can be: each has a file of its own, and one has
used a link that the other made. Their router is one of the act's own, beside the one that serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from headgate.agent.agent import Agent
from headgate.agent.connections.connection import Connection
from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.settings import MESSAGING
from headgate.agent.events import Connected, Down, Message, Up
from headgate.agent.shell_settings import ShellSettings
from headgate.core.model.limits import Limits
from headgate.server.config import Config
from headgate.server.config.sections import ListenSmp, Smp
from headgate.server.router import Router
from headgate.server.wires.smp import SmpServer
from headgate.store import open_store

Show = Callable[[str], None]
T = TypeVar("T")

QUICK = ShellSettings(replace(MESSAGING, delays=Delays(first=0.2), failure_seconds=0.2))
"""Agents that are watched come back sooner than others."""

SECONDS_MAX = 60.0
"""The act takes some three seconds."""


class OwnRouter:
    """A router on loopback that can be stopped, and started at the same port with what is on its
    disk. Its owner stops it in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._running: tuple[Router, SmpServer] | None = None

    async def start(self) -> str:
        """Start it; its address, which stays the same."""
        domains = Config(directory=self._folder).all_domains()
        store = open_store("sqlite:queues.db", self._folder)
        router = Router(store=store, domains=domains, limits=Limits())
        await router.start()
        listen = ListenSmp(host="127.0.0.1", port=self._port)
        server = SmpServer(router, listen, Smp(), self._folder)
        self._running = router, server
        _, self._port = server.address
        return server.url

    async def stop(self) -> None:
        if self._running is not None:
            (router, server), self._running = self._running, None
            server.close()
            await router.stop()


class Party:
    """One of the two: an agent that is connected with the other."""

    def __init__(self, name: str, agent: Agent, other: Connection, show: Show) -> None:
        self.name = name
        self._agent = agent
        self._other = other
        self._show = show

    async def send(self, text: str, where: str) -> None:
        await self._other.send(text.encode())
        self._show(f"  {self.name:<5}sent        {text!r}; it is on {where}")

    async def receive(self) -> None:
        message = await next_of(self._agent, Message)
        self._show(f"  {self.name:<5}received    {message.body.decode()!r}")
        await message.ack()

    async def change(self, kind: type[Up | Down], why: str) -> None:
        await next_of(self._agent, kind)
        self._show(f"  {self.name:<5}received    {kind.__name__.upper()}: {why}")


async def next_of(agent: Agent, kind: type[T]) -> T:
    """The next event of a kind. A missing event, or one that comes twice, ends the scene."""
    async for event in agent.events():
        if isinstance(event, kind):
            return event
        assert not isinstance(event, Message | Up | Down), f"{event} was not expected"
    raise AssertionError("the agent is open")


async def conversation(show: Show) -> None:
    """Two agents that are connected; the router is restarted in the middle."""
    show("A conversation: two agents, encrypted from end to end; their router is restarted")
    async with asyncio.timeout(SECONDS_MAX), AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="headgate-scene-")))
        router = OwnRouter(folder)
        stack.push_async_callback(router.stop)
        link = await _connect(folder, await router.start())
        show(f"  anna made        a link, {link[:28]}..., for one to use")
        show("  ben used         it: both have keys now that the router has not")
        anna = await _enter(stack, folder, "anna", "ben", show)
        ben = await _enter(stack, folder, "ben", "anna", show)
        await anna.change(Up, "what is sent to anna comes from now on")
        await ben.change(Up, "the same for ben")
        await anna.send("the plums are ripe", "anna's disk, then the router's")
        await ben.receive()
        await ben.send("how many are there?", "ben's disk, then the router's")
        await anna.receive()
        await router.stop()
        show("  the router       was stopped")
        await anna.change(Down, "nothing comes, and the agent keeps trying")
        await ben.change(Down, "the same for ben")
        await anna.send("two baskets", "anna's disk")
        await ben.send("and the pears?", "ben's disk")
        await router.start()
        show("  the router       was started again")
        await anna.change(Up, "subscribed again, without being asked to")
        await ben.change(Up, "the same for ben")
        await ben.receive()
        await anna.receive()
        show("  nothing was lost, and nothing came twice")


async def _connect(folder: Path, router: str) -> str:
    """Have the two connected; the link that one of them made for it."""
    async with (
        Agent.open(folder / "anna.db", routers=[router]) as anna,
        Agent.open(folder / "ben.db", routers=[router]) as ben,
    ):
        invitation = await anna.invite("ben", auto_accept=True)
        await ben.join(invitation.link, name="anna")
        await next_of(anna, Connected)
        await next_of(ben, Connected)
        return str(invitation.link)


async def _enter(stack: AsyncExitStack, folder: Path, name: str, other: str, show: Show) -> Party:
    opening = Agent.open(folder / f"{name}.db", settings=QUICK)
    agent = await stack.enter_async_context(opening)
    return Party(name, agent, await agent.connection(other), show)
