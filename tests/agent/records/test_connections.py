from __future__ import annotations

import pytest

from headgate.agent.records import (
    Database,
    Records,
    commands,
    connections,
    outgoing,
    ratchets,
    receive_queues,
    received,
    requests,
    send_queues,
    services,
    steps,
)
from headgate.agent.records.check import check
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord, ConnectionStatus
from headgate.agent.records.ratchets import SKIPPED_MAX, RatchetRecord
from headgate.agent.records.requests import Asked
from headgate.core.model.tally import NOTHING
from headgate.errors import StoreError
from tests.support.agent_records import (
    C1,
    C2,
    NOW,
    Scene,
    ask,
    incoming,
    outgoing_message,
    receive_queue,
    send_queue,
    skipped_key,
    with_service,
)


async def get(records: Records) -> ConnectionRecord:
    found = await records.read(connections.get, C1)
    assert found is not None
    return found


async def test_what_is_given_is_amended_and_the_rest_stays(scene: Scene) -> None:
    records = scene.records
    await records.write(
        connections.amend, C1, kind=ConnectionKind.DUPLEX, agent_version=7, info=b"i"
    )
    await records.write(connections.amend, C1, status=ConnectionStatus.READY, pq=True)
    assert await get(records) == ConnectionRecord(
        C1,
        scene.user,
        ConnectionKind.DUPLEX,
        ConnectionStatus.READY,
        agent_version=7,
        pq=True,
        info=b"i",
    )
    with pytest.raises(StoreError, match="no such connection"):
        await records.write(connections.amend, C2, pq=True)


async def test_numbers_of_sent_messages_have_no_gaps_and_no_repeats(scene: Scene) -> None:
    records = scene.records
    await records.write(connections.count_sent, C1, 1, b"first")
    for wrong in (0, 1, 3):
        with pytest.raises(StoreError, match="sent meanwhile; seal it again"):
            await records.write(connections.count_sent, C1, wrong, b"other")
    await records.write(connections.count_received, C1, 9, b"theirs")
    found = await get(records)
    assert (found.sent_id, found.sent_hash) == (1, b"first")
    assert (found.received_id, found.received_hash) == (9, b"theirs")


def fill(tables: Database, scene: Scene, connection: bytes, n: int) -> None:
    """A connection that has a row in every table."""
    if connection != C1:
        connections.add(tables, ConnectionRecord(connection, scene.user))
    queue = receive_queue(scene.router, n, scene.user, connection, assoc=True)
    receive_queues.add(tables, queue)
    send_queues.add(tables, send_queue(scene.router, n, connection))
    ratchets.put(tables, connection, RatchetRecord(state=b"0"))
    ratchets.step(tables, connection, b"1", [skipped_key(1)])
    commands.add(tables, connection, scene.router, "SKEY", b"")
    for asked in Asked:
        requests.add(tables, asked, connection, b"content", b"info", NOW)
    for id in range(1, 6):
        received.add(tables, incoming(queue.key, id, connection), NOW)
        to = send_queue(scene.router, n).key
        steps.before_send(tables, outgoing_message(id, connection), [to])


