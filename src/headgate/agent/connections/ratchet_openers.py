"""Openers of connections and of addresses: envelopes are opened and stored in one transaction.

Everything here runs in the writer's thread, inside of the transaction that stores a message; so do
the computations of a KEM.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final

from headgate.agent.connections.envelope_opening import Came, finding_flags, open_envelope
from headgate.agent.connections.handshake import check_link
from headgate.agent.openers import (
    HANDSHAKE,
    MESSAGE,
    RECEIPT,
    FollowUp,
    Opened,
    Sealed,
    pack_receipts,
    secret_of,
)
from headgate.agent.records import (
    commands,
    connections,
    ratchets,
    receive_queues,
    requests,
    send_queues,
)
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.ratchets import SkippedKey as SkippedRow
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.requests import Asked
from headgate.crypto.box import shared_key
from headgate.crypto.kem import Kem
from headgate.crypto.keys import raw_key
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import Malformed, NoCommonVersion
from headgate.wire.smp.agent.agent_envelopes import ConnectionRequest, parse_envelope
from headgate.wire.smp.agent.agent_messages import (
    ApplicationMessage,
    ConnectionInfo,
    ContinueSending,
    MessageReceipts,
    NumberedMessage,
    ReplyQueues,
)
from headgate.wire.smp.agent.envelope import ClientEnvelope
from headgate.wire.smp.agent.skipped_keys import SkippedKey, SkippedKeys

REQUESTS_MAX: Final = 1000
"""Requests to one address that wait for the application."""

Draw = Callable[[int], bytes]


class RatchetOpener:
    """Opens the envelopes of a connection: confirmations, and messages of the ratchet."""

    def __init__(
        self,
        now: Callable[[], float],
        kem: Kem | None = None,
        draw: Draw = secrets.token_bytes,
    ) -> None:
        self._now = now
        self._kem = kem
        self._draw = draw

    def unwrap(self, queue: ReceiveQueue, body: bytes) -> Sealed:
        envelope = ClientEnvelope.parse(body)
        secret = secret_of(queue, envelope)
        content = envelope.open(secret).body
        # A repeated message may be sealed anew for the queue, and is the same inside.
        return Sealed(content, sha256(content).digest(), secret)

    def open(self, tables: Database, queue: ReceiveQueue, sealed: Sealed) -> Opened:
        record = connections.get(tables, queue.connection)
        assert record is not None, "whoever asks has found it"
        came = open_envelope(
            record,
            ratchets.get(tables, record.id),
            SkippedKeys(tuple(map(_skipped_key, ratchets.skipped(tables, record.id)))),
            parse_envelope(sealed.content),
            self._draw(RAW_BYTES),
            self._kem if record.pq else None,
        )
        kind, body, follow_up = _meaning(tables, record, came)
        return Opened(
            kind,
            body,
            came.id,
            came.hash,
            came.previous_hash,
            partial(_keep, queue=queue, sealed=sealed, came=came, now=self._now()),
            finding_flags(came.finding),
            kind != HANDSHAKE,
            follow_up,
        )


def _meaning(
    tables: Database, record: ConnectionRecord, came: Came
) -> tuple[str, bytes, FollowUp | None]:
    """The kind and the body for the records, and the work for the agent."""
    if not isinstance(came.content, NumberedMessage):
        return HANDSHAKE, b"", FollowUp(record.id)
    match came.content.message:
        case ApplicationMessage(body):
            return MESSAGE, body, None
        case MessageReceipts(receipts):
            return RECEIPT, pack_receipts(receipt.id for receipt in receipts), None
        case ContinueSending(sender_id=sender_id):
            queues = send_queues.of_connection(tables, record.id)
            found = [queue.key for queue in queues if queue.sender_id == sender_id]
            return HANDSHAKE, b"", FollowUp(record.id, found[0]) if found else None
        case _:
            # Hello, and a peer that moves to another queue: the old one stays in use.
            return HANDSHAKE, b"", None


def _keep(tables: Database, queue: ReceiveQueue, sealed: Sealed, came: Came, now: float) -> None:
    """The changes stored with a message."""
    if queue.e2e_key is None:
        assert sealed.secret is not None, "found out when it was unwrapped"
        receive_queues.put_e2e_key(tables, queue.key, sealed.secret)
    step, connection = came.ratchet, queue.connection
    state = step.ratchet.encode()
    if came.is_first:
        # The keys of the offer are removed: no other agent can be answered with them.
        ratchets.put(tables, connection, RatchetRecord(state=state))
    used = [] if step.used is None else [_skipped_row(step.used)]
    ratchets.step(tables, connection, state, map(_skipped_row, step.added), used)
    connections.amend(
        tables,
        connection,
        status=came.status,
        agent_version=came.agent_version,
        e2e_version=step.ratchet.version.current,
    )
    match came.content:
        case ReplyQueues(info=info):
            content = came.content.encode()
            requests.add(tables, Asked.CONFIRMATION, connection, content, info, now)
        case ConnectionInfo(info):
            connections.amend(tables, connection, info=info)
            commands.add(tables, connection, queue.router, commands.INFO, b"")
            commands.add(tables, connection, queue.router, commands.CONNECTED, b"")


def _skipped_key(row: SkippedRow) -> SkippedKey:
    return SkippedKey(row.header_key, row.n, row.key, row.iv)


def _skipped_row(key: SkippedKey) -> SkippedRow:
    return SkippedRow(key.header_key, key.number, key.message_key, key.iv)


class ContactOpener:
    """Opens the requests to the address of a contact, each with a key of its own."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def unwrap(self, queue: ReceiveQueue, body: bytes) -> Sealed:
        envelope = ClientEnvelope.parse(body)
        if envelope.exchange_key is None:
            raise Malformed("a request without the key of whoever asks")
        secret = shared_key(queue.e2e_private, raw_key(envelope.exchange_key))
        content = envelope.open(secret).body
        return Sealed(content, sha256(content).digest(), secret)

    def open(self, tables: Database, queue: ReceiveQueue, sealed: Sealed) -> Opened:
        envelope = parse_envelope(sealed.content)
        if not isinstance(envelope, ConnectionRequest):
            raise Malformed("something else than a request, at the address of a contact")
        waiting = requests.waiting_ids(tables, Asked.REQUEST, queue.connection, REQUESTS_MAX)
        if len(waiting) >= REQUESTS_MAX:
            # Anybody may send a request, and none has to be answered.
            raise Malformed(f"{REQUESTS_MAX} requests wait for an answer; this one is not kept")
        try:
            # A request that could not be joined is refused here, and not when it is accepted.
            check_link(envelope.link)
        except NoCommonVersion as error:
            raise Malformed(str(error)) from None
        changes = partial(_keep_request, queue=queue, envelope=envelope, now=self._now())
        follow_up = FollowUp(queue.connection)
        return Opened(HANDSHAKE, b"", changes=changes, is_shown=False, follow_up=follow_up)


def _keep_request(
    tables: Database, queue: ReceiveQueue, envelope: ConnectionRequest, now: float
) -> None:
    link = envelope.link.text.encode()
    requests.add(tables, Asked.REQUEST, queue.connection, link, envelope.info, now)
