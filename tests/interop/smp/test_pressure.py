"""Clients that do not read. They cost a bounded amount of memory and hold up nobody."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headgate.client.smp.recipient import Queue, Request
from headgate.core.facts import SessionClosed
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.server.net import endpoint, listener
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import BATCH_COUNT, pack
from headgate.wire.smp.codec.replies import Msg, Pong, SmpEnd
from headgate.wire.smp.session import UNANSWERED_MAX
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import OK, SOK, asks, body, message, receive
from tests.support.smp_router import Rig
from tests.support.smp_scene import until

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

SOFT = 512 * KiB
BLOCK = 16 * KiB
MANY = 200
"""Messages of this many queues are more than the sockets between router and client hold, and
more than a mailbox may."""

LIMITS = Limits(mailbox_bytes_soft=SOFT, mailbox_bytes_hard=4 * SOFT)


@pytest.fixture(autouse=True)
def small_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets that take little, so that mailboxes have to."""

    def bind(*where: object) -> socket.socket:
        listening = listener.bind(*where)  # type: ignore[arg-type]
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * BLOCK)
        return listening

    monkeypatch.setattr(endpoint, "bind", bind)


async def stuck(router: Rig) -> tuple[SmpClient, list[Queue]]:
    """A client that was sent messages of many queues and has read none of them."""
    client, sender = await router.connect(), await router.connect()
    queues = await asyncio.gather(*(client.new_queue() for _ in range(MANY)))
    client.hold()
    for start in range(0, MANY, 50):
        sends = [Request(c.SmpSend(False, b"hello"), q.sender) for q in queues[start : start + 50]]
        assert await sender.ask(*sends) == [OK] * len(sends)
    assert waiting(router) > 0, "the client is stuck"
    return client, list(queues)


def waiting(router: Rig) -> int:
    """How many queues wait for room in a mailbox."""
    return sum(
        len(session_state.waiting)
        for _, session_state in router.router.broker.shard.session_states.items()
    )


async def test_who_does_not_read_gets_everything_when_it_does(start_rig: StartRig) -> None:
    """SMP-16, S000-42, S000-43, S000-45, S000-46: each message once."""
    router = await start_rig(limits=LIMITS)
    client, queues = await stuck(router)
    client.go_on()
    told = [await client.event() for _ in queues]
    assert sorted(entity for entity, _ in told) == sorted(queue.id for queue in queues)
    assert all(isinstance(reply, Msg) for _, reply in told)
    await client.quiet(0.15)
    assert waiting(router) == 0
    sender = await router.connect()
    by_id = {queue.id: queue for queue in queues}
    entity, reply = told[-1]
    assert await receive(client, by_id[entity], reply) == [b"hello"]
    await sender.send(by_id[entity], b"again")
    assert await receive(client, by_id[entity]) == [b"again"]


async def test_the_messages_of_one_turn_do_not_overfill_a_mailbox(start_rig: StartRig) -> None:
    """SMP-16, S000-42: each message takes a block, however short it is."""
    router = await start_rig(limits=LIMITS)
    client, queues = await stuck(router)
    other = await router.connect()
    other.hold()
    requests = [queue.asks(c.Sub()) for queue in queues]
    for payload in pack([other.encode(request) for request in requests]):
        await other.send_block(payload)
    await asyncio.sleep(0.5)
    client.close()
    await client.closed()
    await until(lambda: any(isinstance(fact, SessionClosed) for fact in router.facts))
    # Behind a front, the worker with the shard is told a moment after the fact.
    await until(lambda: router.router.broker.budget.bytes <= SOFT + 2 * BLOCK)
    other.go_on()
    told = [await other.event() for _ in range(2 * MANY)]
    assert {entity for entity, reply in told if isinstance(reply, Msg)} == {q.id for q in queues}


