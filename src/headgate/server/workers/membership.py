"""A worker among the others: what the supervisor passes to it, and what it reports.

The supervisor hands over clients and links, asks regularly whether the worker is alive, and learns
when it accepts clients. Without the supervisor the worker stops.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Protocol

import msgspec

from headgate.core import facts as f
from headgate.core.commands import Command, Disconnect
from headgate.core.delivery.mailbox import Budget
from headgate.core.delivery.sessions import Session
from headgate.core.facts import ChannelCounted, Fact
from headgate.core.model.ids import SessionId
from headgate.core.reader_commands import Block
from headgate.core.turn.store_requests import TurnOutcome
from headgate.server.router import Router
from headgate.server.router_port import Outlet
from headgate.server.wires.resp import RespServer
from headgate.server.workers import control
from headgate.server.workers.control import Control, Message
from headgate.server.workers.link import Link
from headgate.wire.resp.workers.places import HOME
from headgate.wire.resp.workers.relay import Lane, Relay
from headgate.wire.resp.workers.serving_others import ForwardedAclLog

BEAT_SECONDS = 1.0
SETTLE_SECONDS = 0.1
IDS_PER_START = 10_000_000
"""Session numbers reserved for one life of a worker: none is used again."""

NOWHERE = ("", 0)
"""The address of a wire without a listener."""
FACTS = b"facts"
FACTS_AT_ONCE = 1000
"""They are sent when there are so many, and ten times a second."""
KINDS = {kind.__name__: kind for kind in f.KINDS}

logger = logging.getLogger("headgate")


class RemoteSubmissions(Protocol):
    """The commands of sessions with channels here and streams at worker 0."""

    def adopt(self, session: SessionId, outlet: Outlet) -> None:
        """Know a session that is about to submit commands, perhaps for the first time."""
        ...

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None: ...

    def drained(self, session: SessionId) -> None: ...

    def forget(self, session: SessionId, *, lost: bool) -> None:
        """Release a session that is over."""
        ...


class WorkerRouter(Router):
    """The router of a worker: a drained mailbox may have blocked publishers of other workers, and
    some of its sessions may have their sockets there."""

    relay: Relay | None = None
    turned: Callable[[int], None] | None = None
    """Called after each turn with the number of commands ever taken."""
    remote: RemoteSubmissions | None = None
    """Where commands on streams go, in a worker without the shard."""
    summed: Callable[[dict[str, float]], dict[str, float]] | None = None
    """Adds the numbers of other workers to the gauges of worker 0."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self._counted_elsewhere: list[ChannelCounted] = []

    @property
    def budget(self) -> Budget:
        return self.broker.budget

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        """Submit commands of a session with channels; sessions of durable wires use the remote
        router itself."""
        if self.remote is None:
            super().submit(session, commands)
        else:
            self.remote.adopt(session, self._outlets[session])
            self.remote.submit(session, commands)

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        if self.remote is not None:
            self.remote.forget(session, lost=lost)
        super().disconnect(session, reason, lost=lost)

    def drained(self, session: SessionId) -> None:
        if self.remote is None:
            super().drained(session)
        else:
            self.remote.drained(session)

    def admit(self, session: Session, outlet: Outlet) -> None:
        """Admit a session whose socket is at another worker, which recorded the facts about it."""
        self.broker.sessions.add(session)
        self.broker.sessions.elsewhere += 1
        self._outlets[session.id] = outlet

    def release(self, session: SessionId, *, lost: bool) -> None:
        """Release a session that is over."""
        gone = self.broker.sessions.remove(session)
        if gone is not None:
            self.broker.sessions.elsewhere -= 1
            gone.mailbox.close()
            del self._outlets[session]
            self.turns.insist([Disconnect(session, lost)])
            self.relieve(session)

    def insist(self, commands: Sequence[Command | Block]) -> int:
        """Put commands in line for which there is room; return the number of commands ever put
        in."""
        self.turns.insist(commands)
        return self.turns.inbox.put

    def _settle(self, outcome: TurnOutcome) -> Iterator[None]:
        yield from super()._settle(outcome)
        if self.turned is not None:
            self.turned(self.turns.inbox.taken)

    def relieve(self, session: SessionId | None = None) -> None:
        super().relieve(session)
        if self.relay is not None:
            self.relay.relieved()

    def gauges(self) -> dict[str, float]:
        own = super().gauges()
        return own if self.summed is None else self.summed(own)

    def add_counted(self, counted: Sequence[ChannelCounted]) -> None:
        """Add the counts of messages published by sessions of another worker. They are recorded
        together with the counts of this one, once a second."""
        self._counted_elsewhere += counted

    def count_channels(self, counted: Sequence[ChannelCounted]) -> None:
        elsewhere, self._counted_elsewhere = self._counted_elsewhere, []
        super().count_channels([*counted, *elsewhere])


