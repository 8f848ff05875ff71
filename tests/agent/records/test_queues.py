from __future__ import annotations

import sqlite3

import pytest

from headgate.agent.model import Which
from headgate.agent.records import (
    Database,
    Records,
    connections,
    receive_queues,
    send_queues,
    services,
    users,
)
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.services import PAGE
from headgate.errors import StoreError
from tests.support.agent_records import (
    C1,
    C2,
    C3,
    Scene,
    inside,
    queue_id,
    receive_queue,
    send_queue,
    with_service,
)


async def add(scene: Scene, *queues: ReceiveQueue) -> None:
    def job(tables: Database) -> None:
        for queue in queues:
            receive_queues.add(tables, queue)

    await scene.records.write(job)


async def test_a_queue_is_found_as_it_was_kept(scene: Scene) -> None:
    records = scene.records
    queue = receive_queue(scene.router, 1, scene.user)
    await add(scene, queue)
    assert await records.read(receive_queues.get, queue.key) == queue
    assert await records.read(receive_queues.get, (scene.other_router, queue_id(1))) is None
    with pytest.raises(StoreError, match="contradicts what is stored"):
        await records.write(receive_queues.add, queue)


async def test_a_queue_is_amended_and_found_so_again(scene: Scene) -> None:
    records = scene.records
    queue = receive_queue(scene.router, 1, scene.user)
    await add(scene, queue, receive_queue(scene.router, 2, scene.user))
    await records.write(receive_queues.put_e2e_key, queue.key, b"shared")
    await records.write(receive_queues.put_notice, queue.key, b"spam")
    await records.write(receive_queues.put_notifier, queue.key, b"id", b"key", b"secret")
    found = await records.read(receive_queues.get, queue.key)
    assert found is not None
    assert (found.e2e_key, found.notice) == (b"shared", b"spam")
    assert (found.notifier_id, found.notifier_key, found.notice_key) == (b"id", b"key", b"secret")
    other = receive_queue(scene.router, 2, scene.user)
    assert await records.read(receive_queues.get, other.key) == other


async def test_queues_are_found_by_connection(scene: Scene) -> None:
    """Of many connections with one question; deleted ones are left out."""
    records = scene.records
    queues = [
        receive_queue(scene.router, 1, scene.user, C1),
        receive_queue(scene.other_router, 2, scene.user, C1),
        receive_queue(scene.router, 3, scene.user, C2),
    ]
    await add(scene, *queues)
    await records.write(receive_queues.delete, queues[0].key)
    before = records.statements
    found = await records.read(receive_queues.of_connections, [C1, C2, C3])
    assert records.statements - before == 1
    assert found == {C1: [queues[1]], C2: [queues[2]], C3: []}


@pytest.mark.parametrize("which", Which)
async def test_pages_hold_each_queue_once_and_in_order(scene: Scene, which: Which) -> None:
    """Of this user and router, and none that is deleted."""
    records = scene.records
    await with_service(scene)
    other = await records.write(users.add)
    await add(
        scene,
        *(receive_queue(scene.router, n, scene.user, assoc=n % 3 == 0) for n in range(100)),
        *(receive_queue(scene.other_router, n, scene.user) for n in range(100, 120)),
        *(receive_queue(scene.router, n, other) for n in range(120, 140)),
    )
    gone = [queue_id(n) for n in range(0, 100, 10)]
    await records.write(services.change, scene.router, gone, deleted=True)
    wanted = {
        Which.ALL: [n for n in range(100) if n % 10],
        Which.SINGLE: [n for n in range(100) if n % 10 and n % 3],
        Which.ASSOCIATED: [n for n in range(100) if n % 10 and n % 3 == 0],
    }[which]
    found: list[bytes] = []
    while True:
        page = await records.read(
            receive_queues.page,
            scene.user,
            scene.router,
            found[-1] if found else b"",
            limit=7,
            which=which,
        )
        found += [queue.recipient_id for queue in page]
        if len(page) < 7:
            break
    assert found == [queue_id(n) for n in wanted]


