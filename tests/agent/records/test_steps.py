"""What is written before it is sent or shown, all of it or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.agent.records import (
    commands,
    connections,
    outgoing,
    ratchets,
    receive_queues,
    received,
    send_queues,
    services,
    steps,
)
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.steps import RatchetStep
from headgate.errors import StoreError
from tests.support.agent_records import (
    C1,
    NOW,
    Scene,
    incoming,
    outgoing_message,
    queue_id,
    receive_queue,
    send_queue,
    skipped_key,
    with_service,
)


async def test_the_key_of_a_queue_is_kept_before_it_is_secured(scene: Scene) -> None:
    """A join that is begun again has the same key, and one command."""
    records, queue = scene.records, send_queue(scene.router)
    assert await records.write(steps.before_skey, queue, "SKEY", b"arguments") == queue
    other = replace(queue, private_key=b"another")
    assert await records.write(steps.before_skey, other, "SKEY", b"arguments") == queue
    [command] = (await records.read(commands.of_connections, [C1]))[C1]
    assert (command.kind, command.router, command.attempts) == ("SKEY", scene.router, 0)


async def test_a_message_and_the_ratchet_that_sealed_it_are_kept_together(scene: Scene) -> None:
    """If one cannot be kept, neither is: no two messages have one key."""
    records, to = scene.records, send_queue(scene.router).key
    with pytest.raises(StoreError, match="no ratchet"):
        await records.write(steps.before_send, outgoing_message(1), [to], b"state")
    assert await records.read(outgoing.waiting, to) == []
    await records.write(ratchets.put, C1, RatchetRecord(state=b"0"))
    await records.write(steps.before_send, outgoing_message(1), [to], b"1")
    with pytest.raises(StoreError, match="seal it again"):
        await records.write(steps.before_send, outgoing_message(1), [to], b"other")
    ratchet = await records.read(ratchets.get, C1)
    assert ratchet is not None
    assert ratchet.state == b"1"
    assert len(await records.read(outgoing.waiting, to)) == 1
    connection = await records.read(connections.get, C1)
    assert connection is not None
    assert (connection.sent_id, connection.sent_hash) == (1, b"sent 1")


async def test_a_confirmation_is_kept_with_the_queue_that_it_names(scene: Scene) -> None:
    records, to = scene.records, send_queue(scene.router).key
    reply, ratchet = receive_queue(scene.router, 1, scene.user), RatchetRecord(state=b"0")
    step = steps.before_confirmation
    await records.write(send_queues.add, send_queue(scene.router))
    await records.write(step, reply, ratchet, outgoing_message(1), to)
    assert await records.read(receive_queues.get, reply.key) == reply
    assert await records.read(ratchets.get, C1) == ratchet
    head = await records.read(outgoing.head, to)
    assert head is not None
    assert head[1] == outgoing_message(1)
    # The side that invited answers without another queue.
    await records.write(step, None, ratchet, outgoing_message(2), to)
    # And one that cannot be sent leaves no queue behind.
    other = receive_queue(scene.router, 2, scene.user)
    with pytest.raises(StoreError, match="seal it again"):
        await records.write(step, other, ratchet, outgoing_message(2), to)
    assert await records.read(receive_queues.get, other.key) is None


async def test_a_message_is_kept_with_the_ratchet_after_it(scene: Scene) -> None:
    records, queue = scene.records, (scene.router, queue_id(1))
    await records.write(ratchets.put, C1, RatchetRecord(state=b"0"))
    step = RatchetStep(b"1", [skipped_key(1), skipped_key(2)])
    first = await records.write(steps.before_showing, incoming(queue, 3), NOW, step)
    with pytest.raises(StoreError, match="contradicts what is stored"):
        await records.write(
            steps.before_showing, incoming(queue, 3), NOW, RatchetStep(b"2", (), [skipped_key(1)])
        )
    ratchet = await records.read(ratchets.get, C1)
    assert ratchet is not None
    assert ratchet.state == b"1"
    assert await records.read(ratchets.skipped, C1) == [skipped_key(1), skipped_key(2)]
    connection = await records.read(connections.get, C1)
    assert connection is not None
    assert (connection.received_id, connection.received_hash) == (3, b"hash 3")
    # A message of a plain queue has neither ratchet nor number.
    plain = replace(incoming(queue, 4), peer_id=None, hash=None, prev_hash=None)
    second = await records.write(steps.before_showing, plain, NOW)
    assert [each.id for each in await records.read(received.waiting, C1)] == [first, second]
    assert await records.read(connections.get, C1) == connection


async def test_a_queue_whose_record_somebody_deleted_can_be_deleted(scene: Scene) -> None:
    """A file that was changed from outside is not in the way of what is done with it."""
    records = scene.records
    await with_service(scene)
    queue = receive_queue(scene.router, 1, scene.user, assoc=True)
    await records.write(receive_queues.add, queue)
    await records.write(lambda tables: tables.change("DELETE FROM services"))
    await records.write(receive_queues.remove, queue.key)
    assert await records.read(services.get, scene.user, scene.router) is None
