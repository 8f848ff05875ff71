"""Two routers on one database, as processes: what an operator, a probe and a client see of them."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headgate.journal import reader
from headgate.testing.postgres import PostgresCluster
from tests.crash.routers import lasting_port
from tests.support.front import Front
from tests.support.router_pair import COMMAND, PATIENCE, Member, Pair

SECTIONS = """\
[listen.smp]
port = 0
[listen.resp]
port = 0
"""
AHEAD = "import time; now = time.time; time.time = lambda: now() + 86400 * 300; " + COMMAND
"""A machine whose clock is 300 days ahead."""


class Probed:
    """The admin port of a router, which serves or waits."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.port = lasting_port()
        text = (member.folder / "headgate.toml").read_text()
        (member.folder / "headgate.toml").write_text(
            text.replace("[admin]\nport = 0", f"[admin]\nport = {self.port}")
        )

    def get(self, path: str) -> tuple[int, str]:
        token = (self.member.folder / "state" / "admin.token").read_text().strip()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body

    def gauge(self, name: str) -> float:
        _, text = self.get("/metrics")
        [line] = [line for line in text.splitlines() if line.startswith(f"headgate_{name} ")]
        return float(line.split()[1])


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


@pytest.fixture
def url(cluster: PostgresCluster) -> str:
    return cluster.url(cluster.create_database())


@pytest.fixture
async def pair(tmp_path: Path, url: str) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, url, SECTIONS, "30s")
    yield pair
    pair.kill()


@pytest.fixture
async def quick(tmp_path: Path, url: str) -> AsyncIterator[Pair]:
    """Two of which the owner is ended after two seconds of silence."""
    pair = Pair(tmp_path, url, SECTIONS, "2s")
    yield pair
    pair.kill()


def facts(pair: Pair, kind: str) -> list[dict[str, Any]]:
    """Of both journals, in the order of their numbers."""
    found = {
        fact["number"]: fact
        for member in pair.members
        for fact in reader.facts(member.journal, 0)
        if fact["kind"] == kind
    }
    return [found[number] for number in sorted(found)]


async def test_one_that_waits_says_so_and_serves_when_the_owner_has_ended(pair: Pair) -> None:
    a, b = pair.members
    probed = Probed(b)
    await pair.start()
    status, body = probed.get("/readyz")
    assert status == 503
    [problem] = json.loads(body)
    assert problem.startswith("router: standby: headgate on ")
    assert f"process {a.process.pid}" in problem
    assert json.loads(probed.get("/status.json")[1])["stage"] == "standby"
    assert probed.get("/healthz")[0] == 200
    assert probed.gauge("owner") == 0
    assert a.end() == 0
    await b.serves()
    await until(lambda: probed.get("/readyz")[0] == 200)
    assert probed.gauge("owner") == 1
    assert probed.gauge("owner_term") == 2
    store = json.loads(probed.get("/status.json")[1])["store"]
    assert (store["kind"], store["term"], store["reason"]) == ("postgresql", 2, "gone")
    assert b.end() == 0
    first, second = facts(pair, "RouterStarted")
    assert 0 < first["number"] < second["number"], "facts go on where the other router was"
    taken = facts(pair, "OwnershipTaken")
    assert [(fact["term"], fact["reason"]) for fact in taken] == [(1, "free"), (2, "gone")]


async def test_one_that_waits_can_be_stopped_and_the_owner_does_not_notice(pair: Pair) -> None:
    await pair.start()
    assert pair.other.end() == 0
    assert pair.owner.is_serving


