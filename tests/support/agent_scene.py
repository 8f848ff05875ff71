"""Agents for tests: quick ones, records with queues that a router has, and what they announce."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from headgate.agent.agent import Agent
from headgate.agent.clock import SystemClock
from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.settings import MESSAGING
from headgate.agent.events import Down, SubscriptionEvent, Up
from headgate.agent.model import (
    ConnectionId,
    RecipientId,
    RouterId,
    SessionKey,
    SessionMode,
    UserId,
)
from headgate.agent.records import Database, Records, connections, receive_queues, routers, users
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.shell import Shell
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.stored_keys import pack_key
from headgate.client.smp.recipient import Queue, make_key
from headgate.client.smp.timing import Timing
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.replies import Msg
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.smp_peer import Asked, Peer, Talk
from tests.support.smp_router import Rig

P = ParamSpec("P")
T = TypeVar("T")

QUICK = ShellSettings(
    replace(
        MESSAGING,
        delays=Delays(first=0.01, constant_for=0.05, longest=0.05),
        failure_seconds=0.01,
        end_seconds=0.05,
    ),
    Timing(connect_seconds=10.0, answer_seconds=10.0),
    retry_seconds=0.01,
)
"""Pauses that a test can wait for, and answers that may take as long as a slow machine needs."""

HURRY = 100


class HurriedClock(SystemClock):
    """The pauses of receiving and sending, so many times shorter."""

    async def wait(self, seconds: float, until: asyncio.Event) -> None:
        await super().wait(seconds / HURRY, until)


IMPATIENT = replace(QUICK, timing=replace(QUICK.timing, answer_seconds=0.05))
"""For routers that never answer."""


def connection_id(n: int) -> ConnectionId:
    return b"%012d" % n


@dataclass
class Place:
    """A user, a router, and a file with both."""

    path: Path
    user: UserId
    router: RouterId


def as_record(queue: Queue, user: UserId, router: RouterId, n: int) -> ReceiveQueue:
    """A queue that a router has, as an agent keeps it."""
    kind, raw = pack_key(queue.key)
    return ReceiveQueue(
        router,
        queue.id,
        user,
        connection_id(n),
        kind,
        raw,
        queue.secret,
        secrets.token_bytes(32),
        sender_id=queue.sender,
        status="active",
    )


def made_up(user: UserId, router: RouterId, n: int) -> ReceiveQueue:
    """A queue that only a scripted router has."""
    kind, raw = pack_key(make_key())
    return ReceiveQueue(
        router, queue_id(n), user, connection_id(n), kind, raw, bytes(32), bytes(32)
    )


def queue_id(n: int) -> bytes:
    return b"%024d" % n


def keep(
    tables: Database,
    address: RouterAddress,
    make: Callable[[UserId, RouterId], Sequence[ReceiveQueue]],
    services: bool = False,
    user: UserId | None = None,
) -> tuple[UserId, RouterId]:
    """Keep a router, and a user unless there is one, and queues of both, each with a connection."""
    if user is None:
        known = users.everyone(tables)
        user = known[0].id if known else users.add(tables, services=services)
    router = routers.keep(tables, address)
    for queue in make(user, router):
        if connections.get(tables, queue.connection) is None:
            record = ConnectionRecord(queue.connection, user, ConnectionKind.RECEIVE)
            connections.add(tables, record)
        receive_queues.add(tables, queue)
    return user, router


async def store(
    path: Path,
    address: RouterAddress,
    make: Callable[[UserId, RouterId], Sequence[ReceiveQueue]],
    *,
    services: bool = False,
    user: UserId | None = None,
) -> Place:
    async with await Records.open(path) as records:
        return Place(path, *await records.write(keep, address, make, services, user))


async def store_queues(
    path: Path, rig: Rig, count: int, *, first: int = 0, services: bool = False
) -> tuple[Place, list[Queue]]:
    """Make queues at a router, each of a connection of its own, and keep them."""
    client = await rig.connect()
    made = [await client.new_queue(subscribe=False) for _ in range(count)]
    client.close()
    await client.closed()
    place = await store(
        path,
        rig.address,
        lambda user, router: [
            as_record(queue, user, router, first + n) for n, queue in enumerate(made)
        ],
        services=services,
    )
    return place, made


async def store_made_up(
    path: Path, address: RouterAddress, count: int, *, first: int = 0, services: bool = False
) -> Place:
    return await store(
        path,
        address,
        lambda user, router: [made_up(user, router, first + n) for n in range(count)],
        services=services,
    )


class EventLog:
    """Reads the events of an agent one by one, and keeps them."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[object] = []
        self._stream = agent.events()

    async def next(self) -> object:
        event = await anext(self._stream)
        self.events.append(event)
        return event

    async def next_of(self, *kinds: type[T]) -> T:
        """The next event of these kinds; others are kept and passed over."""
        while True:
            event = await self.next()
            if isinstance(event, kinds):
                return event

    async def until(self, holds: Callable[[], object]) -> None:
        """Read until something holds."""
        while not holds():
            await self.next()

    def of(self, *kinds: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kinds)]


