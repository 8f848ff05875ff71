"""Clients of the SMP wire that keep a router busy until it is killed, and write down every answer.

Two senders, two recipients, a session of each service, one that reads with GET, one that is a
notifier, and one that makes, changes and deletes queues.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from types import UnionType
from typing import Any

from headgate.client.smp.recipient import Key, Kind, Request, make_key, spki
from headgate.client.smp.service import Service
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.errors import NotConnected, ProtocolError, Refused
from headgate.testing.smp_client import Event, SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import (
    Alls,
    Deld,
    Ends,
    Err,
    Msg,
    Nid,
    NMsg,
    Ok,
    Reply,
    SmpEnd,
    Sok,
)
from headgate.wire.smp.handshake import Role
from tests.crash.smp_ledger import Ledger, Line

QUEUES = 50
MESSAGING = ("letters", "parcels")
"""The services of recipients."""
NOTIFYING = "bells"
KINDS: tuple[Kind, ...] = ("ed25519", "ed25519", "x25519", "ed448")
"""Of the recipients' keys."""


@value
class Door:
    """Where a router listens, and what its services show it."""

    host: str
    port: int
    fingerprint: bytes
    services: dict[str, Service]

    async def open(self, service: str | None = None) -> SmpClient:
        role = Role.NOTIFIER if service == NOTIFYING else Role.MESSAGING
        shown = None if service is None else self.services[service]
        return await SmpClient.connect(
            self.host, self.port, self.fingerprint, service=shown, role=role
        )