class GivenListener:
    """Takes the connections that the supervisor accepted, in the place of a `Listener`."""

    def __init__(
        self, address: tuple[str, int], welcome: Callable[[socket.socket, str], None]
    ) -> None:
        self.address = address
        self.welcome = welcome
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Membership:
    """The worker's end of its control socket, and its links. Owned by the service of the worker."""

    def __init__(self, end: socket.socket, number: int, workers: int, start: int) -> None:
        self.number = number
        self.workers = workers
        self.start = start
        self.relay: Relay | None = None
        self.admin: socket.socket | None = None
        """In worker 0: the socket of its admin port."""
        self.state = control.State([], [])
        """In worker 0: the states of all workers."""
        self._router: WorkerRouter | None = None
        self._listeners: dict[str, GivenListener] = {}
        self._links: dict[int, Link] = {}
        self._early: list[tuple[control.Link, socket.socket]] = []
        """Links that arrived before the channels were open."""
        self._awaited: set[int] = set()
        """Workers whose subscriptions have to be known before this one accepts clients."""
        self._addresses: dict[str, tuple[str, int]] = {}
        self._given = 0
        self._is_stopping = False
        self._welcomed = asyncio.Event()
        self._placed = asyncio.Event()
        self._synced = asyncio.Event()
        self._went = asyncio.Event()
        self._facts: list[Fact] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._control = Control(end, self._take, self._orphaned)

    # Opening.

    async def welcomed(self) -> None:
        """Wait for the first message of the supervisor."""
        await self._welcomed.wait()

    async def placed(self) -> bool:
        """Wait until the supervisor listens for clients."""
        return await self._placed.wait()

    async def opened(self) -> bool:
        """Report that worker 0 has the store, then wait for the same."""
        self._control.send(control.Opened())
        return await self.placed()

    def listen(
        self, section: str, host: str, port: int, welcome: Callable[[socket.socket, str], None]
    ) -> GivenListener:
        """The source of the clients of a wire."""
        wire = section.rpartition(".")[2]
        listener = GivenListener(self._addresses.get(wire, NOWHERE), welcome)
        self._listeners[wire] = listener
        return listener

    def attach(self, router: WorkerRouter, server: RespServer, lane: Lane) -> None:
        """Link the sessions of this worker to others: those of Redis clients by the channels, those
        of durable wires by this lane."""
        self._router = router
        self.relay = router.relay = Relay(server.hub, self, self.number, self.start)
        self.relay.lane = lane
        questions = self.relay.questions
        questions.handlers[FACTS] = self._take_facts
        if self.number != HOME:
            server.hub.logins.denials = ForwardedAclLog(self.relay.serving)
            router.watch(self._forward)
            router.watch_channels(self._forward)
        for link, connected in self._early:
            self._join(link, connected)
        self._early.clear()
        self.synced()
        self.every(BEAT_SECONDS, self.relay.beat)
        self.every(SETTLE_SECONDS, self._settle)

    @property
    def clients(self) -> int:
        """Number of sessions whose sockets are here."""
        if self._router is None:
            return 0
        sessions = self._router.broker.sessions
        return len(sessions) - sessions.elsewhere

    async def linked(self) -> None:
        """Wait until the subscriptions of the other workers are known."""
        await self._synced.wait()

    async def ready(self) -> None:
        """Wait for the same, then accept clients."""
        await self.linked()
        self._control.send(control.Ready())

    async def went(self) -> None:
        """Wait until all workers are ready."""
        await self._went.wait()

    def stop(self) -> None:
        """Note that the worker stops, so that ended links are no news."""
        self._is_stopping = True

    def close(self) -> None:
        self.stop()
        for timer in self._timers:
            timer.cancel()
        for link in list(self._links.values()):
            link.close("the worker stops")
        self._control.close()

    def notify(self, state: str) -> None:
        """Report a state of the router to systemd."""
        self._control.send(control.Notify(state))

    def drain(self, is_draining: bool) -> None:
        self._control.send(control.Drain(is_draining))

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call again and again, until the worker stops."""
        loop, place = asyncio.get_running_loop(), len(self._timers)

        def run() -> None:
            self._timers[place] = loop.call_later(seconds, run)
            call()

        self._timers.append(loop.call_later(seconds, run))

    def _settle(self) -> None:
        assert self.relay is not None, "attached"
        self.relay.settle()
        self._send_facts()

    # Calls of the relay.

    def relieve(self, session: SessionId) -> None:
        assert self._router is not None, "attached"
        self._router.relieve(session)

    def synced(self) -> None:
        if self.relay is None:
            return
        links = self.relay.links
        done = {worker for worker in self._awaited if worker in links and links[worker].is_synced}
        self._awaited -= done
        if not self._awaited:
            self._synced.set()

    # Messages of the supervisor.

    def _take(self, message: Message, passed: socket.socket | None) -> None:
        match message:
            case control.Welcome():
                self.admin = passed
                self._awaited = set(message.linked)
                self._welcomed.set()
            case control.Listening():
                self._addresses = message.addresses
                self._placed.set()
            case control.Link() if passed is not None:
                if self.relay is None:
                    self._early.append((message, passed))
                else:
                    self._join(message, passed)
            case control.Client() if passed is not None:
                self._given += 1
                listener = self._listeners.get(message.wire)
                if listener is None or not listener.is_open:
                    passed.close()
                else:
                    listener.welcome(passed, message.peer)
            case control.Ping():
                self._control.send(control.Load(message.number, self.clients, self._given))
            case control.Go():
                self._went.set()
            case control.State():
                self.state = message
            case _:
                pass

    def _join(self, link: control.Link, connected: socket.socket) -> None:
        assert self.relay is not None, "attached"
        assert self._router is not None, "attached"
        self._links[link.worker] = Link(
            self._router, self.relay, connected, link.worker, link.start, self._lost
        )

    def _lost(self, link: Link, reason: str) -> None:
        """Report that a link ended, or holds too much. If the worker at its other end lives, it
        cannot go on: two workers without a link would be two routers."""
        if self._links.get(link.worker) is link and not self._is_stopping:
            self._awaited.discard(link.worker)
            self.synced()
            self._control.send(control.Lost(link.worker, link.start, reason))

    def _orphaned(self) -> None:
        """Stop: without the supervisor no clients come, and no worker would be started again."""
        if not self._is_stopping:
            logger.error("the supervisor is gone", extra={"fields": {"worker": self.number}})
            os.kill(os.getpid(), signal.SIGTERM)

    # Facts of this worker, for the journal and the metrics of worker 0.

    def _forward(self, facts: Sequence[Fact]) -> None:
        self._facts += facts
        if len(self._facts) >= FACTS_AT_ONCE:
            self._send_facts()

    def _send_facts(self) -> None:
        if not self._facts or self.relay is None:
            return
        home = self.relay.links.get(HOME)
        if home is None:
            del self._facts[: -self._limit()]  # until worker 0 is there again
            return
        taken, self._facts = self._facts, []
        rows = [[type(fact).__name__, *_values(fact)] for fact in taken]
        self.relay.questions.ask([home], (FACTS, msgspec.msgpack.encode(rows)), _ignore)

    def _limit(self) -> int:
        assert self._router is not None, "attached"
        return self._router.limits.journal_channels_per_second

    def _take_facts(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        """Record facts of another worker."""
        assert self._router is not None, "attached"
        others: list[Fact] = []
        counted: list[ChannelCounted] = []
        for name, *values in msgspec.msgpack.decode(words[0]):
            fact = KINDS[name](*values)
            if isinstance(fact, ChannelCounted):
                counted.append(fact)
            else:
                others.append(fact)
        self._router.announce(others)
        self._router.add_counted(counted)
        reply(b"")


def _values(fact: Fact) -> list[object]:
    return [getattr(fact, each.name) for each in fields(fact)]


def _ignore(answers: dict[int, bytes]) -> None:
    """Ignore the answer: the facts were taken."""
