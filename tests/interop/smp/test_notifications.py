"""Notifiers: told that there is a message, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.client.smp.recipient import Request, make_key
from headgate.core.commands import Expire
from headgate.core.facts import NoticesDropped
from headgate.core.model.limits import KiB, Limits
from headgate.errors import Malformed
from headgate.server import notice_file
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.handshake import Role, Versions
from tests.interop.smp.conftest import StartRig
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    message,
    new_service,
    noticed,
    notifier_tally,
    notify,
    nsub,
    nsubs,
    received,
    until,
)

DAY = 86_400.0


# Being told.


async def test_a_notifier_is_told_of_messages_whose_sender_wants_it(router: Rig) -> None:
    """ACC-76, SMP-38, ACC-82: also of one that is delivered at once; what it is told is for the
    recipient to read."""
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key())
    assert len(queue.notifier) == 24
    assert queue.notifier not in (queue.id, queue.sender)
    assert await notifier.ask(nsub(queue)) == [r.Sok()]
    assert await notifier.send(queue, b"quiet") == r.Ok()
    first = await message(recipient, queue, b"quiet")
    assert await recipient.ack(queue, first) == r.Ok()
    await notifier.quiet(0.2)
    assert await notifier.send(queue, b"loud", notify=True) == r.Ok()
    loud = await message(recipient, queue, b"loud")
    entity, told = await notifier.event()
    assert entity == queue.notifier
    assert isinstance(told, r.NMsg)
    assert len(told.sealed) == 144
    notice = queue.open_notice(told)
    assert notice.message_id == loud
    stranger = await recipient.new_queue(notifier=make_key())
    with pytest.raises(Malformed, match="does not decrypt"):
        stranger.open_notice(told)
    await notifier.quiet(0.2)
    await recipient.quiet(0.1)


async def test_subscribing_as_a_notifier_delivers_nothing_and_displaces_no_reader(
    router: Rig,
) -> None:
    """SMP-40, S000-7: who reads a queue and who is told of it are two registries."""
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key())
    await recipient.send(queue, b"hello")
    await message(recipient, queue, b"hello")
    assert await notifier.ask(nsub(queue)) == [r.Sok()]
    await notifier.quiet(0.2)
    await recipient.quiet(0.1)
    gauges = router.router.gauges()
    assert gauges["queues_subscribed"] == gauges["notifiers_subscribed"] == 1
    assert await recipient.subscribe(queue) == [r.Sok()]
    await message(recipient, queue, b"hello")
    await notifier.quiet(0.2)


async def test_each_key_makes_another_notifier(router: Rig) -> None:
    """ACC-74, ACC-79, SMP-40, SMP-9: the id of before is nobody's; who was told under it learns
    so."""
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    assert isinstance(await recipient.set_notifier(queue, make_key()), r.Nid)
    before = nsub(queue)
    assert await notifier.ask(before) == [r.Sok()]
    assert isinstance(await recipient.set_notifier(queue, make_key()), r.Nid)
    assert queue.notifier != before.entity
    assert await notifier.event() == (before.entity, r.Deld())
    assert await notifier.ask(before) == [r.Err("AUTH")]
    wrong = Request(c.NSub(), queue.notifier, make_key())
    assert await notifier.ask(wrong) == [r.Err("AUTH")]
    assert await notifier.ask(nsub(queue)) == [r.Sok()]
    await notify(recipient, queue)
    await noticed(notifier, queue)


async def test_the_second_notifier_displaces_the_first(router: Rig) -> None:
    """ACC-77, SMP-40: END under the notifier's id, and notices for the second alone, also when the
    first leaves."""
    recipient = await router.connect()
    first, second = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key())
    for _ in range(2):
        assert await first.ask(nsub(queue)) == [r.Sok()]
    assert await second.ask(nsub(queue)) == [r.Sok()]
    assert await first.event() == (queue.notifier, r.SmpEnd())
    await notify(recipient, queue)
    await noticed(second, queue)
    await first.quiet(0.2)
    first.close()
    await until(lambda: router.router.gauges()["sessions"] == 2)
    await notify(recipient, queue)
    await noticed(second, queue)


async def test_a_notifier_that_is_dropped_is_told_nothing_more(router: Rig) -> None:
    """ACC-78, ACC-79: DELD, once; what waited is forgotten; dropping again is fine, and a new key
    begins anew."""
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key())
    await notifier.ask(nsub(queue))
    assert await recipient.ask(queue.asks(c.NDel())) == [r.Ok()]
    assert await notifier.event() == (queue.notifier, r.Deld())
    await notify(recipient, queue)
    await notifier.quiet(0.2)
    assert await notifier.ask(nsub(queue)) == [r.Err("AUTH")]
    assert await recipient.ask(queue.asks(c.NDel())) == [r.Ok()]
    await recipient.set_notifier(queue, make_key())
    assert await notifier.ask(nsub(queue)) == [r.Sok()]
    await notifier.quiet(0.2)
    await notify(recipient, queue)
    await noticed(notifier, queue)


async def test_who_drops_or_deletes_is_not_told_of_it(router: Rig) -> None:
    """SMP-9: neither for NDEL nor for NKEY nor for DEL."""
    client = await router.connect()
    one, two, three = [await client.new_queue(notifier=make_key()) for _ in range(3)]
    await client.ask(nsub(one), nsub(two), nsub(three))
    assert await client.ask(one.asks(c.NDel()), two.asks(c.Del())) == [r.Ok(), r.Ok()]
    assert isinstance(await client.set_notifier(three, make_key()), r.Nid)
    await client.quiet(0.2)


async def test_the_notifier_of_a_deleted_queue_is_told(router: Rig) -> None:
    """SMP-9, SMP-40"""
    recipient, notifier, other = [await router.connect() for _ in range(3)]
    queue = await recipient.new_queue(notifier=make_key())
    await notifier.ask(nsub(queue))
    assert await other.ask(queue.asks(c.Del())) == [r.Ok()]
    assert await notifier.event() == (queue.notifier, r.Deld())
    assert await recipient.event() == (queue.id, r.Deld())
    await other.quiet(0.1)
    assert await notifier.ask(nsub(queue)) == [r.Err("AUTH")]


async def test_old_clients_are_notified_in_their_words(router: Rig) -> None:
    """SMP-40, S001-4: OK in place of SOK, END in place of DELD."""
    recipient = await router.connect()
    notifier = await router.connect(versions=Versions(9, 9))
    queue = await recipient.new_queue(notifier=make_key())
    assert await notifier.ask(nsub(queue)) == [r.Ok()]
    await notify(recipient, queue)
    await noticed(notifier, queue)
    await recipient.ask(queue.asks(c.NDel()))
    assert await notifier.event() == (queue.notifier, r.SmpEnd())


# Waiting.


async def test_notices_wait_while_nobody_is_there(router: Rig) -> None:
    """SMP-38, SMP-39, S000-75: they come in the order of their messages, and once."""
    recipient = await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    await notify(recipient, queue, queue, queue)
    assert router.router.gauges()["notices_waiting"] == 3
    await recipient.subscribe(queue)
    _, told = await recipient.event()
    ids = []
    while isinstance(told, r.Msg):
        ids.append(told.message_id)
        told = await recipient.ack(queue, told.message_id)
    for _ in range(2):
        notifier = await router.connect()
        assert await notifier.ask(nsub(queue)) == [r.Sok()]
        if ids:
            assert [await noticed(notifier, queue) for _ in range(3)] == ids
            ids = []
        await notifier.quiet(0.2)
        notifier.close()
    await until(lambda: router.router.gauges()["notifiers_subscribed"] == 0)
    await notify(recipient, queue)
    notifier = await router.connect()
    await notifier.ask(nsub(queue))
    await noticed(notifier, queue)
    assert router.router.gauges()["notices_waiting"] == 0


async def test_what_waits_is_forgotten_with_its_notifier(router: Rig) -> None:
    """SMP-40, ACC-78: by a new key, by NDEL, by DEL."""
    recipient = await router.connect()
    one, two, three = [await recipient.new_queue(notifier=make_key()) for _ in range(3)]
    await notify(recipient, one, two, three)
    assert router.router.gauges()["notices_waiting"] == 3
    await recipient.set_notifier(one, make_key())
    await recipient.ask(two.asks(c.NDel()), three.asks(c.Del()))
    assert router.router.gauges()["notices_waiting"] == 0
    notifier = await router.connect()
    assert await notifier.ask(nsub(one)) == [r.Sok()]
    await notifier.quiet(0.2)


async def test_what_is_refused_is_not_told(start_rig: StartRig) -> None:
    """SMP-38: neither a message over the quota nor the marker that stands for it."""
    router = await start_rig(queue_quota=2)
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    await notifier.ask(nsub(queue))
    await notify(recipient, queue, queue)
    for _ in range(2):
        assert await recipient.send(queue, b"hello", notify=True) == r.Err("QUOTA")
    for _ in range(2):
        await noticed(notifier, queue)
    await notifier.quiet(0.2)


async def test_waiting_notices_are_bounded(start_rig: StartRig) -> None:
    """SMP-39: a notifier is told that there are messages, not how many; the latest stay."""
    router = await start_rig(limits=Limits(notices_per_notifier=4))
    recipient, notifier = await router.connect(), await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    await notify(recipient, *[queue] * 7)
    assert router.router.gauges()["notices_waiting"] == 4
    await notifier.ask(nsub(queue))
    for _ in range(4):
        await noticed(notifier, queue)
    await notifier.quiet(0.2)


async def test_a_notifier_that_does_not_read_is_told_later(start_rig: StartRig) -> None:
    """SMP-39: others are told meanwhile."""
    router = await start_rig(limits=Limits(mailbox_bytes_soft=64 * KiB))
    recipient, stuck, other = [await router.connect() for _ in range(3)]
    one, two = [await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(2)]
    await stuck.ask(nsub(one))
    await other.ask(nsub(two))
    stuck.hold()
    ping = pack([stuck.encode(Request(c.Ping(), correlation=b"ping"))])[0]
    async with asyncio.timeout(20):
        while router.router.gauges()["mailbox_bytes"] <= 64 * KiB:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await stuck.send_block(ping)
    await notify(recipient, one, two)
    await noticed(other, two)
    assert router.router.gauges()["notices_waiting"] == 1
    stuck.go_on()
    while (event := await stuck.event()) == (b"", r.Pong()):
        pass
    assert event[0] == one.notifier
    one.open_notice(event[1])


async def test_notices_outlive_a_restart(router: Rig, tmp_path: Path) -> None:
    """SMP-41: of a notifier by itself and of a service's."""
    recipient = await router.connect()
    alone, associated = [
        await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(2)
    ]
    identity = new_service()
    service = await router.connect(service=identity, role=Role.NOTIFIER)
    await service.ask(nsub(associated))
    service.close()
    await until(lambda: received(router) == 0)
    await notify(recipient, alone, associated)
    notifiers = router.router.broker.shard.exclusive.notifiers
    await router.stop()
    notice_file.save(notifiers, tmp_path)
    await router.start()
    notice_file.restore(router.router.broker.shard.exclusive.notifiers, tmp_path)
    assert router.router.gauges()["notices_waiting"] == 2
    notifier = await router.connect()
    await notifier.ask(nsub(alone))
    await noticed(notifier, alone)
    service = await router.connect(service=identity, role=Role.NOTIFIER)
    await service.ask(nsubs(service, notifier_tally(associated)))
    await noticed(service, associated)


