"""Connections between two agents, over a router in memory and over a real one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate.agent.events import (
    Confirmation,
    Connected,
    Failed,
    Info,
    Problem,
    ProblemKind,
    Receipt,
    Request,
    Sent,
)
from headgate.agent.model import ConnectionId
from headgate.agent.records import connections, ratchets, receive_queues, send_queues
from headgate.agent.records.connections import ConnectionStatus
from headgate.errors import ConfigError, LinkUsed, NotConnected, RequestRefused, StoreError, TooLong
from headgate.wire.smp.agent.agent_messages import Integrity
from headgate.wire.smp.agent.links import InvitationLink
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.agent.conftest import MakeParty
from tests.support.agent_delivery import (
    ROUTER_ADDRESS,
    ModelPort,
    ModelRouter,
    Party,
    address_of,
    quiet,
)
from tests.support.ratchet_examples import CountingKem
from tests.support.smp_router import Rig

BODY_MAX = 15_795
BODY_MAX_KEM = 13_573


async def connect(
    anna: Party, bob: Party, router: RouterAddress = ROUTER_ADDRESS, *, pq: bool = False
) -> tuple[ConnectionId, ConnectionId]:
    """Bob joins an invitation of Anna's. Both ids, hers first."""
    invitation = await anna.connections.invite(1, router, "bob", pq=pq)
    hers = invitation.connection.id
    joined = await bob.connections.join(1, str(invitation.link), router, b"I am Bob", "anna", pq=pq)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    assert (event.connection, event.info) == (hers, b"I am Bob")
    await event.accept(b"I am Anna")
    assert await anna.application.read() == Connected(hers)
    assert await bob.application.read() == Info(joined.id, b"I am Anna")
    assert await bob.application.read() == Connected(joined.id)
    return hers, joined.id


async def sent(party: Party, connection: ConnectionId, body: bytes) -> int:
    id = await party.sending.send(connection, body)
    assert await party.application.read() == Sent(connection, id)
    return id


async def test_an_invitation_becomes_a_connection_and_messages_go_both_ways(
    linked: MakeParty, router: Rig
) -> None:
    anna, bob = await linked(), await linked()
    hers, his = await connect(anna, bob, address_of(router))
    for n in range(5):
        id = await sent(bob, his, b"to anna %d" % n)
        assert id == n + 2  # the confirmation was the first
        message = await anna.application.message()
        assert (message.connection, message.body) == (hers, b"to anna %d" % n)
        assert message.integrity is Integrity.OK
        await message.ack()
        await sent(anna, hers, b"to bob %d" % n)
        message = await bob.application.message()
        assert (message.body, message.integrity) == (b"to bob %d" % n, Integrity.OK)
        await message.ack()


async def test_a_receipt_names_the_message(linked: MakeParty, router: Rig) -> None:
    anna, bob = await linked(), await linked()
    hers, his = await connect(anna, bob, address_of(router))
    id = await sent(bob, his, b"hello")
    message = await anna.application.message()
    await message.ack(receipt=True)
    assert await bob.application.read() == Receipt(his, (id,))
    await sent(anna, hers, b"and on")
    assert await bob.application.messages(1) == [b"and on"]


async def test_a_request_to_an_address_becomes_a_connection(linked: MakeParty, router: Rig) -> None:
    anna, bob = await linked(), await linked()
    place = address_of(router)
    address = await anna.connections.address(1, place, "shop")
    assert await anna.connections.address(1, place, "shop") == address
    asked = await bob.connections.join(1, str(address.link), place, b"I am Bob")
    request = await anna.application.read()
    assert isinstance(request, Request)
    assert (request.address, request.info) == (address.connection, b"I am Bob")
    hers = await request.accept(b"welcome")
    with pytest.raises(StoreError, match="answered already"):
        await request.accept()
    # Whoever asked has invited, and accepts who answers.
    assert await bob.application.read() == Info(asked.id, b"welcome")
    assert await bob.application.read() == Connected(asked.id)
    assert await anna.application.read() == Info(hers.id, b"I am Bob")
    assert await anna.application.read() == Connected(hers.id)
    await sent(anna, hers.id, b"hello")
    assert await bob.application.messages(1) == [b"hello"]


async def test_a_request_that_is_rejected_is_forgotten(parties: MakeParty) -> None:
    anna, bob = await parties(), await parties()
    address = await anna.connections.address(1, ROUTER_ADDRESS, "shop")
    await bob.connections.join(1, address.link, ROUTER_ADDRESS)
    request = await anna.application.read()
    assert isinstance(request, Request)
    await request.reject()
    with pytest.raises(StoreError, match="answered already"):
        await request.accept()


