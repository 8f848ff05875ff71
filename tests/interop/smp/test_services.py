"""Services: whose a queue is, and that every tally is right."""

from __future__ import annotations

import random

import pytest

from headgate.client.smp.recipient import Queue
from headgate.client.smp.service import Service
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Batch
from headgate.errors import StoreError
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    id_of,
    kept,
    message,
    new_service,
    received,
    subs,
    tally,
    until,
)

# Whose a queue is: the four cases.


async def test_a_queue_made_by_a_service_is_its_own(router: Rig) -> None:
    """ACC-51, ACC-52, SMP-10, S001-26, S000-94, S004-5: its messages come to the service's session,
    and no setting is needed for it."""
    client = await router.connect(service=new_service())
    sender = await router.connect()
    queue = await client.new_queue()
    assert queue.ids.service == client.service_id
    assert await kept(router, id_of(client)) == tally(queue)
    assert await sender.send(queue, b"hello") == r.Ok()
    message_id = await message(client, queue, b"hello")
    assert await client.ack(queue, message_id) == r.Ok()
    assert await client.ack(queue, message_id) == r.Err("NO_MSG")


async def test_case_1_the_same_service_again_stores_and_counts_nothing_twice(router: Rig) -> None:
    """SMP-24, S001-28, S001-29: as after an answer that was lost, on this connection and another;
    the head comes again."""
    identity = new_service()
    plain = await router.connect()
    queue = await plain.new_queue(subscribe=False)
    await plain.send(queue, b"hello")
    for _ in range(2):
        client = await router.connect(service=identity)
        for _ in range(3):
            assert await client.subscribe(queue) == [r.Sok(client.service_id)]
            await message(client, queue, b"hello")
            assert await kept(router, id_of(client)) == tally(queue)
            assert received(router) == 1
        client.close()
        await until(lambda: received(router) == 0)


async def test_case_2_a_service_takes_the_queue_of_a_plain_session(router: Rig) -> None:
    """SMP-25, ACC-57, S001-2, S001-30: END for who had it, SOK with the id, and what waits."""
    plain = await router.connect()
    queue = await plain.new_queue()
    await plain.send(queue, b"one")
    await message(plain, queue, b"one")
    client = await router.connect(service=new_service())
    assert await client.subscribe(queue) == [r.Sok(client.service_id)]
    message_id = await message(client, queue, b"one")
    assert await plain.event() == (queue.id, r.SmpEnd())
    assert await kept(router, id_of(client)) == tally(queue)
    assert received(router) == 1
    assert await plain.ack(queue, message_id) == r.Err("NO_MSG")
    assert await client.ack(queue, message_id) == r.Ok()
    await plain.send(queue, b"two")
    await message(client, queue, b"two")
    await plain.quiet()


async def test_case_2_a_service_takes_the_queue_of_another_service(router: Rig) -> None:
    """SMP-25, S001-27, S001-31: END for that queue alone, which leaves one tally for the other."""
    sender = await router.connect()
    loser = await router.connect(service=new_service())
    winner = await router.connect(service=new_service())
    stays, moves = await loser.new_queue(), await loser.new_queue()
    await sender.send(moves, b"one")
    await message(loser, moves, b"one")
    assert await winner.subscribe(moves) == [r.Sok(winner.service_id)]
    message_id = await message(winner, moves, b"one")
    assert await loser.event() == (moves.id, r.SmpEnd())
    assert await kept(router, id_of(loser)) == tally(stays)
    assert await kept(router, id_of(winner)) == tally(moves)
    assert received(router) == 2
    assert await loser.ack(moves, message_id) == r.Err("NO_MSG")
    await sender.send(stays, b"two")
    await message(loser, stays, b"two")
    assert await loser.ask(subs(loser)) == [r.Soks(tally(stays))]
    await winner.quiet()


async def test_case_2_takes_the_queue_of_a_service_that_is_not_there(router: Rig) -> None:
    """S001-31"""
    identity = new_service()
    absent = await router.connect(service=identity)
    queue = await absent.new_queue()
    id = id_of(absent)
    absent.close()
    await until(lambda: received(router) == 0)
    client = await router.connect(service=new_service())
    assert await client.subscribe(queue) == [r.Sok(client.service_id)]
    assert await kept(router, id) == NOTHING
    assert await kept(router, id_of(client)) == tally(queue)
    back = await router.connect(service=identity)
    assert await back.ask(subs(back, tally(queue))) == [r.Soks(NOTHING)]
    assert await back.event() == (b"", r.Alls())


async def test_case_3_a_plain_session_takes_the_queue_of_a_service(router: Rig) -> None:
    """SMP-26, ACC-60, S001-32: END for the service's session, SOK without an id, and what waits."""
    client = await router.connect(service=new_service())
    plain = await router.connect()
    stays, moves = await client.new_queue(), await client.new_queue()
    await plain.send(moves, b"one")
    message_id = await message(client, moves, b"one")
    assert await plain.subscribe(moves) == [r.Sok()]
    await message(plain, moves, b"one")
    assert await client.event() == (moves.id, r.SmpEnd())
    assert await kept(router, id_of(client)) == tally(stays)
    assert received(router) == 1
    assert await client.ack(moves, message_id) == r.Err("NO_MSG")
    assert await plain.ack(moves, message_id) == r.Ok()
    await plain.send(moves, b"two")
    await message(plain, moves, b"two")
    await client.quiet()


