from __future__ import annotations

import pytest

from headgate.agent.records import Records, connections, outgoing, received, send_queues, steps
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.outgoing import (
    FAST_SECONDS,
    GIVE_UP_QUOTA_SECONDS,
    GIVE_UP_SECONDS,
    SLOW_SECONDS,
)
from headgate.agent.records.received import HASHES_SECONDS, Incoming, ReceivedMessage
from headgate.errors import StoreError
from tests.support.agent_records import (
    C1,
    C2,
    DAY,
    NOW,
    Scene,
    incoming,
    outgoing_message,
    queue_id,
    send_queue,
)


@pytest.fixture
def queue(scene: Scene) -> tuple[int, bytes]:
    return scene.router, queue_id(1)


async def recognise(records: Records, message: Incoming) -> ReceivedMessage | None:
    return await records.write(
        received.recognise,
        message.connection,
        message.queue,
        message.broker_id,
        message.sealed_hash,
    )


# Received


async def test_a_message_is_found_as_it_was_stored(scene: Scene, queue: tuple[int, bytes]) -> None:
    records = scene.records
    message = incoming(queue, 1)
    id = await records.write(received.add, message, NOW)
    found = await records.read(received.get, id)
    assert found == ReceivedMessage(
        id,
        C1,
        queue,
        b"broker 1",
        int(NOW),
        1,
        b"hash 1",
        b"hash 0",
        message.sealed_hash,
        "message",
        1,
        acked=False,
        attempts=1,
        first_seconds=NOW,
    )
    assert await records.read(received.body, id) == b"body 1"
    assert await records.read(received.get, 99) is None
    assert await records.read(received.body, 99) is None


