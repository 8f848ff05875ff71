"""What peers and strangers may send: reported, never a crash, and never in the way of the rest."""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headgate.agent.connections import ratchet_openers
from headgate.agent.connections.connection import Connection, Invitation
from headgate.agent.connections.handshake import first_envelope, invitation
from headgate.agent.events import (
    Confirmation,
    Connected,
    Message,
    Problem,
    ProblemKind,
    Receipt,
    Request,
    Sent,
)
from headgate.agent.model import ConnectionId
from headgate.agent.records import Database, connections, ratchets, receive_queues, send_queues
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.send_queues import SendQueue
from headgate.core.model.parties import Purpose
from headgate.crypto.box import NONCE_BYTES, public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.ratchet_keys import PrivatePair, PublicPair
from headgate.errors import HeadgateError, Malformed, NoCommonVersion
from headgate.wire.smp.agent.agent_envelopes import (
    AgentConfirmation,
    ConnectionRequest,
    EncryptedMessage,
    RatchetKey,
)
from headgate.wire.smp.agent.agent_messages import (
    ApplicationMessage,
    MessageReceipt,
    MessageReceipts,
    NumberedMessage,
    SkippedIds,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.agent.links import InvitationLink
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet_parameters import RatchetParameters
from headgate.wire.smp.agent.ratchet_start import OfferedKeys
from headgate.wire.smp.agent.versions import AGENT_VERSIONS, CLIENT_VERSIONS
from headgate.wire.smp.handshake import Versions
from tests.agent.conftest import MakeParty
from tests.agent.connections.test_connections import connect, sent
from tests.support.agent_delivery import (
    ROUTER_ADDRESS,
    ModelPort,
    ModelQueue,
    ModelRouter,
    Party,
    quiet,
)
from tests.support.ratchet_examples import x448

NONCE = bytes(NONCE_BYTES)
PARAMETERS = RatchetParameters(2, PrivatePair(x448(1), x448(2)).public)
LOW_ORDER = PublicPair(bytes(56), bytes(56))
"""Keys with which every exchange has one result."""


async def queue_of(party: Party, connection: ConnectionId) -> ReceiveQueue:
    [queue] = (await party.records.read(receive_queues.of_connections, [connection]))[connection]
    return queue


async def send_queue_of(party: Party, connection: ConnectionId) -> SendQueue:
    [queue] = await party.records.read(send_queues.of_connection, connection)
    return queue


async def problem_of(party: Party, connection: ConnectionId) -> str:
    event = await party.application.read()
    assert isinstance(event, Problem), event
    assert (event.kind, event.connection) == (ProblemKind.UNREADABLE, connection)
    return event.text


def own_link(versions: Versions = AGENT_VERSIONS) -> InvitationLink:
    key = encode_key(KeyKind.X25519, public_of(b"p" * 32))
    address = QueueAddress(CLIENT_VERSIONS, ROUTER_ADDRESS, b"s" * 24, key, Purpose.MESSAGING)
    link = invitation(address, OfferedKeys(PrivatePair(x448(1), x448(2))))
    return replace(link, versions=versions)


@pytest.mark.parametrize(
    "inside",
    [
        b"",
        b"garbage" * 100,
        b"\0\7Zunknown",
        AgentConfirmation(7, None, b"garbage" * 30).encode(),
        AgentConfirmation(7, PARAMETERS, b"garbage" * 30).encode(),
        EncryptedMessage(7, b"").encode(),
        EncryptedMessage(7, b"\0\x7b" + bytes(16000 - 200)).encode(),
        RatchetKey(7, PARAMETERS, b"").encode(),
        ConnectionRequest(7, own_link(), b"").encode(),
    ],
    ids=[
        *("nothing", "garbage", "unknown", "answer", "confirmation", "no message", "zeros"),
        *("ratchet key", "request"),
    ],
)
async def test_nonsense_that_the_peer_sealed_is_reported_and_the_next_message_comes(
    parties: MakeParty, model: ModelRouter, inside: bytes
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    before = await anna.records.read(ratchets.get, hers)
    to_her = await send_queue_of(bob, his)
    assert to_her.e2e_key is not None
    contents = EnvelopeContents(None, inside)
    sealed = ClientEnvelope.seal(to_her.client_version, to_her.e2e_key, NONCE, contents)
    place = model.by_sender[to_her.sender_id]
    model.put(place, sealed.encode())
    assert await problem_of(anna, hers)
    assert await anna.records.read(ratchets.get, hers) == before
    await sent(bob, his, b"well")
    assert await anna.application.messages(1) == [b"well"]
    await quiet(anna)
    assert not place.messages


class Nonsense:
    """Something that no agent writes, inside of a ratchet that works."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def encode(self) -> bytes:
        return self.content


@pytest.mark.parametrize("content", [b"", b"Z", b"QZ", b"QC\1", b"V\0", b"E\0", b"Hmore"])
async def test_nonsense_inside_of_the_ratchet_is_reported_and_the_next_message_comes(
    parties: MakeParty, content: bytes
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    await bob.sending.send_control(his, Nonsense(content))  # type: ignore[arg-type]
    assert await problem_of(anna, hers)
    await sent(bob, his, b"well")
    message = await anna.application.message()
    # The one before was not what it should be, so it is missing.
    assert (message.body, message.integrity) == (b"well", SkippedIds(2, 2))


@pytest.mark.parametrize("number", [2**63 - 1, 2**62, -5, 0])
async def test_any_number_of_a_message_is_stored_and_its_finding_shown(
    parties: MakeParty, number: int
) -> None:
    """A number is the peer's to write, and 64 bits are all there is to keep it in."""
    anna, bob = await parties(), await parties()
    _, his = await connect(anna, bob)

    def jump(tables: Database) -> None:
        tables.change("UPDATE connections SET sent_id = ? WHERE id = ?", number - 1, his)

    await bob.records.write(jump)
    await sent(bob, his, b"from afar")
    message = await anna.application.message()
    assert message.body == b"from afar"
    assert message.integrity is not None
    await message.ack(receipt=True)
    receipt = await bob.application.read()
    assert isinstance(receipt, Receipt)
    assert receipt.ids == (number,)


async def test_receipts_for_what_was_never_sent_are_shown_as_they_are(parties: MakeParty) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    ids = (-1, 0, 2**63 - 1)
    await bob.sending.send_control(
        his, MessageReceipts(tuple(MessageReceipt(id, b"") for id in ids))
    )
    assert await anna.application.read() == Receipt(hers, ids)


async def test_a_confirmation_that_is_sent_again_is_acknowledged_and_changes_nothing(
    parties: MakeParty, model: ModelRouter
) -> None:
    """While it waits to be accepted, and after it."""
    anna, bob = await parties(), await parties()
    made = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    queue = await queue_of(anna, made.connection.id)
    place = model.queues[queue.recipient_id]
    for _ in range(2):
        model.put(place, place.accepted[0])
        await quiet(anna)
        assert not anna.application.waiting
        assert not place.messages
    await event.accept()
    assert await anna.application.read() == Connected(made.connection.id)
    model.put(place, place.accepted[0])
    await quiet(anna)
    assert not anna.application.waiting
    await sent_after_events(bob, joined, b"well")
    assert await anna.application.messages(1) == [b"well"]


async def sent_after_events(party: Party, connection: Connection, body: bytes) -> None:
    """Send, and read until it was."""
    id = await connection.send(body)
    while await party.application.read() != Sent(connection.id, id):
        pass


async def test_a_message_that_is_sent_again_is_shown_once(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    await sent(bob, his, b"once")
    assert await anna.application.messages(1) == [b"once"]
    queue = await queue_of(anna, hers)
    place = model.queues[queue.recipient_id]
    for _ in range(3):
        model.put(place, place.accepted[-1])
    await sent(bob, his, b"then")
    assert await anna.application.messages(1) == [b"then"]
    assert not anna.application.waiting


async def test_a_reply_queue_that_another_connection_uses_is_refused(
    parties: MakeParty, model: ModelRouter
) -> None:
    """A peer names the queue on which it wants to be answered; it cannot have another's."""
    anna, bob, eve = await parties(), await parties(), await parties()
    hers, _ = await connect(anna, bob)
    to_bob = await send_queue_of(anna, hers)
    second = await anna.connections.invite(1, ROUTER_ADDRESS)
    real = model.make

    def make(dh: bytes, link: object = None) -> object:
        ids = real(dh)
        return replace(ids, sender=to_bob.sender_id)

    model.make = make  # type: ignore[method-assign, assignment]
    await eve.connections.join(1, second.link, ROUTER_ADDRESS)
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    with pytest.raises(HeadgateError, match="another connection"):
        await event.accept()
    await sent(anna, hers, b"to bob")
    assert await bob.application.messages(1) == [b"to bob"]


# Strangers at an address.


async def put_request(model: ModelRouter, address: QueueAddress, request: bytes) -> ModelQueue:
    """What anybody may send."""
    private = b"q" * 32
    secret = shared_key(private, raw_key(address.key))
    public = encode_key(KeyKind.X25519, public_of(private))
    queue = SendQueue(1, address.sender_id, b"", b"", secret, public)
    place = model.by_sender[address.sender_id]
    model.put(place, first_envelope(queue, request, NONCE))
    return place


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"garbage",
        ConnectionRequest(7, own_link(Versions(8, 9)), b"").encode(),
        ConnectionRequest(7, replace(own_link(), queues=own_link().queues * 3), b"").encode()[:90],
        ConnectionRequest(
            7, replace(own_link(), offer=replace(own_link().offer, keys=LOW_ORDER)), b""
        ).encode(),
        AgentConfirmation(7, PARAMETERS, b"").encode(),
    ],
    ids=["garbage", "other versions", "cut", "bad keys", "confirmation"],
)
async def test_a_bad_request_is_reported_and_the_next_one_comes(
    parties: MakeParty, model: ModelRouter, request_bytes: bytes
) -> None:
    anna, bob = await parties(), await parties()
    address = await anna.connections.address(1, ROUTER_ADDRESS, "shop")
    [queue] = address.link.queues  # type: ignore[union-attr]
    place = await put_request(model, queue, request_bytes)
    assert await problem_of(anna, address.connection)
    await bob.connections.join(1, str(address.link), ROUTER_ADDRESS, b"I am Bob")
    request = await anna.application.read()
    assert isinstance(request, Request)
    assert request.info == b"I am Bob"
    await quiet(anna)
    assert not place.messages


async def test_requests_that_nobody_answers_are_bounded_and_read_when_they_are_shown(
    parties: MakeParty, model: ModelRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratchet_openers, "REQUESTS_MAX", 3)
    anna = await parties()
    address = await anna.connections.address(1, ROUTER_ADDRESS, "shop")
    [queue] = address.link.queues  # type: ignore[union-attr]
    for n in range(5):
        info = b"%d" % n
        await put_request(model, queue, ConnectionRequest(7, own_link(), info).encode())
    await quiet(anna)
    # What was sent is read when the application comes to it, and not if it was answered.
    await anna.connections.reject_request(1)
    found: list[bytes] = []
    problems = 0
    while anna.application.waiting:
        event = await anna.application.read()
        if isinstance(event, Request):
            found.append(event.info)
            await event.reject()
        else:
            assert isinstance(event, Problem)
            problems += 1
    assert (found, problems) == ([b"1", b"2"], 2)
    # There is room again.
    await put_request(model, queue, ConnectionRequest(7, own_link(), b"late").encode())
    event = await anna.application.read()
    assert isinstance(event, Request)
    assert event.info == b"late"


# Links.


def changed(link: InvitationLink, **fields: object) -> str:
    return replace(link, **fields).text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "link",
    [
        *("", "x", "simplex:/invitation#/?", "simplex:/contact#/?v=6-7", "simplex:/i#a/b?h=c"),
        "simplex:/invitation#/?v=6-7&smp=smp%3A%2F%2F&e2e=" + "A" * 100_000,
        own_link().text[:-30],
        own_link().text.replace("smp=", "smp=%00"),
        changed(own_link(), versions=Versions(1, 5)),
        changed(own_link(), versions=Versions(8, 9)),
        changed(own_link(), queues=(replace(own_link().queues[0], versions=Versions(9, 9)),)),
        changed(own_link(), queues=(replace(own_link().queues[0], purpose=Purpose.CONTACT),)),
        changed(own_link(), offer=replace(own_link().offer, keys=LOW_ORDER)),
        changed(own_link(), offer=replace(own_link().offer, versions=Versions(9, 9))),
    ],
)
async def test_a_bad_link_is_refused_and_nothing_is_stored_or_sent(
    parties: MakeParty, link: str
) -> None:
    bob = await parties()
    with pytest.raises((Malformed, NoCommonVersion)):
        await bob.connections.join(1, link, ROUTER_ADDRESS)
    assert await bob.records.read(connections.page, 1) == []
    assert isinstance(bob.port, ModelPort)
    assert bob.port.asked == []


