from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from headgate.errors import StoreError
from headgate.server import ownership_watch as watching
from headgate.server.ownership_watch import HangUp, OwnershipWatch
from headgate.store.ownership import FREE, Ownership, Taken

PATIENCE = 10.0
TAKEN = Taken("me", 4, FREE, "", 0.0, mark=5, expected=5, sealed=0)


class Database:
    """What a watch asks: it hears us, or is away, or is another's."""

    def __init__(self, end: socket.socket) -> None:
        self.now = 100.0
        self.asked = 0
        self.is_away = False
        self.lost_to = ""
        self.term: int | None = 4
        self.lost: list[str] = []
        self.doubts: list[float] = []
        self.ownership = Ownership(3.0, lambda: self.now)
        self.ownership.taken = TAKEN
        self.ownership.heard = self.now
        self.ownership.socket = end.fileno()
        self.watch = OwnershipWatch(
            self.ownership, self.probe, self.current_term, self.lost.append, self.doubts.append
        )

    async def probe(self) -> None:
        self.asked += 1
        if self.lost_to:
            self.ownership.lost = self.lost_to
            raise StoreError(self.lost_to)
        if self.is_away:
            raise StoreError("away")
        self.ownership.heard = self.now

    async def current_term(self) -> int | None:
        return self.term


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def database(ends: tuple[socket.socket, socket.socket]) -> Database:
    return Database(ends[0])


async def soon(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_who_was_heard_in_time_is_assured_without_a_question(database: Database) -> None:
    database.now += 2.9
    assert database.watch.is_assured
    assert database.watch.problem is None
    await database.watch.assured()
    assert database.asked == 0


async def test_who_was_silent_asks_before_anything_leaves(database: Database) -> None:
    database.now += 3.0
    assert not database.watch.is_assured
    assert database.watch.problem is not None
    await database.watch.assured()
    assert database.asked == 1
    assert database.watch.is_assured


async def test_a_connection_that_was_closed_is_no_assurance(
    database: Database, ends: tuple[socket.socket, socket.socket]
) -> None:
    """The lock went with it, and another may have it already."""
    ends[1].send(b"what was said before")
    assert database.watch.is_assured
    ends[1].close()
    assert not database.watch.is_assured
    database.ownership.socket = None
    assert not database.watch.is_assured


async def test_nothing_is_assured_when_it_is_another_s(database: Database) -> None:
    database.now += 3.0
    database.lost_to = "taken over"
    waiting = asyncio.create_task(database.watch.assured())
    await soon(lambda: database.lost)
    await asyncio.sleep(0)
    assert not waiting.done()
    database.watch.give_up("again")
    assert database.lost == ["taken over"], "it is told once"
    waiting.cancel()


async def test_effects_wait_while_the_database_is_away(database: Database) -> None:
    database.now += 3.0
    database.is_away = True
    waiting = asyncio.create_task(database.watch.assured())
    await soon(lambda: database.asked > 1)
    assert not waiting.done()
    database.is_away = False
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert database.lost == []


async def test_the_database_hears_the_owner_though_nobody_needs_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BEAT_SECONDS_MAX", 0.01)
    running = asyncio.create_task(database.watch.run())
    await soon(lambda: database.asked > 2)
    running.cancel()


@pytest.fixture
async def looking(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A watch at work on a database that does not answer."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.01)
    database.is_away = True
    return database


async def test_a_silence_that_is_over_is_told(looking: Database) -> None:
    running = asyncio.create_task(looking.watch.run())
    looking.now += 4.0
    await soon(lambda: looking.watch._doubt)
    assert looking.doubts == []
    looking.is_away = False
    await soon(lambda: looking.doubts)
    assert looking.doubts == [4.0]
    assert looking.lost == []
    running.cancel()


async def test_who_is_silent_asks_others_whose_turn_it_is(looking: Database) -> None:
    running = asyncio.create_task(looking.watch.run())
    looking.now += 3.5
    looking.term = 5
    await soon(lambda: looking.lost)
    assert looking.lost == ["another router has taken it over"]
    running.cancel()


async def test_who_gets_no_answer_at_all_gives_up_in_the_end(looking: Database) -> None:
    looking.term = None
    running = asyncio.create_task(looking.watch.run())
    looking.now += watching.GIVE_UP_SECONDS - 1
    await asyncio.sleep(0.1)
    assert looking.lost == []
    looking.now += 1
    await soon(lambda: looking.lost)
    assert "has not heard this router for 30 s" in looking.lost[0]
    running.cancel()


def test_a_socket_that_is_another_is_looked_at_anew(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    hang_up = HangUp()
    assert hang_up.is_closed(None)
    assert not hang_up.is_closed(ends[0].fileno())
    assert not hang_up.is_closed(ends[1].fileno())
    ends[0].close()
    assert hang_up.is_closed(ends[1].fileno())
    assert hang_up.is_closed(None)
