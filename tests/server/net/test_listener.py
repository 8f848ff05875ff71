"""Accepting: where, how many, and what if there is no room."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from headgate.errors import ConfigError
from headgate.server.net import listener as listener_module
from headgate.server.net.listener import Listener, address_text, bind


class Full:
    """A socket that listens for a process without file descriptors."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.is_full = True

    def fileno(self) -> int:
        return self._listening.fileno()

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.is_full:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def close(self) -> None:
        self._listening.close()


async def test_every_connection_is_handed_over_with_its_address() -> None:
    welcomed: asyncio.Queue[tuple[socket.socket, str]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    listening = bind("x", "127.0.0.1", 0)
    made = Listener(loop, listening, lambda s, peer: welcomed.put_nowait((s, peer)))
    clients = [socket.create_connection(made.address) for _ in range(3)]
    peers = set()
    for _ in clients:
        async with asyncio.timeout(20):
            connected, peer = await welcomed.get()
        peers.add(peer)
        assert connected.gettimeout() == 0.0
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connected.close()
    assert peers == {address_text(client.getsockname()) for client in clients}
    made.close()
    made.close()
    for client in clients:
        client.close()


async def test_a_process_without_descriptors_goes_on_when_it_has_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener_module, "PAUSE_SECONDS", 0.01)
    welcomed: asyncio.Queue[socket.socket] = asyncio.Queue()
    full = Full(bind("x", "127.0.0.1", 0))
    address = full._listening.getsockname()
    loop = asyncio.get_running_loop()
    made = Listener(loop, full, lambda s, peer: welcomed.put_nowait(s))  # type: ignore[arg-type]
    with socket.create_connection(address):
        async with asyncio.timeout(20):
            while "cannot accept connections: Too many open files" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert welcomed.empty()
        full.is_full = False
        async with asyncio.timeout(20):
            (await welcomed.get()).close()
    made.close()


def test_a_port_that_somebody_has_is_an_error_that_names_the_section() -> None:
    with bind("x", "127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port}: .*change \[listen.resp\]"):
            bind("listen.resp", "127.0.0.1", port)


def test_addresses_are_written_as_people_write_them() -> None:
    assert address_text(("127.0.0.1", 6379)) == "127.0.0.1:6379"
    assert address_text(("::1", 6379, 0, 0)) == "[::1]:6379"