async def test_a_link_is_for_one(parties: MakeParty) -> None:
    """The second one who has it is refused at SKEY, and the first connection works."""
    anna, bob, eve = await parties(), await parties(), await parties()
    invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, invitation.link, ROUTER_ADDRESS)
    with pytest.raises(LinkUsed):
        await eve.connections.join(1, invitation.link, ROUTER_ADDRESS)
    assert await eve.records.read(connections.page, 1) == []
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    await event.accept()
    assert await anna.application.read() == Connected(invitation.connection.id)
    assert await bob.application.read() == Info(joined.id, b"")


async def test_a_second_confirmation_of_somebody_else_is_refused_and_reported(
    parties: MakeParty, model: ModelRouter
) -> None:
    """It came past the router's check, and the first connection works."""
    anna, bob, eve = await parties(), await parties(), await parties()
    invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, invitation.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    assert isinstance(invitation.link, InvitationLink)
    model.by_sender[invitation.link.queues[0].sender_id].sender_key = None
    await eve.connections.join(1, invitation.link, ROUTER_ADDRESS)
    problem = await anna.application.read()
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.connection) == (ProblemKind.UNREADABLE, invitation.connection.id)
    assert "another sender" in problem.text
    await event.accept()
    assert await anna.application.read() == Connected(invitation.connection.id)
    assert await bob.application.read() == Info(joined.id, b"")
    assert await bob.application.read() == Connected(joined.id)
    await sent(bob, joined.id, b"from bob")
    assert await anna.application.messages(1) == [b"from bob"]


async def test_a_joiner_without_its_router_goes_on_later_with_the_same_key(
    parties: MakeParty,
) -> None:
    anna, bob = await parties(), await parties()
    invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    assert isinstance(bob.port, ModelPort)
    bob.port.script.extend([NotConnected("away")] * 5)
    joined = await bob.connections.join(1, invitation.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    await event.accept()
    assert await bob.application.read() == Info(joined.id, b"")


async def test_what_a_joiner_writes_at_once_is_shown_after_connected(parties: MakeParty) -> None:
    anna, bob = await parties(), await parties()
    invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, invitation.link, ROUTER_ADDRESS)
    await sent(bob, joined.id, b"early")
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    await quiet(anna)
    assert not anna.application.waiting
    await event.accept()
    assert await anna.application.read() == Connected(invitation.connection.id)
    assert await anna.application.messages(1) == [b"early"]


