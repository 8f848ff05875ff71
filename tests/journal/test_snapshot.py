"""A store at one moment, as files: what is in them, and that it is one moment."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headgate.core.commands import Sealed
from headgate.core.model.ids import QueueId, Seq, ServiceId
from headgate.core.model.parties import QueueRecord
from headgate.core.model.tally import Tally, name_of
from headgate.core.turn.store_requests import Batch, Load, Loaded
from headgate.errors import StoreError
from headgate.journal import snapshot
from headgate.journal.sealer import Bounds, Sealer
from headgate.journal.segments import last_number
from headgate.store.base import Extent
from headgate.store.sqlite import SqliteStore
from headgate.testing.rig import at_once
from tests.conformance.store import parties, stored
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Desk,
    S,
    T,
    delete,
    mid,
    new,
    queues,
    send,
    sub,
)


class AtOnce:
    """An SQLite store whose calls come back before anybody could do something else."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._inner = SqliteStore(path)
        self.kind = self._inner.kind
        self.is_distant = self._inner.is_distant
        self.source = self._inner.source
        self.statements = 0

    async def open(self) -> Seq:
        return self._loop.run_until_complete(self._inner.open())

    async def load(self, load: Load) -> Loaded:
        return self._loop.run_until_complete(self._inner.load(load))

    async def apply(self, batch: Batch) -> None:
        self._loop.run_until_complete(self._inner.apply(batch))

    async def probe(self) -> None:
        self._loop.run_until_complete(self._inner.probe())

    async def unsealed(self) -> tuple[int, int]:
        return self._loop.run_until_complete(self._inner.unsealed())

    async def extent(self) -> Extent:
        return self._loop.run_until_complete(self._inner.extent())

    def batches(self) -> AsyncIterator[Batch]:
        return self._inner.batches()

    async def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        self._loop.run_until_complete(self._inner.close())
        self._loop.close()


class Place:
    """A router with an SQLite store and an outbox, and folders for what is made of them."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "q.db"
        self.journal = folder / "journal"
        self.folder = folder / "snapshot"
        self.store = AtOnce(self.database)
        self.desk = Desk(store=self.store)
        self.desk.broker.shard.journal = True
        self.plain, self.s, self.t = self.desk.sessions("plain s t")

    def seal(self) -> int:
        """Everything so far goes into a segment and leaves the outbox."""
        sealer = Sealer(f"sqlite:{self.database}", self.journal, Bounds())
        while sealer.seal(self.last):
            pass
        sealer.close()
        self.desk.do(Sealed(sealer.last))
        return sealer.last

    @property
    def last(self) -> int:
        return self.desk.broker.shard.outbox.last

    def take(self) -> snapshot.Snapshot:
        return snapshot.take(self.database, self.folder, journal=self.journal)

    def rows(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / name).to_pylist()
        return rows

    def queues(self) -> set[tuple[bytes, bytes]]:
        return {(row["service"], row["digest"]) for row in self.rows("queues")}

    def tallies(self) -> dict[bytes, Tally]:
        rows = self.rows("tallies.parquet")
        return {row["service"]: Tally.parse(row["count"], row["hash"]) for row in rows}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.store.stop()


def named(service: ServiceId, *names: QueueId) -> set[tuple[bytes, bytes]]:
    return {(service, name_of(name)) for name in names}


def test_a_snapshot_has_the_queues_of_services_by_digest_and_the_tallies(place: Place) -> None:
    place.desk.do(new(place.s, Q1, service=S), new(place.t, Q2, service=T), new(place.plain, Q3))
    taken = place.take()
    assert taken == snapshot.Snapshot(place.folder, place.last, 2)
    assert place.queues() == named(S, Q1) | named(T, Q2)
    assert place.tallies() == {S: Tally.of([Q1]), T: Tally.of([Q2])}


def test_notifiers_of_services_are_counted_beside_the_queues(place: Place) -> None:
    """S001-40: a recount has all that a tally has."""
    m, n, other = QueueId(b"m"), QueueId(b"n"), QueueId(b"nobody's")
    records = [
        QueueRecord(Q1, "smp", S, parties(b"1", notifier=n, notifier_service=T)),
        QueueRecord(Q2, "smp", S, parties(b"2", notifier=other)),
        QueueRecord(Q3, "smp", None, parties(b"3", notifier=m, notifier_service=T)),
    ]
    tallies = {S: Tally.of([Q1, Q2]), T: Tally.of([m, n])}
    at_once(place.store.apply(Batch(create={r.queue: r for r in records}, tallies=tallies)))
    assert place.take().queues == 4
    assert place.queues() == named(S, Q1, Q2) | named(T, m, n)
    assert place.tallies() == tallies


def test_ids_do_not_leave_the_store(place: Place) -> None:
    secret = QueueId(b"a queue id that nobody may see")
    another = QueueId(b"the id of its notifier")
    its = parties(b"and of its sender", notifier=another, link=b"and link", notifier_service=T)
    record = QueueRecord(secret, "smp", S, its)
    at_once(place.store.apply(Batch(create={secret: record})))
    place.take()
    files = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    assert len(files) == 3
    for id in (secret, another, its.sender, b"and link"):
        assert not [path for path, text in files.items() if id in text]
    for id in (secret, another):
        assert [path for path, text in files.items() if name_of(id) in text]


def test_messages_and_records_are_not_touched(place: Place) -> None:
    """The indexes of services have all that is asked for."""
    with closing(sqlite3.connect(place.database)) as db:
        asked: list[str] = []
        db.set_trace_callback(asked.append)
        snapshot._queues(db)
        db.set_trace_callback(None)
        plans = [db.execute(f"EXPLAIN QUERY PLAN {text}").fetchall() for text in asked]
    assert len(plans) == 2
    for [(*_, step)] in plans:
        assert "USING COVERING INDEX" in step


def test_messages_have_the_name_of_their_queue_in_facts_and_the_apps_that_they_wait_for(
    place: Place,
) -> None:
    place.desk.do(new(place.s, Q1), send(place.s, Q1, "m1"))
    sealed = place.seal()
    shared = QueueId(b"bmq://shop/q")
    messages = [stored(8, shared, apps=("a", "b")), stored(9, shared, apps=())]
    more = Batch(
        create={shared: QueueRecord(shared, "shop")}, append={each.seq: each for each in messages}
    )
    at_once(place.store.apply(more))
    number = snapshot.take_messages(place.database, place.folder, journal=place.journal)
    assert number == sealed
    found = {(row["queue"], row["message"]): row["apps"] for row in place.rows("messages")}
    assert found == {
        (name_of(Q1), mid("m1")): '[""]',
        (shared, messages[0].message.id): '["a","b"]',
        (shared, messages[1].message.id): "[]",
    }


def test_associations_that_are_not_sealed_come_along_with_the_last_number(place: Place) -> None:
    place.desk.do(new(place.s, Q1, service=S), new(place.s, Q2, service=S))
    sealed = place.seal()
    place.desk.do(sub(place.t, Q1, T))
    place.desk.do(delete(place.plain, Q2))
    place.take()
    *associations, last = place.rows("unsealed.parquet")
    assert [(row["kind"], row["queue"], row["service"]) for row in associations] == [
        ("Associated", name_of(Q1), T),
        ("Associated", name_of(Q2), None),
    ]
    assert all(sealed < row["number"] <= place.last for row in associations)
    assert last == {"number": place.last, "kind": None, "queue": None, "service": None}


def test_when_all_is_sealed_the_journal_knows_the_number(place: Place) -> None:
    place.desk.do(new(place.s, Q1, service=S))
    sealed = place.seal()
    assert place.take().number == sealed > 0
    without = snapshot.take(place.database, place.folder.with_name("without"))
    assert without.number is None


def test_a_segment_that_comes_meanwhile_makes_it_begin_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the snapshot would claim a fact that happened after it."""
    place.desk.do(new(place.s, Q1, service=S))
    place.seal()
    asked: list[int] = []

    def looks_away(journal: Path) -> int:
        if len(asked) == 1:
            place.desk.do(new(place.s, Q2, service=S))
            place.seal()
        asked.append(last_number(journal))
        return asked[-1]

    monkeypatch.setattr(snapshot, "last_number", looks_away)
    taken = place.take()
    assert asked == [asked[0], taken.number, taken.number, taken.number]
    assert taken.number == place.last
    assert place.queues() == named(S, Q1, Q2)


