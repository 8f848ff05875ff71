"""Copies between stores of every kind."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import cli
from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Arrival, Message, Stored
from headgate.core.model.parties import Link, Notifier, Parties, Purpose, QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch, Load, ServiceRecord, SinkRecord
from headgate.errors import StoreError
from headgate.store import MemoryStore, SqliteStore, export
from headgate.store.base import Extent, Store
from headgate.store.copy import copy
from headgate.store.postgres import PostgresStore

SERVICE = ServiceId(b"service")
QUEUES = [QueueId(b"")] + [QueueId(b"queue %03d" % n) for n in range(50)]


def a_store_full() -> Batch:
    records = {queue: QueueRecord(queue, "smp", SERVICE) for queue in QUEUES}
    records[QUEUES[3]] = QueueRecord(
        QUEUES[3],
        "smp",
        None,
        Parties(
            (b"key 1", b"key 2"),
            b"secret",
            b"sender",
            b"sender's key",
            Purpose.CONTACT,
            Link(b"link", b"fixed", b"user"),
            Notifier(b"notifier", b"key", b"secret", ServiceId(b"n")),
            is_off=True,
        ),
        is_full=True,
    )
    messages = [
        Stored(
            Seq(n),
            QUEUES[n % 7],
            Message(MessageId(b"%d" % n), b"b" * 40 * n, float(n), {"s": "t", "n": n, "b": b"\0"}),
            ("a", "b") if n % 5 == 0 else (WHOLE,),
        )
        for n in range(1, 200)
    ]
    return Batch(
        create=records,
        append={stored.seq: stored for stored in messages},
        remember={
            queue: {MessageId(b"gone " + queue): Arrival(7.5, Seq(7))} for queue in QUEUES[:9]
        },
        tallies={SERVICE: Tally.of(QUEUES), ServiceId(b"n"): Tally(1, 7)},
        identities={b"print": ServiceRecord(SERVICE, "M")},
        sinks={"sink": SinkRecord(9, 5.0)},
        outbox=OutboxRow(3, [("QueueCreated", 1.0, b"q", "smp"), ("NoticesSent", 1.0, 3)], 99),
    )


async def whole(store: Store) -> Batch:
    """Everything of a store in one batch; its rows of the outbox are in the last."""
    everything, rows = Batch(), []
    async for batch in store.batches():
        everything.create |= batch.create
        everything.append |= batch.append
        for queue, known in batch.remember.items():
            everything.remember.setdefault(queue, {}).update(known)
        everything.tallies |= batch.tallies
        everything.identities |= batch.identities
        everything.sinks |= batch.sinks
        if batch.outbox is not None:
            rows.append((batch.outbox.first, [tuple(fact) for fact in batch.outbox.facts]))
    assert rows == [(3, [("QueueCreated", 1.0, b"q", "smp"), ("NoticesSent", 1.0, 3)])]
    return everything


async def test_a_copy_through_every_kind_of_store_is_the_same(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PART_BYTES", 20_000)  # so that there are many parts
    stores: list[Store] = [
        MemoryStore(),
        SqliteStore(tmp_path / "one.db"),
        PostgresStore(url),
        SqliteStore(tmp_path / "two.db"),
    ]
    for store in stores:
        await store.open()
    await stores[0].apply(a_store_full())
    expected = await whole(stores[0])
    for source, target in pairwise(stores):
        told: list[Extent] = []
        assert await copy(source, target, told.append) == Extent(51, 199)
        assert sum(more.messages for more in told) == 199
        copied = await whole(target)
        assert copied == expected
        # What is asked of it is answered as before.
        asked = Load(
            heads={QUEUES[3]: 2},
            backlogs={QUEUES[0], QUEUES[8]},
            services={SERVICE},
            identities={b"print"},
        )
        assert await target.load(asked) == await source.load(asked)
    assert await stores[3].unsealed() == await stores[1].unsealed()
    for store in stores:
        await store.close()


async def test_a_copy_is_made_only_into_an_empty_store(tmp_path: Path) -> None:
    source, target = MemoryStore(), SqliteStore(tmp_path / "it.db")
    await target.open()
    await target.apply(Batch(create={QUEUES[1]: QueueRecord(QUEUES[1], "smp")}))
    with pytest.raises(StoreError, match="not empty"):
        await copy(source, target)
    await target.close()


def test_the_command_copies_and_says_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill() -> None:
        store = SqliteStore(tmp_path / "var" / "old.db")
        await store.open()
        await store.apply(a_store_full())
        await store.close()

    asyncio.run(fill())
    monkeypatch.chdir(tmp_path)
    arguments = ["store", "copy", "sqlite:old.db", "sqlite:new.db"]
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, done.stdout) == (0, "51 queues and 199 messages copied\n")
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code == 1
    assert "not empty" in again.output


def test_a_store_that_is_not_there_is_not_copied_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["store", "copy", "sqlite:typo.db", "sqlite:new.db"])
    assert done.exit_code == 1
    assert "typo.db: there is no such file" in done.output
    assert list(tmp_path.iterdir()) == []


def test_one_is_not_called_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill() -> None:
        store = SqliteStore(tmp_path / "var" / "old.db")
        await store.open()
        await store.apply(Batch(create={QUEUES[1]: QueueRecord(QUEUES[1], "smp")}))
        await store.close()

    asyncio.run(fill())
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["store", "copy", "sqlite:old.db", "sqlite:new.db"])
    assert done.stdout == "1 queue and 0 messages copied\n"
