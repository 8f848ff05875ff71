"""Who is the subscriber of a service, what becomes of its queues, and how many it has."""

from __future__ import annotations

import pytest

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
    sweep,
    tally,
    until,
)

# Who is the service's subscriber.


async def test_one_queue_makes_the_session_receive_for_all(router: Rig) -> None:
    """SMP-29, S001-54, S001-57, S000-93: new messages of every queue come, not what waits; and not
    to a session that subscribed to that queue before."""
    identity = new_service()
    sender = await router.connect()
    first = await router.connect(service=identity)
    one, two, three = [await first.new_queue() for _ in range(3)]
    await sender.send(two, b"waits")
    await message(first, two, b"waits")
    second = await router.connect(service=identity)
    assert await second.subscribe(one) == [r.Sok(second.service_id)]
    assert await first.event() == (id_of(first), r.Ends(tally(one, two, three)))
    await sender.send(three, b"new")
    await message(second, three, b"new")
    await second.quiet()
    await first.quiet(0.1)
    assert await second.subscribe(two) == [r.Sok(second.service_id)]
    await message(second, two, b"waits")


@pytest.mark.parametrize("how", ["SUB", "NEW", "SUBS"])
async def test_the_service_goes_to_the_session_that_asked_last(router: Rig, how: str) -> None:
    """SMP-28, ACC-62, S001-46, S001-58, S001-59, S000-22, S000-13: one ENDS with the count and hash
    that the session had, however it had them; its deliveries are over."""
    identity = new_service()
    sender = await router.connect()
    first = await router.connect(service=identity)
    one, two = await first.new_queue(), await first.new_queue()
    await sender.send(one, b"hello")
    message_id = await message(first, one, b"hello")
    second = await router.connect(service=identity)
    if how == "SUB":
        await second.subscribe(two)
    elif how == "NEW":
        await second.new_queue()
    else:
        await second.ask(subs(second))
    assert await first.event() == (id_of(first), r.Ends(tally(one, two)))
    assert await first.ack(one, message_id) == r.Err("NO_MSG")
    await first.quiet()
    assert (await kept(router, id_of(first))).count == (3 if how == "NEW" else 2)
    assert router.router.gauges()["services_subscribed"] == 1


async def test_ends_says_what_the_session_had_and_not_what_the_service_has(router: Rig) -> None:
    """SMP-28, S001-29, S001-58, S004-6: one of three queues was subscribed here."""
    identity = new_service()
    first = await router.connect(service=identity)
    one, _, _ = [await first.new_queue() for _ in range(3)]
    first.close()
    await until(lambda: received(router) == 0)
    second = await router.connect(service=identity)
    await second.subscribe(one)
    assert received(router) == 1
    third = await router.connect(service=identity)
    await third.subscribe(one)
    assert await second.event() == (id_of(second), r.Ends(tally(one)))
    assert received(router) == 1


async def test_nobody_is_told_of_a_service_that_nobody_lost(router: Rig) -> None:
    """S001-61: not the session that asks again, nor one that is gone."""
    identity = new_service()
    first = await router.connect(service=identity)
    queue = await first.new_queue()
    for _ in range(2):
        await first.subscribe(queue)
    assert await first.ask(subs(first, tally(queue))) == [r.Soks(tally(queue))]
    assert await first.event() == (b"", r.Alls())
    assert await first.subscribe(queue) == [r.Sok(first.service_id)]
    await first.quiet(0.2)
    first.close()
    second = await router.connect(service=identity)
    await second.subscribe(queue)
    await second.quiet(0.2)
    assert await kept(router, id_of(second)) == tally(queue)


async def test_the_clean_up_of_an_old_session_leaves_the_new_one_alone(router: Rig) -> None:
    """SMP-7, S000-77, S001-45: also of the count."""
    identity = new_service()
    sender = await router.connect()
    old = await router.connect(service=identity)
    queue = await old.new_queue()
    new = await router.connect(service=identity)
    await new.subscribe(queue)
    old.close()
    await until(lambda: router.router.gauges()["sessions"] == 2)
    assert received(router) == 1
    await sender.send(queue, b"hello")
    await message(new, queue, b"hello")