async def rows(records: Records) -> dict[str, int]:
    tables = await ask(
        records,
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    return {name: (await ask(records, f"SELECT count(*) FROM {name}"))[0][0] for (name,) in tables}


async def test_deleting_takes_queues_out_of_subscriptions_and_of_the_service(
    scene: Scene,
) -> None:
    """S001-86: with the connection its queues leave the tally."""
    records = scene.records
    await with_service(scene)
    await records.write(fill, scene, C1, 1)
    await records.write(connections.delete, C1)
    found = await get(records)
    assert found.deleted
    assert found.status is ConnectionStatus.DELETING
    assert await records.read(receive_queues.page, scene.user, scene.router) == []
    service = await records.read(services.get, scene.user, scene.router)
    assert service is not None
    assert service.tally == NOTHING
    assert await records.read(check) == []


async def test_removing_is_bounded_and_leaves_nothing(scene: Scene) -> None:
    records = scene.records
    await with_service(scene)
    await records.write(fill, scene, C2, 2)
    before = await rows(records)
    await records.write(fill, scene, C1, 1)
    calls = 0
    while not await records.write(connections.remove, C1, limit=2):
        calls += 1
        left = await rows(records)
        assert left["connections"] == 2  # it goes last
    assert calls > 3
    assert await rows(records) == {**before, "connections": 1}
    assert await records.read(check) == []
    assert await records.write(connections.remove, C1)


async def test_skipped_keys_are_used_once(scene: Scene) -> None:
    records = scene.records
    await records.write(ratchets.put, C1, RatchetRecord(b"1", b"2", b"kem", b"state", b"params"))
    await records.write(ratchets.step, C1, b"next", [skipped_key(n) for n in range(3)])
    await records.write(ratchets.step, C1, b"last", used=[skipped_key(1)])
    assert await records.read(ratchets.skipped, C1) == [skipped_key(0), skipped_key(2)]
    found = await records.read(ratchets.get, C1)
    assert found == RatchetRecord(b"1", b"2", b"kem", b"last", b"params")
    assert await records.read(ratchets.get, C2) is None
    with pytest.raises(StoreError, match="no ratchet for this connection"):
        await records.write(ratchets.step, C2, b"state")


async def test_the_oldest_skipped_keys_go(scene: Scene) -> None:
    """At most 2,048 of a connection; others keep theirs."""
    records = scene.records
    for connection in (C1, C2):
        await records.write(ratchets.put, connection, RatchetRecord(state=b""))
    await records.write(ratchets.step, C2, b"", [skipped_key(7)])
    assert SKIPPED_MAX == 2048
    keys = [skipped_key(n) for n in range(SKIPPED_MAX + 512)]
    await records.write(ratchets.step, C1, b"", keys[:SKIPPED_MAX])
    assert await records.read(ratchets.skipped, C1) == keys[:SKIPPED_MAX]
    await records.write(ratchets.step, C1, b"", keys[SKIPPED_MAX:])
    assert await records.read(ratchets.skipped, C1) == keys[512:]
    assert await records.read(ratchets.skipped, C2) == [skipped_key(7)]


async def test_commands_outlive_a_restart_with_their_attempts(scene: Scene) -> None:
    """What waits for a connection, or for a router, is found in its order."""
    records = scene.records
    first = await records.write(commands.add, C1, scene.router, "SKEY", b"key")
    second = await records.write(commands.add, C2, scene.router, "DEL", b"")
    third = await records.write(commands.add, C1, scene.other_router, "ACK", b"id")
    assert [await records.write(commands.attempt, first) for _ in range(2)] == [1, 2]
    assert await records.write(commands.attempt, 99) == 0
    await records.close()
    async with await Records.open(records.path) as again:
        found = await again.read(commands.of_connections, [C1, C2, b"nobody"])
        assert {key: [each.id for each in some] for key, some in found.items()} == {
            C1: [first, third],
            C2: [second],
            b"nobody": [],
        }
        assert found[C1][0].attempts == 2
        assert found[C1][0].arguments == b"key"
        page = await again.read(commands.of_router, scene.router)
        assert [each.id for each in page] == [first, second]
        assert await again.read(commands.of_router, scene.router, after=second) == []
        await again.write(commands.remove, first)
        assert await again.read(commands.get, first) is None
        kept = await again.read(commands.get, third)
        assert kept is not None
        assert kept.kind == "ACK"


@pytest.mark.parametrize("asked", Asked)
async def test_a_question_waits_until_it_is_answered_once(scene: Scene, asked: Asked) -> None:
    records = scene.records
    first, second = [
        await records.write(requests.add, asked, C1, b"content %d" % n, b"info", NOW)
        for n in range(2)
    ]
    found = await records.read(requests.waiting, asked, C1)
    assert [each.id for each in found] == [first, second]
    kept = await records.read(requests.get, asked, first)
    assert kept is not None
    assert (kept.content, kept.info, kept.created) == (b"content 0", b"info", NOW)
    assert await records.write(requests.answer, asked, first)
    assert not await records.write(requests.answer, asked, first)
    assert await records.read(requests.get, asked, first) is None
    found = await records.read(requests.waiting, asked, C1)
    assert [each.id for each in found] == [second]
    assert await records.read(requests.waiting, asked, C2) == []
    assert await records.read(requests.page, asked) == found
    assert await records.read(requests.page, asked, after=second) == []


async def test_checking_lists_what_is_wrong(scene: Scene) -> None:
    """S001-86: a tally that is not that of a recount, and rows that belong to nothing."""
    records = scene.records
    await with_service(scene)
    await records.write(fill, scene, C1, 1)
    assert await records.read(check) == []

    def spoil(tables: Database) -> None:
        tables.change("UPDATE services SET count = 7")
        tables.change("DELETE FROM connections")
        tables.change("DELETE FROM outgoing WHERE id = 3")
        tables.change("DELETE FROM deliveries WHERE id = 4")
        tables.change("DELETE FROM users")

    await records.write(spoil)
    found = await records.read(check)
    assert found[0].startswith("service of user 1 at router 1: the kept tally is 7 queues and")
    assert found[1:] == [
        "1 receive queues without a connection",
        "1 send queues without a connection",
        "1 services without a user or a router",
        "1 ratchets without a connection",
        "5 received messages without a connection",
        "1 outgoing messages that wait for no queue",
        "1 deliveries without a message",
        "1 commands without a connection",
        "1 confirmations without a connection",
        "1 requests without a connection",
    ]
    await records.write(lambda t: t.change("DELETE FROM deliveries WHERE id < 3"))
    with pytest.raises(StoreError, match="a delivery has no message"):
        await records.read(outgoing.head, send_queue(scene.router, 1).key)
