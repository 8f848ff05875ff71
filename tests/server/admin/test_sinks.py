# ruff: noqa: ASYNC110, ASYNC240
"""Staging and committing over HTTP, with a router on SQLite."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.client.admin import JSON, ROWS
from headgate.client.resp import Published, RespClient
from headgate.core.channels.audience import BARE, Kind
from headgate.core.commands import Command, Confirm, Interest, Open
from headgate.core.facts import Fact, PublisherWaited, SessionOpened, SinkCommitted
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.model.window import Window
from headgate.core.reader_commands import Block
from headgate.core.redis.acl import AccessControl
from headgate.core.redis.cluster import Cluster, Node
from headgate.server.admin import app as admin_app
from headgate.server.admin import sinks, staging
from headgate.server.admin.app import make_app
from headgate.server.admin.http_server import serving
from headgate.server.admin.sinks import SinkAdmin
from headgate.server.in_process import InProcessSession
from headgate.server.net.listener import bind
from headgate.server.net.pump import deliver_all
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore
from headgate.wire.resp.hub import Hub
from headgate.wire.resp.settings import Settings
from tests.server.test_serve import Served as Process
from tests.support.resp_hub import Later

TOKEN = "open sesame"
ORDERS = Domain("orders", Mode.PRIORITY)
QUEUE = "bmq://orders/q"
LARGE = Window(100_000, 1 << 30)


def encoded(*rows: Sequence[object]) -> bytes:
    data = msgspec.msgpack.encode(rows)
    return struct.pack(">I", len(data)) + data


def numbered(*numbers: int) -> bytes:
    """A frame of rows with these numbers for ids and bodies."""
    return encoded(*((b"%d" % n, b"body %d" % n, {"n": n}) for n in numbers))


def committing(*parts: tuple[int, int], **more: object) -> bytes:
    where = more or {"queue": QUEUE}
    return json.dumps({"parts": parts, **where}).encode()


class Served:
    """A router with an admin port, in this process."""

    def __init__(
        self, router: Router | None, port: int, facts: list[Fact], token: str | None = TOKEN
    ) -> None:
        self.token = token
        self._router = router
        self.port = port
        self.facts = facts

    async def ask(
        self, method: str, path: str, body: bytes = b"", token: str | None = None
    ) -> tuple[int, Any]:
        return await asyncio.to_thread(self.ask_now, method, path, body, token)

    @property
    def router(self) -> Router:
        assert self._router is not None, "it is in another process"
        return self._router

    def ask_now(
        self, method: str, path: str, body: bytes, token: str | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        kind = ROWS if method == "PUT" else JSON
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, json.loads(data)

    async def stage(self, path: str, *numbers: int) -> tuple[int, Any]:
        return await self.ask("PUT", f"/sinks/{path}", numbered(*numbers))

    async def stage_in_pieces(self, path: str, *numbers: int) -> tuple[int, Any]:
        return await self.ask("PUT", f"/sinks/{path}?in_pieces=true", numbered(*numbers))

    async def commit(self, path: str, *parts: tuple[int, int], **more: object) -> tuple[int, Any]:
        return await self.ask("POST", f"/sinks/{path}/commit", committing(*parts, **more))

    async def listed(self) -> list[tuple[str, int | None, int]]:
        _, told = await self.ask("GET", "/sinks")
        return [(row["sink"], row["batch"], row["staged_bytes"]) for row in told["sinks"]]

    async def bodies(self, most: int = 100_000) -> list[bytes]:
        """What is in the queue, by reading and giving it back."""
        session = InProcessSession(self.router, "reader")
        queue = QueueId(QUEUE.encode())
        await session.ask(Open, queue, "orders", interests=(Interest(window=LARGE),))
        await session.ask(Confirm, queue, ())  # by its answer everything before it is handed out
        found: list[bytes] = []
        while len(found) < most and not session.events.empty():
            found.append((await session.delivery()).message.body)
        session.close()
        return found

    async def taken(self, count: int) -> list[bytes]:
        """So many messages of the queue, confirmed."""
        session = InProcessSession(self.router, "reader")
        queue = QueueId(QUEUE.encode())
        await session.ask(Open, queue, "orders", interests=(Interest(window=LARGE),))
        messages = [(await session.delivery()).message for _ in range(count)]
        await session.ask(Confirm, queue, tuple(message.id for message in messages))
        session.close()
        return [message.body for message in messages]


@asynccontextmanager
async def running(
    folder: Path,
    domain: Domain = ORDERS,
    limits: Limits | None = None,
    hub: Callable[[Router], Hub] | None = None,
) -> AsyncIterator[Served]:
    router = Router(
        store=SqliteStore(folder / "queues.db"),
        domains={domain.name: domain},
        limits=limits or Limits(),
    )
    facts: list[Fact] = []
    router.watch(facts.extend)
    made: list[Hub] = []
    desk = SinkAdmin(router, folder / "sinks", lambda: made[0] if made else None)
    app = make_app(problems=list, status=dict, metrics=bytes, rows=1000, sinks=desk, token=TOKEN)
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app, listening):
        await router.start()
        if hub is not None:
            made.append(hub(router))
        async with desk.opened():
            yield Served(router, listening.getsockname()[1], facts)
        await router.stop()


def bodies(*numbers: int) -> list[bytes]:
    return [b"body %d" % n for n in numbers]


async def test_staged_rows_land_in_the_queue_when_they_are_committed(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        size = len(numbered(1, 2))
        answer = await served.stage("s/0/0/10", 1, 2)
        assert answer == (200, {"bytes": size, "repeated": False})
        await served.stage("s/0/1/11", 3)
        assert await served.bodies() == []
        assert await served.listed() == [("s", None, 2 * staging.FILE_BYTES)]
        answer = await served.commit("s/0", (0, 10), (1, 11))
        assert answer == (200, {"messages": 3, "repeated": False})
        assert await served.bodies() == bodies(1, 2, 3)
        assert await served.listed() == [("s", 0, 0)]
        assert list((tmp_path / "sinks").iterdir()) == []
        [fact] = [f for f in served.facts if isinstance(f, SinkCommitted)]
        assert (fact.sink, fact.batch, fact.messages) == ("s", 0, 3)
        opened = [f.wire for f in served.facts if isinstance(f, SessionOpened)]
        assert opened.count("sink") == 1


async def test_only_the_attempts_that_won_land(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.stage("s/0/0/2", 2)
        await served.commit("s/0", (0, 2))
        assert await served.bodies() == bodies(2)
        assert list((tmp_path / "sinks").iterdir()) == []


async def test_an_attempt_that_is_sent_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.stage("s/0/0/1", 2, 3)
        assert await served.listed() == [("s", None, staging.FILE_BYTES)]
        await served.commit("s/0", (0, 1))
        assert await served.bodies() == bodies(2, 3)


async def test_a_batch_that_is_repeated_is_answered_and_not_done(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/3/0/1", 1)
        await served.commit("s/3", (0, 1))
        for batch in (3, 2):
            answer = await served.stage(f"s/{batch}/0/9", 7)
            assert answer == (200, {"bytes": 0, "repeated": True})
            answer = await served.commit(f"s/{batch}", (0, 9))
            assert answer == (200, {"messages": 0, "repeated": True})
        assert await served.bodies() == bodies(1)
        assert await served.listed() == [("s", 3, 0)]


async def test_what_is_remembered_and_staged_outlives_the_router(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.commit("s/0", (0, 1))
        await served.stage("s/1/0/2", 2)
        (tmp_path / "sinks" / "s@1-1-3.0.part").write_bytes(b"of a router that was killed")
    async with running(tmp_path) as served:
        assert await served.listed() == [("s", 0, staging.FILE_BYTES)]
        assert (await served.commit("s/0", (0, 1)))[1]["repeated"]
        assert (await served.commit("s/1", (0, 2)))[1] == {"messages": 1, "repeated": False}
        assert await served.bodies() == bodies(1, 2)
        assert list((tmp_path / "sinks").iterdir()) == []


async def test_an_attempt_that_is_not_staged_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        status, told = await served.commit("s/0", (0, 1), (5, 6))
        assert status == 409
        assert "partition 5, attempt 6 of batch 0 is not staged here" in told["error"]
        assert await served.bodies() == []
        assert (await served.commit("s/0", (0, 1)))[0] == 200


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-5], lambda data: bytes(len(data))]
)
async def test_a_file_that_a_crash_left_damaged_is_not_staged(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Staging is not synced, so a machine that dies may leave anything under the right name."""
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        path = tmp_path / "sinks" / "s@0-0-1"
        path.write_bytes(damage(path.read_bytes()))
        assert (await served.commit("s/0", (0, 1)))[0] == 409
        assert await served.bodies() == []