@asynccontextmanager
async def opened(path: Path, **options: object) -> AsyncIterator[tuple[Agent, EventLog]]:
    """A quick agent and its events."""
    options.setdefault("settings", QUICK)
    async with await Agent.open(path, **options) as agent:  # type: ignore[arg-type]
        yield agent, EventLog(agent)


class Inbox:
    """Takes messages, and keeps them."""

    def __init__(self) -> None:
        self.taken: list[tuple[SessionKey, RecipientId, Msg]] = []
        self.forgotten: list[SessionKey] = []

    def take(self, session: SessionKey, queue: RecipientId, message: Msg) -> None:
        self.taken.append((session, queue, message))

    def forget(self, session: SessionKey) -> None:
        self.forgotten.append(session)


class ShellScene:
    """A shell over a file, with everything that comes out of it."""

    def __init__(self, records: Records, settings: ShellSettings) -> None:
        self.records = records
        self.events: list[SubscriptionEvent] = []
        self.errors: list[Exception] = []
        self.inbox = Inbox()
        self.announced: Callable[[SubscriptionEvent], None] = lambda event: None
        self.shell = Shell(records, self._announce, self.errors.append, settings)
        self.shell.messages = self.inbox

    def _announce(self, event: SubscriptionEvent) -> None:
        self.events.append(event)
        self.announced(event)

    def of(self, *kinds: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def up(self) -> set[ConnectionId]:
        """Who is up, by what was announced."""
        found: set[ConnectionId] = set()
        for event in self.events:
            if isinstance(event, Up):
                assert not found & set(event.connections), "up twice in a row"
                found |= set(event.connections)
            elif isinstance(event, Down):
                assert found >= set(event.connections), "down without having been up"
                found -= set(event.connections)
        return found

    def status(self) -> tuple[int, int]:
        """Pending and active queues."""
        status = self.shell.status()
        return sum(slot.pending for slot in status), sum(slot.active for slot in status)

    async def read(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """What the records have once all that was decided is stored."""
        return await self.shell._line.read(job, *args, **named)

    async def subscribe_all(self) -> None:
        for user in await self.records.read(users.everyone):
            for router in await self.records.read(routers.of_user, user.id):
                self.shell.subscribe_all(user.id, router)


@asynccontextmanager
async def shell_of(
    path: Path,
    *,
    services: bool = False,
    mode: SessionMode = SessionMode.SHARED,
    settings: ShellSettings = QUICK,
    subscribes: bool = True,
) -> AsyncIterator[ShellScene]:
    """A shell for all users and routers of a file, which subscribes everything."""
    async with await Records.open(path) as records:
        scene = ShellScene(records, settings)
        for router in await records.read(routers.everything):
            scene.shell.add_router(router.id, router.address)
        for user in await records.read(users.everyone):
            scene.shell.add_user(user.id, services=services, mode=mode)
            await scene.shell.load_services(user.id)
        if subscribes:
            await scene.subscribe_all()
        try:
            yield scene
        finally:
            await scene.shell.close()


class Script:
    """Has a scripted router answer each request as a function of the test's says; None is no
    answer. Connections that have greeted are in `talks`."""

    def __init__(self, peer: Peer, answer: Callable[[Asked], r.Reply | None]) -> None:
        self.answer = answer
        self.talks: list[Talk] = []
        self._peer = peer
        self._tasks: set[asyncio.Task[None]] = set()

    def asked(self, *kinds: type[c.Command]) -> list[Asked]:
        """What was asked, in all connections."""
        found = [asked for talk in self.talks for asked in talk.asked]
        return [asked for asked in found if isinstance(asked.command, kinds)]

    async def __aenter__(self) -> Script:
        self._run(self._meet())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _meet(self) -> None:
        while True:
            talk = await self._peer.talk()
            self.talks.append(talk)
            self._run(self._serve(talk))

    async def _serve(self, talk: Talk) -> None:
        while True:
            block = await talk.block()
            replies = [(asked, self.answer(asked)) for asked in block]
            answers = [asked.answer(reply) for asked, reply in replies if reply is not None]
            if answers:
                talk.send(*answers)


def confirms(asked: Asked) -> r.Reply | None:
    """A router that has every queue and no service."""
    return r.Sok() if isinstance(asked.command, c.Sub) else None


async def rows(path: Path, user: UserId, router: RouterId) -> list[ReceiveQueue]:
    """The queues that a file has, when no agent has it open."""
    async with await Records.open(path) as records:
        return await records.read(receive_queues.page, user, router)


async def soon(holds: Callable[[], object]) -> None:
    """Wait until something holds that happens in the background; no clock is asked."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
