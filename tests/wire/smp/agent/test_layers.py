"""All layers together: two agents connect and write, with nothing between them but bytes."""

from __future__ import annotations

from headgate.core.model.parties import Purpose
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.wire.smp.agent.agent_envelopes import (
    AgentConfirmation,
    ConnectionRequest,
    EncryptedMessage,
    parse_envelope,
    seal_confirmation,
    seal_message,
)
from headgate.wire.smp.agent.agent_messages import (
    ApplicationMessage,
    ConnectionInfo,
    Integrity,
    MessageChain,
    MessageReceipt,
    MessageReceipts,
    NumberedMessage,
    ReplyQueues,
    parse_content,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.agent.links import ContactLink, InvitationLink, parse_link
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet import Ratchet
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, answer_ratchet, join_ratchet
from headgate.wire.smp.agent.skipped_keys import SkippedKeys
from headgate.wire.smp.agent.versions import AGENT_VERSIONS, CLIENT_VERSIONS
from tests.support.agent_examples import ROUTER, x25519
from tests.support.ratchet_examples import x448

NOTHING = SkippedKeys()


def address(private: bytes, sender_id: bytes, purpose: Purpose) -> QueueAddress:
    key = encode_key(KeyKind.X25519, public_of(private))
    return QueueAddress(CLIENT_VERSIONS, ROUTER, sender_id, key, purpose)


def send(private: bytes, queue_key: bytes, body: bytes, *, is_first: bool = False) -> bytes:
    """The body of a SEND."""
    shared = shared_key(private, raw_key(queue_key))
    own = encode_key(KeyKind.X25519, public_of(private)) if is_first else None
    return ClientEnvelope.seal(4, shared, bytes(24), EnvelopeContents(None, body), own).encode()


def receive(shared: bytes, data: bytes) -> bytes:
    return ClientEnvelope.parse(data).open(shared).body


def agreed(private: bytes, data: bytes) -> bytes:
    """With whoever sent a first message."""
    key = ClientEnvelope.parse(data).exchange_key
    assert key is not None
    return shared_key(private, raw_key(key))


def opened(ratchet: Ratchet, encrypted: bytes, fresh: int) -> tuple[Ratchet, bytes]:
    result = ratchet.decrypt(NOTHING, encrypted, x448(fresh))
    return result.ratchet, result.plaintext


def test_an_invitation_becomes_a_connection() -> None:
    # Anna makes a queue and hands out a link.
    offered = OfferedKeys(PrivatePair(x448(1), x448(2)))
    queue = address(x25519(1), b"anna", Purpose.MESSAGING)
    text = InvitationLink(AGENT_VERSIONS, (queue,), offered.offer()).text

    # Bob reads it, makes a queue to be answered on, and confirms.
    link = parse_link(text)
    assert isinstance(link, InvitationLink)
    version = AGENT_VERSIONS.common(link.versions)
    assert version == 7
    joined = join_ratchet(link.offer, PrivatePair(x448(3), x448(4)), x448(5))
    reply = address(x25519(2), b"bob", Purpose.MESSAGING).at(4)
    content = ReplyQueues((reply,), b"I am Bob")
    bob_sent = MessageChain().after_next(content.encode())
    bob, confirmation = seal_confirmation(version, joined.ratchet, content, joined.parameters)
    first = send(x25519(3), link.queues[0].key, confirmation.encode(), is_first=True)

    # Anna opens it, makes her ratchet, and answers.
    anna_key = agreed(x25519(1), first)
    envelope = parse_envelope(receive(anna_key, first))
    assert isinstance(envelope, AgentConfirmation)
    assert envelope.parameters is not None
    anna = answer_ratchet(offered, envelope.parameters)
    anna, plaintext = opened(anna, envelope.encrypted, 6)
    answered = parse_content(plaintext)
    assert isinstance(answered, ReplyQueues)
    assert (answered.info, answered.queues) == (b"I am Bob", (reply,))
    anna_received = MessageChain().after_next(plaintext)
    anna, confirmation = seal_confirmation(version, anna, ConnectionInfo(b"I am Anna"), None)
    second = send(x25519(4), answered.queues[0].key, confirmation.encode(), is_first=True)

    # Bob opens the answer.
    bob_key = agreed(x25519(2), second)
    envelope = parse_envelope(receive(bob_key, second))
    assert isinstance(envelope, AgentConfirmation)
    bob, plaintext = opened(bob, envelope.encrypted, 7)
    assert parse_content(plaintext) == ConnectionInfo(b"I am Anna")
    anna_sent = bob_received = MessageChain().after_next(plaintext)

    # A message, and its receipt.
    bob, message = seal_message(version, bob, bob_sent.number(ApplicationMessage(b"hello")))
    third = send(x25519(3), queue.key, message.encode())
    envelope = parse_envelope(receive(anna_key, third))
    assert isinstance(envelope, EncryptedMessage)
    anna, plaintext = opened(anna, envelope.encrypted, 8)
    came = parse_content(plaintext)
    assert isinstance(came, NumberedMessage)
    assert (came.id, came.message) == (2, ApplicationMessage(b"hello"))
    assert anna_received.check(came) is Integrity.OK
    anna_received = anna_received.after(came.id, plaintext)
    receipts = MessageReceipts((MessageReceipt(came.id, anna_received.hash),))
    anna, message = seal_message(version, anna, anna_sent.number(receipts))
    fourth = send(x25519(4), reply.key, message.encode())
    envelope = parse_envelope(receive(bob_key, fourth))
    assert isinstance(envelope, EncryptedMessage)
    bob, plaintext = opened(bob, envelope.encrypted, 9)
    came = parse_content(plaintext)
    assert isinstance(came, NumberedMessage)
    assert bob_received.check(came) is Integrity.OK
    assert came.message == receipts


def test_a_request_to_a_contact_is_an_invitation_to_its_owner() -> None:
    contact = address(x25519(1), b"shop", Purpose.CONTACT)
    link = parse_link(ContactLink(AGENT_VERSIONS, (contact,)).text)
    assert isinstance(link, ContactLink)
    offered = OfferedKeys(PrivatePair(x448(1), x448(2)))
    own = InvitationLink(
        AGENT_VERSIONS, (address(x25519(2), b"me", Purpose.MESSAGING),), offered.offer()
    )
    request = ConnectionRequest(7, own, b"who I am")
    data = send(x25519(3), link.queues[0].key, request.encode(), is_first=True)
    assert len(data) == 15992
    found = parse_envelope(receive(agreed(x25519(1), data), data))
    assert found == request
