"""The handshake of two agents: links, confirmations and requests, as they are made.

Everything here is a function of a connection's records and of fresh keys, which are arguments. The
result has to be stored, in one transaction, before anything is sent. `envelope_opening` opens the
peer's part. See docs/design/agent-connections.md.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.agent.model import ConnectionId, RouterId
from headgate.agent.records.connections import ConnectionRecord, ConnectionStatus
from headgate.agent.records.outgoing import OutgoingMessage
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.send_queues import SendQueue
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.kem import Kem, KemKeyPair
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.padding import LENGTH_BYTES
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import Malformed, NoCommonVersion, StoreError, TooLong
from headgate.wire.smp.agent.agent_envelopes import (
    CONFIRMATION_PADDED,
    CONFIRMATION_PADDED_KEM,
    ConnectionRequest,
    seal_confirmation,
)
from headgate.wire.smp.agent.agent_messages import (
    AgentContent,
    ConnectionInfo,
    ReplyQueues,
    content_hash,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents
from headgate.wire.smp.agent.links import ContactLink, InvitationLink
from headgate.wire.smp.agent.queue_address import QueueAddress, QueueInfo
from headgate.wire.smp.agent.ratchet import Ratchet
from headgate.wire.smp.agent.ratchet_parameters import RatchetParameters
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, join_ratchet
from headgate.wire.smp.agent.versions import AGENT_VERSIONS, CLIENT_VERSIONS, format_versions
from headgate.wire.smp.codec.encoding import FieldReader, large
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Versions

CONFIRMATION: Final = "confirmation"
"""The kind of an outgoing message that is the first on a queue."""

CONFIRMATION_ID: Final = 1
"""The number of a confirmation in either direction, although it is not sent."""

NOTIFY: Final = 1
"""The flag of a message that asks for a notice to its recipient."""

SENDER_ID_BYTES: Final = 24
"""Length of the id that a router gives a queue for its senders."""


# Inviting.


def offered_record(offered: OfferedKeys) -> RatchetRecord:
    """The stored form of an offer, until it is answered."""
    kem = None
    if offered.kem is not None:
        kem = large(offered.kem.public) + large(offered.kem.private)
    return RatchetRecord(offered.keys.first, offered.keys.second, kem)


def offered_keys(ratchet: RatchetRecord | None) -> OfferedKeys:
    """The offer in its stored form."""
    if ratchet is None or ratchet.x3dh_1 is None or ratchet.x3dh_2 is None:
        raise Malformed("a confirmation, and no keys to answer it with")
    kem = None
    if ratchet.kem_secret is not None:
        reader = FieldReader(ratchet.kem_secret)
        kem = KemKeyPair(reader.large(), reader.large())
    return OfferedKeys(PrivatePair(ratchet.x3dh_1, ratchet.x3dh_2), kem)


def invitation(address: QueueAddress, offered: OfferedKeys) -> InvitationLink:
    """The link of a queue, for one peer."""
    return InvitationLink(AGENT_VERSIONS, (address,), offered.offer())


def contact_link(address: QueueAddress) -> ContactLink:
    return ContactLink(AGENT_VERSIONS, (address,))


# Joining.


@value
class Target:
    """A queue of the peer to send to, with the versions that both support."""

    address: QueueAddress | QueueInfo
    client_version: int


def target_of(link: InvitationLink | ContactLink) -> tuple[int, Target]:
    """The version for the maker of a link, and its queue. Raises `NoCommonVersion`, and `Malformed`
    if its queues cannot be used."""
    version = _common(AGENT_VERSIONS, link.versions, "connections")
    if isinstance(link, InvitationLink) and not link.queues[0].sender_can_secure:
        raise Malformed("an invitation whose queue its sender cannot secure")
    address = link.queues[0]
    return version, Target(address, _common(CLIENT_VERSIONS, address.versions, "envelopes"))


def reply_target(reply: ReplyQueues) -> Target:
    """The queue on which a joiner wants to be answered."""
    for queue in reply.queues:
        if queue.sender_can_secure and queue.version in range(
            CLIENT_VERSIONS.lowest, CLIENT_VERSIONS.highest + 1
        ):
            return Target(queue, queue.version)
    raise Malformed("a confirmation without a queue that we could answer on")


def send_queue(
    target: Target, router: RouterId, connection: ConnectionId, key: bytes, private: bytes
) -> SendQueue:
    """The send queue to store before SKEY: `key` secures the queue, `private` is our key of X25519
    for it."""
    return SendQueue(
        router,
        target.address.sender_id,
        connection,
        key,
        shared_key(private, raw_key(target.address.key)),
        encode_key(KeyKind.X25519, public_of(private)),
        target.client_version,
    )


def check_link(link: InvitationLink) -> None:
    """Raise the errors of joining a link, before it is used or a request is shown."""
    target_of(link)
    # A trial agreement shows whether the offered keys can be used.
    probe = bytes(range(1, RAW_BYTES + 1))
    join_ratchet(link.offer, PrivatePair(probe, probe), probe)


def check_info(info: bytes, router: RouterAddress, *, has_kem_room: bool) -> None:
    """Raise `TooLong` if a joiner's confirmation has no room for this info, with a reply queue at
    this router. Checked before the link is used."""
    reply = QueueInfo(
        CLIENT_VERSIONS.highest,
        router,
        bytes(SENDER_ID_BYTES),
        encode_key(KeyKind.X25519, bytes(32)),
        Purpose.MESSAGING,
    )
    _check_room(info, ReplyQueues((reply,), b""), has_kem_room)


def check_answer_info(info: bytes, *, has_kem_room: bool) -> None:
    """Check the initiator's own information, before it publishes its link."""
    _check_room(info, ConnectionInfo(b""), has_kem_room)


