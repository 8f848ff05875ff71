"""An SMP router that greets as one and then does what a test says, when it says so; the handler
of a link that keeps all it is handed; and a clock that stands still."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.core.model.value import value
from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key, raw_key, sign_key
from headgate.server.identity import CERTIFICATE, KEY, Identity
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BLOCK, pack, unpack
from headgate.wire.smp.codec.ciphers import Cipher, PlainCipher, router_cipher
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.transmissions import encode_unsigned, parse
from headgate.wire.smp.handshake import (
    VERSIONS,
    ClientHello,
    ServerHello,
    ServiceAccepted,
    ServiceReply,
    Versions,
)

PLAIN = PlainCipher()
SERVICE_ID = b"service id of 24 bytes.."

T = TypeVar("T")

Answer: TypeAlias = tuple[bytes, bytes, r.Reply | bytes]
"""Correlation, entity, and the reply or its bytes."""


@value
class Asked:
    """A request as the router reads it."""

    correlation: bytes
    entity: bytes
    command: c.Command
    authorization_bytes: int
    is_service_signed: bool

    def answer(self, reply: r.Reply | bytes) -> Answer:
        return self.correlation, self.entity, reply


def event(entity: bytes, reply: r.Reply) -> Answer:
    return b"", entity, reply


class Talk:
    """One connection of a client, from the router's end."""

    def __init__(
        self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.blocks_read = 0
        """The client's hello included."""
        self.hello: ClientHello | None = None
        self.blocks: asyncio.Queue[list[Asked]] = asyncio.Queue()
        self.asked: list[Asked] = []
        self.over = asyncio.Event()
        """The client has left."""
        self._peer = peer
        self._reader = reader
        self._writer = writer
        self._cipher: Cipher = PLAIN

    async def block(self) -> list[Asked]:
        """The requests of the next block."""
        return await self.blocks.get()

    async def one(self) -> Asked:
        """The only request of the next block."""
        (asked,) = await self.block()
        return asked

    def send(self, *answers: Answer) -> None:
        """As few blocks as they fill."""
        assert self.hello is not None
        version = self.hello.version
        encoded = [
            encode_unsigned(
                correlation,
                entity,
                reply if isinstance(reply, bytes) else r.encode_reply(reply, version),
            )
            for correlation, entity, reply in answers
        ]
        self.send_transmissions(encoded)

    def send_transmissions(self, encoded: Sequence[bytes]) -> None:
        for payload in pack(encoded):
            self.send_payload(payload)

    def send_payload(self, payload: bytes) -> None:
        self.send_raw(self._cipher.seal(payload))

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def close(self) -> None:
        """After all that was written."""
        self._writer.close()

    def drop(self) -> None:
        """As if the cable were cut."""
        self._writer.transport.abort()

    async def play(self) -> None:
        try:
            await self._greet()
            while True:
                self._take(unpack(self._cipher.open(await self._block())))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.over.set()
            self._writer.transport.abort()

    def _take(self, transmissions: Iterable[bytes]) -> None:
        assert self.hello is not None
        version = self.hello.version
        block = []
        for data in transmissions:
            found = parse(data, version)
            command = c.parse_command(found.command, version)
            block.append(
                Asked(
                    found.correlation,
                    found.entity,
                    command,
                    len(found.authorization),
                    found.service_signature is not None,
                )
            )
        self.asked += block
        self.blocks.put_nowait(block)

    async def _greet(self) -> None:
        peer = self._peer
        tls: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        session_id = tls.get_channel_binding("tls-unique") or b""
        private = secrets.token_bytes(32)
        signed = sign_key(peer.identity.private, encode_key(KeyKind.X25519, public_of(private)))
        hello = ServerHello(peer.versions, session_id, peer.identity.chain, signed)
        if not peer.greets:
            await self._reader.read()
            return
        self.send_raw(peer.alter(PLAIN.seal(peer.change(hello).encode())))
        self.hello = ClientHello.parse(PLAIN.open(await self._block()))
        if self.hello.service is not None:
            if peer.service_reply is None:
                return
            self.send_raw(PLAIN.seal(peer.service_reply.encode()))
        if self.hello.is_encrypted:
            assert self.hello.key is not None
            self._cipher = router_cipher(private, raw_key(self.hello.key), session_id)
        peer.greeted.put_nowait(self)

    async def _block(self) -> bytes:
        block = await self._reader.readexactly(BLOCK)
        self.blocks_read += 1
        return block


class Peer:
    """A router that listens on loopback. What it greets with may be changed before."""

    def __init__(self, folder: Path) -> None:
        self.identity = Identity.open(folder, "localhost", time.time())
        self.versions: Versions = VERSIONS
        self.greets = True
        self.change: Callable[[ServerHello], ServerHello] = lambda hello: hello
        self.alter: Callable[[bytes], bytes] = lambda block: block
        self.service_reply: ServiceReply | None = ServiceAccepted(SERVICE_ID)
        self.talks: list[Talk] = []
        self.names: list[str | None] = []
        """Of hosts, as clients named them in TLS."""
        self.greeted: asyncio.Queue[Talk] = asyncio.Queue()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0
        self._context.sni_callback = lambda _, name, __: self.names.append(name)
        self._context.set_alpn_protocols(["smp/1"])
        self._context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._meet, "127.0.0.1", 0, ssl=self._context, limit=BLOCK
        )
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> RouterAddress:
        return RouterAddress(("127.0.0.1",), self.port, self.identity.fingerprint)

    async def talk(self) -> Talk:
        """The next client that has greeted."""
        return await self.greeted.get()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for talk in self.talks:
            talk.drop()
            await talk.over.wait()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(self, reader, writer)
        self.talks.append(talk)
        await talk.play()


