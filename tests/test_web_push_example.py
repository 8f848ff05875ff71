"""``examples/web_push_receiver.py`` in a process of its own, with a router and a notification
server."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.agent import Agent, SenderQueue
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.pushing.providers import open_providers
from headgate.ntf_server.pushing.settings import PushSettings, WebPushSettings
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from tests.support.http_services import Certificate
from tests.support.ntf_notifiers import QUICK
from tests.support.repository import ROOT
from tests.support.smp_router import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig("sqlite:q.db", tmp_path / "router", keeps_port=True)
    await rig.start()
    yield rig
    await rig.stop()


@pytest.fixture
async def certificate(tmp_path: Path) -> Certificate:
    return await asyncio.to_thread(Certificate.make, tmp_path / "tls")


@pytest.fixture
async def server(tmp_path: Path, certificate: Certificate) -> AsyncIterator[NtfServer]:
    web_push = WebPushSettings(
        "mailto:ops@example.org",
        tmp_path / "state",
        allowed_private_hosts=frozenset({"localhost"}),
        ca_file=certificate.certificate,
    )
    identity = await asyncio.to_thread(Identity.open, tmp_path / "ntf", "localhost", time.time())
    providers = open_providers(PushSettings(web_push))
    settings = NtfSettings(port=0, apps=AppSettings(providers=frozenset(providers)), shell=QUICK)
    async with await NtfServer.open(NtfHost(), identity, tmp_path, settings, providers) as server:
        yield server


class Receiver:
    """The program that runs; what it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        self._lines = process.stdout

    async def prints(self, text: str, again: list[str]) -> None:
        """The next line that it prints. What it was killed over, between printing and
        acknowledging, may come again before."""
        while (line := await self.line()) != text:
            assert line in again

    async def line(self) -> str:
        async with asyncio.timeout(100):
            return (await self._lines.readline()).decode().rstrip("\n")


@asynccontextmanager
async def running(
    folder: Path, rig: Rig, server: NtfServer, certificate: Certificate, listener: socket.socket
) -> AsyncIterator[Receiver]:
    port = listener.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hypercorn", "web_push_receiver:app"),
        *("--workers", "0", "--bind", f"fd://{listener.fileno()}"),
        *("--certfile", str(certificate.certificate), "--keyfile", str(certificate.key)),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "examples"),
            "ROUTER": str(rig.address),
            "NTF": str(server.address),
            "ENDPOINT": f"https://localhost:{port}/push",
        },
        pass_fds=[listener.fileno()],
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Receiver(process)
    finally:
        # An agent may be stopped at any moment; what it was given is in its file.
        process.kill()
        await process.communicate()


async def test_the_receiver_wakes_and_reads(
    rig: Rig, server: NtfServer, certificate: Certificate, tmp_path: Path
) -> None:
    """Also after a restart, without another code."""
    folder = tmp_path / "receiver"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with Agent.memory() as sender:
            queue: SenderQueue | None = None
            again: list[str] = []
            for text in ("first", "second"):
                async with running(folder, rig, server, certificate, listener) as receiver:
                    address = await receiver.line()
                    await receiver.prints("ready", again)
                    queue = queue or await sender.open_queue(address)
                    await queue.send(text.encode(), notify=True)
                    await receiver.prints(text, again)
                again.append(text)
