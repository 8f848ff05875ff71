"""A link of an app with a notification server: ours, and one that does what a test says."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.ntf.link import AppRequest, NtfLink
from headgate.client.smp.timing import Timing
from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key, sign_key
from headgate.errors import (
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    RequestRefused,
    TimedOut,
)
from headgate.server.identity import Identity
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.address import NTF_PROTOCOL, NtfAddress
from headgate.wire.ntf.hello import NtfServerHello
from headgate.wire.ntf.replies import IdTkn, TokenState
from headgate.wire.ntf.statuses import TokenStatus
from headgate.wire.ntf.transmissions import (
    BLOCK,
    NtfAnswer,
    decode_block,
    encode_answer,
    encode_block,
    pack_blocks,
    read_requests,
)
from headgate.wire.smp.codec.blocks import LargeMessage
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Ok, Pong
from headgate.wire.smp.handshake import Versions
from tests.support.http_services import serving_streams
from tests.support.ntf_app import AppKeys
from tests.support.ntf_examples import TEST_DEVICE, WEB_DEVICE
from tests.support.ntf_scene import AppScene, serving_apps

LONG_DEVICE = replace(WEB_DEVICE, path="/" + "a" * 250, host="a" * 100)
Act = Callable[["ScriptedServer"], Awaitable[None]]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AppScene]:
    async with serving_apps(tmp_path) as scene:
        yield scene


async def test_a_link_asks_and_is_answered(scene: AppScene) -> None:
    keys = AppKeys()
    async with await NtfLink.connect(scene.address) as link:
        assert await link.ask(AppRequest(Ping())) == Pong()
        made = await link.ask(AppRequest(keys.new_token(TEST_DEVICE), keys.signing))
        assert isinstance(made, IdTkn)
        check = AppRequest(c.TChk(), keys.signing, made.token)
        assert await link.ask(check) == TokenState(TokenStatus.REGISTERED)
        with pytest.raises(RequestRefused, match="AUTH"):
            await link.ask(replace(check, key=Ed25519PrivateKey.generate()))


async def test_many_are_answered_in_their_order(scene: AppScene) -> None:
    """More than a server would let wait."""
    async with await NtfLink.connect(scene.address) as link:
        wrong = AppRequest(c.TChk(), Ed25519PrivateKey.generate(), bytes(24))
        outcomes = await link.ask_all([AppRequest(Ping()), wrong] * 50)
    assert [str(each) for each in outcomes] == [str(Pong()), str(RequestRefused("AUTH"))] * 50


async def test_another_server_is_not_asked(scene: AppScene) -> None:
    meant = replace(scene.address, key_hash=bytes(32))
    with pytest.raises(NotThisRouter, match="another server"):
        await NtfLink.connect(meant)


async def test_what_has_no_room_is_not_sent(scene: AppScene) -> None:
    """The link goes on."""
    async with await NtfLink.connect(scene.address) as link:
        with pytest.raises(LargeMessage):
            await link.ask(AppRequest(c.TNew(LONG_DEVICE, bytes(44), bytes(44))))
        assert await link.ask(AppRequest(Ping())) == Pong()


async def test_the_next_host_is_tried(scene: AppScene) -> None:
    address = replace(scene.address, hosts=("127.0.0.2", *scene.address.hosts))
    async with await NtfLink.connect(address) as link:
        assert await link.ask(AppRequest(Ping())) == Pong()
    with pytest.raises(NotConnected, match="no notification server answers"):
        await NtfLink.connect(replace(address, hosts=("127.0.0.2",)))


async def test_a_link_that_was_closed_asks_nothing(scene: AppScene) -> None:
    link = await NtfLink.connect(scene.address)
    await link.close()
    with pytest.raises(NotConnected):
        await link.ask(AppRequest(Ping()))


class ScriptedServer:
    """One connection of a server that does what a test says."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: Identity
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.identity = identity
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        self.session_id = tls.get_channel_binding("tls-unique") or b""

    def hello(self) -> NtfServerHello:
        key = encode_key(KeyKind.X25519, public_of(bytes(range(32))))
        signed = sign_key(self.identity.private, key)
        return NtfServerHello(Versions(2, 3), self.session_id, signed)

    async def greet(self, hello: NtfServerHello) -> None:
        self.writer.write(encode_block(hello.encode()))
        decode_block(await self.reader.readexactly(BLOCK))

    async def request(self) -> NtfAnswer:
        """The next one, with what it could be answered."""
        [request] = read_requests(await self.reader.readexactly(BLOCK), self.session_id)
        return NtfAnswer(request.correlation, request.entity, Pong())

    def answer(self, answer: NtfAnswer) -> None:
        for block in pack_blocks([encode_answer(answer, 3)]):
            self.writer.write(block)


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Callable[[Act], Awaitable[NtfAddress]]]:
    identity = await asyncio.to_thread(Identity.open, tmp_path / "ntf", "localhost", time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = tmp_path / "chain.pem"
    pem.write_text("".join(ssl.DER_cert_to_PEM_cert(der) for der in identity.chain))
    context.load_cert_chain(pem, tmp_path / "ntf" / "server.key")
    context.set_alpn_protocols([NTF_PROTOCOL])
    async with AsyncExitStack() as stack:

        async def start(act: Act) -> NtfAddress:
            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await act(ScriptedServer(reader, writer, identity))
                await reader.read()

            port = await stack.enter_async_context(serving_streams(handle, context))
            return NtfAddress(("127.0.0.1",), port, identity.fingerprint)

        yield start


Scripted = Callable[[Act], Awaitable[NtfAddress]]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda hello: replace(hello, session_id=bytes(32)), NotThisRouter),
        (lambda hello: replace(hello, versions=Versions(4, 9)), NoCommonVersion),
        (lambda hello: replace(hello, signed_key=bytes(100)), NotThisRouter),
        (lambda hello: replace(hello, versions=Versions(1, 1)), NoCommonVersion),
    ],
)
async def test_a_server_that_does_not_prove_itself_is_sent_nothing(
    scripted: Scripted,
    change: Callable[[NtfServerHello], NtfServerHello],
    error: type[Exception],
) -> None:
    read: list[bytes] = []

    async def act(server: ScriptedServer) -> None:
        server.writer.write(encode_block(change(server.hello()).encode()))
        read.append(await server.reader.read(1))

    address = await scripted(act)
    with pytest.raises(error):
        await NtfLink.connect(address)
    assert b"".join(read) == b""


