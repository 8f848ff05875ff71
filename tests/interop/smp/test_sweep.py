"""SUBS: what waited for a service comes at once, in its own time, while everybody else goes on."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headgate.client.smp.recipient import Request
from headgate.core.facts import ServiceSubscribed, SweepEnded
from headgate.core.model.limits import Limits
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Load, Loaded
from headgate.errors import StoreError
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.interop.smp.conftest import StartRig
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    id_of,
    kept,
    make_queues,
    message,
    new_service,
    received,
    send_to,
    subs,
    sweep,
    tally,
    until,
)

SMALL = Limits(sweep_queues=5)
"""A sweep of many turns."""


def slow_down(rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Every page of a sweep takes so long. Others wait for that turn, and have the next one."""
    load = rig.store.load

    async def slow(wanted: Load) -> Loaded:
        if wanted.pages:
            await asyncio.sleep(seconds)
        return await load(wanted)

    monkeypatch.setattr(rig.store, "load", slow)


def has_swept(rig: Rig) -> bool:
    return any(isinstance(fact, SweepEnded) for fact in rig.facts)


# The course of it.


async def test_the_answer_comes_first_and_the_end_is_told_last_and_once(router: Rig) -> None:
    """SMP-30, SMP-31, ACC-54, ACC-58, S001-3, S000-91, S000-97, S000-98: one SUBS, the head of each
    queue that has one, one ALLS."""
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 12)
    client.close()
    sender = await router.connect()
    waiting = queues[::3]
    for body in (b"first", b"second"):
        await send_to(sender, waiting, body)
    client = await router.connect(service=identity)
    found = await sweep(client, tally(*queues))
    assert [entity for entity, _ in found] == [queue.id for queue in waiting]
    for queue, (_, msg) in zip(waiting, found, strict=True):
        assert getattr(queue.open(msg), "body", None) == b"first"
        (second,) = await client.ask(queue.asks(c.SmpAck(msg.message_id)))
        assert getattr(queue.open(second), "body", None) == b"second"
    await client.quiet()


async def test_after_the_sweep_new_messages_are_pushed(router: Rig) -> None:
    """ACC-55, S001-54, S001-55, S004-3: also of a queue that became the service's later."""
    client, plain = await router.connect(service=new_service()), await router.connect()
    queue = await client.new_queue()
    assert await sweep(client, tally(queue)) == []
    await send_to(plain, [queue])
    await message(client, queue, b"hello")
    late = await plain.new_queue()
    await client.subscribe(late)
    await send_to(plain, [late], b"late")
    await message(client, late, b"late")


async def test_a_service_without_queues_is_swept_as_well(router: Rig) -> None:
    """S000-98, S001-37: the hash of nothing is sixteen zero bytes."""
    client = await router.connect(service=new_service())
    assert await client.ask(subs(client, Tally(7, 7))) == [r.Soks(NOTHING)]
    assert NOTHING.hash == bytes(16)
    assert await client.event() == (b"", r.Alls())
    await client.quiet(0.1)


async def test_the_answer_has_the_values_of_the_router_whatever_is_expected(router: Rig) -> None:
    """S000-95, S001-39, S001-42, SMP-30: drift is recorded and refuses nothing."""
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 3)
    true = tally(*queues)
    expected = {
        "none": true,
        "more": tally(*queues[:2]),
        "fewer": Tally(4, true.xor),
        "different": Tally(3, true.xor ^ 1),
    }
    for drift, tallied in expected.items():
        client = await router.connect(service=identity)
        assert await client.ask(subs(client, tallied)) == [r.Soks(true)]
        assert await client.event() == (b"", r.Alls())
        told = [fact for fact in router.facts if isinstance(fact, ServiceSubscribed)][-1]
        assert (told.count, told.drift) == (3, drift)
    assert await kept(router, id_of(client)) == true


async def test_subscribing_again_is_answered_and_no_more(router: Rig) -> None:
    """SMP-32, S001-52, S001-43: no sweep, no ALLS, though a message waits for its ACK."""
    client, sender = await router.connect(service=new_service()), await router.connect()
    queue, other = await client.new_queue(), await client.new_queue()
    await send_to(sender, [queue])
    await message(client, queue, b"hello")
    assert await sweep(client, tally(queue, other)) == []
    assert await client.ask(subs(client)) == [r.Soks(tally(queue, other))]
    assert await client.ask(other.asks(c.Del())) == [r.Ok()]
    assert await client.ask(subs(client)) == [r.Soks(tally(queue))]
    await client.quiet()
    assert received(router) == 1