def _check_room(info: bytes, without: AgentContent, has_kem_room: bool) -> None:
    padded = CONFIRMATION_PADDED_KEM if has_kem_room else CONFIRMATION_PADDED
    room = padded - LENGTH_BYTES - len(without.encode())
    if len(info) > room:
        raise TooLong(len(info), room)


@value
class FreshKeys:
    """Keys drawn for one step; each is used once at most."""

    first: bytes = field(repr=False)
    second: bytes = field(repr=False)
    third: bytes = field(repr=False)
    """A key of X448."""
    nonce: bytes = field(repr=False)


@value
class Confirming:
    """A confirmation to store, and the ratchet after it."""

    ratchet: RatchetRecord
    message: OutgoingMessage
    agent_version: int
    e2e_version: int


def confirm(
    connection: ConnectionId,
    link: InvitationLink,
    queue: SendQueue,
    reply: QueueAddress,
    info: bytes,
    fresh: FreshKeys,
    now: float,
    kem: Kem | None = None,
) -> Confirming:
    """The joiner's confirmation, which names the queue for answers. Raises `TooLong` if the info
    has no room."""
    version, _ = target_of(link)
    keys = PrivatePair(fresh.first, fresh.second)
    joined = join_ratchet(link.offer, keys, fresh.third, kem)
    content = ReplyQueues((reply.at(CLIENT_VERSIONS.highest),), info)
    return _confirming(
        connection, version, joined.ratchet, content, joined.parameters, queue, fresh.nonce, now
    )


def answer(
    record: ConnectionRecord,
    ratchet: RatchetRecord | None,
    queue: SendQueue,
    info: bytes,
    nonce: bytes,
    now: float,
) -> Confirming:
    """The initiator's confirmation, once the application has accepted. Raises `TooLong` if the
    info has no room."""
    if record.status is not ConnectionStatus.CONFIRMED or record.sent_id:
        raise StoreError("nothing that could be accepted: it was, or the connection is gone")
    state = ratchet_of(ratchet)
    check_answer_info(info, has_kem_room=state.has_kem_room)
    version = record.agent_version or AGENT_VERSIONS.lowest
    content = ConnectionInfo(info)
    return _confirming(record.id, version, state, content, None, queue, nonce, now)


def _confirming(
    connection: ConnectionId,
    version: int,
    ratchet: Ratchet,
    content: AgentContent,
    parameters: RatchetParameters | None,
    queue: SendQueue,
    nonce: bytes,
    now: float,
) -> Confirming:
    after, envelope = seal_confirmation(version, ratchet, content, parameters)
    body = first_envelope(queue, envelope.encode(), nonce)
    hash = content_hash(content.encode())
    message = OutgoingMessage(
        connection, CONFIRMATION_ID, CONFIRMATION, body, hash, now, flags=NOTIFY
    )
    state = RatchetRecord(state=after.encode())
    return Confirming(state, message, version, after.version.current)


def request(
    link: ContactLink, own: InvitationLink, info: bytes, queue: SendQueue, nonce: bytes
) -> bytes:
    """The body of a SEND that asks a contact to join an invitation of ours."""
    version, _ = target_of(link)
    return first_envelope(queue, ConnectionRequest(version, own, info).encode(), nonce)


def first_envelope(queue: SendQueue, body: bytes, nonce: bytes) -> bytes:
    """A client envelope with our key in it."""
    assert queue.e2e_key is not None, "kept with the queue"
    contents = EnvelopeContents(None, body)
    sealed = ClientEnvelope.seal(
        queue.client_version, queue.e2e_key, nonce, contents, queue.e2e_public
    )
    return sealed.encode()


def ratchet_of(ratchet: RatchetRecord | None) -> Ratchet:
    """The stored ratchet of a connection."""
    if ratchet is None or ratchet.state is None:
        raise Malformed("a connection without a ratchet")
    return Ratchet.decode(ratchet.state)


def _common(ours: Versions, theirs: Versions, of: str) -> int:
    version = ours.common(theirs)
    if version is None:
        raise NoCommonVersion(
            f"the link is for versions {format_versions(theirs)} of {of},"
            f" and we have {format_versions(ours)}"
        )
    return version
