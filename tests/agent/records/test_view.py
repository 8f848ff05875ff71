"""A look into the file, while an agent has it and while none has; and what `status` counts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headgate.agent.records import (
    Records,
    connections,
    receive_queues,
    received,
    routers,
    services,
    steps,
)
from headgate.agent.records import send_queues as senders
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.summary import RouterSummary, summary
from headgate.agent.records.view import view
from headgate.errors import StoreError
from headgate.store import SqliteStore
from tests.support.agent_records import (
    ADDRESS,
    C2,
    NOW,
    OTHER_ADDRESS,
    Scene,
    incoming,
    outgoing_message,
    queue_id,
    receive_queue,
    send_queue,
    with_service,
)


async def test_what_was_written_is_seen_while_the_agent_goes_on(scene: Scene, path: Path) -> None:
    with view(path) as tables:
        assert [each.address for each in routers.everything(tables)] == [ADDRESS, OTHER_ADDRESS]
        await scene.records.write(connections.add, ConnectionRecord(C2, scene.user))
        assert connections.get(tables, C2) is None, "one moment is read"
    with view(path) as tables:
        assert connections.get(tables, C2) is not None


async def test_a_file_that_no_agent_has_open_is_seen_and_stays_as_it_is(path: Path) -> None:
    async with await Records.open(path) as records:
        await records.write(routers.keep, ADDRESS)
    before = path.read_bytes()  # noqa: ASYNC240
    with view(path) as tables:
        assert len(routers.everything(tables)) == 1
    assert path.read_bytes() == before  # noqa: ASYNC240


async def test_nothing_can_be_written(scene: Scene, path: Path) -> None:
    with view(path) as tables:
        tables.is_writing = True
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            routers.keep(tables, ADDRESS)


def refused(path: Path) -> str:
    with pytest.raises(StoreError) as caught, view(path):
        pass
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_other_files_are_refused(tmp_path: Path, path: Path) -> None:
    assert "cannot be opened" in refused(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    async with await Records.open(path):
        pass
    database = sqlite3.connect(path)
    [(version,)] = database.execute("PRAGMA user_version")
    for other, advice in (
        (version + 1, "upgrade headgate"),
        (version - 1, "an older headgate wrote it"),
    ):
        database.execute(f"PRAGMA user_version = {other}")
        assert advice in refused(path)
    database.close()


async def test_the_file_of_a_router_is_none_of_an_agent(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "router.db")
    await store.open()
    await store.close()
    assert "no file of an agent" in refused(tmp_path / "router.db")


async def test_everything_is_counted_at_its_router(scene: Scene) -> None:
    await with_service(scene)
    records, user, router = scene.records, scene.user, scene.router
    for n in range(3):
        await records.write(receive_queues.add, receive_queue(router, n, user))
    await records.write(services.associate, user, router, [queue_id(0), queue_id(1)])
    await records.write(receive_queues.delete, (router, queue_id(2)))
    await records.write(senders.add, send_queue(1))
    await records.write(steps.before_send, outgoing_message(1), [send_queue(1).key], None)
    await records.write(received.add, incoming((router, queue_id(0)), 1), NOW)
    found = await records.read(summary, user)
    assert found == [RouterSummary(ADDRESS, 2, 2, 1, 1), RouterSummary(OTHER_ADDRESS, 0, 0, 0, 0)]
    assert await records.read(summary, user + 1) == [
        RouterSummary(ADDRESS, 0, 0, 0, 0),
        RouterSummary(OTHER_ADDRESS, 0, 0, 0, 0),
    ]