async def test_what_is_delivered_already_is_not_swept(router: Rig) -> None:
    """S001-47, SMP-31: neither by its own SUB nor by a push before."""
    identity = new_service()
    client = await router.connect(service=identity)
    one, two, three = await make_queues(client, 3)
    client.close()
    await until(lambda: received(router) == 0)
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, [one, three])
    await client.subscribe(one)
    await message(client, one, b"hello")
    await send_to(sender, [two])
    await message(client, two, b"hello")
    found = await sweep(client, tally(one, two, three))
    assert [entity for entity, _ in found] == [three.id]


async def test_a_block_is_as_if_its_commands_came_one_by_one(router: Rig) -> None:
    """SMP-32, S001-43, S001-47, S001-52: SUBS before, between and behind what changes the
    service."""
    identity = new_service()
    client = await router.connect(service=identity)
    one, two = await make_queues(client, 2)
    client.close()
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, [one, two])
    both = r.Soks(tally(one, two))
    assert await client.ask(
        subs(client), one.asks(c.Sub()), subs(client), two.asks(c.Del()), subs(client)
    ) == [both, r.Sok(client.service_id), both, r.Ok(), r.Soks(tally(one))]
    await message(client, one, b"hello")
    assert await client.event() == (b"", r.Alls())
    await client.quiet(0.2)
    assert await kept(router, id_of(client)) == tally(one)
    assert received(router) == 1


async def test_the_answer_does_not_wait_for_the_queues(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-41, S001-48, S000-96, SMP-37: messages leave as the sweep goes, commands of the session
    itself are answered meanwhile, and a new message finds it registered."""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 50)
    client.close()
    await until(lambda: received(router) == 0)
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, queues[:-1])
    slow_down(router, monkeypatch, 0.1)
    assert await client.ask(subs(client, tally(*queues))) == [r.Soks(tally(*queues))]
    first, told = await client.event()
    assert first == queues[0].id
    assert isinstance(told, r.Msg)
    assert not has_swept(router)
    await send_to(sender, queues[-1:], b"new")
    assert await client.ack(queues[0], told.message_id) == r.Ok()
    assert await client.ask(Request(c.Ping())) == [r.Pong()]
    assert not has_swept(router)
    order = [first]
    while (event := await client.event()) != (b"", r.Alls()):
        order.append(event[0])
    assert Counter(order) == Counter(queue.id for queue in queues)
    # The new message did not wait for its place in the sweep.
    assert order.index(queues[-1].id) < len(order) - 1
    await client.quiet(0.1)


async def test_others_go_on_during_a_sweep_of_thousands(start_rig: StartRig) -> None:
    """S001-53, S001-55, S001-56, SMP-37: what is sent meanwhile comes once, whichever of the two
    brings it; others are answered before the sweep has ended."""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 2000)
    client.close()
    await until(lambda: received(router) == 0)
    other = await router.connect()
    own = await other.new_queue()
    await send_to(other, queues[::20])
    client = await router.connect(service=identity)
    assert await client.ask(subs(client, tally(*queues))) == [r.Soks(tally(*queues))]
    rounds = 0
    for queue in reversed(queues[1::20]):
        if has_swept(router):
            break
        await send_to(other, [own], b"round")
        message_id = await message(other, own, b"round")
        assert await other.ack(own, message_id) == r.Ok()
        await send_to(other, [queue], b"meanwhile")
        rounds += 1
    assert rounds > 5
    expected = Counter(queue.id for queue in queues[::20])
    expected.update(queue.id for queue in [*reversed(queues[1::20])][:rounds])
    found: Counter[bytes] = Counter()
    ends = 0
    while not ends or found != expected:
        entity, told = await client.event()
        if told == r.Alls():
            ends += 1
        else:
            assert isinstance(told, r.Msg)
            found[entity] += 1
    assert ends == 1
    await client.quiet(0.2)
    assert await kept(router, id_of(client)) == tally(*queues)


async def test_what_was_confirmed_or_deleted_before_the_sweep_came_is_not_swept(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-53, SMP-34"""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 60)
    client.close()
    await until(lambda: received(router) == 0)
    other, client = await router.connect(), await router.connect(service=identity)
    await send_to(other, queues)
    slow_down(router, monkeypatch, 0.05)
    assert await client.ask(subs(client, tally(*queues))) == [r.Soks(tally(*queues))]
    assert await other.ask(queues[-1].asks(c.Del())) == [r.Ok()]
    assert await other.subscribe(queues[-2]) == [r.Sok()]
    (got,) = await other.ask(queues[-3].asks(c.SmpGet()))
    assert isinstance(got, r.Msg)
    assert await other.ask(queues[-3].asks(c.SmpAck(got.message_id))) == [r.Ok()]
    assert not has_swept(router)
    events = []
    while (event := await client.event()) != (b"", r.Alls()):
        events.append(event)
    lost = [(queues[-1].id, r.Deld()), (queues[-2].id, r.SmpEnd())]
    assert [event for event in events if not isinstance(event[1], r.Msg)] == lost
    swept = [entity for entity, told in events if isinstance(told, r.Msg)]
    assert swept == [queue.id for queue in queues[:-3]]
    assert await kept(router, id_of(client)) == tally(*queues[:-2])