async def test_a_message_does_not_overtake_that_its_connection_is_made(
    parties: MakeParty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our answer has reached the router, and the peer writes before that was announced."""
    anna, bob = await parties(), await parties()
    invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, invitation.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    announcements = anna.connections._announcements
    update, may_announce = announcements.update, asyncio.Event()

    async def update_later(connection: ConnectionId) -> None:
        await may_announce.wait()
        await update(connection)

    monkeypatch.setattr(announcements, "update", update_later)
    await event.accept()
    for happening in (Info, Connected):
        assert isinstance(await bob.application.read(), happening)
    await sent(bob, joined.id, b"at once")
    await quiet(anna)
    assert (await invitation.connection.state()).is_ready
    may_announce.set()
    assert await anna.application.read() == Connected(invitation.connection.id)
    assert await anna.application.messages(1) == [b"at once"]


async def test_the_longest_body_passes_and_a_longer_one_leaves_nothing(
    linked: MakeParty, router: Rig
) -> None:
    anna, bob = await linked(), await linked()
    _, his = await connect(anna, bob, address_of(router))
    before = await bob.records.read(ratchets.get, his)
    with pytest.raises(TooLong):
        await bob.sending.send(his, bytes(BODY_MAX + 1))
    assert await bob.records.read(ratchets.get, his) == before
    assert await bob.sending.send(his, bytes(BODY_MAX)) == 2
    assert [len(body) for body in await anna.application.messages(1)] == [BODY_MAX]


async def test_garbage_is_reported_and_acknowledged_and_the_next_message_comes(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    [queue] = (await anna.records.read(receive_queues.of_connections, [hers]))[hers]
    model.put(model.queues[queue.recipient_id], b"garbage")
    problem = await anna.application.read()
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.connection) == (ProblemKind.UNREADABLE, hers)
    await sent(bob, his, b"well")
    assert await anna.application.messages(1) == [b"well"]


async def test_a_gap_of_513_is_refused_and_the_ratchet_is_what_it_was(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    await sent(bob, his, b"first")
    assert await anna.application.messages(1) == [b"first"]
    await quiet(anna)
    [queue] = (await anna.records.read(receive_queues.of_connections, [hers]))[hers]
    place = model.queues[queue.recipient_id]
    before = await anna.records.read(ratchets.get, hers)
    place.subscriber = None
    for n in range(514):
        await sent(bob, his, b"%d" % n)
    kept = list(place.messages)
    place.messages.clear()
    place.messages.append(kept[513])
    assert isinstance(anna.port, ModelPort)
    anna.port.subscribe(queue.recipient_id)
    problem = await anna.application.read()
    assert isinstance(problem, Problem)
    assert "513 messages are missing" in problem.text
    assert await anna.records.read(ratchets.get, hers) == before
    await quiet(anna)
    place.messages.append(kept[0])
    anna.port.subscribe(queue.recipient_id)
    assert await anna.application.messages(1) == [b"0"]


async def test_a_message_that_is_sent_again_is_the_same_bytes(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    assert isinstance(bob.port, ModelPort)
    await quiet(bob)  # its acknowledgement of the handshake is not what is lost
    bob.port.script.extend([ModelPort.LOST])
    await sent(bob, his, b"once")
    await sent(bob, his, b"then")
    assert await anna.application.messages(2) == [b"once", b"then"]
    [queue] = (await anna.records.read(receive_queues.of_connections, [hers]))[hers]
    accepted = model.queues[queue.recipient_id].accepted
    assert len(accepted) == 4
    assert accepted[1] == accepted[2]


async def test_sending_waits_for_a_full_queue_and_goes_on_at_once(
    parties: MakeParty, model: ModelRouter
) -> None:
    """The recipient writes that there is room; order is kept."""
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    await quiet(anna)
    await quiet(bob)
    [queue] = (await anna.records.read(receive_queues.of_connections, [hers]))[hers]
    place = model.queues[queue.recipient_id]
    model.quota = 2
    bob.clock.is_held = True
    for n in range(4):
        await bob.sending.send(his, b"%d" % n)
    await quiet(bob)
    assert len(place.messages) == 2
    model.put_marker(place)
    assert await anna.application.messages(4) == [b"0", b"1", b"2", b"3"]


async def test_a_kem_that_nobody_has_cannot_be_wanted(parties: MakeParty) -> None:
    anna = await parties()
    with pytest.raises(ConfigError, match="pq"):
        await anna.connections.invite(1, ROUTER_ADDRESS, pq=True)


async def test_a_connection_that_is_deleted_sends_what_waits_and_is_gone(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    _, his = await connect(anna, bob)
    [queue] = (await bob.records.read(receive_queues.of_connections, [his]))[his]
    assert isinstance(bob.port, ModelPort)
    await quiet(bob)
    bob.port.script.append(NotConnected("away"))
    bob.clock.is_held = True
    await bob.sending.send(his, b"the last")
    await quiet(bob)
    await bob.connections.delete(his)
    await quiet(bob)
    assert queue.recipient_id in model.queues
    bob.clock.let_go()
    assert await anna.application.messages(1) == [b"the last"]
    while await bob.connections.find(1, his) is not None or bob.connections._commands._attempts:
        await quiet(bob)
    assert queue.recipient_id not in model.queues
    assert bob.port.gone == [queue.recipient_id]


@pytest.mark.parametrize(("hers", "his"), [(True, False), (False, True)])
async def test_a_kem_that_one_side_does_not_want_is_declined(
    parties: MakeParty, hers: bool, his: bool
) -> None:
    """The connection works without."""
    anna, bob = await parties(kem=CountingKem()), await parties(kem=CountingKem(1000))
    made = await anna.connections.invite(1, ROUTER_ADDRESS, auto_accept=True, pq=hers)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS, pq=his)
    for party, connection in ((anna, made.connection), (bob, joined)):
        assert isinstance(await party.application.read(), Info)
        assert await party.application.read() == Connected(connection.id)
    for n in range(3):
        await sent(bob, joined.id, b"%d" % n)
        assert await anna.application.messages(1) == [b"%d" % n]
        await sent(anna, made.connection.id, b"%d" % n)
        assert await bob.application.messages(1) == [b"%d" % n]
    for connection in (made.connection, joined):
        assert not (await connection.state()).is_post_quantum


async def test_a_kem_on_both_sides_is_used_from_the_second_turn_on(parties: MakeParty) -> None:
    """And takes room of messages."""
    anna, bob = await parties(kem=CountingKem()), await parties(kem=CountingKem(1000))
    hers, his = await connect(anna, bob, pq=True)
    await sent(bob, his, bytes(BODY_MAX_KEM))
    await anna.application.messages(1)
    await sent(anna, hers, b"a turn")
    assert await bob.application.messages(1) == [b"a turn"]
    assert (await anna.connections.state(hers)).is_post_quantum
    assert (await bob.connections.state(his)).is_post_quantum
    with pytest.raises(TooLong):
        await bob.sending.send(his, bytes(BODY_MAX_KEM + 1))


async def test_a_link_that_is_joined_again_is_gone_on_with(
    parties: MakeParty, model: ModelRouter
) -> None:
    """By whoever joined it: after an error of its own router, at another one, or when it does not
    know whether it had."""
    anna, bob = await parties(), await parties()
    made = await anna.connections.invite(1, ROUTER_ADDRESS, auto_accept=True)
    assert isinstance(bob.port, ModelPort)
    bob.port.script.extend([None, RequestRefused("AUTH")])  # SKEY works, and NEW wants a password
    with pytest.raises(RequestRefused, match="AUTH"):
        await bob.connections.join(1, made.link, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS, b"I am Bob")
    assert await anna.application.read() == Info(made.connection.id, b"I am Bob")
    assert await bob.connections.join(1, made.link, ROUTER_ADDRESS) == joined
    assert await bob.connections.everything(1) == [joined]


async def test_info_that_has_no_room_is_refused_before_the_link_is_used(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    made = await anna.connections.invite(1, ROUTER_ADDRESS)
    with pytest.raises(TooLong) as caught:
        await bob.connections.join(1, made.link, ROUTER_ADDRESS, bytes(15_000))
    await bob.connections.join(1, made.link, ROUTER_ADDRESS, bytes(caught.value.limit))
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    assert len(event.info) == caught.value.limit
    with pytest.raises(TooLong) as caught:
        await event.accept(bytes(15_000))
    await event.accept(bytes(caught.value.limit))
    assert await anna.application.read() == Connected(made.connection.id)


@pytest.mark.parametrize("pq", [False, True])
async def test_info_with_which_nobody_could_be_accepted_is_refused_at_once(
    parties: MakeParty, model: ModelRouter, pq: bool
) -> None:
    """When somebody answers, nobody is there who could be given the error."""
    anna, bob = await parties(kem=CountingKem()), await parties(kem=CountingKem(1000))
    with pytest.raises(TooLong) as caught:
        await anna.connections.invite(
            1, ROUTER_ADDRESS, info=bytes(15_000), auto_accept=True, pq=pq
        )
    longest = bytes(caught.value.limit)
    address = await anna.connections.address(1, ROUTER_ADDRESS, "shop")
    made = len(model.queues)
    with pytest.raises(TooLong):
        await bob.connections.join(1, address.link, ROUTER_ADDRESS, longest + b"1", pq=pq)
    assert len(model.queues) == made
    await bob.connections.join(1, address.link, ROUTER_ADDRESS, longest, pq=pq)
    request = await anna.application.read()
    assert isinstance(request, Request)
    accepted = await request.accept(pq=pq)
    assert await anna.application.read() == Info(accepted.id, longest)


async def test_a_text_in_place_of_bytes_is_refused(parties: MakeParty) -> None:
    anna = await parties()
    text: Any = "hello"
    for call in (
        anna.connections.invite(1, ROUTER_ADDRESS, info=text, auto_accept=True),
        anna.connections.join(1, "simplex:/contact#/?", ROUTER_ADDRESS, text),
        anna.connections.accept(b"", text),
        anna.connections.accept_request(1, text),
        anna.connections.send(b"", text),
    ):
        with pytest.raises(TypeError, match="encoded"):
            await call


async def test_a_peer_whose_queue_is_gone_fails_the_connection(
    parties: MakeParty, model: ModelRouter
) -> None:
    """Whoever is accepted may have left; whoever asked at an address that was deleted is told."""
    anna, bob = await parties(), await parties()
    made = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    [queue] = (await bob.records.read(receive_queues.of_connections, [joined.id]))[joined.id]
    del model.by_sender[queue.sender_id]
    await event.accept()
    failed = await anna.application.read()
    assert isinstance(failed, Failed)
    assert (failed.connection, failed.ids) == (made.connection.id, ())
    assert (await made.connection.state()).status is ConnectionStatus.FAILED
    with pytest.raises(LinkUsed):
        await made.connection.send(b"hello")
    address = await anna.connections.address(1, ROUTER_ADDRESS, "shop")
    await anna.connections.delete(address.connection)
    while not isinstance(anna.port, ModelPort) or not anna.port.gone:
        await quiet(anna)
    await quiet(anna)
    with pytest.raises(LinkUsed):
        await bob.connections.join(1, address.link, ROUTER_ADDRESS)


async def test_a_receipt_that_nobody_can_be_given_does_not_keep_a_message(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    await sent(bob, his, b"one")
    await sent(bob, his, b"two")
    message = await anna.application.message()
    await message.ack(receipt=True)
    to_bob = await anna.records.read(send_queues.of_connection, hers)
    del model.by_sender[to_bob[0].sender_id]
    message = await anna.application.message()
    await message.ack(receipt=True)
    await quiet(anna)
    [queue] = (await anna.records.read(receive_queues.of_connections, [hers]))[hers]
    assert not model.queues[queue.recipient_id].messages
