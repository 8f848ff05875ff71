"""Messages to the peer of a connection after the handshake: sealed once, sent until they arrive.

A message is stored as its plaintext and its sealing key, and is the same bytes every time: the
ratchet has advanced since.
"""

from __future__ import annotations

from typing import Final

from headgate.agent.connections.handshake import NOTIFY, ratchet_of
from headgate.agent.records.connections import ConnectionRecord, ConnectionStatus
from headgate.agent.records.outgoing import OutgoingMessage, Sealing
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.send_queues import SendQueue
from headgate.crypto.padding import LENGTH_BYTES
from headgate.errors import LinkUsed, StoreError, TooLong
from headgate.wire.smp.agent.agent_envelopes import (
    MESSAGE_PADDED,
    MESSAGE_PADDED_KEM,
    EncryptedMessage,
    check_body,
)
from headgate.wire.smp.agent.agent_messages import (
    AgentMessage,
    ApplicationMessage,
    MessageChain,
    content_hash,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.agent.message_key import ASSOCIATED_BYTES, MessageKey
from headgate.wire.smp.agent.versions import AGENT_VERSIONS
from headgate.wire.smp.codec.encoding import FieldReader, word16

MESSAGE: Final = "message"
CONTROL: Final = "control"
"""Kinds of outgoing messages: bytes of the application, and messages of the agent itself."""

IV_BYTES: Final = 16


def seal(
    record: ConnectionRecord,
    ratchet: RatchetRecord | None,
    message: AgentMessage,
    nonce: bytes,
    now: float,
    *,
    notify: bool = False,
) -> tuple[OutgoingMessage, bytes]:
    """A message in its stored form, and the state of the ratchet after it. Raises `TooLong` before
    anything is changed, and `LinkUsed` if the connection failed."""
    if record.status is ConnectionStatus.FAILED:
        raise LinkUsed("this link")
    if record.deleted or record.status is ConnectionStatus.DELETING:
        raise StoreError("the connection is being deleted")
    # A joiner may write as soon as it has confirmed; the inviter, once it has accepted.
    if not record.sent_id:
        raise StoreError("the connection is not made yet: wait until it is Connected")
    state = ratchet_of(ratchet)
    numbered = MessageChain(record.sent_id, record.sent_hash).number(message)
    plaintext = numbered.encode()
    padded = MESSAGE_PADDED_KEM if state.has_kem_room else MESSAGE_PADDED
    is_application = isinstance(message, ApplicationMessage)
    if isinstance(message, ApplicationMessage):
        check_body(message.body, has_kem_room=state.has_kem_room)
    elif len(plaintext) > padded - LENGTH_BYTES:
        raise TooLong(len(plaintext), padded - LENGTH_BYTES)
    after, key = state.advance()
    # The data for making the same bytes each time: the ratchet has advanced.
    version = record.agent_version or AGENT_VERSIONS.lowest
    header = word16(version) + key.associated_data + key.header
    sealing = Sealing(key.key, key.iv + nonce, header, padded)
    kept = OutgoingMessage(
        record.id,
        numbered.id,
        MESSAGE if is_application else CONTROL,
        plaintext,
        content_hash(plaintext),
        now,
        NOTIFY if notify else 0,
        sealing,
    )
    return kept, after.encode()


def message_bytes(queue: SendQueue, message: OutgoingMessage) -> bytes:
    """The body of a SEND of a sealed message: the same every time."""
    if message.sealing is None:
        return message.body
    sealing = message.sealing
    assert queue.e2e_key is not None, "kept with the queue"
    iv, nonce = sealing.iv[:IV_BYTES], sealing.iv[IV_BYTES:]
    reader = FieldReader(sealing.header)
    version, beside = reader.word16(), reader.take(ASSOCIATED_BYTES)
    key = MessageKey(sealing.key, iv, reader.rest(), beside)
    encrypted = key.seal(message.body, sealing.padded_length)
    contents = EnvelopeContents(None, EncryptedMessage(version, encrypted).encode())
    return ClientEnvelope.seal(queue.client_version, queue.e2e_key, nonce, contents).encode()