# What happens to its queues.


async def test_a_queue_that_another_deletes_leaves_the_service(router: Rig) -> None:
    """SMP-34, SMP-9, S000-15, S004-2: DELD for the service's session, and the tally without it."""
    client = await router.connect(service=new_service())
    other = await router.connect()
    stays, goes = await client.new_queue(), await client.new_queue()
    assert await other.ask(goes.asks(c.Del())) == [r.Ok()]
    assert await client.event() == (goes.id, r.Deld())
    assert await kept(router, id_of(client)) == tally(stays)
    assert received(router) == 1
    await other.quiet(0.1)
    assert await client.subscribe(goes) == [r.Err("AUTH")]


async def test_a_service_that_deletes_its_queue_is_answered_and_no_more(router: Rig) -> None:
    """SMP-35"""
    client = await router.connect(service=new_service())
    stays, goes = await client.new_queue(), await client.new_queue()
    assert await client.ask(subs(client)) == [r.Soks(tally(stays, goes))]
    assert await client.event() == (b"", r.Alls())
    assert await client.ask(goes.asks(c.Del())) == [r.Ok()]
    assert await kept(router, id_of(client)) == tally(stays)
    assert received(router) == 1
    await client.quiet(0.2)


async def test_a_queue_of_an_absent_service_is_deleted_from_its_tally(router: Rig) -> None:
    """SMP-34"""
    identity = new_service()
    client = await router.connect(service=identity)
    stays, goes = await client.new_queue(), await client.new_queue()
    client.close()
    other = await router.connect()
    assert await other.ask(goes.asks(c.Del())) == [r.Ok()]
    assert await kept(router, id_of(client)) == tally(stays)
    back = await router.connect(service=identity)
    assert await back.ask(subs(back, tally(stays, goes))) == [r.Soks(tally(stays))]


async def test_associations_survive_restarts(router: Rig) -> None:
    """ACC-63, SMP-34, S001-36, ACC-58: two of them; the live subscription does not."""
    identity = new_service()
    client = await router.connect(service=identity)
    queues = [await client.new_queue() for _ in range(3)]
    for number in range(2):
        await router.restart()
        assert received(router) == 0
        sender = await router.connect()
        assert await sender.send(queues[number], b"hello") == r.Ok()
        client = await router.connect(service=identity)
        await client.quiet(0.1)
        found = await sweep(client, tally(*queues))
        assert [entity for entity, _ in found] == [queues[number].id]
        assert await client.ack(queues[number], found[0][1].message_id) == r.Ok()
        assert await kept(router, id_of(client)) == tally(*queues)


async def test_the_number_of_queues_subscribed_through_services(router: Rig) -> None:
    """ACC-61, S001-43..S001-45: 2 after SUBS over 2, 3 after one more and SUBS again, none counted
    twice, and back to what it was with the session."""
    identity = new_service()
    client = await router.connect(service=identity)
    queues = [await client.new_queue() for _ in range(2)]
    client.close()
    await until(lambda: received(router) == 0)
    client = await router.connect(service=identity)
    assert received(router) == 0
    assert router.router.gauges()["services_subscribed"] == 0
    await client.subscribe(queues[0])
    assert received(router) == 1
    await sweep(client, tally(*queues))
    assert received(router) == 2
    plain = await router.connect()
    queues.append(await plain.new_queue())
    await client.subscribe(queues[2])
    assert received(router) == 3
    other = await router.connect(service=new_service())
    await other.new_queue()
    assert received(router) == 4
    client.close()
    await until(lambda: received(router) == 1)
    client = await router.connect(service=identity)
    await sweep(client, tally(*queues))
    assert received(router) == 4
    taker = await router.connect(service=identity)
    await taker.subscribe(queues[0])
    assert received(router) == 2
    taker.close()
    other.close()
    await until(lambda: received(router) == 0)
    assert router.router.gauges()["services_subscribed"] == 0