async def test_an_abort_drops_what_is_staged_of_its_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.stage("s/1/0/2", 2)
        assert await served.ask("POST", "/sinks/s/0/abort") == (200, {"aborted": True})
        assert (await served.commit("s/0", (0, 1)))[0] == 409
        assert (await served.commit("s/1", (0, 2)))[0] == 200
        assert await served.bodies() == bodies(2)


async def test_an_abort_after_the_commit_changes_nothing(tmp_path: Path) -> None:
    """The driver did not hear the answer, and Spark aborts before it repeats the batch."""
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.commit("s/0", (0, 1))
        assert (await served.ask("POST", "/sinks/s/0/abort"))[0] == 200
        await served.stage("s/0/0/2", 1)
        assert (await served.commit("s/0", (0, 2)))[1]["repeated"]
        assert await served.bodies() == bodies(1)


async def test_a_sink_can_be_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/5/0/1", 1)
        await served.commit("s/5", (0, 1))
        await served.stage("s/6/0/1", 2)
        assert await served.ask("DELETE", "/sinks/s") == (200, {"forgotten": True})
        assert await served.ask("DELETE", "/sinks/s") == (200, {"forgotten": False})
        assert await served.listed() == []
        await served.stage("s/0/0/1", 3)
        assert (await served.commit("s/0", (0, 1)))[1] == {"messages": 1, "repeated": False}