async def test_systemd_sees_that_one_that_waits_is_alive(pair: Pair, tmp_path: Path) -> None:
    """It has said that it is started, so a watchdog counts; it would be ended for waiting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(PATIENCE)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000000"}
        pair.members[1].command = f"import os; os.environ.update({told}); {COMMAND}"
        await pair.start()
        assert channel.recv(1000).startswith(b"READY=1\nSTATUS=standby: ")
        assert [channel.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3


async def test_an_identity_that_clients_would_refuse_is_one_line_that_says_what_to_do(
    pair: Pair,
) -> None:
    a, b = pair.members
    a.start()
    await a.serves()
    shutil.rmtree(b.folder / "state" / "identity")
    b.start()
    assert b.process.wait(PATIENCE) == 1
    [line] = [line for line in b.log.splitlines() if not line.startswith("{")]
    assert "Copy the folder from the other router" in line
    assert not (b.folder / "state" / "identity").exists(), "it makes none of its own"


@pytest.mark.alone
async def test_a_stopped_owner_closes_every_client_when_it_goes_on_and_waits(quick: Pair) -> None:
    pair = quick
    await pair.start()
    owner, other = pair.owner, pair.other
    at = owner.addresses["resp"]
    reader, writer = await asyncio.open_connection(at["host"], at["port"])
    writer.write(b"PING\r\n")
    assert await reader.readline() == b"+PONG\r\n"
    pid = owner.process.pid
    owner.pause()
    await other.serves()
    owner.go_on()
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    await owner.waits()
    assert owner.process.pid == pid
    assert owner.process.poll() is None
    assert not owner.is_serving
    assert owner.events("the store is another router's")
    assert pair.owner is other
    other.kill()
    await owner.serves()


@pytest.mark.alone
async def test_clocks_that_differ_play_no_part(quick: Pair) -> None:
    """One is 300 days ahead of the other, and of the database."""
    quick.members[1].command = AHEAD
    await quick.start()
    await asyncio.sleep(3)
    assert quick.owner is quick.members[0], "an owner that is heard stays it"
    quick.members[0].pause()
    await quick.members[1].serves()
    quick.members[0].go_on()
    await quick.members[0].waits()
    await asyncio.sleep(2.5)
    assert quick.owner is quick.members[1]


async def test_a_database_that_went_back_is_told_and_served_as_it_is(
    quick: Pair, url: str, cluster: PostgresCluster
) -> None:
    a = quick.members[0]
    a.start()
    await a.serves()
    name = url.removeprefix("postgresql:///").partition("?")[0]
    with cluster.connect(name) as db:
        [(mark,)] = db.execute("SELECT number FROM headgate.marks").fetchall()
        db.execute("UPDATE headgate.marks SET number = number - 1")
    await until(lambda: len(a.events("serving")) == 2)
    [told] = a.events("StoreWentBack")
    assert told["expected"] >= mark
    assert told["found"] < told["expected"]


async def test_the_owner_serves_on_when_the_database_was_restarted(tmp_path: Path) -> None:
    """Exactly one does, whoever that is on a busy machine; and nobody has to be started."""
    with PostgresCluster(fsync=False) as cluster:
        url = cluster.url(cluster.create_database())
        pair = Pair(tmp_path, url, SECTIONS, "20s")
        try:
            await pair.start()
            await asyncio.to_thread(cluster.stop, signal.SIGQUIT)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(cluster.start)
            question = (
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1212629332"
            )

            def owners() -> int:
                with cluster.connect() as db:
                    return int(db.execute(question).fetchall()[0][0])

            await until(lambda: owners() == 1)
            await until(lambda: sum(member.is_serving for member in pair.members) == 1)
            assert all(member.process.poll() is None for member in pair.members)
        finally:
            pair.kill()


@pytest.mark.alone
async def test_an_owner_that_is_held_apart_from_the_database_is_succeeded_and_waits_again(
    quick: Pair, url: str, cluster: PostgresCluster
) -> None:
    """Nothing is cut: its connections are open and silent, new ones too."""
    a, b = quick.members
    front = Front()
    await front.start()
    front.turn_to(cluster.socket)
    name = url.removeprefix("postgresql:///").partition("?")[0]
    a.configure(f"postgresql://postgres@127.0.0.1:{front.port}/{name}", SECTIONS, "2s")
    a.command = f"import headgate.server.ownership_watch as w; w.GIVE_UP_SECONDS = 5; {COMMAND}"
    probed = Probed(a)
    await quick.start()
    at = a.addresses["resp"]
    reader, writer = await asyncio.open_connection(at["host"], at["port"])
    front.hold()
    await b.serves()
    status, body = await asyncio.to_thread(probed.get, "/readyz")
    assert status == 503
    assert "has not heard this router" in body
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionError):
            assert await reader.read() == b"", "its clients look for another"
    writer.close()
    await until(lambda: a.events("standby"))
    assert "cannot be reached" in a.events("standby")[-1]["waits_for"]
    front.release()
    await until(lambda: "process" in a.events("standby")[-1]["waits_for"])
    assert a.process.poll() is None
    assert b.is_serving
    b.kill()
    await a.serves()
    await front.stop()