class Notes:
    """A handler that keeps what it is handed, in its order."""

    def __init__(self) -> None:
        self.events: list[tuple[bytes, r.Reply]] = []
        self.late: list[tuple[c.Command | bytes, r.Reply]] = []
        self.reports: list[Unexpected] = []
        self.losses: list[tuple[int, bytes, str]] = []
        self.order: list[object] = []
        """All of it."""

    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        self.events.append((entity, event))
        self.order.append((entity, event))

    def answered_late(self, link: Link, request: Request, reply: r.Reply) -> None:
        self.late.append((request.command, reply))
        self.order.append((request.command, reply))

    def unexpected(self, link: Link, report: Unexpected) -> None:
        self.reports.append(report)
        self.order.append(report)

    def lost(self, link: Link, reason: str) -> None:
        self.losses.append((link.slot, link.session_id, reason))
        self.order.append(reason)


class StillClock:
    """The clock of an event loop, which goes on when a test says so, and not by itself."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        """What is due by then happens, in its order."""
        self.now += seconds
        await passes()


async def passes(count: int = 20) -> None:
    """Let the loop go round so many times: enough for what is ready, and what that makes ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    """Wait for something that comes over the network; no clock is asked."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


class CancelledAt:
    """Awaits a coroutine and cancels the task that does at one of the times that it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], number: int) -> None:
        self.waits = 0
        """How often it has waited."""
        self._coroutine = coroutine
        self._number = number

    def __await__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
        waiting = self._coroutine.__await__()
        sent: object = None
        thrown: BaseException | None = None
        while True:
            try:
                future = waiting.send(sent) if thrown is None else waiting.throw(thrown)
            except StopIteration as stop:
                return stop.value
            thrown = None
            if self.waits == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            self.waits += 1
            try:
                sent = yield future
            except BaseException as error:
                thrown = error


async def is_cancelled_at(coroutine: Coroutine[Any, Any, T], number: int) -> bool:
    """Whether the coroutine waited so often, and so was cancelled then; it has to end by it."""

    async def run() -> T:
        result: T = await CancelledAt(coroutine, number)
        return result

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    return task.cancelled()