async def test_a_page_is_ten_blocks_and_one_question(scene: Scene) -> None:
    records = scene.records
    await add(scene, *(receive_queue(scene.router, n, scene.user) for n in range(PAGE + 1)))
    before = records.statements
    page = await records.read(receive_queues.page, scene.user, scene.router)
    assert records.statements - before == 1
    assert len(page) == PAGE == 1350
    last = page[-1].recipient_id
    assert len(await records.read(receive_queues.page, scene.user, scene.router, last)) == 1


@pytest.mark.parametrize("which", Which)
async def test_a_page_is_read_in_the_order_of_an_index(records: Records, which: Which) -> None:
    def explain(db: sqlite3.Connection) -> list[str]:
        values = {"user": 1, "router": 1, "after": b"", "limit": 1}
        text = f"EXPLAIN QUERY PLAN {receive_queues.PAGES[which]}"
        return [row[3] for row in db.execute(text, values)]

    plan = await inside(records, explain)
    search = (
        "SEARCH receive_queues USING INDEX receive_queue_pages"
        " (user=? AND router=? AND assoc=? AND recipient_id>?)"
    )
    assert [line for line in plan if "receive_queues" in line] == [search] * (
        2 if which is Which.ALL else 1
    )
    assert not any("TEMP B-TREE" in line for line in plan)


async def test_the_cost_of_a_page_is_that_of_its_queues(scene: Scene) -> None:
    """Among 20,000 associated queues the two that are not are found at once."""
    records = scene.records
    await with_service(scene)
    await add(
        scene,
        *(receive_queue(scene.router, n, scene.user) for n in range(20_000)),
    )
    single = {5_000, 19_999}
    wanted = [queue_id(n) for n in range(20_000) if n not in single]
    await records.write(services.associate, scene.user, scene.router, wanted)
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    await inside(records, lambda db: db.set_progress_handler(step, 1))
    page = await records.read(receive_queues.page, scene.user, scene.router, which=Which.SINGLE)
    await inside(records, lambda db: db.set_progress_handler(None, 1))
    assert [queue.recipient_id for queue in page] == [queue_id(n) for n in sorted(single)]
    assert count < 200


async def test_a_deleted_queue_is_not_subscribed_to_and_can_be_removed(scene: Scene) -> None:
    records = scene.records
    queue = receive_queue(scene.router, 1, scene.user)
    await add(scene, queue)
    await records.write(receive_queues.delete, queue.key)
    found = await records.read(receive_queues.get, queue.key)
    assert found is not None
    assert found.deleted
    assert await records.read(receive_queues.page, scene.user, scene.router) == []
    await records.write(receive_queues.remove, queue.key)
    assert await records.read(receive_queues.get, queue.key) is None


async def test_a_send_queue_that_is_known_keeps_its_key(scene: Scene) -> None:
    """A join that is begun again secures the queue with the key that it sent before."""
    records = scene.records
    first = send_queue(scene.router)
    assert await records.write(send_queues.add, first) == first
    second = send_queue(scene.router)
    second = type(second)(second.router, second.sender_id, C1, b"another key")
    assert await records.write(send_queues.add, second) == first
    await records.write(send_queues.put_status, first.key, "secured")
    [found] = await records.read(send_queues.of_connection, C1)
    assert (found.key, found.private_key, found.status) == (
        first.key,
        first.private_key,
        "secured",
    )
    with pytest.raises(StoreError, match="another connection sends to this queue"):
        await records.write(send_queues.add, send_queue(scene.router, connection=C2))
    await records.write(send_queues.remove, first.key)
    assert await records.read(send_queues.get, first.key) is None


async def test_connections_are_found_by_id_by_name_and_by_page(scene: Scene) -> None:
    records = scene.records
    named = ConnectionRecord(C2, scene.user, name="orders", info=b"profile")
    await records.write(connections.add, named)
    assert await records.read(connections.get, C2) == named
    assert await records.read(connections.get_many, [C2, C3]) == {C2: named}
    assert await records.read(connections.named, scene.user, "orders") == named
    assert await records.read(connections.named, scene.user, "nobody") is None
    page = await records.read(connections.page, scene.user, limit=1)
    assert [each.id for each in page] == [C1]
    page = await records.read(connections.page, scene.user, C1)
    assert [each.id for each in page] == [C2]
    with pytest.raises(StoreError, match="contradicts what is stored"):
        await records.write(connections.add, ConnectionRecord(C3, scene.user, name="orders"))
