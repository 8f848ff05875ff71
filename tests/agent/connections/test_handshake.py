"""What follows from what, when two agents connect: every row of the table, and every refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.agent.connections.envelope_opening import (
    Came,
    finding_flags,
    finding_of,
    open_envelope,
)
from headgate.agent.connections.handshake import (
    FreshKeys,
    answer,
    confirm,
    invitation,
    offered_keys,
    offered_record,
    reply_target,
    send_queue,
    target_of,
)
from headgate.agent.connections.message_sealing import message_bytes, seal
from headgate.agent.connections.status import STATUSES, Happening, next_status
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.agent.records.connections import ConnectionStatus as S
from headgate.agent.records.outgoing import OutgoingMessage
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.send_queues import SendQueue
from headgate.core.model.parties import Purpose
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.errors import LinkUsed, Malformed, NoCommonVersion, StoreError, TooLong
from headgate.wire.smp.agent.agent_envelopes import (
    AgentConfirmation,
    AgentEnvelope,
    ConnectionRequest,
    RatchetKey,
    parse_envelope,
)
from headgate.wire.smp.agent.agent_messages import (
    ApplicationMessage,
    ConnectionInfo,
    Integrity,
    NumberedMessage,
    ReplyQueues,
    SkippedIds,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet_start import OfferedKeys
from headgate.wire.smp.agent.skipped_keys import SkippedKeys
from headgate.wire.smp.agent.versions import CLIENT_VERSIONS
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import ROUTER, x25519
from tests.support.ratchet_examples import x448

NOW = 1_800_000_000.0
NONCE = bytes(24)
HERS, HIS = b"connection A", b"connection B"
OFFERED = OfferedKeys(PrivatePair(x448(1), x448(2)))
NOTHING = SkippedKeys()


def address(private: bytes, sender_id: bytes) -> QueueAddress:
    key = encode_key(KeyKind.X25519, public_of(private))
    return QueueAddress(CLIENT_VERSIONS, ROUTER, sender_id, key, Purpose.MESSAGING)


HER_QUEUE, HIS_QUEUE = address(x25519(1), b"anna"), address(x25519(2), b"bob")
LINK = invitation(HER_QUEUE, OFFERED)
INVITED = ConnectionRecord(HERS, 1, ConnectionKind.DUPLEX, S.INVITED)
JOINING = ConnectionRecord(HIS, 1, ConnectionKind.DUPLEX, S.JOINING)


def to_her() -> SendQueue:
    return send_queue(target_of(LINK)[1], 1, HIS, b"key", x25519(3))


def inside(private: bytes, queue: SendQueue, message: OutgoingMessage) -> AgentEnvelope:
    """What the recipient finds in the body of a SEND."""
    assert queue.e2e_public is not None
    secret = shared_key(private, raw_key(queue.e2e_public))
    envelope = ClientEnvelope.parse(message_bytes(queue, message))
    return parse_envelope(envelope.open(secret).body)


def joined() -> tuple[ConnectionRecord, RatchetRecord, AgentEnvelope]:
    """Bob after his confirmation, and what Anna finds."""
    queue = to_her()
    fresh = FreshKeys(x448(3), x448(4), x448(5), NONCE)
    made = confirm(HIS, LINK, queue, HIS_QUEUE, b"I am Bob", fresh, NOW)
    record = replace(JOINING, agent_version=7, sent_id=1, sent_hash=made.message.hash)
    return record, made.ratchet, inside(x25519(1), queue, made.message)


def after(record: ConnectionRecord, came: Came) -> tuple[ConnectionRecord, RatchetRecord]:
    state = RatchetRecord(state=came.ratchet.ratchet.encode())
    record = replace(
        record,
        status=came.status or record.status,
        received_id=came.id,
        received_hash=came.hash,
        agent_version=came.agent_version,
    )
    return record, state


def confirmed() -> tuple[ConnectionRecord, RatchetRecord, Came]:
    """Anna after Bob's confirmation."""
    came = open_envelope(INVITED, offered_record(OFFERED), NOTHING, joined()[2], x448(6))
    return *after(INVITED, came), came