async def test_a_full_queue_takes_nothing_until_there_is_room(tmp_path: Path) -> None:
    async with running(tmp_path, replace(ORDERS, max_messages=3)) as served:
        await served.stage("s/0/0/1", 1, 2)
        await served.commit("s/0", (0, 1))
        await served.stage("s/1/0/2", 3, 4)
        status, told = await served.commit("s/1", (0, 2))
        assert status == 429
        assert (
            "wait until some are confirmed, or raise max_messages of the domain orders"
            in (told["error"])
        )
        assert await served.bodies() == bodies(1, 2)
        session = InProcessSession(served.router, "reader")
        await session.ask(Open, QueueId(QUEUE.encode()), "orders", interests=(Interest(),))
        await session.ask(Confirm, QueueId(QUEUE.encode()), (MessageId(b"1"),))
        session.close()
        assert (await served.commit("s/1", (0, 2)))[0] == 200
        assert await served.bodies() == bodies(2, 3, 4)


async def test_a_batch_that_no_queue_of_the_domain_could_hold_is_too_large(tmp_path: Path) -> None:
    async with running(tmp_path, replace(ORDERS, domain_max_bytes=20)) as served:
        await served.stage("s/0/0/1", 1, 2, 3)
        status, told = await served.commit("s/0", (0, 1))
        assert status == 413
        assert "the domain takes 20: send fewer rows per batch (maxFacts" in told["error"]


@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        (Limits(sink_messages=3), 413, "limit sink_messages of 3 reached: send fewer rows"),
        (Limits(body_bytes=5), 413, "limit body_bytes of 5 reached: raise body_bytes"),
        (Limits(sinks=1), 507, "limit sinks of 1 reached: name batch writes"),
        (Limits(sink_bytes=60), 413, "limit sink_bytes of 60 reached: send fewer rows"),
    ],
)
async def test_a_commit_has_bounds(tmp_path: Path, limits: Limits, status: int, said: str) -> None:
    one = replace(limits, sinks=100, body_bytes=100)
    async with running(tmp_path, limits=one) as served:
        await served.stage("first/0/0/1", 7, 8)
        assert (await served.commit("first/0", (0, 1)))[0] == 200
    async with running(tmp_path, limits=limits) as served:
        assert (await served.stage("s/0/0/1", 1, 2))[0] == 200
        assert (await served.stage("s/0/1/2", 3, 4))[0] == 200
        found, told = await served.commit("s/0", (0, 1), (1, 2))
        assert found == status
        assert told["error"].startswith(said)
        assert await served.bodies() == bodies(7, 8)
        names = [f.name for f in served.facts if isinstance(f, LimitReachedFact)]
        assert names == [said.split()[1]]


# In pieces.

IN_PIECES = {"queue": QUEUE, "in_pieces": True}