# Bombs, and secrets.


async def test_bodies_and_infos_are_not_unpacked(parties: MakeParty) -> None:
    """What grows when it is read is the application's to read: an agent hands it on as it is."""
    bombs: Sequence[bytes] = (
        zlib.compress(bytes(10_000_000))[:14000],
        b"[" * 14000,
        json.dumps({"a": "b" * 13000}).encode(),
        b"X\1" + b"1" + bytes.fromhex("28b52ffd") + bytes(1000),
    )
    anna, bob = await parties(), await parties()
    for bomb in bombs:
        made = await anna.connections.invite(1, ROUTER_ADDRESS)
        joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS, bomb)
        event = await anna.application.read()
        assert isinstance(event, Confirmation)
        assert event.info == bomb
        await event.accept()
        await anna.application.read()
        await sent_after_events(bob, joined, bomb)
        assert await anna.application.messages(1) == [bomb]


async def test_no_secret_is_shown_in_events_errors_or_the_log(
    parties: MakeParty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    anna, bob = await parties(), await parties()
    shown: list[object] = []
    made: Invitation = await anna.connections.invite(1, ROUTER_ADDRESS)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS, b"secret info")
    event = await anna.application.read()
    assert isinstance(event, Confirmation)
    await event.accept(b"secret info")
    shown += [made, joined, event, await made.connection.state(), *bob.application.waiting]
    with pytest.raises(HeadgateError) as caught:
        await event.accept(b"secret info")
    shown.append(caught.value)
    await sent_after_events(bob, joined, b"secret body")
    await anna.application.read()
    message = await anna.application.message()
    assert isinstance(message, Message)
    shown += [message, anna.connections, anna.receiving, anna.sending]
    secrets = [b"secret info", b"secret body"]
    for party, connection in ((anna, made.connection), (bob, joined)):
        ratchet = await party.records.read(ratchets.get, connection.id)
        assert ratchet is not None
        assert ratchet.state is not None
        queue, to = await queue_of(party, connection.id), await send_queue_of(party, connection.id)
        shown += [ratchet, queue, to]
        secrets += [queue.private_key, queue.dh_key, queue.e2e_private, ratchet.state]
        secrets += [each for each in (queue.e2e_key, to.private_key, to.e2e_key) if each]
    texts = [*map(repr, shown), *map(str, shown), caplog.text]
    for text in texts:
        for secret in secrets:
            for form in (repr(secret)[2:-1], secret.hex(), base64.b64encode(secret).decode()):
                assert form not in text