@pytest.mark.parametrize(
    ("status", "happening", "becomes"),
    [
        (S.NEW, Happening.INVITE, S.INVITED),
        (S.NEW, Happening.JOIN, S.JOINING),
        (S.INVITED, Happening.CONFIRMED, S.CONFIRMED),
        (S.CONFIRMED, Happening.ANSWERED, S.READY),
        (S.JOINING, Happening.INFORMED, S.READY),
        (S.JOINING, Happening.REFUSED, S.FAILED),
        (S.CONFIRMED, Happening.REFUSED, S.FAILED),
        (S.INVITED, Happening.REFUSED, S.FAILED),
        (S.READY, Happening.DELETE, S.DELETING),
    ],
)
def test_a_status_becomes_another(status: S, happening: Happening, becomes: S) -> None:
    assert next_status(status, happening) is becomes


def test_nothing_else_changes_a_status() -> None:
    others = {pair for pair in STATUSES if pair[1] is not Happening.DELETE}
    assert len(others) == 8
    assert next_status(S.CONFIRMED, Happening.CONFIRMED) is None
    assert next_status(S.READY, Happening.REFUSED) is None


def test_the_keys_of_an_offer_are_found_again() -> None:
    assert offered_keys(offered_record(OFFERED)) == OFFERED
    with pytest.raises(Malformed, match="no keys"):
        offered_keys(RatchetRecord(state=b"state"))


def test_a_whole_handshake_and_a_message_each_way() -> None:
    bob, his_ratchet, _ = joined()
    anna, her_ratchet, came = confirmed()
    assert isinstance(came.content, ReplyQueues)
    assert (came.content.info, came.status, came.id) == (b"I am Bob", S.CONFIRMED, 1)
    queue = send_queue(reply_target(came.content), 1, HERS, b"key", x25519(4))
    made = answer(anna, her_ratchet, queue, b"I am Anna", NONCE, NOW)
    anna = replace(anna, status=S.READY, sent_id=1, sent_hash=made.message.hash)
    got = open_envelope(bob, his_ratchet, NOTHING, inside(x25519(2), queue, made.message), x448(7))
    assert (got.content, got.status) == (ConnectionInfo(b"I am Anna"), S.READY)
    bob, his_ratchet = after(bob, got)
    kept, _ = seal(bob, his_ratchet, ApplicationMessage(b"hello"), NONCE, NOW)
    read = open_envelope(anna, her_ratchet, NOTHING, inside(x25519(1), to_her(), kept), x448(8))
    assert isinstance(read.content, NumberedMessage)
    assert (read.content.message, read.id) == (ApplicationMessage(b"hello"), 2)
    assert (read.finding, read.status) == (Integrity.OK, None)
    kept, _ = seal(anna, made.ratchet, ApplicationMessage(b"hi"), NONCE, NOW)
    read = open_envelope(bob, his_ratchet, NOTHING, inside(x25519(2), queue, kept), x448(9))
    assert (read.id, read.finding) == (2, Integrity.OK)


@pytest.mark.parametrize("status", [S.CONFIRMED, S.READY, S.JOINING, S.FAILED, S.DELETING])
def test_a_second_confirmation_is_refused(status: S) -> None:
    record = replace(INVITED, status=status)
    with pytest.raises(Malformed, match="confirmed before"):
        open_envelope(record, offered_record(OFFERED), NOTHING, joined()[2], x448(6))


def test_an_answer_that_nobody_waits_for_is_refused() -> None:
    with pytest.raises(Malformed, match="did not send"):
        open_envelope(INVITED, None, NOTHING, AgentConfirmation(7, None, b""), x448(6))