def test_it_is_one_moment_while_the_router_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PAGE_ROWS", 10)
    monkeypatch.setattr(snapshot, "PART_ROWS", 20)
    names = queues(45)
    place.desk.do(*(new(place.s, name, service=S) for name in names))
    number = place.last
    seen: list[int] = []

    def busy(rows: int) -> None:
        seen.append(rows)
        place.desk.do(delete(place.plain, names[-len(seen)]))
        place.desk.do(new(place.t, QueueId(b"late%d" % rows), service=T))

    taken = snapshot.take(place.database, place.folder, progress=busy)
    assert seen == [10, 20, 30, 40, 45]
    assert (taken.queues, taken.number) == (45, number)
    assert place.queues() == named(S, *names)
    assert place.tallies() == {S: Tally.of(names)}
    parts = sorted(path.name for path in (place.folder / "queues").iterdir())
    assert parts == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]


def test_an_empty_store_has_an_empty_snapshot(place: Place) -> None:
    assert place.take() == snapshot.Snapshot(place.folder, 0, 0)
    assert place.queues() == set()
    assert place.tallies() == {}


def test_a_store_that_no_router_has_open_can_be_read(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.desk.do(new(place.s, Q1, service=S))
    place.store.stop()
    place.take()
    assert place.queues() == named(S, Q1)


def test_what_fails_leaves_no_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.desk.do(new(place.s, Q1, service=S))

    def full(rows: int) -> None:
        raise OSError("no space")

    before = set(place.folder.parent.iterdir())
    with pytest.raises(OSError, match="no space"):
        snapshot.take(place.database, place.folder, progress=full)
    assert set(place.folder.parent.iterdir()) == before


def test_a_folder_that_exists_is_not_written_to(place: Place) -> None:
    place.folder.mkdir()
    with pytest.raises(StoreError, match="it exists already; name a folder that does not"):
        place.take()


def test_a_tally_that_is_no_tally_is_named(place: Place) -> None:
    place.desk.do(new(place.s, Q1, service=S))
    with sqlite3.connect(place.database) as db:
        db.execute("UPDATE services SET hash = x'00'")
    db.close()
    with pytest.raises(StoreError, match=r"q\.db: a value cannot be read"):
        place.take()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such store"),
        (b"no database" * 100, "it is not an SQLite database"),
        ("PRAGMA user_version = 1", "it is a database of another program"),
        ("PRAGMA application_id = 0x48474154; PRAGMA user_version = 99", "upgrade headgate"),
        ("PRAGMA application_id = 0x48474154; PRAGMA user_version = 1", "start the router on it"),
    ],
)
def test_what_is_not_a_store_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes | None, says: str
) -> None:
    path = tmp_path / "other.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        db = sqlite3.connect(path)
        db.executescript(content)
        db.close()
    with pytest.raises(StoreError, match=f"other.db: .*{says}") as caught:
        snapshot.take(path, tmp_path / "snapshot")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "snapshot").exists()