async def test_a_batch_that_is_too_large_for_one_turn_lands_in_pieces(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(sink_messages=3)) as served:
        await served.stage("s/0/0/1", 1, 2)
        await served.stage("s/0/1/2", 3, 4, 5, 6, 7)
        assert (await served.commit("s/0", (0, 1), (1, 2)))[0] == 413
        answer = await served.commit("s/0", (0, 1), (1, 2), **IN_PIECES)
        assert answer == (200, {"messages": 7, "repeated": False})
        assert await served.bodies() == bodies(*range(1, 8))
        committed = [f for f in served.facts if isinstance(f, SinkCommitted)]
        told = [(fact.sink, fact.batch, fact.messages) for fact in committed]
        assert told == [("s/0", 3, 3), ("s/0", 6, 3), ("s", 0, 1)]
        assert await served.listed() == [("s", 0, 0)]
        assert list((tmp_path / "sinks").iterdir()) == []
        assert (await served.commit("s/0", (0, 1), **IN_PIECES))[1]["repeated"]
        await served.stage("s/1/0/1", 8)
        assert (await served.commit("s/1", (0, 1), **IN_PIECES))[1]["messages"] == 1
        assert await served.bodies() == bodies(*range(1, 9))


async def test_a_partition_may_be_larger_than_a_piece(tmp_path: Path) -> None:
    size = len(numbered(1, 2))
    async with running(tmp_path, limits=Limits(sink_bytes=size)) as served:
        assert (await served.stage("s/0/0/1", *range(9)))[0] == 413
        assert (await served.stage_in_pieces("s/0/0/1", *range(9)))[0] == 200
        assert (await served.commit("s/0", (0, 1), **IN_PIECES))[1]["messages"] == 9
        assert await served.bodies() == bodies(*range(9))
        most = max(f.messages for f in served.facts if isinstance(f, SinkCommitted))
        assert most == 2
        large = encoded((b"1", bytes(2 * size), {}), (b"2", b"body", {}))
        await served.ask("PUT", "/sinks/s/1/0/1?in_pieces=true", large)
        assert (await served.commit("s/1", (0, 1), **IN_PIECES))[1]["messages"] == 2


async def test_a_batch_that_landed_in_part_goes_on_however_it_is_cut_when_it_is_repeated(
    tmp_path: Path,
) -> None:
    """The queue is full after a piece, Spark aborts the batch, the router ends, and the segments of
    the journal are merged."""
    domain, found = replace(ORDERS, max_messages=3), list[bytes]()
    async with running(tmp_path, domain) as served:
        await served.stage_in_pieces("s/0/0/1", 1, 2)
        await served.stage_in_pieces("s/0/1/2", 3, 4, 5, 6, 7)
        status, told = await served.commit("s/0", (0, 1), (1, 2), **IN_PIECES)
        assert (status, "wait until some are confirmed" in told["error"]) == (429, True)
        await served.ask("POST", "/sinks/s/0/abort")
        assert (await served.listed())[1] == ("s/0", 3, 0)
        found += await served.taken(3)
    for numbers, limits, expected in (
        ((7, 6), Limits(sink_messages=2), 429),
        ((5, 4, 3, 2, 1), Limits(), 200),
    ):
        async with running(tmp_path, domain, limits) as served:
            repeated = await served.stage_in_pieces("s/0/0/9", *numbers)
            assert repeated == (200, {"bytes": 0, "repeated": True})
            assert (await served.commit("s/0", (0, 9)))[0] == expected
            found += await served.taken(2)
    assert found == bodies(*range(1, 8))
    async with running(tmp_path, domain) as served:
        assert await served.bodies() == []
        assert await served.listed() == [("s", 0, 0)]
        assert list((tmp_path / "sinks").iterdir()) == []


async def test_a_batch_whose_first_piece_was_refused_is_dropped_by_an_abort(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(sink_messages=2)) as served:
        for attempt in (1, 2):
            await served.stage("s/0/0/" + str(attempt), 1, 2, 3)
            (tmp_path / "queues.db").rename(tmp_path / "away.db")
            assert (await served.commit("s/0", (0, attempt), **IN_PIECES))[0] == 503
            await served.ask("POST", "/sinks/s/0/abort")
            (tmp_path / "away.db").rename(tmp_path / "queues.db")
            assert list((tmp_path / "sinks").iterdir()) == []
        await served.stage("s/0/0/3", 1, 2, 3)
        assert (await served.commit("s/0", (0, 3), **IN_PIECES))[1]["messages"] == 3
        assert await served.bodies() == bodies(1, 2, 3)


