"""Two routers of several workers on one database: one serves, the other waits with all of its
workers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from headgate.testing.postgres import PostgresCluster
from tests.crash.routers import lasting_port
from tests.support.resp_workers import children_of, worker_of
from tests.support.router_pair import COMMAND, PATIENCE, Member, Pair

WORKERS = 2
SECTIONS = f"""\
[workers]
count = {WORKERS}
[domains.log]
mode = "fanout"
groups = "open"
streams = ["s*"]
keep_messages = 100
[listen.smp]
port = 0
[listen.resp]
port = """
TOLD = "import os; os.environ['NOTIFY_SOCKET'] = {!r}; " + COMMAND


@pytest.fixture
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path, cluster: PostgresCluster
) -> AsyncIterator[Pair]:
    """A test may say after which silence the owner is ended."""
    timeout = getattr(request, "param", "30s")
    url = cluster.url(cluster.create_database())
    pair = Pair(tmp_path, url, "", timeout)
    for member in pair.members:
        member.configure(url, f"{SECTIONS}{lasting_port()}", timeout)
    yield pair
    pair.kill()


def clients(member: Member) -> list[redis.Redis]:
    """One on each worker."""
    found: dict[int, redis.Redis] = {}
    at = member.addresses["resp"]
    while len(found) < WORKERS:
        client = redis.Redis(
            at["host"], at["port"], single_connection_client=True, socket_timeout=PATIENCE
        )
        found.setdefault(worker_of(client, WORKERS), client)
    return [found[number] for number in range(WORKERS)]


def stream(client: redis.Redis) -> list[object]:
    """The ids of what it has."""
    return [id for id, _ in client.xrange("s1") or ()]


def is_listening(member: Member) -> bool:
    text = (member.folder / "headgate.toml").read_text()
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", int(text.split()[-1]))) == 0


def hangs_up(client: redis.Redis) -> None:
    assert client.connection is not None
    with pytest.raises(redis.ConnectionError):
        client.connection.read_response(disconnect_on_error=True)


async def test_one_that_waits_does_not_listen_and_serves_with_all_workers(
    pair: Pair, tmp_path: Path
) -> None:
    """Also systemd sees it waiting, and serving."""
    a, b = pair.members
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(PATIENCE)
        b.command = TOLD.format(str(tmp_path / "notify"))
        await pair.start()
        assert channel.recv(1000).startswith(b"READY=1\nSTATUS=standby: headgate on ")
        assert is_listening(a)
        assert not is_listening(b)
        accepted = [client.xadd("s1", {"n": n}) for n, client in enumerate(clients(a))]
        assert a.end() == 0
        await b.serves()
        while channel.recv(1000) != b"STATUS=serving":
            pass
    for client in clients(b):
        assert stream(client) == accepted
        client.close()
    assert b.end() == 0


async def test_one_that_waits_can_be_stopped(pair: Pair) -> None:
    await pair.start()
    assert pair.other.end() == 0
    assert pair.owner.is_serving


@pytest.mark.parametrize(
    ("pair", "sent"),
    [("30s", signal.SIGKILL), pytest.param("2s", signal.SIGSTOP, marks=pytest.mark.alone)],
    indirect=["pair"],
)
async def test_all_workers_start_anew_when_the_one_with_the_store_is_gone(
    pair: Pair, sent: signal.Signals
) -> None:
    """Whoever serves then has what was accepted. No client of the old owner is left to believe
    that it serves, on any worker; and that one waits, as the same process, and serves again."""
    await pair.start()
    owner, other = pair.owner, pair.other
    before = clients(owner)
    accepted = [client.xadd("s1", {"n": 1}) for client in before]
    workers = children_of(owner.process.pid)
    home = min(workers)
    os.kill(home, sent)
    await other.serves()
    with suppress(ProcessLookupError):
        os.kill(home, signal.SIGCONT)
    for client in before:
        await asyncio.to_thread(hangs_up, client)
    await owner.waits()
    assert owner.process.poll() is None
    assert not owner.is_serving
    assert not set(workers) & set(children_of(owner.process.pid))
    for client in clients(other):
        assert stream(client) == accepted
        accepted.append(client.xadd("s1", {"n": 2}))
        client.close()
    other.kill()
    await owner.serves()
    for client in clients(owner):
        assert stream(client) == accepted
        client.close()
