"""The one transaction of a received message: recognise it, or open and store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from headgate.agent.events import NamedQueue
from headgate.agent.model import ConnectionId, QueueKey, UserId
from headgate.agent.openers import FollowUp, Opener
from headgate.agent.records import (
    commands,
    connections,
    receive_queues,
    received,
    routers,
    steps,
)
from headgate.agent.records.connections import (
    ConnectionKind,
    ConnectionRecord,
    ConnectionStatus,
)
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import Incoming, ReceivedMessage
from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.replies import Msg
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import Body, QuotaMarker, open_message, parse_message

Openers: TypeAlias = Mapping[ConnectionKind, Opener]

NOTIFY: Final = 1
"""The flag of a message whose sender wanted the recipient to be notified."""


@value
class Origin:
    """The origin of a message, as the application knows it."""

    user: UserId
    router: RouterAddress
    connection: ConnectionId
    queue: NamedQueue | None
    is_held: bool = False
    """Whether messages of the connection are not shown yet, because it is not ready."""


@value
class Stored:
    """A new message that is stored and can be shown."""

    origin: Origin
    message: ReceivedMessage
    body: bytes

    def __repr__(self) -> str:
        return f"Stored({self.message.id})"


@value
class Repeated:
    """A message that came before."""

    origin: Origin
    message: ReceivedMessage


@value
class Handled:
    """A message for the agent and not for the application, stored and marked."""

    follow_up: FollowUp | None


@value
class Full:
    """The marker of a full queue."""

    origin: Origin
    follow_up: FollowUp | None = None
    """The work of letting the sender know, if that is up to the agent."""


@value
class Unreadable:
    """A message that cannot be opened, now or later."""

    origin: Origin
    reason: str


Taken: TypeAlias = Stored | Repeated | Handled | Full | Unreadable


def take_in(
    tables: Database, key: QueueKey, message: Msg, openers: Openers, now: float
) -> Taken | None:
    """Store a message, or return what else it is; None if its queue was deleted meanwhile."""
    queue = receive_queues.get(tables, key)
    connection = None if queue is None else connections.get(tables, queue.connection)
    router = routers.get(tables, key[0])
    if queue is None or connection is None or router is None or queue.deleted:
        return None
    # Messages that a peer sends right after its confirmation are shown after `Connected`, which may
    # be on its way although the connection is ready.
    is_held = connection.status is ConnectionStatus.CONFIRMED or (
        connection.kind is ConnectionKind.DUPLEX
        and commands.has(tables, connection.id, commands.CONNECTED)
    )
    origin = Origin(queue.user, router.address, connection.id, _named(connection), is_held)
    opener = openers.get(connection.kind)
    if opener is None:
        return Unreadable(origin, f"messages of {connection.kind} connections cannot be opened")
    try:
        content = parse_message(open_message(queue.dh_key, message.message_id, message.sealed))
        if isinstance(content, QuotaMarker):
            is_ours = connection.kind is ConnectionKind.DUPLEX
            return Full(origin, FollowUp(connection.id, was_full=key) if is_ours else None)
        return _open(tables, origin, queue, message.message_id, content, opener, now)
    except Malformed as error:
        return Unreadable(origin, str(error))


def _open(
    tables: Database,
    origin: Origin,
    queue: ReceiveQueue,
    broker_id: bytes,
    content: Body,
    opener: Opener,
    now: float,
) -> Taken:
    sealed = opener.unwrap(queue, content.body)
    # ACC-99: a repeated message is not opened again: a ratchet could not.
    known = received.recognise(tables, origin.connection, queue.key, broker_id, sealed.hash)
    if known is not None:
        return Repeated(origin, known)
    opened = opener.open(tables, queue, sealed)
    if opened.changes is not None:
        opened.changes(tables)
    incoming = Incoming(
        origin.connection,
        queue.key,
        broker_id,
        content.seconds,
        sealed.hash,
        opened.kind,
        opened.body,
        opened.flags | (NOTIFY if content.notify else 0),
        opened.peer_id,
        opened.hash,
        opened.prev_hash,
    )
    id = steps.before_showing(tables, incoming, now)
    if not opened.is_shown:
        received.acknowledge(tables, id)
        return Handled(opened.follow_up)
    stored = received.get(tables, id)
    assert stored is not None, "a message that was just stored"
    return Stored(origin, stored, opened.body)


def _named(connection: ConnectionRecord) -> NamedQueue | None:
    if connection.kind is ConnectionKind.RECEIVE:
        return NamedQueue(connection.id, connection.name)
    return None
