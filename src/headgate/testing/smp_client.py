"""A client of SMP routers that may misbehave: a link that can be held, and whose blocks its user
may write as it likes.

It is what tests, benchmarks and tools ask a router with. A program that wants a router rather
than to try one uses `headgate.client.smp.link.Link`.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp import requests
from headgate.client.smp.greeting import PLAIN, Stream, greet
from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Key, Kind, LinkData, Queue, Request, make_key, spki
from headgate.client.smp.service import Service
from headgate.client.smp.session_keys import SessionKeys
from headgate.client.smp.timing import Timing
from headgate.client.smp.tls import tls_context
from headgate.core.model.parties import Purpose
from headgate.crypto.box import shared_key
from headgate.crypto.keys import raw_key
from headgate.errors import HeadgateError, ProtocolError, Refused, RequestRefused
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import BLOCK
from headgate.wire.smp.codec.replies import Err, Ids, Nid, Reply
from headgate.wire.smp.handshake import VERSIONS, Role, Versions

PATIENCE = 10.0
"""Seconds that an answer may take before the router is taken to be stuck."""

TIMING = Timing(connect_seconds=PATIENCE, answer_seconds=PATIENCE)

Event: TypeAlias = tuple[bytes, Reply]
"""An entity, and what came of it unasked."""


class HeldLink(Link):
    """A link that stops reading when it is told to, and counts what it read."""

    blocks = 0
    """How many were read after the greetings."""

    def __init__(self, stream: Stream, keys: SessionKeys, client: SmpClient) -> None:
        super().__init__(stream, keys, client, timing=TIMING)
        self.stream = stream
        self.keys = keys
        self.reads = asyncio.Event()
        self.reads.set()

    async def _block(self) -> bytes:
        block = await super()._block()
        self.blocks += 1
        await self.reads.wait()
        return block


class SmpClient:
    """One connection with a router, and the events that came over it."""

    link: HeldLink

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        fingerprint: bytes,
        *,
        versions: Versions = VERSIONS,
        service: Service | None = None,
        role: Role = Role.MESSAGING,
        alpn: bool = True,
        with_key: bool = True,
    ) -> Self:
        """Raises what `Link.connect` raises."""
        client = cls()
        async with asyncio.timeout(PATIENCE):
            stream = await Stream.open(host, port, tls_context(service, alpn=alpn))
            try:
                keys = await greet(
                    stream,
                    fingerprint,
                    versions=versions,
                    service=service,
                    role=role,
                    with_key=with_key,
                )
            except BaseException:
                stream.abort()
                raise
        client.link = HeldLink(stream, keys, client)
        client.link.start()
        return client

    # What was agreed on. A test may put something else in its place.

    @property
    def session_id(self) -> bytes:
        return self.link.session_id

    @session_id.setter
    def session_id(self, session_id: bytes) -> None:
        self.link.keys.session_id = session_id

    @property
    def service_key(self) -> Ed25519PrivateKey | None:
        """The key of this session of a service."""
        return self.link.keys.service_key

    @service_key.setter
    def service_key(self, key: Ed25519PrivateKey | None) -> None:
        self.link.keys.service_key = key

    @property
    def version(self) -> int:
        return self.link.version

    @property
    def service_id(self) -> bytes | None:
        return self.link.service_id

    @property
    def router_key(self) -> bytes:
        """The router's key of this session, raw."""
        return self.link.keys.router_key

    @property
    def is_encrypted(self) -> bool:
        """Whether blocks are, beside what TLS does."""
        return self.link.keys.cipher is not PLAIN

    @property
    def blocks(self) -> int:
        """The number of blocks read."""
        return self.link.blocks

    # What the link hands on.

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        self._events.put_nowait((entity, event))

    def answered_late(self, link: Link, request: Request, reply: Reply) -> None:
        pass  # whoever asked has left

    def unexpected(self, link: Link, report: Unexpected) -> None:
        """The answer to what a user wrote itself. An unreadable answer ends the link."""
        if report.reply is None:
            raise ProtocolError(report.why)
        self._events.put_nowait((report.entity, report.reply))

    def lost(self, link: Link, reason: str) -> None:
        pass  # whoever waits learns it

    # Asking, and what comes unasked.

    async def ask(self, *asked: Request) -> list[Reply]:
        """The answers, in the order of the requests, errors of the router among them."""
        answers: list[Reply] = []
        for outcome in await self.link.ask_all(asked):
            if isinstance(outcome, RequestRefused):
                answers.append(Err(outcome.error))
            elif isinstance(outcome, HeadgateError):
                raise outcome
            else:
                answers.append(outcome)
        return answers

    async def event(self, timeout: float = 20.0) -> Event:  # noqa: ASYNC109
        """The next event that was not asked for; raises `TimeoutError` if none comes."""
        async with asyncio.timeout(timeout):
            return await self._events.get()

    async def quiet(self, seconds: float = 0.3) -> None:
        """Nothing comes unasked for so long."""
        with suppress(TimeoutError):
            event = await self.event(seconds)
            raise AssertionError(f"received unasked: {event}")

    def encode(self, request: Request) -> bytes:
        """The transmission of a request, for those who fill their blocks themselves. Its answer
        is nobody's, and so an event."""
        drawn = secrets.token_bytes(requests.CORRELATION_BYTES)
        return self.link.keys.encode(request, request.correlation or drawn)

    def seal(self, payload: bytes) -> bytes:
        """The next block."""
        return self.link.keys.cipher.seal(payload)

    async def send_block(self, payload: bytes) -> None:
        await self.send_raw(self.seal(payload))

    async def send_raw(self, data: bytes) -> None:
        self.link.stream.write(data)
        await self.link.stream.drain()

    def hold(self) -> None:
        """Read nothing more until `go_on`: what the router writes piles up there, not here."""
        self.link.reads.clear()
        self._set_buffer(8 * BLOCK)

    def go_on(self) -> None:
        self.link.reads.set()
        self._set_buffer(128 * BLOCK)

    def close(self) -> None:
        """Leave at once, as a client does that is switched off."""
        self.link.close()

    async def closed(self) -> None:
        """Wait until the connection is over."""
        async with asyncio.timeout(PATIENCE):
            await self.link.wait_closed()

    # Queues.

    async def new_queue(
        self,
        kind: Kind = "ed25519",
        *,
        subscribe: bool = True,
        purpose: Purpose | None = Purpose.MESSAGING,
        link: LinkData | None = None,
        notifier: Key | None = None,
        password: bytes | None = None,
    ) -> Queue:
        """Raises `Refused` with the router's words."""
        new = requests.new_queue(
            make_key(kind),
            subscribe=subscribe,
            purpose=purpose,
            link=link,
            notifier_key=notifier,
            password=password,
        )
        (ids,) = await self.ask(new.request)
        if not isinstance(ids, Ids):
            raise Refused(ids.text if isinstance(ids, Err) else str(ids))
        return new.made(ids)

    async def set_notifier(self, queue: Queue, key: Key) -> Reply:
        """NKEY; the queue knows its notifier from then on."""
        dh = secrets.token_bytes(32)
        (nid,) = await self.ask(queue.asks(c.NKey(spki(key), spki(dh))))
        if isinstance(nid, Nid):
            queue.ids = replace(queue.ids, notifier=nid)
            queue.notifier_key, queue.notice_secret = key, shared_key(dh, raw_key(nid.dh))
        return nid

    async def subscribe(self, *queues: Queue) -> list[Reply]:
        return await self.ask(*(queue.asks(c.Sub()) for queue in queues))

    async def send(
        self, queue: Queue, body: bytes, key: Key | None = None, notify: bool = False
    ) -> Reply:
        (reply,) = await self.ask(requests.send(queue.sender, body, key, notify=notify))
        return reply

    async def ack(self, queue: Queue, message_id: bytes) -> Reply:
        (reply,) = await self.ask(queue.asks(c.SmpAck(message_id)))
        return reply

    def _set_buffer(self, size: int) -> None:
        plain: socket.socket = self.link.stream.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
