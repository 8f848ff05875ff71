"""TLS, the greetings, and what blocks look like on the way."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from contextlib import suppress

import pytest

from headgate.client.smp.recipient import spki
from headgate.client.smp.tls import tls_context
from headgate.core.facts import SessionClosed
from headgate.errors import ProtocolError
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec.blocks import BLOCK
from headgate.wire.smp.codec.ciphers import PlainCipher
from headgate.wire.smp.handshake import LEGACY, VERSIONS, ClientHello, ServerHello, Versions
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import OK, body, message
from tests.support.smp_router import Rig

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

PLAIN = PlainCipher()


class Raw:
    """A connection with TLS and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.tls: ssl.SSLObject = writer.get_extra_info("ssl_object")

    @classmethod
    async def connect(cls, router: Rig, context: ssl.SSLContext | None = None) -> Raw:
        context = context or tls_context()
        return cls(*await asyncio.open_connection(router.host, router.port, ssl=context))

    async def hello(self) -> ServerHello:
        return ServerHello.parse(PLAIN.open(await self.reader.readexactly(BLOCK)))

    def say(self, hello: ClientHello) -> None:
        self.writer.write(PLAIN.seal(hello.encode()))

    async def is_closed(self) -> bool:
        """Whether the router closes without another word."""
        async with asyncio.timeout(20):
            return await self.reader.read() == b""

    async def leave(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def reasons(router: Rig) -> list[str]:
    return [fact.reason for fact in router.facts if isinstance(fact, SessionClosed)]


@pytest.mark.parametrize("version", range(7, 20))
@pytest.mark.parametrize("with_key", [True, False])
async def test_every_version_carries_a_message(router: Rig, version: int, with_key: bool) -> None:
    """What the client opens with its chain of keys was sealed from version 11 on, if it
    has a key."""
    client = await router.connect(versions=Versions(7, version), with_key=with_key)
    assert client.version == version
    assert client.is_encrypted is (version >= 11 and with_key)
    queue = await client.new_queue()
    assert await client.send(queue, b"hello") == OK
    sent = await message(client, queue)
    assert body(queue, sent) == b"hello"
    assert await client.ack(queue, sent.message_id) == OK


async def test_a_client_that_knows_more_gets_the_newest_that_both_know(router: Rig) -> None:
    client = await router.connect(versions=Versions(6, 20))
    assert client.version == 19


async def test_each_connection_has_a_session_id_of_its_own(router: Rig) -> None:
    """And the key that the router signed is another one too."""
    clients = [await router.connect() for _ in range(3)]
    assert len({client.session_id for client in clients}) == 3
    assert {len(client.session_id) for client in clients} == {32}
    assert len({client.router_key for client in clients}) == 3


async def test_what_was_signed_in_one_session_is_worth_nothing_in_another(router: Rig) -> None:
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    second.session_id = first.session_id
    with pytest.raises(Exception, match="AUTH"):
        await second.new_queue()
    assert (await first.new_queue()).id != queue.id


async def test_without_alpn_an_old_version_is_offered_and_nothing_works(router: Rig) -> None:
    raw = await Raw.connect(router, tls_context(alpn=False))
    hello = await raw.hello()
    assert hello.versions == LEGACY
    assert hello.chain == ()
    raw.say(ClientHello(6, router.fingerprint))
    assert await raw.is_closed()
    await raw.leave()
    assert reasons(router) == ["handshake no common version"]
    with pytest.raises(ProtocolError, match="no common version"):
        await router.connect(alpn=False)


@pytest.mark.parametrize("names", [["http/1.1"], ["h2", "http/1.1"], ["h2", "smp/1"]])
async def test_clients_that_use_the_port_of_https_name_its_protocol(
    router: Rig, names: list[str]
) -> None:
    context = tls_context(alpn=False)
    context.set_alpn_protocols(names)
    raw = await Raw.connect(router, context)
    assert (await raw.hello()).versions == VERSIONS
    await raw.leave()


@pytest.mark.parametrize("names", [["h2"], ["smp/2"], ["smp"], ["ntf/1", "h2"]])
async def test_another_protocol_of_alpn_ends_the_handshake(router: Rig, names: list[str]) -> None:
    context = tls_context(alpn=False)
    context.set_alpn_protocols(names)
    with pytest.raises(OSError, match=r"(?i)no.application.protocol"):
        await Raw.connect(router, context)
    raw = await Raw.connect(router, tls_context())
    assert (await raw.hello()).versions == VERSIONS
    await raw.leave()


@pytest.mark.parametrize(
    ("version", "flaw", "reason"),
    [
        (19, "another router", "handshake meant another router"),
        (6, None, "handshake no common version"),
        (20, None, "handshake no common version"),
        (19, "no hello", "handshake malformed"),
        (19, "weak key", "handshake malformed"),
    ],
)
async def test_a_wrong_hello_is_answered_by_closing(
    router: Rig, version: int, flaw: str | None, reason: str
) -> None:
    raw = await Raw.connect(router)
    await raw.hello()
    meant = secrets.token_bytes(32) if flaw == "another router" else router.fingerprint
    key = spki(secrets.token_bytes(32))
    if flaw == "weak key":
        key = key[:12] + bytes(32)  # everybody's secret with it is the same
    if flaw == "no hello":
        raw.writer.write(bytes(BLOCK))
    else:
        raw.say(ClientHello(version, meant, key))
    assert await raw.is_closed()
    await raw.leave()
    assert reasons(router) == [reason]


async def test_a_router_of_another_name_is_not_trusted(router: Rig) -> None:
    with pytest.raises(ProtocolError, match="another router"):
        await SmpClient.connect(router.host, router.port, secrets.token_bytes(32))


async def test_nothing_is_resumed(router: Rig) -> None:
    """The id of a session is made of its own handshake, so each has a full one. A client that
    shows an earlier session of TLS is not recognised."""
    context = tls_context()

    def visit(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool, bytes]:
        with (
            socket.create_connection((router.host, router.port)) as plain,
            context.wrap_socket(plain, session=session) as tls,
        ):
            received = b""
            while len(received) < BLOCK:
                received += tls.recv(BLOCK - len(received))
            hello = ServerHello.parse(PLAIN.open(received))
            assert hello.session_id == tls.get_channel_binding("tls-unique")
            return tls.session, bool(tls.session_reused), hello.session_id

    earlier, _, first = await asyncio.to_thread(visit, None)
    assert earlier is not None
    _, reused, second = await asyncio.to_thread(visit, earlier)
    assert not reused
    assert first != second


async def test_only_the_newest_tls_is_spoken(router: Rig) -> None:
    context = tls_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        await Raw.connect(router, context)
    raw = await Raw.connect(router)
    await raw.hello()
    cipher = raw.tls.cipher()
    assert cipher is not None
    assert cipher[0] == "TLS_CHACHA20_POLY1305_SHA256"
    await raw.leave()


async def test_who_says_nothing_is_not_waited_for(start_rig: StartRig) -> None:
    """Neither before TLS nor after it; whoever has shaken hands may be silent."""
    router = await start_rig(handshake_timeout=0.2)
    opened = await router.connect()
    plain = await asyncio.open_connection(router.host, router.port)
    raw = await Raw.connect(router)
    await raw.hello()
    half = await Raw.connect(router)
    half.writer.write(bytes(BLOCK // 2))
    async with asyncio.timeout(20):
        assert await plain[0].read() == b""
    assert await raw.is_closed()
    await half.hello()
    assert await half.is_closed()
    assert reasons(router) == ["handshake took too long"] * 2
    assert (await opened.new_queue()).id
    plain[1].close()
    await plain[1].wait_closed()
    await raw.leave()
    await half.leave()


async def test_garbage_instead_of_tls_is_closed(router: Rig) -> None:
    reader, writer = await asyncio.open_connection(router.host, router.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(20):
        with suppress(ConnectionResetError):
            while await reader.read(1024):
                pass
    writer.close()
    with suppress(ConnectionResetError):
        await writer.wait_closed()
    assert (await router.connect()).version == 19


async def test_a_router_stops_in_the_middle_of_handshakes(router: Rig) -> None:
    """Whatever state they are in, all connections end."""
    plain = await asyncio.open_connection(router.host, router.port)
    raw = await Raw.connect(router)
    await raw.hello()
    await asyncio.sleep(0.05)
    await router.restart()
    async with asyncio.timeout(20):
        assert await plain[0].read() == b""
    assert await raw.is_closed()
    plain[1].close()
    await plain[1].wait_closed()
    await raw.leave()
    assert (await router.connect()).version == 19