async def test_what_is_gone_of_a_batch_that_landed_in_part_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, replace(ORDERS, max_messages=2)) as served:
        await served.stage("s/0/0/1", 1, 2, 3)
        assert (await served.commit("s/0", (0, 1), **IN_PIECES))[0] == 429
    (tmp_path / "sinks" / "s@0.pieces").write_bytes(b"{ga")
    async with running(tmp_path) as served:
        status, told = await served.commit("s/0", (0, 1), **IN_PIECES)
        assert status == 409
        assert told["error"].startswith("2 rows of batch 0 have landed, and what was staged of")
        assert await served.ask("DELETE", "/sinks/s") == (200, {"forgotten": True})
        assert await served.listed() == []
        assert await served.taken(2) == bodies(1, 2)
        await served.stage("s/0/0/2", 4, 5, 6)
        assert (await served.commit("s/0", (0, 2), **IN_PIECES))[1]["messages"] == 3


async def test_what_is_kept_of_a_batch_stays_as_long_as_a_part_of_it_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SWEEP_SECONDS", 0.05)
    async with running(tmp_path, replace(ORDERS, max_messages=2)) as served:
        await served.stage("s/0/0/1", 1, 2, 3)
        assert (await served.commit("s/0", (0, 1), **IN_PIECES))[0] == 429
    old = time.time() - sinks.STAGED_SECONDS - 1
    os.utime(tmp_path / "sinks" / "s@0-0-1", (old, old))
    async with running(tmp_path) as served:
        await asyncio.sleep(0.3)
        assert len(list((tmp_path / "sinks").iterdir())) == 2
        await served.ask("DELETE", "/sinks/s")
        assert list((tmp_path / "sinks").iterdir()) == []
    (tmp_path / "sinks" / "s@1.pieces").write_text('{"parts": [], "queue": "bmq://orders/q"}')
    async with running(tmp_path) as served, asyncio.timeout(20):
        while list((tmp_path / "sinks").iterdir()):
            await asyncio.sleep(0.01)


async def test_what_is_published_in_pieces_is_remembered_once(tmp_path: Path) -> None:
    async with hearing(tmp_path, b"news", limits=Limits(sink_messages=2)) as (served, ear, _):
        await served.stage("s/0/0/1", *range(5))
        answer = await served.commit("s/0", (0, 1), channel="news", in_pieces=True)
        assert answer == (200, {"messages": 5, "repeated": False})
        assert b"".join(ear.heard) == b"".join(bodies(*range(5)))
        assert (await served.commit("s/0", (0, 1), channel="news"))[1]["repeated"]
        assert await served.listed() == [("s", 0, 0)]


async def test_a_batch_at_its_bounds_lands(tmp_path: Path) -> None:
    size = len(numbered(1, 2)) + len(numbered(3))
    async with running(tmp_path, limits=Limits(sink_messages=3, sink_bytes=size)) as served:
        await served.stage("s/0/0/1", 1, 2)
        await served.stage("s/0/1/2", 3)
        assert (await served.commit("s/0", (0, 1), (1, 2)))[0] == 200


@pytest.mark.parametrize(
    ("name", "path"), [("sink_staged_bytes", "s/1/0/1"), ("staged_bytes", "other/0/0/1")]
)
async def test_staging_has_bounds(tmp_path: Path, name: str, path: str) -> None:
    limits = replace(Limits(), **{name: 8 * KiB + 100})
    body = encoded((b"1", bytes(100), {}))
    async with running(tmp_path, limits=limits) as served:
        for attempt in (1, 2):
            assert (await served.ask("PUT", f"/sinks/s/0/0/{attempt}", body))[0] == 200
        status, told = await served.ask("PUT", f"/sinks/{path}", body)
        assert status == 507
        assert told["error"].startswith(f"limit {name} of 8292 reached: abort batches")
        await served.ask("POST", "/sinks/s/0/abort")
        assert (await served.ask("PUT", f"/sinks/{path}", body))[0] == 200
        assert [f.name for f in served.facts if isinstance(f, LimitReachedFact)] == [name]


