"""One message at a time, three reasons to deliver it, and a quota."""

from __future__ import annotations

import secrets

from headgate.client.smp.recipient import Queue, Request
from headgate.core.facts import Confirmed, Delivered
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Msg
from headgate.wire.smp.codec.sealed import Body, QuotaMarker
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import NO_MSG, OK, QUOTA, SOK, asks, body, message, receive
from tests.support.smp_router import Rig


async def test_the_second_message_waits_for_the_acknowledgement_of_the_first(router: Rig) -> None:
    """ACC-35, SMP-11, SMP-13, SMP-14, S000-28, S000-34, S000-35, S000-37"""
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    for text in (b"one", b"two", b"three"):
        assert await sender.send(queue, text) == OK
    first = await message(recipient, queue)
    await recipient.quiet(0.15)
    second = await recipient.ack(queue, first.message_id)
    assert body(queue, second) == b"two"
    assert await receive(recipient, queue, second) == [b"two", b"three"]
    assert await recipient.ack(queue, first.message_id) == NO_MSG
    assert await sender.send(queue, b"four") == OK
    assert await receive(recipient, queue) == [b"four"]


async def test_a_subscription_and_its_message_come_in_one_block(router: Rig) -> None:
    """SMP-12, S000-30, S000-31, S000-32, S004-1"""
    recipient, sender = await router.connect(), await router.connect()
    queue, empty = await recipient.new_queue(subscribe=False), await recipient.new_queue()
    await sender.send(queue, b"hello")
    before = recipient.blocks
    assert await asks(recipient, queue, c.Sub()) == SOK
    assert recipient.blocks - before == 1
    first = await message(recipient, queue)
    assert recipient.blocks - before == 1
    assert await asks(recipient, empty, c.Sub()) == SOK
    await recipient.quiet(0.1)
    await sender.send(empty, b"pushed")
    assert await receive(recipient, empty) == [b"pushed"]
    assert await recipient.ack(queue, first.message_id) == OK


async def test_only_what_is_in_flight_can_be_acknowledged(router: Rig) -> None:
    """SMP-13: another id, nothing in flight, no subscription; none of them harms what is there."""
    recipient, other = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    strange = secrets.token_bytes(24)
    assert await recipient.ack(queue, strange) == NO_MSG
    await other.send(queue, b"one")
    first = await message(recipient, queue)
    assert await recipient.ack(queue, strange) == NO_MSG
    assert await other.ack(queue, first.message_id) == NO_MSG
    assert await recipient.ack(queue, first.message_id) == OK


async def test_an_empty_acknowledgement_asks_for_the_same_again(router: Rig) -> None:
    """SMP-13, S000-50"""
    recipient = await router.connect()
    queue = await recipient.new_queue()
    assert await recipient.ack(queue, b"") == NO_MSG
    await recipient.send(queue, b"one")
    first = await message(recipient, queue)
    assert await recipient.ack(queue, b"") == first
    assert await recipient.ack(queue, b"") == first
    assert await recipient.ack(queue, first.message_id) == OK
    assert await recipient.ack(queue, b"") == NO_MSG


async def test_messages_come_in_the_order_in_which_they_were_sent(router: Rig) -> None:
    """SMP-17: also those of one block."""
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    texts = [b"%d" % n for n in range(100)]
    requests = [Request(c.SmpSend(False, text), queue.sender) for text in texts]
    assert await sender.ask(*requests) == [OK] * 100
    assert await receive(recipient, queue) == texts


async def test_the_time_of_a_message_in_flight_is_known(router: Rig) -> None:
    """S000-29"""
    recipient = await router.connect()
    queue = await recipient.new_queue()
    await recipient.send(queue, b"one")
    first = await message(recipient, queue)
    await recipient.ack(queue, first.message_id)
    (delivered,) = [fact for fact in router.facts if isinstance(fact, Delivered)]
    (confirmed,) = [fact for fact in router.facts if isinstance(fact, Confirmed)]
    assert delivered.message == confirmed.message == first.message_id
    assert confirmed.seconds >= 0.0


async def test_a_message_tells_when_it_was_taken_and_whether_it_notifies(
    start_rig: StartRig,
) -> None:
    router = await start_rig(clock=lambda: 1_700_000_000.9)
    recipient = await router.connect()
    queue = await recipient.new_queue()
    await recipient.send(queue, b"quiet")
    await recipient.send(queue, b"loud", notify=True)
    first = await message(recipient, queue)
    assert queue.open(first) == Body(1_700_000_000, False, b"quiet")
    second = await recipient.ack(queue, first.message_id)
    assert queue.open(second) == Body(1_700_000_000, True, b"loud")


async def next_of(client: SmpClient, queue: Queue, reply: Msg) -> Msg:
    """Acknowledge, and get the next."""
    following = await client.ack(queue, reply.message_id)
    assert isinstance(following, Msg)
    return following


async def test_a_full_queue_stays_full_until_it_is_empty(start_rig: StartRig) -> None:
    """ACC-45: the marker takes the place of the message that was too many."""
    router = await start_rig(queue_quota=3)
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    for text in (b"one", b"two", b"three"):
        assert await sender.send(queue, text) == OK
    assert await sender.send(queue, b"four") == QUOTA
    assert await sender.send(queue, b"five") == QUOTA
    reply = await message(recipient, queue)
    for text in (b"one", b"two", b"three"):
        assert body(queue, reply) == text
        assert await sender.send(queue, b"still too many") == QUOTA
        reply = await next_of(recipient, queue, reply)
    assert isinstance(queue.open(reply), QuotaMarker)
    assert len(reply.sealed) == 16122
    assert await sender.send(queue, b"still too many") == QUOTA
    assert await recipient.ack(queue, reply.message_id) == OK
    for text in (b"six", b"seven"):
        assert await sender.send(queue, text) == OK
    assert await receive(recipient, queue) == [b"six", b"seven"]


async def test_a_quota_is_for_each_queue(start_rig: StartRig) -> None:
    """ACC-45: one that is full leaves the others alone, also in one block."""
    router = await start_rig(queue_quota=2)
    client = await router.connect()
    full, free = await client.new_queue(), await client.new_queue()
    sends = [Request(c.SmpSend(False, b"x"), queue.sender) for queue in (full, free, full, full)]
    sends.append(Request(c.SmpSend(False, b"y"), free.sender))
    assert await client.ask(*sends) == [OK, OK, OK, QUOTA, OK]
