"""Blocks of many commands: each is answered, and the store is asked once."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from pathlib import Path

import pytest

from headgate.client.smp.recipient import Queue, Request, make_key, spki
from headgate.core.facts import Delivered, Subscribed
from headgate.errors import StoreError
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.replies import Err, Msg, Pong
from tests.support.smp_asking import (
    AUTH,
    NO_MSG,
    OK,
    PROHIBITED,
    SOK,
    asks,
    body,
    message,
    receive,
)
from tests.support.smp_router import Rig

FULL = 135
"""As many SUBs fit into one block."""


async def make_queues(client: SmpClient, count: int, *, full: int = 0) -> list[Queue]:
    """Queues that nobody subscribes to, the first of them with a message each."""
    queues = await asyncio.gather(*(client.new_queue(subscribe=False) for _ in range(count)))
    sends = [Request(c.SmpSend(False, b"m%d" % n), q.sender) for n, q in enumerate(queues[:full])]
    if sends:
        assert await client.ask(*sends) == [OK] * full
    return queues


async def test_a_block_of_subscriptions_is_answered_and_then_the_messages_come(
    router: Rig,
) -> None:
    """ACC-48, SMP-12, S004-1, S004-34, S004-35, S004-54"""
    maker, client = await router.connect(), await router.connect()
    queues = await make_queues(maker, FULL, full=20)
    (payload,) = pack([client.encode(queue.asks(c.Sub())) for queue in queues])
    before = client.blocks
    await client.send_block(payload)
    assert [await client.event() for _ in queues] == [(queue.id, SOK) for queue in queues]
    for number, queue in enumerate(queues[:20]):
        assert body(queue, await message(client, queue)) == b"m%d" % number
    assert client.blocks - before == 21
    await client.quiet(0.15)


async def test_two_hundred_queues_of_two_routers_are_subscribed_in_batches(
    router: Rig, tmp_path: Path
) -> None:
    """ACC-49: each router knows its own half."""
    other = Rig("memory:", tmp_path / "other")
    await other.start()
    try:
        for rig in (router, other):
            maker, client = await rig.connect(), await rig.connect()
            queues = await make_queues(maker, 100, full=3)
            assert await client.subscribe(*queues) == [SOK] * 100
            for queue in queues[:3]:
                await message(client, queue)
            await client.quiet(0.1)
        assert await client.subscribe(*(await make_queues(await router.connect(), 2))) == [
            AUTH,
            AUTH,
        ]
    finally:
        await other.stop()


async def test_each_command_of_a_mixed_block_has_its_own_answer(router: Rig) -> None:
    """ACC-50, S004-42, S004-46, S004-49"""
    client, other = await router.connect(), await router.connect()
    queue, got, closed = [await other.new_queue(subscribe=False) for _ in range(3)]
    await other.ask(*(Request(c.SmpSend(False, b"hello"), q.sender) for q in (queue, got)))
    sender = make_key("x25519")
    replies = await client.ask(
        Request(c.Sub(), queue.id, make_key()),
        queue.asks(c.Sub()),
        Request(c.Sub(), secrets.token_bytes(24), make_key()),
        Request(b"HELLO", queue.id, queue.key),
        queue.asks(c.SmpAck(secrets.token_bytes(24))),
        got.asks(c.SmpGet()),
        got.asks(c.Sub()),
        closed.asks(c.Off()),
        Request(c.SmpSend(False, b"late"), closed.sender),
        closed.asks(c.Sub()),
        Request(c.Sub(), queue.id),
        queue.asks(c.Key(spki(sender))),
        Request(c.SmpSend(False, b"second"), queue.sender, sender),
        Request(c.Ping()),
    )
    assert isinstance(replies[5], Msg)
    assert replies[:5] + replies[6:] == [
        AUTH,
        SOK,
        AUTH,
        Err("CMD UNKNOWN"),
        NO_MSG,
        PROHIBITED,
        OK,
        AUTH,
        SOK,
        Err("CMD NO_AUTH"),
        OK,
        OK,
        Pong(),
    ]
    assert await receive(client, queue) == [b"hello", b"second"]


async def test_a_block_is_as_if_its_commands_came_one_by_one(router: Rig) -> None:
    """S004-43: what one of them adds or removes, the next one knows."""
    client = await router.connect()
    queue = await client.new_queue(subscribe=False)
    send = Request(c.SmpSend(False, b"one"), queue.sender)
    assert await client.ask(send, queue.asks(c.Sub())) == [OK, SOK]
    first = await message(client, queue)
    assert body(queue, first) == b"one"
    ack = queue.asks(c.SmpAck(first.message_id))
    assert await client.ask(ack, queue.asks(c.Sub())) == [OK, SOK]
    await client.quiet(0.1)
    assert await client.ask(queue.asks(c.Del()), queue.asks(c.Sub()), send) == [OK, AUTH, AUTH]


async def test_subscriptions_count_the_same_in_a_block_and_one_by_one(router: Rig) -> None:
    """SMP-23, S004-53, S004-55"""
    maker = await router.connect()
    counts = []
    for in_a_block in (True, False):
        client = await router.connect()
        queues = await make_queues(maker, 10, full=4)
        before = len(router.facts)
        if in_a_block:
            assert await client.subscribe(*queues) == [SOK] * 10
        else:
            assert [await asks(client, queue, c.Sub()) for queue in queues] == [SOK] * 10
        told = [await client.event() for _ in range(4)]
        assert sorted(entity for entity, _ in told) == sorted(queue.id for queue in queues[:4])
        counts.append(Counter(type(fact) for fact in router.facts[before:]))
    assert counts[0] == counts[1] == {Subscribed: 10, Delivered: 4}


async def test_a_queue_twice_in_a_block_has_one_message_in_flight(router: Rig) -> None:
    """S004-50"""
    client = await router.connect()
    (queue,) = await make_queues(client, 1, full=1)
    assert await client.subscribe(queue, queue) == [SOK, SOK]
    first = await message(client, queue)
    await client.quiet(0.15)
    assert await client.ack(queue, first.message_id) == OK
    assert await client.ack(queue, first.message_id) == NO_MSG


async def test_a_block_of_subscriptions_is_one_statement(router: Rig) -> None:
    """SMP-21, SMP-22, S004-30, S004-32, S004-37, S004-38, S004-44, S004-56"""
    queues = await make_queues(await router.connect(), FULL, full=30)
    await router.restart()
    client = await router.connect()
    before = router.statements
    assert await client.subscribe(*queues) == [SOK] * FULL
    assert router.statements - before == 1
    for queue in queues[:30]:
        await message(client, queue)
    await client.quiet(0.1)
    assert router.statements - before == 1


async def test_a_block_of_gets_is_one_statement(router: Rig) -> None:
    """S004-52"""
    queues = await make_queues(await router.connect(), FULL, full=30)
    await router.restart()
    client = await router.connect()
    before = router.statements
    replies = await client.ask(*(queue.asks(c.SmpGet()) for queue in queues))
    assert router.statements - before == 1
    assert [body(q, r) for q, r in zip(queues, replies[:30], strict=False)] == [
        b"m%d" % n for n in range(30)
    ]
    assert replies[30:] == [OK] * (FULL - 30)


async def test_a_block_of_acknowledgements_costs_as_much_as_one(router: Rig) -> None:
    """S000-33, S004-51: what is acknowledged goes, and the next comes."""
    maker, client = await router.connect(), await router.connect()
    queues = await make_queues(maker, 101, full=101)
    await maker.ask(*(Request(c.SmpSend(False, b"next"), queue.sender) for queue in queues))
    await client.subscribe(*queues)
    sent = [await message(client, queue) for queue in queues]
    acks = [queue.asks(c.SmpAck(m.message_id)) for queue, m in zip(queues, sent, strict=True)]
    before = router.statements
    assert body(queues[0], (await client.ask(acks[0]))[0]) == b"next"
    single = router.statements - before
    before = router.statements
    replies = await client.ask(*acks[1:])
    assert router.statements - before == single
    assert [body(q, r) for q, r in zip(queues[1:], replies, strict=True)] == [b"next"] * 100


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_store_that_fails_fails_the_whole_block(
    router: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-36: each is told, and later it works."""
    queues = await make_queues(await router.connect(), 5, full=5)
    await router.restart()
    client = await router.connect()

    async def fail(*_: object) -> None:
        raise StoreError("no disk")

    with monkeypatch.context() as broken:
        broken.setattr(router.store, "load", fail)
        assert await client.subscribe(*queues) == [Err("STORE unavailable")] * 5
    assert await client.subscribe(*queues) == [SOK] * 5
    for queue in queues:
        await message(client, queue)


