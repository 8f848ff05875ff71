"""A client of the SMP wire: what a real one checks, it checks; what it is told, it tells.

`SmpClient` is one connection. A reading task opens the blocks and sorts what is in them: answers
go to who asked, everything else is an event, kept in its order until somebody wants it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.core.parties import Purpose
from headgate.errors import ProtocolError, Refused
from headgate.testing.recipient import Key as Key
from headgate.testing.recipient import Kind as Kind
from headgate.testing.recipient import LinkData as LinkData
from headgate.testing.recipient import Queue as Queue
from headgate.testing.recipient import Request as Request
from headgate.testing.recipient import make_key as make_key
from headgate.testing.recipient import spki as spki
from headgate.testing.services import Service
from headgate.wire.smp import commands as c
from headgate.wire.smp.blocks import BLOCK, pack, unpack
from headgate.wire.smp.box import Cipher, PlainCipher, client_cipher, shared_key
from headgate.wire.smp.handshake import (
    SERVICE_FROM,
    VERSIONS,
    ClientHello,
    Role,
    ServerHello,
    ServiceRefused,
    Versions,
    parse_service_reply,
)
from headgate.wire.smp.keys import (
    KeyKind,
    check_chain,
    fingerprint,
    kind_of,
    leaf_key,
    open_signed_key,
    public_key,
    raw_key,
)
from headgate.wire.smp.proof import authenticator, link_sender
from headgate.wire.smp.replies import Err, Ids, Nid, Reply, has_right_entity, parse_reply_command
from headgate.wire.smp.session import MESSAGING_SINCE
from headgate.wire.smp.transmissions import Transmission, encode, parse_reply, signed

PROTOCOL = "smp/1"
CORRELATION = 24
"""Bytes of what an answer is known by."""

PATIENCE = 10.0
"""Seconds that an answer may take before the router is taken to be stuck."""

PLAIN = PlainCipher()

Event: TypeAlias = tuple[bytes, Reply]
"""An entity, and what was said of it unasked."""


class SmpClient:
    """One connection with a router."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session_id: bytes
    ) -> None:
        self.session_id = session_id
        self.version = 0
        self.service_id: bytes | None = None
        self.service_key: Ed25519PrivateKey | None = None
        """The key of this session of a service."""
        self.router_key = b""
        """The router's key of this session, raw."""
        self.blocks = 0
        """How many were read, those of the handshake included."""
        self._reader = reader
        self._writer = writer
        self._socket: socket.socket = writer.get_extra_info("socket")
        self._fingerprint = b""
        self._cipher: Cipher = PLAIN
        self._waiting: dict[bytes, tuple[bytes, asyncio.Future[Reply]]] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._reads = asyncio.Event()
        self._reads.set()
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

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
    ) -> SmpClient:
        """Raises `ProtocolError` if the router is not who it should be, `Refused` if it does not
        want the service, and `ConnectionError` if it closes meanwhile."""
        context = tls_context(service, alpn=alpn)
        reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=BLOCK)
        tls = writer.get_extra_info("ssl_object")
        client = cls(reader, writer, tls.get_channel_binding("tls-unique"))
        try:
            async with asyncio.timeout(PATIENCE):
                hello = ServerHello.parse(PLAIN.open(await client._block()))
                client._check(hello, fingerprint, tls.getpeercert(binary_form=True), versions)
                await client._answer(hello, fingerprint, service, role, with_key)
        except BaseException:
            client.close()
            raise
        client._task = asyncio.create_task(client._read())
        return client

    @property
    def is_encrypted(self) -> bool:
        """Whether the blocks after the handshake are, beside what TLS does."""
        return self._cipher is not PLAIN

    # Asking and being told.

    async def ask(self, *requests: Request) -> list[Reply]:
        """The answers, in the order of the requests. What fits into one block goes in one."""
        transmissions = [self._transmission(request) for request in requests]
        answers = [self._expect(transmission) for transmission in transmissions]
        for payload in pack([encode(t, self.version) for t in transmissions]):
            await self.send_block(payload)
        async with asyncio.timeout(PATIENCE):
            return list(await asyncio.gather(*answers))

    async def event(self, timeout: float = 2.0) -> Event:  # noqa: ASYNC109
        """What was said next without being asked; raises `TimeoutError` if nothing is."""
        async with asyncio.timeout(timeout):
            return await self._events.get()

    async def quiet(self, seconds: float = 0.3) -> None:
        """Nothing is said unasked for so long."""
        with suppress(TimeoutError):
            event = await self.event(seconds)
            raise AssertionError(f"told unasked: {event}")

    def encode(self, request: Request) -> bytes:
        """The transmission of a request, for those who fill their blocks themselves. Its answer
        is nobody's, and so an event."""
        return encode(self._transmission(request), self.version)

    def seal(self, payload: bytes) -> bytes:
        """The next block."""
        return self._cipher.seal(payload)

    async def send_block(self, payload: bytes) -> None:
        await self.send_raw(self.seal(payload))

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def hold(self) -> None:
        """Read nothing more until `go_on`: what the router writes piles up there, not here."""
        self._reads.clear()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * BLOCK)

    def go_on(self) -> None:
        self._reads.set()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 * BLOCK)

    def close(self) -> None:
        """Leave at once, as a client does that is switched off."""
        if self._task is not None:
            self._task.cancel()
        self._writer.transport.abort()
        self._fail(ConnectionAbortedError("the client has left"))

    async def closed(self) -> None:
        """Wait until the connection is over."""
        async with asyncio.timeout(PATIENCE):
            if self._task is not None:
                await asyncio.wait([self._task])
        self.close()
        with suppress(OSError):
            await self._writer.wait_closed()

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
        key, dh, correlation = make_key(kind), secrets.token_bytes(32), secrets.token_bytes(24)
        linked = None
        if link is not None:
            linked = c.NewLink(link_sender(correlation), link.fixed, link.user, link.id)
        notified = None if notifier is None else c.NKey(spki(notifier), spki(dh))
        new = c.New(spki(key), spki(dh), password, subscribe, purpose, linked, notified)
        (ids,) = await self.ask(Request(new, key=key, correlation=correlation))
        if not isinstance(ids, Ids):
            raise Refused(ids.text if isinstance(ids, Err) else str(ids))
        queue = Queue(ids, key, shared_key(dh, raw_key(ids.dh)), notifier)
        if ids.notifier is not None:
            queue.notice_secret = shared_key(dh, raw_key(ids.notifier.dh))
        return queue

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
        (reply,) = await self.ask(Request(c.Send(notify, body), queue.sender, key))
        return reply

    async def ack(self, queue: Queue, message_id: bytes) -> Reply:
        (reply,) = await self.ask(queue.asks(c.Ack(message_id)))
        return reply

    # The handshake.

    def _check(self, hello: ServerHello, expected: bytes, leaf: bytes, versions: Versions) -> None:
        """That the router is the one meant, and at the other end of this very connection."""
        if hello.session_id != self.session_id:
            raise ProtocolError("the session is not that of the connection")
        version = versions.common(hello.versions)
        if version is None:
            raise ProtocolError(f"no common version: the router offers {hello.versions}")
        if len(hello.chain) < 2 or fingerprint(hello.chain) != expected:
            raise ProtocolError("another router")
        check_chain(hello.chain, time.time())
        if hello.chain[0] != leaf:
            raise ProtocolError("another certificate than that of the connection")
        key = open_signed_key(hello.signed_key, leaf_key(hello.chain))
        if kind_of(key) is not KeyKind.X25519:
            raise ProtocolError("a session key of a wrong kind")
        self.version, self.router_key = version, raw_key(key)

    async def _answer(
        self,
        hello: ServerHello,
        expected: bytes,
        service: Service | None,
        role: Role,
        with_key: bool,
    ) -> None:
        private = secrets.token_bytes(32)
        shown = None
        since = MESSAGING_SINCE if role is Role.MESSAGING else SERVICE_FROM
        if service is not None and self.version >= since:
            self.service_key = Ed25519PrivateKey.generate()
            self._fingerprint = service.fingerprint
            shown = service.hello(role, public_key(self.service_key))
        answer = ClientHello(
            self.version, expected, spki(private) if with_key else None, service=shown
        )
        await self.send_block(answer.encode())
        if shown is not None:
            reply = parse_service_reply(PLAIN.open(await self._block()))
            if isinstance(reply, ServiceRefused):
                raise Refused(reply.error.value.decode())
            self.service_id = reply.service_id
        if answer.is_encrypted:
            self._cipher = client_cipher(private, self.router_key, hello.session_id)

    # Requests.

    def _transmission(self, request: Request) -> Transmission:
        command, key = request.command, request.key
        drawn = secrets.token_bytes(CORRELATION)
        correlation = drawn if request.correlation is None else request.correlation
        if not isinstance(command, bytes):
            command = c.encode_command(command, self.version)
        transmission = Transmission(b"", None, correlation, request.entity, command)
        over = signed(self.session_id, transmission)
        service_signed = request.service_signed
        if self.service_key is not None:
            if key is None and isinstance(request.command, c.Subs | c.NSubs):
                key = self.service_key
            if service_signed is None:
                service_signed = isinstance(request.command, c.New | c.Sub | c.NSub)
        if key is None:
            return transmission
        by_service = None
        if service_signed:
            assert self.service_key is not None, "only a service's session signs"
            by_service = self.service_key.sign(over)
            if isinstance(request.command, c.New | c.Sub | c.NSub):
                over = self._fingerprint + over
        if isinstance(key, bytes):
            authorization = authenticator(shared_key(key, self.router_key), correlation, over)
        else:
            authorization = key.sign(over)
        return Transmission(authorization, by_service, correlation, request.entity, command)

    def _expect(self, transmission: Transmission) -> asyncio.Future[Reply]:
        correlation = transmission.correlation
        assert correlation, "an answer without a correlation is an event"
        assert correlation not in self._waiting, "every request has a correlation of its own"
        if self._failure is not None:
            raise self._failure
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = transmission.entity, answer
        return answer

    # Reading.

    async def _block(self) -> bytes:
        try:
            block = await self._reader.readexactly(BLOCK)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the router closed the connection") from error
        self.blocks += 1
        return block

    async def _read(self) -> None:
        try:
            while True:
                block = await self._block()
                await self._reads.wait()
                self._take(unpack(self._cipher.open(block)))
        except (OSError, ProtocolError) as error:
            self._writer.transport.abort()
            self._fail(error)

    def _take(self, transmissions: Iterable[bytes]) -> None:
        for data in transmissions:
            told = parse_reply(data)
            reply = parse_reply_command(told.command, self.version)
            if not has_right_entity(reply, told.entity):
                raise ProtocolError(f"{reply} about {told.entity.hex() or 'nothing'}")
            entity, answer = self._waiting.pop(told.correlation, (b"", None))
            if answer is None:
                self._events.put_nowait((told.entity, reply))
            elif told.entity != entity and not isinstance(reply, Err):
                raise ProtocolError("an answer about something else")
            elif not answer.done():
                answer.set_result(reply)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._failure)
                answer.exception()  # whoever asked may have left
        self._waiting.clear()


def tls_context(service: Service | None = None, *, alpn: bool = True) -> ssl.SSLContext:
    """TLS 1.3 with nobody's authority: the router is judged by the fingerprint."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols([PROTOCOL])
    if service is not None:
        # Python reads certificates from files only.
        with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
            private = service.private
            file.write(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            for der in service.chain:
                file.write(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM))
        try:
            context.load_cert_chain(file.name)
        finally:
            os.unlink(file.name)
    return context
