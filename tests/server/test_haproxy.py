"""The configuration of haproxy in docs/standby.md, with haproxy itself."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headgate.testing.postgres import PostgresCluster
from tests.crash.routers import lasting_port
from tests.support.repository import DOCS
from tests.support.router_pair import PATIENCE, Pair

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


def documented(listens: dict[str, int], ports: list[tuple[int, int]]) -> str:
    """The text of the page, with addresses that are free here; for each router the port of its
    Redis clients and that of its admin."""
    page = (DOCS / "standby.md").read_text()
    found = re.search(r"```haproxy\n(.*?)```", page, re.DOTALL)
    assert found is not None
    defaults, *sections = found[1].split("\nlisten ")
    [resp] = [section for section in sections if section.startswith("resp")]
    text = f"{defaults}\nlisten {resp}".replace(" port 8222", "")
    text = text.replace("bind :6379", f"bind 127.0.0.1:{listens['resp']}")
    for machine, (port, admin) in zip(("10.0.0.5", "10.0.0.6"), ports, strict=True):
        text = text.replace(f"{machine}:6379", f"127.0.0.1:{port} port {admin}")
    return text


@contextmanager
def haproxy(folder: Path, text: str) -> Iterator[None]:
    program = shutil.which("haproxy", path=PATH)
    assert program is not None, "apt-get install haproxy"
    config = folder / "haproxy.cfg"
    config.write_text(text)
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-db", "-f", config], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def answered(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which somebody answers PING."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"PING\r\n")
                if await reader.readline() == b"+PONG\r\n":
                    return reader, writer
                writer.close()
            await asyncio.sleep(0.05)


@pytest.fixture
async def pair(tmp_path: Path, cluster: PostgresCluster) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, cluster.url(cluster.create_database()), "", "2s")
    yield pair
    pair.kill()


@pytest.mark.alone
async def test_clients_of_a_router_that_hangs_are_cut_and_find_the_other(
    pair: Pair, tmp_path: Path
) -> None:
    ports = [(lasting_port(), lasting_port()) for _ in pair.members]
    for member, (port, admin) in zip(pair.members, ports, strict=True):
        file = member.folder / "headgate.toml"
        text = file.read_text().replace("[admin]\nport = 0", f"[admin]\nport = {admin}")
        file.write_text(f"{text}\n[listen.resp]\nport = {port}\n")
    listens = {"resp": lasting_port()}
    await pair.start()
    with haproxy(tmp_path, documented(listens, ports)):
        reader, writer = await answered(listens["resp"])
        first = pair.owner
        first.pause()
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        _, writer = await answered(listens["resp"])
        writer.close()
        assert pair.members[1].is_serving
        first.go_on()
        await first.waits()
        pair.members[1].kill()
        _, writer = await answered(listens["resp"])
        writer.close()
        assert first.is_serving