def test_a_numbered_message_does_not_show_its_body() -> None:
    message = NumberedMessage(1, b"", ApplicationMessage(b"secret"))
    assert "secret" not in repr(message)


async def test_records_from_a_backup_are_reported_and_crash_nothing(
    parties: MakeParty, model: ModelRouter
) -> None:
    """The ratchet is behind: what cannot be opened is reported, on either side, and a new
    connection works."""
    anna, bob = await parties(), await parties()
    hers, his = await connect(anna, bob)
    backup = await anna.records.read(ratchets.get, hers)
    record = await anna.records.read(connections.get, hers)
    assert backup is not None
    assert record is not None
    for n in range(2):
        await sent(bob, his, b"%d" % n)
        await anna.application.messages(1)
        await sent(anna, hers, b"%d" % n)
        await bob.application.messages(1)

    def restore(tables: Database) -> None:
        ratchets.put(tables, hers, backup)
        tables.change(
            "UPDATE connections SET sent_id = ?, sent_hash = ? WHERE id = ?",
            record.sent_id,
            record.sent_hash,
            hers,
        )

    await anna.records.write(restore)
    await sent(bob, his, b"lost")
    assert await problem_of(anna, hers)
    await sent(anna, hers, b"lost, too")
    assert await problem_of(bob, his)
    await quiet(anna)
    await quiet(bob)
    assert not any(queue.messages for queue in model.queues.values())
    made = await anna.connections.invite(1, ROUTER_ADDRESS, auto_accept=True)
    joined = await bob.connections.join(1, made.link, ROUTER_ADDRESS)
    await sent_after_events(bob, joined, b"well")
