"""What outlives a restart, and what does not outlive its time."""

from __future__ import annotations

import asyncio
import time

import pytest

from headgate.client.smp.recipient import Request, make_key
from headgate.core.facts import Expired, SessionClosed
from headgate.server import router as router_module
from headgate.server.wires import smp as smp_module
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Pong
from headgate.wire.smp.codec.sealed import QuotaMarker
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import AUTH, OK, QUOTA, SOK, asks, body, message, one, receive, secure
from tests.support.smp_router import Rig
from tests.support.smp_scene import until


async def test_queues_and_their_parties_outlive_a_restart(router: Rig) -> None:
    """ACC-65"""
    client = await router.connect()
    secured, closed, deleted = [await client.new_queue() for _ in range(3)]
    sender, notifier = make_key("ed448"), make_key("x25519")
    await secure(client, secured, sender)
    await client.set_notifier(secured, notifier)
    await asks(client, closed, c.Off())
    assert await asks(client, deleted, c.Del()) == OK

    await router.restart()
    client = await router.connect()
    assert await client.subscribe(secured, closed, deleted) == [SOK, SOK, AUTH]
    assert await client.send(secured, b"unsigned") == AUTH
    assert await client.send(secured, b"signed", sender) == OK
    assert await receive(client, secured) == [b"signed"]
    assert await one(client, Request(c.NSub(), secured.notifier, notifier)) == SOK
    assert await client.send(closed, b"late") == AUTH
    assert await client.send(deleted, b"late") == AUTH


async def test_messages_outlive_a_restart_in_their_order_and_with_the_marker(
    start_rig: StartRig,
) -> None:
    """ACC-66, S000-79: what was delivered and not acknowledged comes again, the same as before."""
    router = await start_rig(queue_quota=3)
    client = await router.connect()
    queue = await client.new_queue()
    for text in (b"one", b"two", b"three"):
        assert await client.send(queue, text) == OK
    assert await client.send(queue, b"four") == QUOTA
    before = await message(client, queue)

    await router.restart()
    client = await router.connect()
    assert await client.send(queue, b"five") == QUOTA
    assert await asks(client, queue, c.Sub()) == SOK
    reply = await message(client, queue)
    assert reply == before
    for text in (b"one", b"two", b"three"):
        assert body(queue, reply) == text
        following = await client.ack(queue, reply.message_id)
        assert following != OK
        reply = following  # type: ignore[assignment]
    assert isinstance(queue.open(reply), QuotaMarker)

    await router.restart()
    client = await router.connect()
    assert await asks(client, queue, c.Sub()) == SOK
    marker = await message(client, queue)
    assert marker == reply
    assert await client.ack(queue, marker.message_id) == OK
    assert await client.send(queue, b"six") == OK
    assert await receive(client, queue) == [b"six"]


class Clock:
    """Stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_message_that_is_sent_ends_those_that_are_too_old(start_rig: StartRig) -> None:
    """ACC-68, ACC-70"""
    clock = Clock()
    router = await start_rig(clock=clock, message_ttl=100.0)
    client = await router.connect()
    queue = await client.new_queue(subscribe=False)
    await client.send(queue, b"old")
    clock.now += 60.0
    await client.send(queue, b"young")
    clock.now += 39.0
    await client.send(queue, b"early")
    assert not [fact for fact in router.facts if isinstance(fact, Expired)]
    clock.now += 2.0
    await client.send(queue, b"late")
    assert len([fact for fact in router.facts if isinstance(fact, Expired)]) == 1
    assert await asks(client, queue, c.Sub()) == SOK
    assert await receive(client, queue) == [b"young", b"early", b"late"]


async def test_messages_that_nobody_sends_behind_end_too(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACC-69, ACC-70: those of one queue that are not too old stay, and so does a marker."""
    monkeypatch.setattr(router_module, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(router_module, "EXPIRE_TICKS", 1)
    clock = Clock()
    router = await start_rig(clock=clock, message_ttl=100.0, queue_quota=2)
    client = await router.connect()
    queue, full = await client.new_queue(subscribe=False), await client.new_queue(subscribe=False)
    await client.send(queue, b"old")
    for expected in (OK, OK, QUOTA):
        assert await client.send(full, b"old") == expected
    clock.now += 90.0
    await client.send(queue, b"young")
    await asyncio.sleep(0.2)
    assert not [fact for fact in router.facts if isinstance(fact, Expired)]
    clock.now += 20.0
    await until(lambda: sum(isinstance(fact, Expired) for fact in router.facts) == 3)
    assert await client.subscribe(queue, full) == [SOK, SOK]
    assert await receive(client, queue) == [b"young"]
    marker = await message(client, full)
    assert isinstance(full.open(marker), QuotaMarker)
    assert await client.ack(full, marker.message_id) == OK


async def test_a_client_that_does_nothing_is_sent_away(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACC-73: not one that subscribes, and not one that says something."""
    monkeypatch.setattr(smp_module, "IDLE_LOOK_SECONDS", 0.05)
    now = time.time()
    router = await start_rig(idle_timeout=60.0, clock=lambda: now)
    idle, subscribed, active = [await router.connect() for _ in range(3)]
    queue = await subscribed.new_queue()
    ended = asyncio.create_task(idle.closed())
    for _ in range(10):
        now += 10.0
        assert await one(active, Request(c.Ping())) == Pong()
    await ended
    assert [fact.reason for fact in router.facts if isinstance(fact, SessionClosed)] == ["idle"]
    assert await active.send(queue, b"hello") == OK
    assert await receive(subscribed, queue) == [b"hello"]