async def test_a_body_beyond_the_bound_of_a_batch_is_refused_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, limits=Limits(sink_bytes=2 * MiB)) as served:
        body = encoded((b"1", bytes(3 * MiB), {}))
        status, told = await served.ask("PUT", "/sinks/s/0/0/1", body)
        assert status == 413
        assert "sink_bytes" in told["error"]
        assert await served.listed() == []
        assert list((tmp_path / "sinks").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "a%20b/0/0/1",
        f"{'x' * 129}/0/0/1",
        "s/-1/0/1",
        "s/0/x/1",
        "s/0/0/1234567890123456789",
    ],
)
async def test_names_and_numbers_are_checked(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as served:
        assert (await served.ask("PUT", f"/sinks/{path}", numbered(1)))[0] == 400
        assert list((tmp_path / "sinks").iterdir()) == []


async def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        before = set(tmp_path.rglob("*"))
        for name in ("..", "%2E%2E", "x%2F..%2Fy"):
            await served.ask("PUT", f"/sinks/{name}/0/0/1", numbered(1))
        new = set(tmp_path.rglob("*")) - before
        assert {path.parent for path in new} <= {tmp_path / "sinks"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not a commit"),
        (b"[]", "not a commit"),
        (b'{"parts": [[0]], "queue": "bmq://orders/q"}', "not a commit"),
        (b'{"parts": [], "queue": "bmq://orders/\xff"}', "not a commit"),
        (b'{"parts": [[0, 1]], "queue": "bmq://orders/q", "more": 1}', "not a commit"),
        (b'{"parts": [[0, 1]]}', "names a queue or a channel"),
        (b'{"parts": [[0, 1]], "queue": "bmq://orders/q", "channel": "c"}', "a queue or a channel"),
        (b'{"parts": [[0, 1], [0, 2]], "queue": "bmq://orders/q"}', "one attempt of each"),
        (b'{"parts": [[0, 1]], "queue": "orders/q"}', "a queue is bmq://DOMAIN/NAME"),
        (b'{"parts": [[0, 1]], "queue": "bmq://orders/q?id=app"}', "a queue is bmq://DOMAIN/NAME"),
    ],
)
async def test_a_wrong_commit_is_refused(tmp_path: Path, body: bytes, said: str) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        status, told = await served.ask("POST", "/sinks/s/0/commit", body)
        assert status == 400
        assert said in told["error"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\0\0", "the last frame is cut"),
        (numbered(1)[:-1], "the last frame is cut"),
        (struct.pack(">I", 3) + b"xyz", "cannot be read"),
        (encoded((b"", b"body", {})), "an id has 1 to 255 bytes"),
        (encoded((b"x" * 256, b"body", {})), "an id has 1 to 255 bytes"),
        (encoded((b"1", "text", {})), "Expected `bytes`"),
        (encoded((b"1", b"body", {"p": 1.5})), "Expected `bool | int | str`"),
    ],
)
async def test_something_else_than_rows_is_refused(tmp_path: Path, body: bytes, said: str) -> None:
    async with running(tmp_path) as served:
        await served.ask("PUT", "/sinks/s/0/0/1", body)
        status, told = await served.commit("s/0", (0, 1))
        assert status == 400
        assert told["error"].startswith("partition 0, attempt 1 cannot be read")
        assert said in told["error"]