async def test_who_does_not_read_holds_up_nobody(start_rig: StartRig) -> None:
    """S000-20, S000-42: neither those who send to it, nor others, nor what others are told."""
    router = await start_rig(limits=LIMITS)
    client, queues = await stuck(router)
    alice, bob = await router.connect(), await router.connect()
    queue = await alice.new_queue()
    async with asyncio.timeout(20):
        for _ in range(20):
            assert await bob.send(queue, b"hello") == OK
            assert await receive(alice, queue) == [b"hello"]
        assert await bob.send(queues[-1], b"second") == OK
        assert await bob.subscribe(queue, queues[0]) == [SOK, SOK]
    assert await alice.event() == (queue.id, SmpEnd())
    assert body(queues[0], await message(bob, queues[0])) == b"hello"
    # What the stuck one lost it is told when it reads again, and behind what it was sent.
    client.go_on()
    ends = [e for e in [await client.event() for _ in range(MANY + 1)] if e[1] == SmpEnd()]
    assert ends == [(queues[0].id, SmpEnd())]


async def test_what_waits_for_room_goes_to_the_subscriber_of_the_moment(
    start_rig: StartRig,
) -> None:
    """SMP-2, S000-3, S000-44, S000-47: the one who lost the queue is not sent its message later;
    nor is a message of a queue that was deleted."""
    router = await start_rig(limits=LIMITS)
    client, queues = await stuck(router)
    other = await router.connect()
    taken, deleted = queues[-1], queues[-2]
    assert await asks(other, taken, c.Sub()) == SOK
    assert body(taken, await message(other, taken)) == b"hello"
    assert await asks(other, deleted, c.Del()) == OK
    client.go_on()
    told = [await client.event() for _ in queues]
    for queue in (taken, deleted):
        assert [reply for entity, reply in told if entity == queue.id and type(reply) is Msg] == []
    await client.quiet(0.15)


async def test_what_waits_for_a_client_that_leaves_waits_for_the_next(
    start_rig: StartRig,
) -> None:
    """S000-74, S000-76, S000-79"""
    router = await start_rig(limits=LIMITS)
    client, queues = await stuck(router)
    client.close()
    await client.closed()
    await until(lambda: router.router.broker.budget.bytes == 0 and waiting(router) == 0)
    other = await router.connect()
    assert await other.subscribe(*queues) == [SOK] * MANY
    told = [await other.event() for _ in queues]
    assert {entity for entity, _ in told} == {queue.id for queue in queues}


@pytest.mark.parametrize("asks_for", ["pings", "messages"])
async def test_who_asks_and_does_not_read_is_not_listened_to(
    start_rig: StartRig, asks_for: str
) -> None:
    """A message that was asked for is an answer like any other."""
    router = await start_rig()
    client, other = await router.connect(), await router.connect()
    queue = await other.new_queue(subscribe=False)
    await other.send(queue, b"hello")
    # Answers above which nothing is read, and those to what was read before.
    request, count, blocks, most = Request(c.Ping()), BATCH_COUNT, 120, 1 * MiB + 2 * BLOCK
    if asks_for == "messages":
        request, count, blocks = queue.asks(c.SmpGet()), 100, 30
        most = 1 * MiB + (UNANSWERED_MAX + count) * BLOCK
    client.hold()

    async def ask() -> None:
        for _ in range(blocks):
            (payload,) = pack([client.encode(request) for _ in range(count)])
            await client.send_block(payload)

    asking = asyncio.create_task(ask())
    held = router.budget
    peak = 0
    # More than a second after it has enough, it is not given more.
    while peak <= 1 * MiB:
        await asyncio.sleep(0.01)
        peak = max(peak, held.bytes)
    for _ in range(30):
        await asyncio.sleep(0.05)
        peak = max(peak, held.bytes)
    assert peak <= most
    async with asyncio.timeout(20):
        assert (await other.new_queue()).id
    client.go_on()
    told = [await client.event() for _ in range(blocks * count)]
    await asking
    if asks_for == "pings":
        assert told == [(b"", Pong())] * len(told)
    else:
        assert {reply for _, reply in told} == {await asks(other, queue, c.SmpGet())}
    assert held.bytes == 0