async def test_an_answer_comes_in_the_order_of_its_request(router: Rig) -> None:
    """S004-42: seen on the wire, where nothing sorts them."""
    maker, client = await router.connect(), await router.connect()
    queues = await make_queues(maker, 40)
    commands: list[c.Command] = [c.Sub(), c.Que(), c.Off(), c.SmpAck(b"")]
    requests = [queue.asks(commands[n % 4]) for n, queue in enumerate(queues)]
    (payload,) = pack([client.encode(request) for request in requests])
    await client.send_block(payload)
    told = [await client.event() for _ in queues]
    assert [entity for entity, _ in told] == [queue.id for queue in queues]
    assert await asks(client, queues[0], c.Sub()) == SOK


async def test_what_the_core_is_not_asked_is_answered_in_its_place(router: Rig) -> None:
    """S004-42: PONG and errors of the wire, at the beginning, in the midst and at the end."""
    client = await router.connect()
    queue = await client.new_queue()
    ping, bad = Request(c.Ping()), Request(b"HELLO", queue.id, queue.key)
    block = [ping, bad, queue.asks(c.Sub()), ping, bad, ping, queue.asks(c.Off()), bad, ping]
    (payload,) = pack([client.encode(request) for request in block])
    await client.send_block(payload)
    unknown = Err("CMD UNKNOWN")
    told = [(await client.event())[1] for _ in block]
    assert told == [Pong(), unknown, SOK, Pong(), unknown, Pong(), OK, unknown, Pong()]
    (payload,) = pack([client.encode(request) for request in (bad, ping)])
    await client.send_block(payload)
    assert [(await client.event())[1] for _ in range(2)] == [unknown, Pong()]


async def test_a_block_that_confirms_what_it_delivers_is_told_the_next_message_alone(
    router: Rig,
) -> None:
    """S004-42, S004-43: the one that was confirmed does not come behind it."""
    client = await router.connect()
    queue = await client.new_queue()
    for text in (b"one", b"two"):
        assert await client.ask(Request(c.SmpSend(False, text), queue.sender)) == [OK]
    first = await message(client, queue)
    ack = queue.asks(c.SmpAck(first.message_id))
    subscribed, second = await client.ask(queue.asks(c.Sub()), ack)
    assert subscribed == SOK
    assert isinstance(second, Msg)
    assert body(queue, second) == b"two"
    assert await client.ask(queue.asks(c.SmpAck(second.message_id))) == [OK]
    await client.quiet(0.1)
