"""What clients do in the benchmark of queues: subscribe in blocks, pass messages on, stay idle.

All of them are in one process and on one core, and their CPU is told beside the router's: where
both are near a whole core, the clients may be what limits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.queues_store import BODY, Crowd
from headgate.client.smp.recipient import Request
from headgate.client.smp.service import Service
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.replies import Alls, Msg, Ok, Pong, Reply, Sok, Soks
from headgate.wire.smp.codec.sealed import Body, open_message, parse_message

BLOCK_QUEUES = 135
"""SUBs that fit into one block."""
CONNECTING = 32
"""Handshakes under way at a time; the router allows 64 from one address."""
PATIENCE = 120.0

Address = tuple[str, int, bytes]
"""Host, port and fingerprint."""


@asynccontextmanager
async def connected(address: Address, count: int) -> AsyncIterator[list[SmpClient]]:
    clients: list[SmpClient] = []
    try:
        while len(clients) < count:
            some = min(CONNECTING, count - len(clients))
            clients += await asyncio.gather(*(SmpClient.connect(*address) for _ in range(some)))
        yield clients
    finally:
        for client in clients:
            client.close()


async def told(client: SmpClient) -> tuple[bytes, Reply]:
    return await client.event(PATIENCE)


async def expect(client: SmpClient, kind: type[Reply]) -> None:
    _, reply = await told(client)
    assert isinstance(reply, kind), f"{reply}, not {kind.__name__}"


# Subscribing.


@dataclass(frozen=True, slots=True)
class Subscribed:
    blocks: int
    granted_s: float
    """From the first block until all was granted."""
    delivered_s: float
    """Until every message was there, too."""
    client_cpu_s: float


def subscriptions(client: SmpClient, crowd: Crowd, count: int) -> list[bytes]:
    """Blocks of signed SUBs of the first queues."""
    blocks = []
    for start in range(0, count, BLOCK_QUEUES):
        numbers = range(start, min(start + BLOCK_QUEUES, count))
        requests = (Request(c.Sub(), crowd.id(n), crowd.key(n)) for n in numbers)
        payloads = pack([client.encode(request) for request in requests])
        assert len(payloads) == 1, "a block holds them all"
        blocks += payloads
    return blocks


@asynccontextmanager
async def subscribed(
    address: Address, crowd: Crowd, count: int, window: int
) -> AsyncIterator[Subscribed]:
    """A session that subscribes to the first queues, with so many blocks under way."""
    async with connected(address, 1) as (client,):
        blocks = subscriptions(client, crowd, count)
        room = asyncio.Semaphore(window)
        wanted = len(range(0, count, crowd.every)) if crowd.every else 0
        granted: set[bytes] = set()
        delivered: set[bytes] = set()

        async def write() -> None:
            for block in blocks:
                await room.acquire()
                await client.send_block(block)

        began, cpu, granted_s = time.perf_counter(), time.process_time(), 0.0
        writing = asyncio.create_task(write())
        while len(granted) < count or len(delivered) < wanted:
            entity, reply = await told(client)
            if isinstance(reply, Sok):
                granted.add(entity)
                if len(granted) % BLOCK_QUEUES == 0:
                    room.release()
                if len(granted) == count:
                    granted_s = time.perf_counter() - began
            else:
                assert isinstance(reply, Msg), f"{reply} for a SUB"
                delivered.add(entity)
        await writing
        delivered_s = time.perf_counter() - began
        yield Subscribed(len(blocks), granted_s, delivered_s, time.process_time() - cpu)


# Messages on their way.


@dataclass(slots=True)
class Pair:
    """A sender and a recipient of one queue."""

    sender: SmpClient
    recipient: SmpClient
    crowd: Crowd
    n: int
    cycles: int = 0
    arrived_s: list[float] = field(default_factory=list)
    """From SEND until MSG."""
    began_at: list[float] = field(default_factory=list)
    _send: bytes = b""

    async def start(self) -> None:
        """Subscribe, sign the SEND that is then sent again and again, and look into the first."""
        crowd, n = self.crowd, self.n
        request = Request(c.SmpSend(False, BODY), crowd.sender(n), crowd.sender_key)
        (self._send,) = pack([self.sender.encode(request)])
        (granted,) = await self.recipient.ask(Request(c.Sub(), crowd.id(n), crowd.key(n)))
        assert isinstance(granted, Sok), granted
        message = await self._deliver()
        opened = parse_message(open_message(crowd.secret, message.message_id, message.sealed))
        assert isinstance(opened, Body), "a message"
        assert opened.body == BODY, "the message that was sent"
        await self._confirm(message)

    async def cycle(self) -> None:
        """SEND, MSG, ACK, and both OKs."""
        began = time.perf_counter()
        message = await self._deliver()
        self.arrived_s.append(time.perf_counter() - began)
        self.began_at.append(began)
        await self._confirm(message)
        self.cycles += 1

    async def cycle_until(self, end: float) -> None:
        while time.perf_counter() < end:
            await self.cycle()

    async def _deliver(self) -> Msg:
        await self.sender.send_block(self._send)
        _, message = await told(self.recipient)
        assert isinstance(message, Msg), f"{message}, not MSG"
        return message

    async def _confirm(self, message: Msg) -> None:
        crowd, n = self.crowd, self.n
        request = Request(c.SmpAck(message.message_id), crowd.id(n), crowd.key(n))
        (block,) = pack([self.recipient.encode(request)])
        await self.recipient.send_block(block)
        await expect(self.recipient, Ok)
        await expect(self.sender, Ok)


@asynccontextmanager
async def pairs(address: Address, crowd: Crowd, count: int) -> AsyncIterator[list[Pair]]:
    async with connected(address, 2 * count) as clients:
        found = [Pair(clients[2 * n], clients[2 * n + 1], crowd, n) for n in range(count)]
        for pair in found:
            await pair.start()
        yield found


# A service.


@dataclass(frozen=True, slots=True)
class Swept:
    began: float
    ended: float
    """By the clock that processes share."""
    soks_s: float
    alls_s: float
    messages: int
    client_cpu_s: float


async def sweep(address: Address, service: Service, crowd: Crowd) -> Swept:
    """SUBS, until ALLS."""
    tally = crowd.tally
    client = await SmpClient.connect(*address, service=service)
    try:
        assert client.service_id is not None, "the router knows the service"
        assert client.service_id == crowd.service, "the service that the store knows"
        (block,) = pack([client.encode(Request(c.Subs(tally), client.service_id))])
        began, cpu = time.perf_counter(), time.process_time()
        await client.send_block(block)
        _, soks = await told(client)
        soks_s = time.perf_counter() - began
        assert isinstance(soks, Soks), f"{soks}, not SOKS"
        assert soks.tally == tally, "all queues, and no other"
        delivered: set[bytes] = set()
        while True:
            entity, reply = await told(client)
            if isinstance(reply, Alls):
                break
            assert isinstance(reply, Msg), f"{reply} during the sweep"
            delivered.add(entity)
        ended = time.perf_counter()
        assert len(delivered) == crowd.pending, "every message, before ALLS"
        cpu = time.process_time() - cpu
        return Swept(began, ended, soks_s, ended - began, len(delivered), cpu)
    finally:
        client.close()


async def ping(clients: list[SmpClient]) -> None:
    """One block of each."""
    for client in clients:
        (reply,) = await client.ask(Request(c.Ping()))
        assert isinstance(reply, Pong), reply
