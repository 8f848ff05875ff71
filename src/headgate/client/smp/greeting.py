"""The greetings at the beginning of a connection with a router: the stream, the router's identity,
and the client's."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import time
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import spki
from headgate.client.smp.service import Service
from headgate.client.smp.session_keys import SessionKeys
from headgate.crypto.keys import (
    KeyKind,
    check_chain,
    fingerprint,
    kind_of,
    leaf_key,
    open_signed_key,
    public_key,
    raw_key,
)
from headgate.errors import (
    HostNotFound,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    ProtocolError,
    RequestRefused,
)
from headgate.wire.smp.codec.blocks import BLOCK
from headgate.wire.smp.codec.ciphers import Cipher, PlainCipher, client_cipher
from headgate.wire.smp.handshake import (
    SERVICE_FROM,
    ClientHello,
    Role,
    ServerHello,
    ServiceRefused,
    Versions,
    parse_service_reply,
)
from headgate.wire.smp.session import MESSAGING_SINCE

PLAIN = PlainCipher()


class Stream:
    """Blocks over TLS, without a look at their contents."""

    __slots__ = ("leaf", "reader", "session_id", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        self.session_id = tls.get_channel_binding("tls-unique") or b""
        """The session id, which only the two ends of this connection know."""
        self.leaf = tls.getpeercert(binary_form=True) or b""
        """The certificate of the other end."""

    @classmethod
    async def open(
        cls, host: str, port: int, context: ssl.SSLContext, *, who: str = "router"
    ) -> Stream:
        """Connect. Raises `NotConnected`, or `HostNotFound` if the host's name is the reason.

        The name is not sent: routers that also serve HTTPS take a connection that names its host
        for a browser's.
        """
        name = host.removeprefix("[").removesuffix("]")
        try:
            reader, writer = await asyncio.open_connection(
                name, port, ssl=context, server_hostname="", limit=BLOCK
            )
        except (socket.gaierror, UnicodeError) as error:  # an invalid name, or an unknown one
            reason = error.strerror if isinstance(error, OSError) else "it is no name"
            raise HostNotFound(f"{host} is not found: {reason}") from error
        except OSError as error:
            raise NotConnected(
                f"no {who} answers on {host}:{port}: {error.strerror or error}"
            ) from error
        # A block counts as written when it was sent, not while it waits in a buffer of TLS.
        writer.transport.set_write_buffer_limits(high=1)
        return cls(reader, writer)

    async def block(self) -> bytes:
        """Read a block. Raises `NotConnected` when there is no more."""
        try:
            return await self.reader.readexactly(BLOCK)
        except asyncio.IncompleteReadError as error:
            raise NotConnected("the router closed the connection") from error
        except OSError as error:
            raise NotConnected(f"the connection broke: {error.strerror or error}") from error

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def drain(self) -> None:
        """Wait until all data was sent. Raises `NotConnected` if that is not possible any more."""
        try:
            await self.writer.drain()
        except OSError as error:
            raise NotConnected(f"the connection broke: {error.strerror or error}") from error

    def abort(self) -> None:
        self.writer.transport.abort()

    async def wait_closed(self) -> None:
        with suppress(OSError):  # it is closed, however it came
            await self.writer.wait_closed()


async def greet(
    stream: Stream,
    key_hash: bytes,
    *,
    versions: Versions,
    service: Service | None = None,
    role: Role = Role.MESSAGING,
    with_key: bool = True,
) -> SessionKeys:
    """Check that this is the router with the fingerprint, and answer it.

    Raises `NotThisRouter` or `NoCommonVersion` before anything was sent, `RequestRefused` if the
    router refuses the service, and `NotConnected`. Without a key blocks are not sealed.
    """
    block = await stream.block()
    try:
        hello = ServerHello.parse(PLAIN.open(block))
        version, router_key = check(hello, stream, key_hash, versions)
    except (NotThisRouter, NoCommonVersion):
        raise
    except ProtocolError as error:
        raise NotThisRouter(str(error)) from error
    private = secrets.token_bytes(32)
    service_key, shown = None, None
    # S001-23, S001-24: below these versions a service connects as a plain client.
    since = MESSAGING_SINCE if role is Role.MESSAGING else SERVICE_FROM
    if service is not None and version >= since:
        service_key = Ed25519PrivateKey.generate()
        shown = service.hello(role, public_key(service_key))
    answer = ClientHello(version, key_hash, spki(private) if with_key else None, service=shown)
    stream.write(PLAIN.seal(answer.encode()))
    await stream.drain()
    cipher: Cipher = PLAIN
    try:
        if answer.is_encrypted:
            cipher = client_cipher(private, router_key, hello.session_id)
        keys = SessionKeys(hello.session_id, version, router_key, cipher)
        if service is not None and shown is not None:
            reply = parse_service_reply(PLAIN.open(await stream.block()))
            if isinstance(reply, ServiceRefused):
                # `kind_of_failure` decides which of its errors are temporary.
                raise RequestRefused(reply.error.value.decode())
            keys.service_id, keys.service_key = reply.service_id, service_key
            keys.fingerprint = service.fingerprint
    except ProtocolError as error:
        raise NotConnected(f"the router broke the protocol: {error}") from error
    return keys


def check(
    hello: ServerHello, stream: Stream, key_hash: bytes, versions: Versions
) -> tuple[int, bytes]:
    """The common version and the router's key for this session, once the router has proved its
    identity on this very connection."""
    if hello.session_id != stream.session_id:
        raise NotThisRouter("the session is not that of the connection")
    version = versions.common(hello.versions)
    if version is None:
        lowest, highest = hello.versions
        raise NoCommonVersion(f"no common version: the router speaks {lowest} to {highest}")
    if len(hello.chain) < 2 or fingerprint(hello.chain) != key_hash:
        raise NotThisRouter("another router: its fingerprint is not the one of the address")
    check_chain(hello.chain, time.time())
    if hello.chain[0] != stream.leaf:
        raise NotThisRouter("another certificate than that of the connection")
    key = open_signed_key(hello.signed_key, leaf_key(hello.chain))
    if kind_of(key) is not KeyKind.X25519:
        raise NotThisRouter("a session key of a wrong kind")
    return version, raw_key(key)