async def test_case_4_plain_and_plain_touches_no_service(router: Rig) -> None:
    """SMP-27, S001-33, S000-7"""
    client = await router.connect(service=new_service())
    mine = await client.new_queue()
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    before = router.router.gauges()
    assert before["queues_subscribed"] == before["services_subscribed"] == 1
    assert await second.subscribe(queue) == [r.Sok()]
    assert await first.event() == (queue.id, r.SmpEnd())
    assert await kept(router, id_of(client)) == tally(mine)
    after = router.router.gauges()
    for name in ("queues_subscribed", "services_subscribed", "service_queues_subscribed"):
        assert after[name] == before[name]
    await client.quiet(0.1)


async def test_a_plain_client_becomes_a_service_and_back_and_loses_nothing(router: Rig) -> None:
    """S001-34"""
    identity = new_service()
    sender, plain = await router.connect(), await router.connect()
    queue = await plain.new_queue()
    sent = [b"%d" % number for number in range(6)]
    taken = []
    for number, body in enumerate(sent):
        assert await sender.send(queue, body) == r.Ok()
        if number % 2:
            continue
        reader = await router.connect(service=None if number % 4 else identity)
        await reader.subscribe(queue)
        while True:
            _, told = await reader.event()
            if isinstance(told, r.Msg):
                break
        opened = queue.open(told)
        taken.append(getattr(opened, "body", None))
        reply = await reader.ack(queue, told.message_id)
        while isinstance(reply, r.Msg):
            taken.append(getattr(queue.open(reply), "body", None))
            reply = await reader.ack(queue, reply.message_id)
    last = await router.connect(service=identity)
    await last.subscribe(queue)
    message_id = await message(last, queue, sent[-1])
    assert await last.ack(queue, message_id) == r.Ok()
    assert [*taken, sent[-1]] == sent


async def test_what_cannot_be_stored_changes_nothing(
    router: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-35: neither the association nor the tally, nor who is subscribed."""
    plain, client = await router.connect(), await router.connect(service=new_service())
    mine, queue = await client.new_queue(), await plain.new_queue()

    async def fail(_: Batch) -> None:
        raise StoreError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(router.store, "apply", fail)
        (reply,) = await client.subscribe(queue)
        assert reply == r.Err("STORE unavailable")
    assert await kept(router, id_of(client)) == tally(mine)
    assert received(router) == 1
    await plain.quiet()
    await client.send(queue, b"still")
    await message(plain, queue, b"still")
    assert await client.subscribe(queue) == [r.Sok(client.service_id)]
    await message(client, queue, b"still")
    assert await kept(router, id_of(client)) == tally(mine, queue)


@pytest.mark.parametrize("seed", range(3))
async def test_tallies_equal_a_recount_after_any_history(router: Rig, seed: int) -> None:
    """S001-35, S001-38, S001-40, S001-27"""
    chance = random.Random(seed)
    identities: list[Service | None] = [new_service(), new_service(), None]
    sessions = [await router.connect(service=identity) for identity in identities]
    ids = [id_of(session) for session in sessions if session.service_id]
    queues: list[Queue] = []
    owners: dict[bytes, int] = {}
    for _ in range(40):
        who = chance.randrange(3)
        deed = chance.choice(["new", "sub", "sub", "sub", "del", "subs", "leave"])
        if deed == "new" or not queues:
            queue = await sessions[who].new_queue()
            queues.append(queue)
            owners[queue.id] = who
        elif deed == "sub":
            queue = chance.choice(queues)
            assert await sessions[who].subscribe(queue) == [r.Sok(sessions[who].service_id)]
            owners[queue.id] = who
        elif deed == "del":
            queue = queues.pop(chance.randrange(len(queues)))
            assert await sessions[who].ask(queue.asks(c.Del())) == [r.Ok()]
            del owners[queue.id]
        elif deed == "subs" and sessions[who].service_id:
            mine = tally(*(queue for queue in queues if owners[queue.id] == who))
            assert await sessions[who].ask(subs(sessions[who])) == [r.Soks(mine)]
        elif deed == "leave":
            sessions[who].close()
            sessions[who] = await router.connect(service=identities[who])
        for place, id in enumerate(ids):
            expected = tally(*(queue for queue in queues if owners[queue.id] == place))
            assert await kept(router, id) == expected
    for place, id in enumerate(ids):
        session = sessions[place]
        owned = tally(*(queue for queue in queues if owners[queue.id] == place))
        assert await session.ask(subs(session, owned)) == [r.Soks(owned)]
        assert await kept(router, id) == owned
    counted = [tally(*(q for q in queues if owners[q.id] == place)).count for place in range(2)]
    assert received(router) == sum(counted)


async def test_a_block_of_subscribes_is_one_association_each(router: Rig) -> None:
    """S001-38, ACC-48: three blocks of a service, some queues named twice."""
    plain = await router.connect()
    client = await router.connect(service=new_service())
    queues = [await plain.new_queue(subscribe=False) for _ in range(100)]
    for queue in queues[::10]:
        await plain.send(queue, b"hello")
    replies = await client.subscribe(*queues, *queues[:20])
    assert replies == [r.Sok(client.service_id)] * 120
    found = {(await client.event())[0] for _ in range(10)}
    assert found == {queue.id for queue in queues[::10]}
    assert await kept(router, id_of(client)) == Tally(100, tally(*queues).xor)
    assert received(router) == 100
