"""GET: reading a queue without having it."""

from __future__ import annotations

import secrets

from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Msg
from tests.support.smp_asking import NO_MSG, OK, PROHIBITED, SOK, asks, body, message, receive
from tests.support.smp_router import Rig


async def test_a_message_is_got_acknowledged_and_gone(router: Rig) -> None:
    """ACC-39, SMP-20"""
    owner, getter = await router.connect(), await router.connect()
    queue = await owner.new_queue(subscribe=False)
    assert await asks(getter, queue, c.SmpGet()) == OK
    for text in (b"one", b"two"):
        await owner.send(queue, text)
    first = await asks(getter, queue, c.SmpGet())
    assert await asks(getter, queue, c.SmpGet()) == first
    assert body(queue, first) == b"one"
    assert isinstance(first, Msg)
    assert await getter.ack(queue, first.message_id) == OK
    second = await asks(getter, queue, c.SmpGet())
    assert body(queue, second) == b"two"
    assert isinstance(second, Msg)
    assert await getter.ack(queue, second.message_id) == OK
    assert await asks(getter, queue, c.SmpGet()) == OK
    assert await getter.ack(queue, second.message_id) == NO_MSG


async def test_a_subscriber_and_a_getter_see_the_same_message(router: Rig) -> None:
    """ACC-40, SMP-18, S000-25, S000-26, S000-27, S000-50"""
    subscriber, getter = await router.connect(), await router.connect()
    queue = await subscriber.new_queue()
    await getter.send(queue, b"one")
    pushed = await message(subscriber, queue)
    assert await asks(getter, queue, c.SmpGet()) == pushed
    await subscriber.quiet(0.15)
    assert await subscriber.ack(queue, pushed.message_id) == OK
    await getter.send(queue, b"two")
    assert await receive(subscriber, queue) == [b"two"]
    await getter.quiet(0.1)


async def test_getting_and_subscribing_exclude_each_other_on_one_connection(router: Rig) -> None:
    """ACC-41, SMP-19, S000-23, S000-24, S000-25"""
    subscriber, getter = await router.connect(), await router.connect()
    queue, other = await subscriber.new_queue(), await subscriber.new_queue()
    assert await asks(subscriber, queue, c.SmpGet()) == PROHIBITED
    assert await asks(getter, queue, c.SmpGet()) == OK
    assert await asks(getter, queue, c.Sub()) == PROHIBITED
    # Neither refusal has changed anything, and neither is about another queue.
    await getter.send(queue, b"one")
    assert await receive(subscriber, queue) == [b"one"]
    assert await asks(getter, other, c.Sub()) == SOK
    third = await router.connect()
    assert await asks(third, queue, c.Sub()) == SOK


async def test_a_getter_acknowledges_what_it_got(router: Rig) -> None:
    """ACC-42, SMP-20: with another id not; with its own also when the message is gone already."""
    subscriber, getter = await router.connect(), await router.connect()
    queue = await subscriber.new_queue()
    await getter.send(queue, b"one")
    pushed = await message(subscriber, queue)
    assert await asks(getter, queue, c.SmpGet()) == pushed
    assert await getter.ack(queue, secrets.token_bytes(24)) == NO_MSG
    assert await subscriber.ack(queue, pushed.message_id) == OK
    assert await getter.ack(queue, pushed.message_id) == OK


async def test_a_getter_that_is_late_deletes_nothing_else(router: Rig) -> None:
    """ACC-44, SMP-20: what it got is gone, and the head is another message."""
    subscriber, getter = await router.connect(), await router.connect()
    queue = await subscriber.new_queue()
    for text in (b"one", b"two"):
        await getter.send(queue, text)
    first = await message(subscriber, queue)
    assert await asks(getter, queue, c.SmpGet()) == first
    second = await subscriber.ack(queue, first.message_id)
    assert body(queue, second) == b"two"
    assert await getter.ack(queue, first.message_id) == OK
    assert await asks(getter, queue, c.SmpGet()) == second
    assert await receive(subscriber, queue, second) == [b"two"]


async def test_a_subscriber_goes_on_behind_what_a_getter_took(router: Rig) -> None:
    """ACC-43, ACC-44, SMP-13"""
    subscriber, getter = await router.connect(), await router.connect()
    queue = await subscriber.new_queue()
    for text in (b"one", b"two", b"three"):
        await getter.send(queue, text)
    first = await message(subscriber, queue)
    assert await asks(getter, queue, c.SmpGet()) == first
    assert await getter.ack(queue, first.message_id) == OK
    second = await subscriber.ack(queue, first.message_id)
    assert await receive(subscriber, queue, second) == [b"two", b"three"]


async def test_a_getter_is_told_nothing(router: Rig) -> None:
    """SMP-18, S000-26: neither of a message, nor of a subscriber, nor of the end of the queue."""
    owner, getter = await router.connect(), await router.connect()
    queue = await owner.new_queue(subscribe=False)
    assert await asks(getter, queue, c.SmpGet()) == OK
    await owner.send(queue, b"one")
    await asks(owner, queue, c.Sub())
    await message(owner, queue)
    assert await asks(owner, queue, c.Del()) == OK
    await getter.quiet()
    await owner.quiet(0.1)