async def test_a_block_of_rubbish_is_no_server(scripted: Scripted) -> None:
    async def act(server: ScriptedServer) -> None:
        server.writer.write(b"\xff" * BLOCK)

    with pytest.raises(NotThisRouter):
        await NtfLink.connect(await scripted(act))


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: replace(asked, correlation=bytes(24)),
        lambda asked: replace(asked, reply=Ok()),
        lambda asked: replace(asked, entity=bytes(24)),
    ],
)
async def test_an_answer_to_something_else_ends_the_link(
    scripted: Scripted, answer: Callable[[NtfAnswer], NtfAnswer]
) -> None:
    async def act(server: ScriptedServer) -> None:
        await server.greet(server.hello())
        server.answer(answer(await server.request()))

    async with await NtfLink.connect(await scripted(act)) as link:
        for _ in range(2):
            with pytest.raises(NotConnected, match="broke the protocol"):
                await link.ask(AppRequest(Ping()))


async def test_a_server_that_goes_away_or_does_not_answer(scripted: Scripted) -> None:
    async def leave(server: ScriptedServer) -> None:
        await server.greet(server.hello())
        await server.request()
        server.writer.transport.abort()

    async def wait(server: ScriptedServer) -> None:
        await server.greet(server.hello())
        await server.request()

    async with await NtfLink.connect(await scripted(leave)) as link:
        with pytest.raises(NotConnected):
            await link.ask(AppRequest(Ping()))
    short = Timing(answer_seconds=0.1)
    async with await NtfLink.connect(await scripted(wait), timing=short) as link:
        with pytest.raises(TimedOut, match="notification server"):
            await link.ask(AppRequest(Ping()))


async def test_a_server_that_does_not_greet(scripted: Scripted) -> None:
    async def be_silent(server: ScriptedServer) -> None:
        pass

    async def leave(server: ScriptedServer) -> None:
        server.writer.transport.abort()

    with pytest.raises(TimedOut, match="connecting with"):
        await NtfLink.connect(await scripted(be_silent), timing=Timing(connect_seconds=0.5))
    with pytest.raises(NotConnected):
        await NtfLink.connect(await scripted(leave))


async def test_who_is_cancelled_leaves_a_closed_link(scripted: Scripted) -> None:
    """Its answer would be taken for that of the next."""
    asked = asyncio.Event()

    async def wait(server: ScriptedServer) -> None:
        await server.greet(server.hello())
        await server.request()
        asked.set()

    async with await NtfLink.connect(await scripted(wait)) as link:
        asking = asyncio.create_task(link.ask(AppRequest(Ping())))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(NotConnected):
            await link.ask(AppRequest(Ping()))