async def test_a_message_that_comes_again_is_recognised(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    """By its broker id, or by the hash of its sealed bytes; it keeps the time of the first."""
    records = scene.records
    message = incoming(queue, 1)
    assert await recognise(records, message) is None
    id = await records.write(received.add, message, NOW)
    again = await recognise(records, message)
    assert again is not None
    assert (again.id, again.acked, again.attempts, again.first_seconds) == (id, False, 1, NOW)
    other = incoming(queue, 2)
    sent_again = Incoming(C1, queue, b"other", 1, message.sealed_hash, "message", b"")
    router_gave_again = Incoming(C1, queue, b"broker 1", 1, other.sealed_hash, "message", b"")
    for repeat in (sent_again, router_gave_again):
        again = await recognise(records, repeat)
        assert again is not None
        assert (again.id, again.attempts) == (id, 1)
    await records.write(received.acknowledge, id)
    again = await recognise(records, message)
    assert again is not None
    assert again.acked
    assert await recognise(records, other) is None


async def test_showing_a_message_again_is_an_attempt_until_it_is_acknowledged(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    records = scene.records
    id = await records.write(received.add, incoming(queue, 1), NOW)
    assert [await records.write(received.count, id) for _ in range(2)] == [2, 3]
    await records.write(received.acknowledge, id)
    assert await records.write(received.count, id) == 3
    assert await records.write(received.count, 99) == 0


async def test_what_the_application_never_saw_was_no_attempt(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    records = scene.records
    id, acked = [await records.write(received.add, incoming(queue, n), NOW) for n in (1, 2)]
    await records.write(received.acknowledge, acked)
    await records.write(received.uncount, [id, acked, 99])
    attempts = [(await records.read(received.get, each)).attempts for each in (id, acked)]  # type: ignore[union-attr]
    assert attempts == [0, 1]
    assert await records.write(received.count, id) == 1


async def test_the_same_ids_elsewhere_are_other_messages(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    records = scene.records
    await records.write(received.add, incoming(queue, 1), NOW)
    elsewhere = incoming((scene.other_router, queue[1]), 1, C2)
    assert await recognise(records, elsewhere) is None
    await records.write(received.add, elsewhere, NOW)


async def test_a_message_is_not_stored_twice(scene: Scene, queue: tuple[int, bytes]) -> None:
    records = scene.records
    message = incoming(queue, 1)
    await records.write(received.add, message, NOW)
    with pytest.raises(StoreError, match="contradicts what is stored"):
        await records.write(received.add, message, NOW)


async def test_messages_of_a_connection_are_in_the_order_of_arrival(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    """Also after a restart, and others are not among them."""
    records = scene.records
    ids = [await records.write(received.add, incoming(queue, n), NOW) for n in (5, 3, 4)]
    await records.write(received.add, incoming(queue, 9, C2), NOW)
    await records.write(received.acknowledge, ids[1])
    await records.close()
    async with await Records.open(records.path) as again:
        assert [each.id for each in await again.read(received.waiting, C1)] == [ids[0], ids[2]]
        after = await again.read(received.waiting, C1, after=ids[0])
        assert [each.id for each in after] == [ids[2]]
        assert len(await again.read(received.waiting, C1, limit=1)) == 1
        assert await again.read(received.body, ids[2]) == b"body 4"


async def test_acknowledging_deletes_the_body_and_keeps_the_hashes(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    records = scene.records
    id = await records.write(received.add, incoming(queue, 1), NOW)
    for _ in range(2):
        found = await records.write(steps.before_ack, id)
        assert (found.queue, found.broker_id, found.acked) == (queue, b"broker 1", True)
        assert found.hash == b"hash 1"
    assert await records.read(received.body, id) is None
    assert await records.read(received.waiting, C1) == []
    with pytest.raises(StoreError, match="no such message"):
        await records.write(received.acknowledge, 99)


async def test_hashes_are_forgotten_after_21_days_some_at_a_time(
    scene: Scene, queue: tuple[int, bytes]
) -> None:
    records = scene.records
    assert HASHES_SECONDS == 21 * DAY
    for n in range(10):
        id = await records.write(received.add, incoming(queue, n), NOW + n)
        if n != 2:
            await records.write(received.acknowledge, id)
    assert await records.write(received.prune, NOW + HASHES_SECONDS) == 0
    later = NOW + HASHES_SECONDS + 6
    assert await records.write(received.prune, later, limit=3) == 3
    assert await recognise(records, incoming(queue, 3)) is None
    assert await recognise(records, incoming(queue, 4)) is not None
    assert await records.write(received.prune, later, limit=3) == 2
    # The sixth is not old enough, and the second waits for the application.
    assert await recognise(records, incoming(queue, 6)) is not None
    assert [each.id for each in await records.read(received.waiting, C1)] == [3]


async def test_ids_are_not_used_again(scene: Scene, queue: tuple[int, bytes]) -> None:
    records = scene.records
    first = await records.write(received.add, incoming(queue, 1), NOW)
    await records.write(received.acknowledge, first)
    await records.write(received.prune, NOW + 22 * DAY)
    assert await records.write(received.add, incoming(queue, 2), NOW) == first + 1


# Outgoing


@pytest.fixture
async def sending(scene: Scene) -> Scene:
    await scene.records.write(connections.add, ConnectionRecord(C2, scene.user))
    for n, connection in enumerate((C1, C2)):
        await scene.records.write(send_queues.add, send_queue(scene.router, n, connection))
    return scene


async def send(scene: Scene, id: int, created: float = NOW, *, n: int = 0) -> None:
    message = outgoing_message(id, (C1, C2)[n], created)
    to = [send_queue(scene.router, n).key]
    await scene.records.write(steps.before_send, message, to)


async def test_a_message_is_stored_before_it_is_sent_and_sent_in_order(sending: Scene) -> None:
    """After a restart the same bytes wait, in the order of sending."""
    records, queue = sending.records, send_queue(sending.router).key
    for id in (1, 2, 3):
        await send(sending, id)
    await send(sending, 1, n=1)
    await records.close()
    async with await Records.open(records.path) as again:
        waiting = await again.read(outgoing.waiting, queue)
        assert [each.message for each in waiting] == [(C1, 1), (C1, 2), (C1, 3)]
        head = await again.read(outgoing.head, queue)
        assert head is not None
        delivery, message = head
        assert message == outgoing_message(1)
        assert (delivery.fast, delivery.slow) == (FAST_SECONDS, SLOW_SECONDS)
        found = await again.read(outgoing.queues_waiting, [C1, C2, b"nobody"])
        assert sorted(found) == [send_queue(sending.router, n).key for n in (0, 1)]
        assert sorted(found) == await again.read(outgoing.queues_page)
        before = again.statements
        first = await again.read(outgoing.queues_page, limit=1)
        assert again.statements - before == 1
        assert await again.read(outgoing.queues_page, first[-1]) == sorted(found)[1:]
        assert await again.read(outgoing.queues_waiting, [C2]) == [
            send_queue(sending.router, 1).key
        ]


async def test_a_message_without_a_sealing_is_sent_as_it_is(sending: Scene) -> None:
    message = outgoing.OutgoingMessage(C1, 1, "plain", b"bytes", b"hash", NOW)
    queue = send_queue(sending.router).key
    await sending.records.write(steps.before_send, message, [queue])
    assert await sending.records.read(outgoing.get, (C1, 1)) == message
    with pytest.raises(StoreError, match="needs a queue"):
        await sending.records.write(steps.before_send, outgoing_message(2), [])
    assert await sending.records.read(outgoing.get, (C1, 2)) is None


async def test_delays_outlive_a_restart(sending: Scene) -> None:
    records, queue = sending.records, send_queue(sending.router).key
    await send(sending, 1)
    [delivery] = await records.read(outgoing.waiting, queue)
    await records.write(outgoing.put_delays, delivery.number, 4.5, 600.0)
    await records.close()
    async with await Records.open(records.path) as again:
        [delivery] = await again.read(outgoing.waiting, queue)
        assert (delivery.fast, delivery.slow) == (4.5, 600.0)


async def test_what_was_sent_is_removed(sending: Scene) -> None:
    records, queue = sending.records, send_queue(sending.router).key
    await send(sending, 1)
    await send(sending, 2)
    first, second = await records.read(outgoing.waiting, queue)
    assert await records.write(outgoing.sent, first.number) == (C1, 1)
    assert await records.write(outgoing.sent, first.number) is None
    assert await records.read(outgoing.get, (C1, 1)) is None
    head = await records.read(outgoing.head, queue)
    assert head is not None
    assert head[0] == second
    await records.write(outgoing.sent, second.number)
    assert await records.read(outgoing.head, queue) is None
    assert await records.read(outgoing.queues_waiting, [C1]) == []


async def test_a_message_for_two_queues_is_there_until_both_have_it(sending: Scene) -> None:
    records = sending.records
    queues = [send_queue(sending.router, n).key for n in (0, 1)]
    await records.write(steps.before_send, outgoing_message(1), queues)
    for queue, gone in zip(queues, (None, (C1, 1)), strict=True):
        [delivery] = await records.read(outgoing.waiting, queue)
        assert await records.write(outgoing.sent, delivery.number) == gone


async def test_messages_are_given_up_by_age(sending: Scene) -> None:
    """After two days of errors, or seven of a full queue; those of other queues are left alone."""
    assert (GIVE_UP_SECONDS, GIVE_UP_QUOTA_SECONDS) == (2 * DAY, 7 * DAY)
    records, queue = sending.records, send_queue(sending.router).key
    for id, age in enumerate((8, 3, 2, 1), 1):
        await send(sending, id, NOW - age * DAY)
    await send(sending, 1, NOW - 8 * DAY, n=1)
    assert await records.write(outgoing.give_up, queue, NOW - 7 * DAY) == [(C1, 1)]
    assert await records.write(outgoing.give_up, queue, NOW - 2 * DAY) == [(C1, 2)]
    assert await records.read(outgoing.get, (C1, 2)) is None
    assert len(await records.read(outgoing.waiting, queue)) == 2
    # AUTH: all of them, some at a time.
    assert await records.write(outgoing.give_up, queue, limit=1) == [(C1, 3)]
    assert await records.write(outgoing.give_up, queue) == [(C1, 4)]
    assert await records.write(outgoing.give_up, queue) == []
    assert await records.read(outgoing.get, (C2, 1)) is not None
