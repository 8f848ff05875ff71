"""Plain queues: made, found again, opened, and used by one sender."""

from __future__ import annotations

import asyncio

import pytest

from headgate.agent.events import Failed, Message, Problem, ProblemKind, Sent
from headgate.agent.records import commands, connections, receive_queues, send_queues
from headgate.agent.stored_keys import unpack_key
from headgate.client.smp.recipient import Request
from headgate.client.smp.requests import send
from headgate.errors import (
    LinkUsed,
    Malformed,
    NoCommonVersion,
    NotConnected,
    RequestRefused,
    TooLong,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Versions
from tests.agent.conftest import MakeParty
from tests.support.agent_delivery import ModelPort, ModelRouter, Party, address_of, quiet
from tests.support.smp_router import Rig

FIRST_MAX, LATER_MAX = 15_901, 15_997


def asked(party: Party, kind: type[c.Command]) -> list[Request]:
    assert isinstance(party.port, ModelPort)
    return [request for request in party.port.asked if isinstance(request.command, kind)]


async def test_messages_go_from_a_sender_to_a_recipient_in_order(
    linked: MakeParty, router: Rig
) -> None:
    """S000-62, S000-68: the first is pushed or answers a SUB, the others answer ACKs."""
    anna, bob = await linked(), await linked()
    queue = await anna.make("meters", address_of(router))
    opened = await bob.open(queue)
    bodies = [b"reading %d" % n for n in range(20)]
    ids = [await bob.sending.send(opened.connection, body) for body in bodies]
    assert ids == list(range(1, 21))
    for body in bodies:
        message = await anna.application.message()
        assert (message.body, message.attempts) == (body, 1)
        assert message.queue is not None
        assert (message.queue.name, message.connection) == ("meters", queue.connection)
        await message.ack()
    sent = [await bob.application.read() for _ in bodies]
    assert sent == [Sent(opened.connection, id) for id in ids]


async def test_the_longest_messages_fit_and_longer_ones_leave_nothing(
    linked: MakeParty, router: Rig
) -> None:
    anna, bob = await linked(), await linked()
    opened = await bob.open(await anna.make("meters", address_of(router)))
    with pytest.raises(TooLong):
        await bob.sending.send(opened.connection, bytes(FIRST_MAX + 1))
    assert await bob.sending.send(opened.connection, bytes(FIRST_MAX)) == 1
    with pytest.raises(TooLong):
        await bob.sending.send(opened.connection, bytes(LATER_MAX + 1))
    assert await bob.sending.send(opened.connection, bytes(LATER_MAX)) == 2
    sizes = [len(body) for body in await anna.application.messages(2)]
    assert sizes == [FIRST_MAX, LATER_MAX]


async def test_an_address_has_one_sender(linked: MakeParty, router: Rig) -> None:
    anna, bob, eve = [await linked() for _ in range(3)]
    queue = await anna.make("meters", address_of(router))
    opened = await bob.open(queue)
    with pytest.raises(LinkUsed, match="ask its owner for a new one"):
        await eve.open(queue)
    assert await eve.records.read(connections.page, 1) == []
    assert (await bob.open(queue)).connection == opened.connection
    await bob.sending.send(opened.connection, b"still here")
    assert await anna.application.messages(1) == [b"still here"]


async def test_a_queue_is_found_again_by_its_name(parties: MakeParty) -> None:
    anna = await parties()
    made = await asyncio.gather(anna.make("meters"), anna.make("meters"))
    assert made[0].address == made[1].address
    assert (await anna.make("meters")).address.text == made[0].address.text
    assert await anna.queues.find(1, "others") is None
    assert len(asked(anna, c.New)) == 1
    assert isinstance(anna.port, ModelPort)
    assert anna.port.made == [(made[0].recipient_id, made[0].connection)]


async def test_an_address_has_no_password(parties: MakeParty) -> None:
    anna = await parties()
    router = RouterAddress(("relay.example.org",), None, b"k" * 32, "secret")
    made = await anna.make("meters", router)
    assert asked(anna, c.New)[0].command.password == b"secret"  # type: ignore[union-attr]
    found = await anna.queues.find(1, "meters")
    assert found is not None
    assert "secret" not in made.address.text + made.address.router.text_with_password
    assert found.address == made.address


async def test_the_key_of_a_sender_is_stored_before_it_is_used(parties: MakeParty) -> None:
    """The router is away when the address is opened: it is secured later, with the same key."""
    anna, bob = await parties(), await parties()
    queue = await anna.make("meters")
    assert isinstance(bob.port, ModelPort)
    bob.clock.is_held = True
    bob.port.script.extend([NotConnected("away"), NotConnected("away")])
    opened = await bob.open(queue)
    await quiet(bob)
    [command] = (await bob.records.read(commands.of_connections, [opened.connection]))[
        opened.connection
    ]
    assert command.kind == "SKEY"
    id = await bob.sending.send(opened.connection, b"hello")
    bob.clock.let_go()
    assert await bob.application.read() == Sent(opened.connection, id)
    assert len({request.command for request in asked(bob, c.SKey)}) == 1
    assert len(asked(bob, c.SKey)) == 3
    assert await anna.application.messages(1) == [b"hello"]
    left = await bob.records.read(commands.of_connections, [opened.connection])
    assert left == {opened.connection: []}


async def test_what_waits_for_a_queue_of_another_fails(parties: MakeParty) -> None:
    anna, bob, eve = await parties(), await parties(), await parties()
    queue = await anna.make("meters")
    assert isinstance(bob.port, ModelPort)
    bob.clock.is_held = True
    bob.port.script.extend([NotConnected("away"), NotConnected("away")])
    opened = await bob.open(queue)
    ids = [await bob.sending.send(opened.connection, b"%d" % n) for n in range(3)]
    await eve.open(queue)
    bob.clock.let_go()
    event = await bob.application.read()
    assert isinstance(event, Failed)
    assert (event.connection, event.ids) == (opened.connection, tuple(ids))
    assert "ask its owner" in event.reason
    with pytest.raises(LinkUsed):
        await bob.sending.send(opened.connection, b"more")
    with pytest.raises(LinkUsed):
        await bob.open(queue)


async def test_an_address_that_cannot_be_opened_is_refused_before_anything_is_stored(
    parties: MakeParty,
) -> None:
    anna, bob = await parties(), await parties()
    address = (await anna.make("meters")).address
    place = (address.router, address.sender_id, address.key)
    contact = QueueAddress(address.versions, *place, None)
    with pytest.raises(Malformed, match="its sender secures"):
        await bob.queues.open(1, contact)
    newer = QueueAddress(Versions(5, 6), *place, address.purpose)
    with pytest.raises(NoCommonVersion, match="5-6"):
        await bob.queues.open(1, newer)
    assert await bob.records.read(connections.page, 1) == []


async def test_the_first_message_shows_the_key_and_the_others_do_not(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    queue = await anna.make("meters")
    opened = await bob.open(queue)
    for n in range(3):
        await bob.sending.send(opened.connection, b"%d" % n)
    assert await anna.application.messages(3) == [b"0", b"1", b"2"]
    accepted = model.queues[queue.recipient_id].accepted
    first, *later = [ClientEnvelope.parse(body) for body in accepted]
    kept = await bob.records.read(send_queues.get, (opened.router, queue.address.sender_id))
    assert kept is not None
    assert first.exchange_key == kept.e2e_public
    assert [envelope.exchange_key for envelope in later] == [None, None]
    assert [len(body) for body in accepted] == [15_992, 16_043, 16_043]


async def test_the_key_is_shown_until_a_message_was_taken(
    parties: MakeParty, model: ModelRouter
) -> None:
    """The first message is given up; the second one takes its place."""
    anna, bob = await parties(), await parties()
    queue = await anna.make("meters")
    opened = await bob.open(queue)
    assert isinstance(bob.port, ModelPort)
    suspended = asyncio.ensure_future(bob.operations.suspend())
    await quiet(bob)
    assert suspended.done()
    await bob.sending.send(opened.connection, b"first")
    await bob.sending.send(opened.connection, b"second")
    await bob.sending.send(opened.connection, bytes(LATER_MAX))
    bob.port.script.extend([RequestRefused("LARGE_MSG"), RequestRefused("LARGE_MSG")])
    bob.operations.resume()
    events = [await bob.application.read() for _ in range(3)]
    assert [type(event) for event in events] == [Failed, Failed, Failed]
    # The last one has no room beside the key.
    assert "15901" in events[2].reason  # type: ignore[union-attr]
    with pytest.raises(TooLong):
        await bob.sending.send(opened.connection, bytes(LATER_MAX))
    await bob.sending.send(opened.connection, b"fourth")
    assert await anna.application.messages(1) == [b"fourth"]


async def test_a_first_message_that_comes_again_is_acknowledged(
    parties: MakeParty, model: ModelRouter
) -> None:
    """ACC-99: its sender did not hear that the router had it."""
    anna, bob = await parties(), await parties()
    queue = await anna.make("meters")
    opened = await bob.open(queue)
    assert isinstance(bob.port, ModelPort)
    bob.port.script.extend([ModelPort.LOST])
    await bob.sending.send(opened.connection, b"once")
    assert isinstance(await bob.application.read(), Sent)
    await bob.sending.send(opened.connection, b"then")
    assert await anna.application.messages(2) == [b"once", b"then"]
    await quiet(anna)
    made = model.queues[queue.recipient_id]
    assert len(made.accepted) == 3
    assert made.accepted[0] == made.accepted[1]
    assert not made.messages
    assert not anna.application.waiting


async def test_a_message_before_the_key_and_one_with_another_key_are_refused_and_acknowledged(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob, eve = await parties(), await parties(), await parties()
    queue = await anna.make("meters")
    made = model.queues[queue.recipient_id]
    nonce, contents = bytes(24), EnvelopeContents(None, b"body")
    model.put(made, ClientEnvelope.seal(4, b"k" * 32, nonce, contents).encode())
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert event.kind is ProblemKind.UNREADABLE
    assert event.connection == queue.connection
    assert "before the one with the sender's key" in event.text
    opened = await bob.open(queue)
    await bob.sending.send(opened.connection, b"from bob")
    assert await anna.application.messages(1) == [b"from bob"]
    made.sender_key = None
    forged = await eve.open(queue)
    await eve.sending.send(forged.connection, b"from eve")
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert "another sender" in event.text
    await bob.sending.send(opened.connection, b"again")
    assert await anna.application.messages(1) == [b"again"]
    await quiet(anna)
    assert not made.messages


async def test_garbage_is_reported_and_acknowledged_and_the_next_message_comes(
    linked: MakeParty, router: Rig
) -> None:
    """A sender that does not seal what it sends."""
    anna, bob = await linked(), await linked()
    queue = await anna.make("meters", address_of(router))
    opened = await bob.open(queue)
    await bob.sending.send(opened.connection, b"well")
    assert await anna.application.messages(1) == [b"well"]
    kept = await bob.records.read(send_queues.get, (opened.router, queue.address.sender_id))
    assert kept is not None
    await _send_raw(bob, kept.router, queue.address.sender_id, kept.private_key)
    await bob.sending.send(opened.connection, b"again")
    event = await anna.application.read()
    assert isinstance(event, Problem)
    assert (event.kind, event.connection) == (ProblemKind.UNREADABLE, queue.connection)
    assert event.broker_id
    message = await anna.application.read()
    assert isinstance(message, Message)
    assert message.body == b"again"


async def test_secrets_are_in_no_representation(parties: MakeParty) -> None:
    anna, bob = await parties(), await parties()
    queue = await anna.make("meters")
    opened = await bob.open(queue)
    await bob.sending.send(opened.connection, b"the body")
    message = await anna.application.message()
    assert "the body" not in repr(message)
    kept = await anna.records.read(receive_queues.get, (queue.router, queue.recipient_id))
    assert kept is not None
    assert repr(kept.e2e_private) not in repr((queue, opened, message))


async def _send_raw(party: Party, router: int, sender: bytes, raw: bytes | None) -> None:
    assert raw is not None
    await party.port.ask(1, router, None, [send(sender, b"garbage", unpack_key("ed25519", raw))])
