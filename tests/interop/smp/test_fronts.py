"""Clients of a front: what they have when the worker that has the shard is started again, and whose
key a command was authorized with."""

from __future__ import annotations

import asyncio

import pytest

from headgate.client.smp.recipient import make_key, spki
from headgate.core.model.parties import Purpose, QueueRecord
from headgate.errors import HeadgateError, NotConnected
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.remote_proofs import WholeClaim
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import AUTH, OK, SOK, asks, message, receive, secure
from tests.support.smp_router import Rig
from tests.support.smp_scene import new_service, nsub

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@pytest.fixture
async def fronted(start_rig: StartRig) -> Rig:
    return await start_rig(fronted=True)


async def test_who_subscribes_keeps_its_queue_when_worker_0_is_started_again(
    fronted: Rig,
) -> None:
    """Nothing is asked of the client: what was accepted before comes, and what comes after."""
    recipient, sender = await fronted.connect(), await fronted.connect()
    queue = await recipient.new_queue()
    assert await sender.send(queue, b"before") == OK
    first = await message(recipient, queue)
    await fronted.restart_home()
    again = await message(recipient, queue)
    assert again.message_id == first.message_id, "it was not confirmed"
    assert await recipient.ack(queue, again.message_id) == OK
    assert await sender.send(queue, b"after") == OK
    assert await receive(recipient, queue) == [b"after"]


async def test_the_last_of_two_subscribers_has_the_queue_again(fronted: Rig) -> None:
    first, second = await fronted.connect(), await fronted.connect()
    queue = await first.new_queue()
    assert await second.subscribe(queue) == [SOK]
    assert await first.event() == (queue.id, r.SmpEnd())
    await fronted.restart_home()
    assert await first.send(queue, b"hello") == OK
    assert await receive(second, queue) == [b"hello"]
    await first.quiet(0.1)


async def test_a_request_whose_outcome_nobody_knows_costs_its_connection(fronted: Rig) -> None:
    """And no other one; what is asked while worker 0 is away waits for it."""
    asking, other = await fronted.connect(), await fronted.connect()
    queue = await other.new_queue()
    assert fronted.front is not None
    asked = asyncio.create_task(asking.send(queue, b"perhaps"))
    while not any(each.unanswered for each in fronted.front.remote.sessions()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    restarting = asyncio.create_task(fronted.restart_home())
    with pytest.raises(NotConnected):
        await asked
    waiting = await fronted.connect()
    assert await waiting.send(queue, b"surely") == OK
    await restarting
    assert (await receive(other, queue))[-1] == b"surely"


async def test_a_notifier_and_a_service_are_told_after_a_restart(fronted: Rig) -> None:
    identity = new_service()
    recipient = await fronted.connect()
    service = await fronted.connect(service=identity)
    notifier = await fronted.connect()
    queue = await service.new_queue()
    watched = await recipient.new_queue(notifier=make_key())
    assert await notifier.ask(nsub(watched)) == [SOK]
    await fronted.restart_home()
    assert await recipient.send(queue, b"hello") == OK
    assert await receive(service, queue) == [b"hello"]
    assert await recipient.send(watched, b"look", notify=True) == OK
    entity, notice = await notifier.event()
    assert entity == watched.notifier
    watched.open_notice(notice)


async def test_a_signature_is_checked_by_the_front_from_the_second_time_on(
    fronted: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made the queue here is known at once; a key that was set elsewhere is learned."""
    recipient, sender = await fronted.connect(), await fronted.connect()
    queue, key = await recipient.new_queue(), make_key("x25519")
    whole = 0
    check = WholeClaim.__call__

    def checked(claim: WholeClaim, record: QueueRecord | None) -> HeadgateError | None:
        nonlocal whole
        whole += 1
        return check(claim, record)

    monkeypatch.setattr(WholeClaim, "__call__", checked)
    assert await secure(recipient, queue, key) == OK
    assert whole == 0, "the key came with NEW"
    assert await sender.send(queue, b"one", key=key) == OK
    assert whole == 1
    assert await sender.send(queue, b"two", key=key) == OK
    assert whole == 1
    assert await sender.send(queue, b"three", key=make_key("x25519")) == AUTH
    assert whole == 2


async def test_a_key_that_was_replaced_fits_no_more(fronted: Rig) -> None:
    """ACC-22: the front still knows it; the shard decides."""
    recipient = await fronted.connect()
    queue = await recipient.new_queue(purpose=Purpose.CONTACT)
    fresh = make_key("ed25519")
    assert await asks(recipient, queue, c.RKey((spki(fresh),))) == OK
    assert await asks(recipient, queue, c.Sub()) == AUTH
