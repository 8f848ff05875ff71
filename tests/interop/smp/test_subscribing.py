"""Who has a queue, who loses it, and what they are told."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from headgate.core.facts import Displaced
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.replies import Deld, SmpEnd
from headgate.wire.smp.handshake import Versions
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import NO_MSG, OK, SOK, asks, body, message, receive
from tests.support.smp_router import NEVER, Rig

END = SmpEnd()
DELD = Deld()


async def test_the_next_subscriber_takes_the_queue_and_what_was_not_acknowledged(
    router: Rig,
) -> None:
    """ACC-36, ACC-37, SMP-1, SMP-2, SMP-6, S000-1, S000-2, S000-13, S000-17, S000-79"""
    first, second, sender = [await router.connect() for _ in range(3)]
    queue = await first.new_queue()
    await sender.send(queue, b"one")
    one = await message(first, queue)

    assert await asks(second, queue, c.Sub()) == SOK
    assert await message(second, queue) == one
    assert await first.event() == (queue.id, END)
    assert await first.ack(queue, one.message_id) == NO_MSG

    assert await second.ack(queue, one.message_id) == OK
    await sender.send(queue, b"two")
    assert await receive(second, queue) == [b"two"]
    await first.quiet()


async def test_what_is_sent_between_the_loss_and_the_news_of_it_goes_to_the_new_one(
    start_rig: StartRig,
) -> None:
    """SMP-2, SMP-3, S000-16, S000-17, S000-18: the old one is told late and has nothing
    meanwhile."""
    router = await start_rig(end_flush=NEVER)
    first, second, sender = [await router.connect() for _ in range(3)]
    queue = await first.new_queue()
    assert await asks(second, queue, c.Sub()) == SOK
    await sender.send(queue, b"for the second")
    assert await receive(second, queue) == [b"for the second"]
    await first.quiet(0.1)
    router.write_losses()
    assert await first.event() == (queue.id, END)
    router.write_losses()
    await first.quiet(0.1)


async def test_subscribing_again_is_no_loss(router: Rig) -> None:
    """SMP-4, S000-14, S004-47: the head comes again, in flight or not."""
    client = await router.connect()
    queue = await client.new_queue()
    await client.send(queue, b"one")
    first = await message(client, queue)
    for _ in range(2):
        assert await asks(client, queue, c.Sub()) == SOK
        assert await message(client, queue) == first
    assert await client.ack(queue, first.message_id) == OK
    await client.quiet()
    assert not [fact for fact in router.facts if isinstance(fact, Displaced)]


async def test_events_of_one_client_leave_together_in_their_order(start_rig: StartRig) -> None:
    """SMP-3, S000-19, ACC-92: three hundred ENDs are two blocks."""
    router = await start_rig(end_flush=NEVER)
    first, second = await router.connect(), await router.connect()
    queues = await asyncio.gather(*(first.new_queue() for _ in range(300)))
    before = first.blocks
    assert await second.subscribe(*queues) == [SOK] * 300
    router.write_losses()
    told = [await first.event() for _ in range(300)]
    assert told == [(queue.id, END) for queue in queues]
    assert first.blocks - before == 2
    await first.quiet()


async def test_a_queue_goes_back_and_forth_and_each_loss_is_told_once(router: Rig) -> None:
    """S000-8, S000-12, S000-13"""
    clients = [await router.connect() for _ in range(3)]
    queue = await clients[0].new_queue()
    for number in range(1, 10):
        assert await asks(clients[number % 3], queue, c.Sub()) == SOK
        assert await clients[(number - 1) % 3].event() == (queue.id, END)
    for client in clients:
        await client.quiet(0.15)


async def test_a_client_that_left_is_not_subscribed_but_its_wish_still_counts(
    router: Rig,
) -> None:
    """SMP-5, S000-10, S000-11: what it sent before it hung up is carried out as far as it can
    be."""
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    # The two arrive together: the SUB waits for its turn while the end of the stream is read.
    (payload,) = pack([second.encode(queue.asks(c.Sub()))])
    await second.send_block(payload)
    second.close()
    assert await first.event() == (queue.id, END)
    sender = await router.connect()
    assert await sender.send(queue, b"kept") == OK
    await first.quiet(0.1)
    assert await asks(first, queue, c.Sub()) == SOK
    assert await receive(first, queue) == [b"kept"]


async def test_a_client_that_left_leaves_its_queues_to_the_next(router: Rig) -> None:
    """SMP-7, SMP-8, S000-38, S000-75, S000-78, S000-79"""
    first, sender = await router.connect(), await router.connect()
    queue, quiet = await first.new_queue(), await first.new_queue()
    await sender.send(queue, b"one")
    one = await message(first, queue)
    assert router.router.gauges()["queues_subscribed"] == 2
    first.close()
    await first.closed()
    for text in (b"two", b"three"):
        assert await sender.send(queue, text) == OK
    second = await router.connect()
    assert router.router.gauges()["queues_subscribed"] == 0
    assert await second.subscribe(queue, quiet) == [SOK, SOK]
    again = await message(second, queue)
    assert again == one
    assert await receive(second, queue, again) == [b"one", b"two", b"three"]
    await second.quiet(0.1)


async def test_a_late_clean_up_does_not_take_the_queue_from_its_new_subscriber(
    router: Rig,
) -> None:
    """SMP-7, S000-4, S000-77"""
    first, second, sender = [await router.connect() for _ in range(3)]
    queue = await first.new_queue()
    assert await asks(second, queue, c.Sub()) == SOK
    first.close()
    await first.closed()
    await sender.send(queue, b"one")
    assert await receive(second, queue) == [b"one"]


async def test_events_for_a_client_that_left_are_dropped(start_rig: StartRig) -> None:
    """S000-21"""
    router = await start_rig(end_flush=NEVER)
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    assert await asks(second, queue, c.Sub()) == SOK
    first.close()
    await first.closed()
    router.write_losses()
    await second.send(queue, b"one")
    assert await receive(second, queue) == [b"one"]


@pytest.mark.parametrize(("version", "event"), [(7, END), (9, END), (10, DELD), (19, DELD)])
async def test_deleting_is_told_to_the_subscriber_who_did_not_do_it(
    router: Rig, version: int, event: SmpEnd | Deld
) -> None:
    """ACC-38, SMP-9, S000-15"""
    owner = await router.connect()
    subscriber = await router.connect(versions=Versions(7, version))
    queue = await owner.new_queue()
    await owner.send(queue, b"lost")
    await message(owner, queue)
    await asks(subscriber, queue, c.Sub())
    await message(subscriber, queue)
    assert await owner.event() == (queue.id, END)
    assert await asks(owner, queue, c.Del()) == OK
    assert await subscriber.event() == (queue.id, event)
    await owner.quiet(0.15)
    await subscriber.quiet(0.1)


async def test_deleting_ones_own_queue_is_answered_and_not_told(router: Rig) -> None:
    """SMP-9"""
    client = await router.connect()
    queue = await client.new_queue()
    assert await asks(client, queue, c.Del()) == OK
    await client.quiet(0.15)


async def test_a_new_queue_is_subscribed_only_if_its_maker_wants_it(router: Rig) -> None:
    """SMP-10, S000-36, S000-38"""
    client, sender = await router.connect(), await router.connect()
    wanted = await client.new_queue()
    unwanted = await client.new_queue(subscribe=False)
    for queue in (unwanted, wanted):
        assert await sender.send(queue, b"hello") == OK
    assert await receive(client, wanted) == [b"hello"]
    await client.quiet(0.15)
    assert await client.ack(unwanted, secrets.token_bytes(24)) == NO_MSG
    assert await asks(client, unwanted, c.Sub()) == SOK
    assert body(unwanted, await message(client, unwanted)) == b"hello"


async def test_who_takes_a_queue_back_hears_of_the_loss_before(start_rig: StartRig) -> None:
    """S000-13, S000-19: the END of a loss that is over does not come after the SOK, or it would be
    taken for another loss, and two clients would take the queue from each other for ever."""
    router = await start_rig(end_flush=NEVER)
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    assert await asks(second, queue, c.Sub()) == SOK
    assert await asks(first, queue, c.Sub()) == SOK
    assert await first.event() == (queue.id, END)
    await first.quiet(0.1)


async def test_a_loss_is_told_no_earlier_than_the_setting_says(start_rig: StartRig) -> None:
    """S000-18"""
    router = await start_rig(end_flush=NEVER)
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    assert await asks(second, queue, c.Sub()) == SOK
    await first.quiet(1.5)
