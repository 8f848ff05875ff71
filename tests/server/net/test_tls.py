"""TLS on the socket itself: handshakes with a deadline, and bytes both ways."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from pathlib import Path

import pytest

from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.errors import ConfigError
from headgate.server.net.connection import Connection
from headgate.server.net.listener import Listener, bind
from headgate.server.net.poller import poller_of
from headgate.server.net.tls import Handshakes, TlsPipe, server_context
from tests.server.net.test_connection import BIG, ID, Watcher
from tests.support.certificates import make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


class Server:
    """Welcomes with TLS; the newest pipe is `pipe`."""

    def __init__(self, certificate: tuple[Path, Path], seconds: float = 10.0) -> None:
        self.context = server_context(*certificate)
        self.pipes: asyncio.Queue[TlsPipe | None] = asyncio.Queue()
        self.reasons: list[str] = []
        self.seconds = seconds
        loop = asyncio.get_running_loop()
        self.listener = Listener(loop, bind("x", "127.0.0.1", 0), self.welcome)

    def welcome(self, connected: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        self.handshakes = Handshakes(
            loop, lambda raw: TlsPipe(self.context, raw), self.seconds, self.reasons.append
        )
        self.handshakes.begin(connected, self.pipes.put_nowait)

    async def connect(self, trusted: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(trusted))
        return await asyncio.open_connection(*self.listener.address, ssl=context)


async def test_bytes_go_both_ways_however_many(certificate: tuple[Path, Path]) -> None:
    server = Server(certificate)
    reader, writer = await server.connect(certificate[0])
    pipe = await server.pipes.get()
    assert pipe is not None
    watcher = Watcher()
    mailbox = Mailbox(ID, Budget(10**9, 10**8, 10**8))
    loop = asyncio.get_running_loop()
    poller = poller_of(loop)
    connection = Connection(loop, poller, pipe, watcher, ID, mailbox, lambda: 0.0, 100, 1000)
    connection.start(watcher)
    writer.write(BIG)
    connection.deliver(BIG, 1)
    async with asyncio.timeout(20):
        assert await reader.readexactly(len(BIG)) == BIG
    await watcher.until(lambda: len(watcher.received) == len(BIG))
    assert watcher.received == BIG
    connection.close("done")
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    server.listener.close()
    connection.close("over", at_once=True)


async def test_a_handshake_that_never_comes_ends_at_its_deadline(
    certificate: tuple[Path, Path],
) -> None:
    server = Server(certificate, seconds=0.05)
    with socket.create_connection(server.listener.address):
        async with asyncio.timeout(20):
            assert await server.pipes.get() is None
    assert server.reasons == ["took too long"]
    server.listener.close()


async def test_handshakes_that_are_not_done_are_given_up_when_the_router_stops(
    certificate: tuple[Path, Path],
) -> None:
    server = Server(certificate)
    with socket.create_connection(server.listener.address) as client:
        async with asyncio.timeout(20):
            while not hasattr(server, "handshakes"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        server.listener.close()
        server.handshakes.close()
        assert await server.pipes.get() is None
        assert (server.reasons, len(server.handshakes)) == (["the router stops"], 0)
        client.settimeout(10)
        assert client.recv(1) == b""


async def test_what_is_no_tls_is_refused(certificate: tuple[Path, Path]) -> None:
    server = Server(certificate)
    with socket.create_connection(server.listener.address) as client:
        client.sendall(b"*1\r\n$4\r\nPING\r\n")
        async with asyncio.timeout(20):
            assert await server.pipes.get() is None
    assert server.reasons == ["failed"]
    server.listener.close()


def test_a_certificate_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.crt cannot be used"):
        server_context(tmp_path / "server.crt", tmp_path / "server.key")


async def test_a_connection_that_was_reset_before_its_handshake_costs_nothing(
    certificate: tuple[Path, Path],
) -> None:
    server = Server(certificate)
    for _ in range(5):
        reset = socket.create_connection(server.listener.address)
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
    async with asyncio.timeout(20):
        assert [await server.pipes.get() for _ in range(5)] == [None] * 5
    server.listener.close()
