"""What agents send one another, around the ratchet and without it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed, TooLong
from headgate.wire.smp.agent.agent_envelopes import (
    AgentConfirmation,
    ConnectionRequest,
    EncryptedMessage,
    RatchetKey,
    application_body_max,
    check_body,
    parse_envelope,
    seal_confirmation,
    seal_message,
)
from headgate.wire.smp.agent.agent_messages import (
    ApplicationMessage,
    ConnectionInfo,
    ContinueSending,
    MessageChain,
    MessageReceipt,
    MessageReceipts,
    NumberedMessage,
    ReplyQueues,
    parse_content,
)
from headgate.wire.smp.agent.envelope import FIRST_PADDED, body_max
from headgate.wire.smp.agent.ratchet_parameters import RatchetParameters
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, answer_ratchet, join_ratchet
from headgate.wire.smp.agent.skipped_keys import SkippedKeys
from tests.support.agent_examples import QUEUE_INFO, ROUTER, digest, x25519_public
from tests.support.link_examples import CONTACT, INVITATION, invitations
from tests.support.ratchet_examples import (
    INITIATOR,
    JOINER,
    JOINER_FRESH,
    OFFER,
    OFFERED,
    CountingKem,
    parameters,
    x448,
)
from tests.support.smp_examples import LONG_KEY, larges

REPLY = ReplyQueues((QUEUE_INFO,), b"{}")
JOINED = join_ratchet(OFFER, JOINER, JOINER_FRESH)
NOTHING = SkippedKeys()


def test_the_confirmation_and_the_first_message_of_a_joiner() -> None:
    ratchet, confirmation = seal_confirmation(7, JOINED.ratchet, REPLY, JOINED.parameters)
    data = confirmation.encode()
    assert len(data) == 15119
    assert data.startswith(bytes.fromhex("00074331") + JOINED.parameters.encode())
    assert digest(data) == "826ee88c56df45c3fb2ad438509908150e7efcb64eed6555cf575d8c596350b5"
    chain = MessageChain().after_next(REPLY.encode())
    ratchet, message = seal_message(7, ratchet, chain.number(ApplicationMessage(b"hello")))
    assert len(message.encode()) == 15985
    assert message.encode().startswith(bytes.fromhex("00074d"))
    assert digest(message.encode()) == (
        "1ee4427a5da9acf59e4be480d01f61962fd53ecff4043966c06c9ea9a65b4e7a"
    )

    parsed = parse_envelope(data)
    assert isinstance(parsed, AgentConfirmation)
    assert parsed.parameters is not None
    initiator = answer_ratchet(OFFERED, parsed.parameters)
    opened = initiator.decrypt(NOTHING, parsed.encrypted, x448(0xA3))
    assert parse_content(opened.plaintext) == REPLY
    second = parse_envelope(message.encode())
    assert isinstance(second, EncryptedMessage)
    opened = opened.ratchet.decrypt(NOTHING, second.encrypted, x448(0xA4))
    content = parse_content(opened.plaintext)
    assert content == NumberedMessage(2, chain.hash, ApplicationMessage(b"hello"))

    _, answer = seal_confirmation(7, opened.ratchet, ConnectionInfo(b"{}"), None)
    assert answer.encode().startswith(bytes.fromhex("00074330"))
    parsed = parse_envelope(answer.encode())
    assert parsed == answer
    back = ratchet.decrypt(NOTHING, answer.encrypted, x448(0xB4))
    assert parse_content(back.plaintext) == ConnectionInfo(b"{}")


@pytest.mark.parametrize(("has_kem", "room"), [(False, 15_795), (True, 13_573)])
def test_a_body_fits_exactly_or_is_too_long(has_kem: bool, room: int) -> None:
    assert application_body_max(has_kem_room=has_kem) == room
    kem = CountingKem() if has_kem else None
    offered = OfferedKeys(INITIATOR)
    joined = join_ratchet(offered.offer(), JOINER, JOINER_FRESH, kem)
    chain = MessageChain(1, bytes(32))
    longest = chain.number(ApplicationMessage(b"x" * room))
    _, message = seal_message(7, joined.ratchet, longest)
    assert len(message.encode()) == 15985 <= body_max(None)
    initiator = answer_ratchet(offered, joined.parameters, kem)
    opened = initiator.decrypt(NOTHING, message.encrypted, x448(0xA3), kem)
    assert parse_content(opened.plaintext) == longest
    with pytest.raises(TooLong) as raised:
        seal_message(7, joined.ratchet, chain.number(ApplicationMessage(b"x" * (room + 1))))
    assert (raised.value.size, raised.value.limit) == (room + 1, room)
    check_body(b"x" * room, has_kem_room=has_kem)


def test_receipts_that_do_not_fit_are_too_long() -> None:
    receipts = MessageReceipts((MessageReceipt(1, bytes(32), b"x" * 16000),))
    with pytest.raises(TooLong):
        seal_message(7, JOINED.ratchet, MessageChain().number(receipts))
    seal_message(7, JOINED.ratchet, MessageChain().number(ContinueSending(ROUTER, b"id")))


@pytest.mark.parametrize("has_kem", [False, True])
def test_every_confirmation_has_room_in_a_first_message(has_kem: bool) -> None:
    kem = CountingKem() if has_kem else None
    offered = OfferedKeys(INITIATOR, kem.generate() if kem else None)
    joined = join_ratchet(offered.offer(), JOINER, JOINER_FRESH, kem)
    _, confirmation = seal_confirmation(7, joined.ratchet, REPLY, joined.parameters)
    assert len(confirmation.encode()) == (15817 if has_kem else 15119)
    assert len(confirmation.encode()) <= body_max(x25519_public(1)) < FIRST_PADDED
    if not has_kem:
        assert len(confirmation.encode()) <= body_max(x25519_public(1), LONG_KEY)


def test_a_request_to_a_contact() -> None:
    request = ConnectionRequest(7, INVITATION, b"{}")
    text = INVITATION.text.encode()
    assert request.encode() == b"\0\7I" + len(text).to_bytes(2, "big") + text + b"{}"
    assert parse_envelope(request.encode()) == request


def test_a_key_for_a_new_ratchet() -> None:
    key = RatchetKey(7, RatchetParameters(3, JOINER.public), b"info")
    assert key.encode() == b"\0\7R" + RatchetParameters(3, JOINER.public).encode() + b"info"
    assert parse_envelope(key.encode()) == key


@given(
    st.one_of(
        st.builds(AgentConfirmation, st.integers(0, 65535), st.none() | parameters, larges),
        st.builds(EncryptedMessage, st.integers(0, 65535), larges),
        st.builds(ConnectionRequest, st.integers(0, 65535), invitations, larges),
        st.builds(RatchetKey, st.integers(0, 65535), parameters, larges),
    )
)
def test_an_envelope_is_read_as_it_was_written(
    envelope: AgentConfirmation | EncryptedMessage | ConnectionRequest | RatchetKey,
) -> None:
    assert parse_envelope(envelope.encode()) == envelope


CONTACT_TEXT = CONTACT.text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\7",
        b"\0\7X",
        b"\0\7C",
        b"\0\7C2",
        b"\0\7C1\0\3",
        b"\0\7I\0\2",
        b"\0\7I\0\4\xff\xff\xff\xff",
        b"\0\7I" + len(CONTACT_TEXT).to_bytes(2, "big") + CONTACT_TEXT,
        b"\0\7R\0\3",
    ],
)
def test_what_is_no_envelope_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_envelope(data)


@given(st.binary(max_size=100), st.sampled_from([b"", b"\0\7C1", b"\0\7I\0", b"\0\7R\0\3\x44"]))
def test_any_bytes_are_an_envelope_or_malformed(data: bytes, prefix: bytes) -> None:
    try:
        envelope = parse_envelope(prefix + data)
    except Malformed:
        return
    assert parse_envelope(envelope.encode()) == envelope


def test_bodies_are_not_shown() -> None:
    key = RatchetKey(7, RatchetParameters(3, JOINER.public), b"sesame")
    request = ConnectionRequest(7, INVITATION, b"sesame")
    assert "sesame" not in repr((key, request, EncryptedMessage(7, b"sesame")))