async def test_notices_of_yesterday_are_given_up(start_rig: StartRig) -> None:
    """SMP-41"""
    now = 1_800_000_000.0
    router = await start_rig(clock=lambda: now)
    recipient = await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    await notify(recipient, queue)
    now += DAY / 2
    await notify(recipient, queue)
    now += DAY / 2 + 1
    router.router.turns.insist([Expire()])
    await until(lambda: any(isinstance(fact, NoticesDropped) for fact in router.facts))
    notifier = await router.connect()
    await notifier.ask(nsub(queue))
    await noticed(notifier, queue)
    await notifier.quiet(0.2)


async def test_a_block_of_notifiers_is_answered_in_order(router: Rig) -> None:
    """SMP-40: and what waited for them comes."""
    recipient, notifier = await router.connect(), await router.connect()
    queues = [await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(90)]
    await notify(recipient, *queues)
    unknown = Request(c.NSub(), queues[0].id, queues[0].notifier_key)
    replies = await notifier.ask(*map(nsub, queues), unknown)
    assert replies == [*[r.Sok()] * 90, r.Err("AUTH")]
    told = [await notifier.event() for _ in range(90)]
    assert {entity for entity, _ in told} == {queue.notifier for queue in queues}
    assert all(isinstance(notice, r.NMsg) for _, notice in told)
    await notifier.quiet(0.1)
