"""Envelopes from the peer of a connection: their kind, and what has to be stored with them.

Everything here is a function of a connection's records and of a fresh key. Wrong data is
`Malformed`, and then nothing is changed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.agent.connections.handshake import (
    CONFIRMATION_ID,
    offered_keys,
    ratchet_of,
    reply_target,
)
from headgate.agent.connections.status import Happening, next_status
from headgate.agent.records.connections import ConnectionRecord, ConnectionStatus
from headgate.agent.records.ratchets import RatchetRecord
from headgate.core.model.value import value
from headgate.crypto.kem import Kem
from headgate.errors import Malformed
from headgate.wire.smp.agent.agent_envelopes import (
    AgentConfirmation,
    AgentEnvelope,
    ConnectionRequest,
    EncryptedMessage,
    RatchetKey,
)
from headgate.wire.smp.agent.agent_messages import (
    AgentContent,
    ConnectionInfo,
    Finding,
    Integrity,
    MessageChain,
    NumberedMessage,
    ReplyQueues,
    SkippedIds,
    content_hash,
    parse_content,
)
from headgate.wire.smp.agent.ratchet import Decrypted
from headgate.wire.smp.agent.ratchet_start import answer_ratchet
from headgate.wire.smp.agent.skipped_keys import SkippedKeys
from headgate.wire.smp.agent.versions import AGENT_VERSIONS

BAD_HASH: Final = 2
DUPLICATE: Final = 4
BAD_ID: Final = 8
MISSING_SHIFT: Final = 8
"""Flags of a stored message, beside the one for a notice. The bits above them are the number of
messages missing before it."""

MISSING_MAX: Final = 2**48
"""Most missing messages that are counted; the number is kept in 64 bits."""

UNCONFIRMED: Final = (
    ConnectionStatus.NEW,
    ConnectionStatus.INVITED,
    ConnectionStatus.JOINING,
    ConnectionStatus.FAILED,
)
"""The statuses in which a peer has no ratchet with us yet, or none that is final."""


@value
class Came:
    """An opened envelope of the peer, and what has to be stored with it."""

    content: AgentContent
    id: int
    hash: bytes
    previous_hash: bytes
    ratchet: Decrypted = field(repr=False)
    is_first: bool
    """Whether it is the confirmation, which begins a ratchet or answers ours."""
    status: ConnectionStatus | None
    """The new status of the connection, if it changes."""
    agent_version: int
    finding: Finding


def open_envelope(
    record: ConnectionRecord,
    ratchet: RatchetRecord | None,
    skipped: SkippedKeys,
    envelope: AgentEnvelope,
    fresh: bytes,
    kem: Kem | None = None,
) -> Came:
    """Open an envelope of a connection. Raises `Malformed`; then nothing is changed. `fresh` is a
    private key of X448."""
    match envelope:
        case AgentConfirmation():
            return _open_confirmation(record, ratchet, envelope, fresh, kem)
        case EncryptedMessage():
            return _open_message(record, ratchet, skipped, envelope, fresh, kem)
        case RatchetKey():
            raise Malformed("the peer wants to begin its ratchet anew, which is not supported")
        case ConnectionRequest():
            raise Malformed("a request that is for the address of a contact")


def _open_confirmation(
    record: ConnectionRecord,
    ratchet: RatchetRecord | None,
    envelope: AgentConfirmation,
    fresh: bytes,
    kem: Kem | None,
) -> Came:
    version = _readable(envelope.version)
    if envelope.parameters is not None:
        status = next_status(record.status, Happening.CONFIRMED)
        if status is None:
            raise Malformed("a confirmation of a connection that was confirmed before")
        begun = answer_ratchet(offered_keys(ratchet), envelope.parameters, kem)
    else:
        status = next_status(record.status, Happening.INFORMED)
        if status is None:
            raise Malformed("an answer to a confirmation that we did not send")
        begun = ratchet_of(ratchet)
    decrypted = begun.decrypt(SkippedKeys(), envelope.encrypted, fresh, kem)
    content = parse_content(decrypted.plaintext)
    wanted = ConnectionInfo if envelope.parameters is None else ReplyQueues
    if not isinstance(content, wanted):
        raise Malformed("a confirmation without what belongs in it")
    if isinstance(content, ReplyQueues):
        reply_target(content)
    hash = content_hash(decrypted.plaintext)
    return Came(content, CONFIRMATION_ID, hash, b"", decrypted, True, status, version, Integrity.OK)


def _open_message(
    record: ConnectionRecord,
    ratchet: RatchetRecord | None,
    skipped: SkippedKeys,
    envelope: EncryptedMessage,
    fresh: bytes,
    kem: Kem | None,
) -> Came:
    if record.status in UNCONFIRMED:
        raise Malformed("a message before the confirmation")
    version = _readable(envelope.version)
    decrypted = ratchet_of(ratchet).decrypt(skipped, envelope.encrypted, fresh, kem)
    content = parse_content(decrypted.plaintext)
    if not isinstance(content, NumberedMessage):
        raise Malformed("a message without a number")
    chain = MessageChain(record.received_id, record.received_hash)
    hash = content_hash(decrypted.plaintext)
    finding = chain.check(content)
    return Came(
        content, content.id, hash, content.previous_hash, decrypted, False, None, version, finding
    )


def finding_flags(finding: Finding) -> int:
    """The integrity of a message, in the form stored with it."""
    match finding:
        case SkippedIds(first, last):
            # A peer may send any number.
            return min(last - first + 1, MISSING_MAX) << MISSING_SHIFT
        case Integrity.BAD_HASH:
            return BAD_HASH
        case Integrity.DUPLICATE:
            return DUPLICATE
        case Integrity.BAD_ID:
            return BAD_ID
        case Integrity.OK:
            return 0


def finding_of(flags: int, id: int) -> Finding:
    """The integrity of the message with this number, as stored."""
    missing = flags >> MISSING_SHIFT
    if missing:
        return SkippedIds(id - missing, id - 1)
    for flag, finding in (
        (BAD_HASH, Integrity.BAD_HASH),
        (DUPLICATE, Integrity.DUPLICATE),
        (BAD_ID, Integrity.BAD_ID),
    ):
        if flags & flag:
            return finding
    return Integrity.OK


def _readable(version: int) -> int:
    """The version for answers to a peer that used this one."""
    if version < AGENT_VERSIONS.lowest:
        raise Malformed("an agent of a version that we do not read")
    return min(version, AGENT_VERSIONS.highest)
