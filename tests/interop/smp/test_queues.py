"""Making, securing, closing and deleting queues, as clients do it."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import chain

import pytest

from headgate.client.smp.recipient import Kind, Queue, Request, make_key, spki
from headgate.core.model.parties import Purpose
from headgate.errors import Refused
from headgate.server.config.kinds import Secret
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Err, Info, Msg, Reply
from headgate.wire.smp.codec.sealed import body_max
from headgate.wire.smp.handshake import Versions
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import (
    AUTH,
    NO_MSG,
    OK,
    SOK,
    asks,
    body,
    message,
    one,
    receive,
    secure,
)
from tests.support.smp_router import Rig

KINDS: tuple[Kind, ...] = ("ed25519", "ed448", "x25519")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_queue_takes_a_message_from_anybody_until_it_is_secured(
    router: Rig, kind: Kind
) -> None:
    """ACC-1, ACC-2, ACC-3, ACC-4, ACC-5, ACC-6, ACC-7, ACC-8, ACC-9, ACC-10, ACC-11, ACC-12,
    ACC-13, ACC-16, S000-36, S000-49, S000-51

    That answers echo their entity is checked by the client.
    """
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue(kind)
    assert (len(queue.id), len(queue.sender)) == (24, 24)

    assert await sender.send(queue, b"hello") == OK
    first = await message(recipient, queue)
    assert body(queue, first) == b"hello"
    assert await recipient.ack(queue, first.message_id) == OK
    assert await recipient.ack(queue, first.message_id) == NO_MSG

    key, other = make_key(kind), make_key(kind)
    assert await sender.send(queue, b"signed too early", key) == AUTH
    assert await one(recipient, Request(c.Key(spki(key)), queue.id, other)) == AUTH
    assert await one(recipient, Request(c.Key(spki(key)), queue.sender, queue.key)) == AUTH
    assert await secure(recipient, queue, key) == OK
    assert await secure(recipient, queue, key) == OK
    assert await secure(recipient, queue, other) == AUTH

    assert await sender.send(queue, b"signed", key) == OK
    assert body(queue, await message(recipient, queue)) == b"signed"
    assert await sender.send(queue, b"unsigned") == AUTH
    assert await sender.send(queue, b"by another", other) == AUTH


@pytest.mark.parametrize("version", [7, 8, 10, 11, 19])
async def test_the_longest_body_is_that_of_the_version(router: Rig, version: int) -> None:
    """ACC-14, ACC-15: whoever speaks another version receives it all the same."""
    recipient = await router.connect()
    sender = await router.connect(versions=Versions(7, version))
    queue = await recipient.new_queue()
    longest = bytes(body_max(version))
    assert await sender.send(queue, longest + b"!") == Err("LARGE_MSG")
    assert await sender.send(queue, longest) == OK
    assert body(queue, await message(recipient, queue)) == longest


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sender_secures_a_queue_for_messaging_itself(router: Rig, kind: Kind) -> None:
    """ACC-17, ACC-18, ACC-19, ACC-20, ACC-21"""
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    key, other = make_key(kind), make_key(kind)
    skey = c.SKey(spki(key))
    assert await one(sender, Request(skey, queue.sender, other)) == AUTH
    assert await one(sender, Request(skey, queue.id, key)) == AUTH
    assert await one(sender, Request(skey, queue.sender, key)) == OK
    assert await one(sender, Request(c.SKey(spki(other)), queue.sender, other)) == AUTH
    assert await one(sender, Request(skey, queue.sender, key)) == OK
    assert await sender.send(queue, b"signed", key) == OK
    assert body(queue, await message(recipient, queue)) == b"signed"

    for purpose in (Purpose.CONTACT, None):
        contact = await recipient.new_queue(purpose=purpose)
        assert await one(sender, Request(skey, contact.sender, key)) == AUTH


async def test_the_keys_of_a_contact_are_replaced(router: Rig) -> None:
    """ACC-22, ACC-23, ACC-24: one key after another, a queue with none is not possible."""
    client = await router.connect()
    queue = await client.new_queue(purpose=Purpose.CONTACT)
    old, new, last = queue.key, make_key("x25519"), make_key("ed448")

    async def may(key: object) -> bool:
        queue.key = key  # type: ignore[assignment]
        return await asks(client, queue, c.Sub()) == SOK

    assert await asks(client, queue, c.RKey((spki(old), spki(new)))) == OK
    assert await may(old)
    assert await may(new)
    assert await asks(client, queue, c.RKey((spki(new), spki(last)))) == OK
    assert not await may(old)
    assert await may(new)
    assert await asks(client, queue, c.RKey((spki(last),))) == OK
    assert not await may(new)
    assert await may(last)

    messaging = await client.new_queue()
    assert await asks(client, messaging, c.RKey((spki(new),))) == AUTH


async def test_a_closed_queue_takes_nothing_and_still_gives(router: Rig) -> None:
    """ACC-25, ACC-26, ACC-27"""
    recipient, sender = await router.connect(), await router.connect()
    queue, key = await recipient.new_queue(), make_key()
    await secure(recipient, queue, key)
    assert await sender.send(queue, b"before", key) == OK
    sent = await message(recipient, queue)

    assert await one(recipient, Request(c.Off(), queue.id, make_key())) == AUTH
    assert await one(recipient, Request(c.Off(), queue.sender, queue.key)) == AUTH
    assert await asks(recipient, queue, c.Off()) == OK
    assert await asks(recipient, queue, c.Off()) == OK
    assert await sender.send(queue, b"after", key) == AUTH
    assert await sender.send(queue, b"after") == AUTH

    assert await asks(recipient, queue, c.Sub()) == SOK
    assert await message(recipient, queue) == sent
    assert await recipient.ack(queue, sent.message_id) == OK


async def test_a_deleted_queue_is_as_if_it_had_never_been(router: Rig) -> None:
    """ACC-28, ACC-29"""
    recipient, sender = await router.connect(), await router.connect()
    queue = await recipient.new_queue()
    await sender.send(queue, b"lost")
    lost = await message(recipient, queue)
    assert await one(recipient, Request(c.Del(), queue.id, make_key())) == AUTH
    assert await one(recipient, Request(c.Del(), queue.sender, queue.key)) == AUTH
    assert await asks(recipient, queue, c.Del()) == OK
    assert await sender.send(queue, b"late") == AUTH
    assert await recipient.ack(queue, lost.message_id) == AUTH
    for command in (c.Off(), c.Sub(), c.SmpGet(), c.Que(), c.Del()):
        assert await asks(recipient, queue, command) == AUTH
    await recipient.quiet()


async def test_fifty_queues_are_subscribed_by_one_connection_after_the_other(router: Rig) -> None:
    """ACC-30"""
    first, sender = await router.connect(), await router.connect()
    queues = [await first.new_queue() for _ in range(50)]
    first.close()
    await first.closed()
    for number in range(2):
        client = await router.connect()
        assert await client.subscribe(*queues) == [SOK] * 50
        for queue in queues[:5]:
            await sender.send(queue, b"%d" % number)
            assert await receive(client, queue) == [b"%d" % number]
        client.close()
        await client.closed()


async def test_a_router_with_a_password_makes_queues_for_those_who_know_it(
    start_rig: StartRig,
) -> None:
    """ACC-32"""
    guarded = await start_rig(create_password=Secret("sesame"))
    for version in (8, 14, 19):
        client = await guarded.connect(versions=Versions(7, version))
        for wrong in (None, b"simsim"):
            with pytest.raises(Refused, match=r"^AUTH$"):
                await client.new_queue(password=wrong)
        await client.new_queue(password=b"sesame")


async def test_a_router_may_let_nobody_make_queues(start_rig: StartRig) -> None:
    """ACC-31"""
    closed = await start_rig(create_queues=False)
    client = await closed.connect()
    with pytest.raises(Refused, match=r"^AUTH$"):
        await client.new_queue()


async def test_a_password_that_nobody_asked_for_is_ignored(router: Rig) -> None:
    """ACC-32"""
    client = await router.connect()
    assert (await client.new_queue(password=b"sesame")).id


def told(reply: Reply) -> dict[str, object]:
    assert isinstance(reply, Info)
    info: dict[str, object] = json.loads(reply.json)
    return info


async def test_a_recipient_asks_about_its_queue(router: Rig) -> None:
    """ACC-33: the subscription is that of the connection that asks."""
    recipient, other = await router.connect(), await router.connect()
    queue = await recipient.new_queue(subscribe=False)
    assert told(await asks(recipient, queue, c.Que())) == {
        "qiSnd": False,
        "qiNtf": False,
        "qiSize": 0,
    }
    await secure(recipient, queue, sender := make_key())
    await recipient.set_notifier(queue, make_key())
    await asks(recipient, queue, c.Sub())
    await other.send(queue, b"one", sender)
    await other.send(queue, b"two", sender)
    first = await message(recipient, queue)
    info = told(await asks(recipient, queue, c.Que()))
    named = b64encode(first.message_id).decode()
    assert info["qiSnd"] is True
    assert info["qiNtf"] is True
    assert info["qiSize"] == 2
    assert info["qiSub"] == {"qSubThread": "subThread", "qDelivered": named}
    head = info["qiMsg"]
    assert isinstance(head, dict)
    assert head["msgId"] == named
    assert head["msgType"] == "message"
    assert "qiSub" not in told(await asks(other, queue, c.Que()))
    await asks(other, queue, c.SmpGet())
    assert told(await asks(other, queue, c.Que()))["qiSub"] == {
        "qSubThread": "prohibitSub",
        "qDelivered": named,
    }


async def test_two_people_write_to_each_other_over_two_queues(router: Rig) -> None:
    """ACC-34, SMP-17"""
    alice, bob = await router.connect(), await router.connect()
    to_alice, to_bob = await alice.new_queue(), await bob.new_queue("x25519")
    alices, bobs = make_key("ed448"), make_key("x25519")
    await secure(alice, to_alice, bobs)
    await secure(bob, to_bob, alices)
    said = [b"%d" % n for n in range(5)]
    for text in said:
        assert await alice.send(to_bob, text, alices) == OK
        assert await bob.send(to_alice, text, bobs) == OK
    assert await receive(alice, to_alice) == said
    assert await receive(bob, to_bob) == said


async def test_a_connection_that_sends_to_itself_gets_both(router: Rig) -> None:
    """ACC-47, SMP-15"""
    client = await router.connect()
    queue = await client.new_queue()
    for text in (b"one", b"two"):
        assert await client.send(queue, text) == OK
        assert await receive(client, queue) == [text]


@pytest.mark.parametrize("senders", [2])
async def test_no_message_of_two_concurrent_senders_is_overslept(router: Rig, senders: int) -> None:
    """ACC-46: whoever finds the queue empty pushes, whoever does not is behind one who did."""
    recipient = await router.connect()
    queue = await recipient.new_queue()
    clients = [await router.connect() for _ in range(senders)]
    for number in range(50):
        requests = [Request(c.SmpSend(False, b"%d" % number), queue.sender)]
        blocks = [client.encode(request) for client in clients for request in requests]
        for client, block in zip(clients, blocks, strict=True):
            await client.send_block(b"\1" + len(block).to_bytes(2, "big") + block)
        got = await receive_some(recipient, queue, senders)
        assert got == [b"%d" % number] * senders
    for client in clients:
        told = [await client.event() for _ in range(50)]
        assert told == [(queue.sender, OK)] * 50


async def receive_some(client: SmpClient, queue: Queue, count: int) -> list[bytes]:
    """So many messages, however they come: as events, or as answers to acknowledgements."""
    bodies: list[list[bytes]] = []
    while sum(map(len, bodies)) < count:
        bodies.append(await receive(client, queue, await message(client, queue)))
    return list(chain(*bodies))


async def test_the_same_message_has_the_same_bytes_each_time(router: Rig) -> None:
    """S000-50"""
    first, second = await router.connect(), await router.connect()
    queue = await first.new_queue()
    await first.send(queue, b"hello")
    pushed = await message(first, queue)
    assert await asks(second, queue, c.Sub()) == SOK
    again = await message(second, queue)
    got = await asks(await router.connect(), queue, c.SmpGet())
    assert isinstance(got, Msg)
    assert pushed == again == got