def test_what_has_no_place_in_a_connection_is_refused() -> None:
    envelope = joined()[2]
    assert isinstance(envelope, AgentConfirmation)
    assert envelope.parameters is not None
    anna, ratchet, _ = confirmed()
    with pytest.raises(Malformed, match="anew"):
        open_envelope(anna, ratchet, NOTHING, RatchetKey(7, envelope.parameters, b""), x448(6))
    with pytest.raises(Malformed, match="contact"):
        open_envelope(anna, ratchet, NOTHING, ConnectionRequest(7, LINK, b""), x448(6))
    old = replace(envelope, version=5)
    with pytest.raises(Malformed, match="version"):
        open_envelope(INVITED, offered_record(OFFERED), NOTHING, old, x448(6))


@pytest.mark.parametrize("status", [S.NEW, S.INVITED, S.JOINING, S.FAILED])
def test_a_message_before_the_confirmation_is_refused(status: S) -> None:
    bob, his_ratchet, _ = joined()
    kept, _ = seal(bob, his_ratchet, ApplicationMessage(b"early"), NONCE, NOW)
    record = replace(INVITED, status=status)
    with pytest.raises(Malformed, match="before the confirmation"):
        open_envelope(record, None, NOTHING, inside(x25519(1), to_her(), kept), x448(6))


def test_only_who_was_confirmed_can_be_accepted_and_once() -> None:
    anna, ratchet, came = confirmed()
    assert isinstance(came.content, ReplyQueues)
    queue = send_queue(reply_target(came.content), 1, HERS, b"key", x25519(4))
    for record in (replace(anna, status=S.INVITED), replace(anna, sent_id=1)):
        with pytest.raises(StoreError, match="nothing that could be accepted"):
            answer(record, ratchet, queue, b"", NONCE, NOW)


def test_what_cannot_be_sent_is_refused_before_anything_is_done() -> None:
    bob, ratchet, _ = joined()
    message = ApplicationMessage(b"body")
    with pytest.raises(LinkUsed):
        seal(replace(bob, status=S.FAILED), ratchet, message, NONCE, NOW)
    with pytest.raises(StoreError, match="deleted"):
        seal(replace(bob, status=S.DELETING), ratchet, message, NONCE, NOW)
    with pytest.raises(StoreError, match="not made yet"):
        seal(replace(bob, sent_id=0), ratchet, message, NONCE, NOW)
    seal(bob, ratchet, ApplicationMessage(bytes(15_795)), NONCE, NOW)
    with pytest.raises(TooLong):
        seal(bob, ratchet, ApplicationMessage(bytes(15_796)), NONCE, NOW)


def test_a_message_is_the_same_bytes_every_time() -> None:
    bob, ratchet, _ = joined()
    kept, _ = seal(bob, ratchet, ApplicationMessage(b"body"), NONCE, NOW, notify=True)
    assert message_bytes(to_her(), kept) == message_bytes(to_her(), kept)
    assert kept.flags == 1


def test_a_link_of_other_versions_is_refused() -> None:
    with pytest.raises(NoCommonVersion, match="8-9"):
        target_of(replace(LINK, versions=Versions(8, 9)))
    newer = replace(HER_QUEUE, versions=Versions(5, 6))
    with pytest.raises(NoCommonVersion, match="5-6"):
        target_of(replace(LINK, queues=(newer,)))
    contact = replace(HER_QUEUE, purpose=Purpose.CONTACT)
    with pytest.raises(Malformed, match="cannot secure"):
        target_of(replace(LINK, queues=(contact,)))
    with pytest.raises(Malformed, match="answer on"):
        reply_target(ReplyQueues((), b""))


@pytest.mark.parametrize("finding", [*Integrity, SkippedIds(3, 3), SkippedIds(3, 600)])
def test_a_finding_is_kept_with_its_message(finding: Integrity | SkippedIds) -> None:
    id = finding.last + 1 if isinstance(finding, SkippedIds) else 7
    assert finding_of(finding_flags(finding) | 1, id) == finding