async def test_refusals_of_the_core_have_their_status(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        status, told = await served.commit("s/0", (0, 1), queue="bmq://nope/q")
        assert (status, told["error"]) == (409, "no domain nope with shared queues")
        await served.ask("PUT", "/sinks/s/0/0/2", encoded((b"1", b"body", {"n": 2**63})))
        assert (await served.commit("s/0", (0, 2)))[0] == 400


async def test_a_store_that_fails_is_a_reason_to_ask_again(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        (tmp_path / "queues.db").rename(tmp_path / "away.db")
        status, told = await served.commit("s/0", (0, 1))
        assert status == 503
        assert "the file is gone" in told["error"]
        (tmp_path / "away.db").rename(tmp_path / "queues.db")
        assert (await served.commit("s/0", (0, 1)))[1] == {"messages": 1, "repeated": False}
        assert await served.bodies() == bodies(1)


async def test_the_token_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        body = numbered(1)
        assert (await served.ask("PUT", "/sinks/s/0/0/1", body, token="guess"))[0] == 401
        assert (await served.ask("POST", "/sinks/s/0/commit", body, token="guess"))[0] == 401
        assert await served.ask("GET", "/sinks") == (
            200,
            {
                "sinks": [],
                "page": {"limit": 1000, "offset": 0, "sort": None, "total": {"sinks": 0}},
            },
        )


async def test_a_router_that_has_not_started_asks_for_patience(tmp_path: Path) -> None:
    router = Router(store=SqliteStore(tmp_path / "queues.db"), domains={}, limits=Limits())
    desk = SinkAdmin(router, tmp_path / "s")
    app = make_app(problems=list, status=dict, metrics=bytes, rows=5, sinks=desk, token=TOKEN)
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app, listening):
        served = Served(router, listening.getsockname()[1], [])
        for answer in (
            await served.stage("s/0/0/1", 1),
            await served.commit("s/0", (0, 1)),
            await served.ask("POST", "/sinks/s/0/abort"),
            await served.ask("GET", "/sinks"),
        ):
            assert answer[0] == 503


async def test_a_body_that_does_not_come_to_its_end_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SILENCE_SECONDS", 0.1)
    async with running(tmp_path) as served:
        start = (
            b"PUT /sinks/s/0/0/%d HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n"
            b"authorization: Bearer open sesame\r\ncontent-type: application/vnd.headgate.rows"
            b"\r\n\r\nabc"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(start % 1)
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(start % 2)
        await asyncio.sleep(0.02)
        writer.close()
        async with asyncio.timeout(20):
            while list((tmp_path / "sinks").iterdir()):
                await asyncio.sleep(0.01)
        assert await served.listed() == []


async def test_a_commit_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_app, "COMMIT_BYTES", 100)
    async with running(tmp_path) as served:
        status, _ = await served.ask("POST", "/sinks/s/0/commit", bytes(101))
        assert status == 413


async def test_what_was_staged_a_day_ago_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SWEEP_SECONDS", 0.05)
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        await served.stage("s/0/0/2", 2)
    old = time.time() - sinks.STAGED_SECONDS - 1
    os.utime(tmp_path / "sinks" / "s@0-0-1", (old, old))
    async with running(tmp_path) as served:
        async with asyncio.timeout(20):
            while len(list((tmp_path / "sinks").iterdir())) > 1:
                await asyncio.sleep(0.01)
        assert await served.listed() == [("s", None, staging.FILE_BYTES)]


# Channels.


class Quiet:
    """What a hub asks of its process, of which there is none."""

    def __init__(self) -> None:
        self.deliver_all = deliver_all

    def soon(self, call: Callable[[], None]) -> None:
        call()

    def next_pass(self, call: Callable[[], None]) -> None:
        call()

    def announce(self, facts: Sequence[Fact]) -> None:
        pass

    def clock(self) -> float:
        return 0.0

    def known(self, session: SessionId) -> None:
        pass

    def suspect(self, session: SessionId) -> None:
        pass

    def later(self, seconds: float, call: Callable[[], None]) -> Later:
        return Later([], (seconds, call))

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        raise AssertionError("nobody uses a stream here")

    def draw(self, length: int) -> bytes:
        return bytes(length)

    def memory(self) -> int:
        return 0


class Ear:
    """A session that hears channels, by its frames."""

    def __init__(self, served: Served, *channels: bytes) -> None:
        self.heard: list[bytes] = []
        router = served.router
        self.id = router.connect("test", "ear", lambda effects: None)
        router.broker.channels.subscribe(self.id, Kind.EXACT, channels, BARE)

    def deliver(self, blob: bytes, messages: int) -> None:
        self.heard.append(blob)


def hub_of(cluster: Cluster | None = None) -> Callable[[Router], Hub]:
    def make(router: Router) -> Hub:
        settings = Settings(host="127.0.0.1", port=0, process_id=1)
        return Hub(Quiet(), router.broker, settings, AccessControl(None, router.limits), cluster)

    return make


@asynccontextmanager
async def hearing(
    folder: Path, *channels: bytes, limits: Limits | None = None
) -> AsyncIterator[tuple[Served, Ear, Hub]]:
    made: list[Hub] = []

    def make(router: Router) -> Hub:
        made.append(hub_of()(router))
        return made[0]

    async with running(folder, hub=make, limits=limits) as served:
        ear = Ear(served, *channels)
        made[0]._deliver[ear.id] = ear.deliver
        yield served, ear, made[0]


async def test_rows_are_published_on_a_channel_and_the_batch_remembered(tmp_path: Path) -> None:
    async with hearing(tmp_path, b"news") as (served, ear, _):
        await served.stage("s/0/0/1", *range(5))
        answer = await served.commit("s/0", (0, 1), channel="news")
        assert answer == (200, {"messages": 5, "repeated": False})
        assert b"".join(ear.heard) == b"".join(bodies(*range(5)))
        assert (await served.commit("s/0", (0, 1), channel="news"))[1]["repeated"]
        assert b"".join(ear.heard) == b"".join(bodies(*range(5)))
        assert await served.listed() == [("s", 0, 0)]


async def test_rows_may_have_their_own_channels(tmp_path: Path) -> None:
    async with hearing(tmp_path, b"a", b"c") as (served, ear, _):
        body = encoded(
            (b"1", b"one", {}, b"a"), (b"2", b"two", {}, b"b"), (b"3", b"three", {}, b"c")
        )
        await served.ask("PUT", "/sinks/s/0/0/1", body)
        assert (await served.commit("s/0", (0, 1), channel=None))[0] == 200
        assert b"".join(ear.heard) == b"onethree"
        await served.stage("s/1/0/1", 1)
        status, told = await served.commit("s/1", (0, 1), channel=None)
        assert (status, told["error"]) == (400, "a row has no channel, and the commit names none")


async def test_without_a_wire_nobody_hears_a_channel(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        await served.stage("s/0/0/1", 1)
        assert (await served.commit("s/0", (0, 1), channel="c"))[0] == 200
        assert served.router.broker.channels.published == 1


async def test_names_and_bodies_of_channels_have_bounds(tmp_path: Path) -> None:
    limits = Limits(name_bytes=3, body_bytes=10)
    async with running(tmp_path, limits=limits) as served:
        await served.stage("s/0/0/1", 1)
        await served.ask("PUT", "/sinks/s/0/0/2", encoded((b"1", bytes(11), {})))
        assert (await served.commit("s/0", (0, 1), channel="four"))[0] == 413
        assert (await served.commit("s/0", (0, 2), channel="abc"))[0] == 413
        assert (await served.commit("s/0", (0, 1), channel="abc"))[0] == 200


async def test_channels_of_a_cluster_are_refused(tmp_path: Path) -> None:
    cluster = Cluster(Node("0" * 40, "127.0.0.1", 1))
    async with running(tmp_path, hub=hub_of(cluster)) as served:
        await served.stage("s/0/0/1", 1)
        assert (await served.commit("s/0", (0, 1), channel="c"))[0] == 409


async def test_a_commit_waits_for_who_hears_it_and_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "BLOCKED_SECONDS", 0.1)
    async with hearing(tmp_path, b"news") as (served, ear, hub):
        session = served.router.broker.sessions.get(ear.id)
        assert session is not None
        session.mailbox.offer(b"", hub.budget.mailbox_hard + 1, 0.0)
        await served.stage("s/0/0/1", 1)
        status, told = await served.commit("s/0", (0, 1), channel="news")
        assert status == 429
        assert "hears the channel news does not read" in told["error"]
        assert ear.heard == []
        assert [f.by for f in served.facts if isinstance(f, PublisherWaited)] == [ear.id]
        assert (await served.commit("s/0", (0, 1), channel="else"))[0] == 200
        await served.stage("s/1/0/1", 2)
        monkeypatch.setattr(sinks, "BLOCKED_SECONDS", 20.0)
        waiting = asyncio.create_task(served.commit("s/1", (0, 1), channel="news"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        session.mailbox.take(0.0)
        assert (await waiting)[0] == 200
        assert ear.heard == bodies(2)


# The whole router.

IN_MEMORY = """\
directory = "state"
[store]
url = "memory:"
[admin]
port = 0
[listen.resp]
port = 0
[domains.orders]
"""


def test_a_router_without_a_disk_has_sinks_too(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(IN_MEMORY)
    process = Process(tmp_path, TMPDIR=str(tmp_path)).started()
    try:
        ready = json.loads(process.ready.read_text())
        served = Served(None, ready["admin"]["port"], [], process.token)
        with RespClient("127.0.0.1", ready["resp"]["port"]) as client:
            client.subscribe([b"news"])
            put = served.ask_now("PUT", "/sinks/s/0/0/1", numbered(1, 2))
            assert put[0] == 200
            commit = served.ask_now("POST", "/sinks/s/0/commit", committing((0, 1), channel="news"))
            assert commit == (200, {"messages": 2, "repeated": False})
            heard = client.messages()
            assert [next(heard), next(heard)] == [Published(b"news", b) for b in bodies(1, 2)]
        served.ask_now("PUT", "/sinks/s/1/0/1", numbered(3))
        assert served.ask_now("POST", "/sinks/s/1/commit", committing((0, 1)))[0] == 200
        served.ask_now("PUT", "/sinks/s/2/0/1", numbered(4))
        assert process.stop() == 0
        assert list(tmp_path.glob("headgate-sinks-*")) == []
        assert not (tmp_path / "state").exists()
    finally:
        process.process.kill()
        process.process.wait()