class Load:
    def __init__(self, ledger: Ledger, door: Door, seed: int, *, store_may_fail: bool) -> None:
        self.ledger = ledger
        self.wrong: list[str] = []
        self.is_over = False
        """The router is dead from now on; what goes wrong is no surprise."""
        self.taken = self.acks = self.full = self.failed = 0
        self._door = door
        self._store_may_fail = store_may_fail
        self._draw = random.Random(f"load {seed}")
        self._clients: list[SmpClient] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._makers: list[tuple[SmpClient, str | None]] = []

    async def start(self) -> None:
        plain = [await self.open() for _ in range(7)]
        served = [(await self.open(name), name) for name in MESSAGING]
        bells = await self.open(NOTIFYING)
        self._makers = [(plain[0], None), (plain[0], None), *served]
        while len(self.ledger.alive) < QUEUES:
            await self.make()
        works: list[Coroutine[None, None, None]] = [
            self.send(plain[1], 0),
            self.send(plain[2], 1),
            self.receive(plain[3], None),
            self.receive(plain[4], None),
            *(self.receive(client, name) for client, name in served),
            self.get(plain[5]),
            self.watch(plain[6], None),
            self.watch(bells, NOTIFYING),
            self.keep(plain[0]),
        ]
        self._tasks = [asyncio.create_task(self._guarded(work)) for work in works]

    async def stop(self) -> None:
        """The router was killed: wait until everybody has noticed."""
        await asyncio.gather(*self._tasks)
        for client in self._clients:
            client.close()
            await client.closed()

    async def open(self, service: str | None = None) -> SmpClient:
        client = await self._door.open(service)
        self._clients.append(client)
        return client

    # Senders.

    async def send(self, client: SmpClient, half: int) -> None:
        while not self.is_over:
            lines = [
                line
                for line in self.ledger.alive
                if line.number % 2 == half and line.may_be_sent_to
            ]
            # Those that are full most of the time have to become so first.
            slow = [line for line in lines if line.is_slow]
            line = self._draw.choice(slow if slow and self._draw.random() < 0.3 else lines)
            await self.post(client, line, self._draw.randrange(1, 5))
            await asyncio.sleep(self._draw.uniform(0, 0.02))

    async def post(self, client: SmpClient, line: Line, many: int) -> None:
        sent, requests = [], []
        for _ in range(many):
            padding = self._draw.randrange(15_000 if self._draw.random() < 0.1 else 1000)
            body = b"%d/%d " % (line.number, next(self.ledger.numbers)) + bytes(padding)
            send = c.SmpSend(bool(line.notifier) and self._draw.random() < 0.5, body)
            sent.append(line.asks(body))
            requests.append(Request(send, line.queue.sender, line.sender_key))
        for one, reply in zip(sent, await client.ask(*requests), strict=True):
            line.answered(one, reply)
            self.taken += isinstance(reply, Ok)
            self.full += reply == Err("QUOTA")
            self._expect(line, reply, "SEND", Ok, "QUOTA")

    # Recipients.

    async def receive(self, client: SmpClient, service: str | None) -> None:
        if service is not None:
            await self._subscribe_service(client, c.Subs(Tally()))
        while not self.is_over:
            if (told := await self._event(client)) is not None:
                await self._told(client, *told)
            if self._draw.random() < 0.3:
                line = self._draw.choice(self.ledger.alive)
                if line.moves or (service == MESSAGING[0]) == (line.number % 3 == 1):
                    await self.subscribe(client, line)
            elif service is not None and self._draw.random() < 0.02:
                await self._subscribe_service(client, c.Subs(Tally()))
            elif service is not None and self._draw.random() < 0.05:
                client = await self._succeed(client, service)

    async def _succeed(self, client: SmpClient, service: str) -> SmpClient:
        """A new session of the service, which takes over from the one before."""
        newer = await self.open(service)
        await self._subscribe_service(newer, c.Subs(Tally()))
        return newer

    async def subscribe(self, client: SmpClient, line: Line) -> None:
        async with line.lock:
            if line.deleting:
                return
            line.owners.add(client.service_id)
            (reply,) = await client.ask(line.queue.asks(c.Sub()))
            if isinstance(reply, Sok):
                if reply.service != client.service_id:
                    self.wrong.append(f"{line}: SUB was answered for {reply.service!r}")
                line.owners = {client.service_id}
            self._expect(line, reply, "SUB", Sok)

    async def _subscribe_service(self, client: SmpClient, command: c.Command) -> None:
        assert client.service_id is not None
        (reply,) = await client.ask(Request(command, client.service_id))
        if isinstance(reply, Err):
            self._refused(f"{command}", reply)

    async def _event(self, client: SmpClient) -> Event | None:
        try:
            return await client.event(self._draw.uniform(0.005, 0.05))
        except TimeoutError:
            return None

    async def _told(self, client: SmpClient, entity: bytes, reply: Reply) -> None:
        if isinstance(reply, Msg):
            await self._take(client, self.ledger.lines[entity], reply)
        elif not isinstance(reply, SmpEnd | Ends | Deld | Alls):
            self.wrong.append(f"a recipient was told {reply}")

    async def _take(self, client: SmpClient, line: Line, msg: Msg) -> None:
        """ACK it, most of the time, and what comes in answer."""
        reply: Reply = msg
        while isinstance(reply, Msg) and not self.is_over:
            id, sent = reply.message_id, line.delivered(reply)
            if self._draw.random() > (0.05 if line.is_slow else 0.9):
                return
            line.acks(sent)
            reply = await client.ack(line.queue, id)
            line.acked(sent, id, reply)
            self.acks += not isinstance(reply, Err)
            self._expect(line, reply, "ACK", Ok | Msg, "NO_MSG")

    async def get(self, client: SmpClient) -> None:
        while not self.is_over:
            line = self._draw.choice(self.ledger.alive)
            (reply,) = await client.ask(line.queue.asks(c.SmpGet()))
            self._expect(line, reply, "GET", Ok | Msg)
            if isinstance(reply, Msg):
                await self._take(client, line, reply)
            await asyncio.sleep(self._draw.uniform(0, 0.05))

    # Notifiers.

    async def watch(self, client: SmpClient, service: str | None) -> None:
        if service is not None:
            await self._subscribe_service(client, c.NSubs(Tally()))
        while not self.is_over:
            if (told := await self._event(client)) is not None:
                entity, notice = told
                queue = self.ledger.by_notifier[entity].queue
                if isinstance(notice, NMsg) and queue.notifier == entity:
                    queue.open_notice(notice)
            lines = [line for line in self.ledger.alive if line.notifier]
            if lines and self._draw.random() < 0.5:
                await self._watch_one(client, self._draw.choice(lines))

    async def _watch_one(self, client: SmpClient, line: Line) -> None:
        async with line.lock:
            queue = line.queue
            if line.deleting or not line.notifier or queue.notifier != line.notifier:
                return  # its NKEY was cut off, and nobody knows the key
            line.notifier_owners.add(client.service_id)
            (reply,) = await client.ask(Request(c.NSub(), queue.notifier, queue.notifier_key))
            if isinstance(reply, Sok):
                line.notifier_owners = {client.service_id}
            self._expect(line, reply, "NSUB", Sok)

    # Making, changing and deleting.

    async def keep(self, client: SmpClient) -> None:
        while not self.is_over:
            chance = self._draw.random()
            with suppress(Refused):
                if chance < 0.3 or len(self.ledger.alive) < QUEUES - 5:
                    await self.make()
                elif chance < 0.6:
                    await self.delete(client, self._draw.choice(self.ledger.alive))
                else:
                    await self.rename(client, self._draw.choice(self.ledger.alive))
            await asyncio.sleep(self._draw.uniform(0, 0.05))

    async def make(self) -> None:
        client, service = self._draw.choice(self._makers)
        kind = self._draw.choice(KINDS)
        notifier = make_key("x25519") if self._draw.random() < 0.3 else None
        self.ledger.making += 1
        try:
            queue = await client.new_queue(kind, subscribe=service is not None, notifier=notifier)
        except Refused as refused:
            self.ledger.making -= 1
            self._refused("NEW", Err(str(refused)))
            raise
        self.ledger.making -= 1
        key = make_key("x25519") if self._draw.random() < 0.4 else None
        line = Line(len(self.ledger.lines), queue, key, {client.service_id})
        line.notifier = queue.notifier
        self.ledger.lines[queue.id] = line
        self.ledger.by_notifier[queue.notifier] = line
        if key is not None:
            self._expect(line, await secure(client, line, key), "KEY", Ok)

    async def delete(self, client: SmpClient, line: Line) -> None:
        async with line.lock:
            line.deleting = True
            (reply,) = await client.ask(line.queue.asks(c.Del()))
            line.is_deleted = isinstance(reply, Ok)
            self._expect(line, reply, "DEL", Ok)
            line.deleting = line.is_deleted

    async def rename(self, client: SmpClient, line: Line) -> None:
        """Give the queue another notifier, or none."""
        async with line.lock:
            if line.deleting:
                return
            line.renaming = True
            if self._draw.random() < 0.7:
                reply = await client.set_notifier(line.queue, make_key("x25519"))
            else:
                (reply,) = await client.ask(line.queue.asks(c.NDel()))
            line.renaming = False
            if not isinstance(reply, Err):
                line.notifier = line.queue.notifier if isinstance(reply, Nid) else b""
                line.notifier_owners = {None}
                self.ledger.by_notifier[line.notifier] = line
            self._expect(line, reply, "NKEY or NDEL", Ok | Nid)

    # What is expected.

    def _expect(
        self, line: Line, reply: Reply, what: str, good: type[Any] | UnionType, *errors: str
    ) -> None:
        """A queue that is being deleted may be gone; otherwise there is no reason to say so."""
        if isinstance(reply, good) or (isinstance(reply, Err) and reply.text in errors):
            return
        if reply != Err("AUTH") or not line.deleting:
            self._refused(f"{line}: {what}", reply)

    def _refused(self, what: str, reply: Reply) -> None:
        if self._store_may_fail and isinstance(reply, Err) and reply.text.startswith("STORE"):
            self.failed += 1
        else:
            self.wrong.append(f"{what} was answered with {reply}")

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except TimeoutError:
            self.wrong.append("the router did not answer")
        except NotConnected as error:
            if not self.is_over:
                self.wrong.append(f"the router closed a connection: {error}")
        except (AssertionError, ProtocolError) as error:
            self.wrong.append(f"{type(error).__name__}: {error}")


async def secure(client: SmpClient, line: Line, key: Key) -> Reply:
    """KEY. To say it again is fine, as long as it is the same key."""
    (reply,) = await client.ask(line.queue.asks(c.Key(spki(key))))
    line.is_secured = line.is_secured or isinstance(reply, Ok)
    return reply