async def test_a_store_that_fails_for_a_while_delays_the_sweep_and_loses_nothing(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-50, S001-51: a page that cannot be read is read again; ALLS is the last of it."""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 20)
    client.close()
    await until(lambda: received(router) == 0)
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, queues)
    load, pages = router.store.load, 0

    async def fail(wanted: Load) -> Loaded:
        nonlocal pages
        pages += bool(wanted.pages)
        if wanted.pages and 2 <= pages <= 4:
            raise StoreError("not now")
        return await load(wanted)

    monkeypatch.setattr(router.store, "load", fail)
    found = await sweep(client, tally(*queues))
    assert pages > 5
    assert [entity for entity, _ in found] == [queue.id for queue in queues]
    await client.quiet(0.1)


# Taking the service from each other.


async def test_a_displaced_session_takes_the_service_back(router: Rig) -> None:
    """S001-63, S001-46, S001-58, ACC-62, SMP-28: SUBS after ENDS is a whole one, with a sweep; so
    it goes to and fro, and each time what was not confirmed comes again."""
    identity = new_service()
    sender = await router.connect()
    first, second = [await router.connect(service=identity) for _ in range(2)]
    queues = await make_queues(first, 3)
    await send_to(sender, queues[:1])
    await message(first, queues[0], b"hello")
    holder, displaced = first, second
    for _ in range(4):
        holder, displaced = displaced, holder
        found = await sweep(holder, tally(*queues))
        assert [entity for entity, _ in found] == [queues[0].id]
        assert await displaced.event() == (id_of(first), r.Ends(tally(*queues)))
        assert await displaced.ack(queues[0], found[0][1].message_id) == r.Err("NO_MSG")
        assert received(router) == 3
    assert await holder.ack(queues[0], found[0][1].message_id) == r.Ok()
    await send_to(sender, queues[1:])
    assert {(await holder.event())[0] for _ in range(2)} == {queue.id for queue in queues[1:]}
    await displaced.quiet()


async def test_a_displaced_session_may_also_take_back_one_queue(router: Rig) -> None:
    """SMP-28, SMP-29"""
    identity = new_service()
    first = await router.connect(service=identity)
    one, two = await make_queues(first, 2)
    assert await sweep(first, tally(one, two)) == []
    second = await router.connect(service=identity)
    assert await sweep(second, tally(one, two)) == []
    assert await first.event() == (id_of(first), r.Ends(tally(one, two)))
    assert await first.subscribe(one) == [r.Sok(first.service_id)]
    assert await second.event() == (id_of(first), r.Ends(tally(one, two)))
    assert received(router) == 1
    await send_to(second, [two])
    await message(first, two, b"hello")


async def test_a_sweep_ends_with_the_displacement_of_its_session(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-62, S001-59, S004-4, S004-8, SMP-37: nothing comes after ENDS, no ALLS either; the other
    gets it all."""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    first = await router.connect(service=identity)
    queues = await make_queues(first, 60)
    first.close()
    await until(lambda: received(router) == 0)
    sender = await router.connect()
    first, second = [await router.connect(service=identity) for _ in range(2)]
    await send_to(sender, queues)
    slow_down(router, monkeypatch, 0.05)
    assert await first.ask(subs(first, tally(*queues))) == [r.Soks(tally(*queues))]
    assert isinstance((await first.event())[1], r.Msg)
    found = await sweep(second, tally(*queues))
    assert [entity for entity, _ in found] == [queue.id for queue in queues]
    before = 1
    while isinstance((event := await first.event())[1], r.Msg):
        before += 1
    assert event == (id_of(first), r.Ends(tally(*queues)))
    assert before < len(queues)
    await first.quiet()


async def test_a_sweep_ends_with_its_session_and_the_next_begins_anew(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SMP-8, SMP-37, S001-36"""
    router = await start_rig(limits=SMALL)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 40)
    client.close()
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, queues)
    slow_down(router, monkeypatch, 0.03)
    await client.ask(subs(client))
    await client.event()
    client.close()
    await until(lambda: received(router) == 0)
    assert not has_swept(router)
    client = await router.connect(service=identity)
    found = await sweep(client, tally(*queues))
    assert [entity for entity, _ in found] == [queue.id for queue in queues]
