"""Plain queues: one way, encrypted from end to end, between two programs that share an address.

The recipient makes a queue and passes on its address; one sender opens it. The first to secure it
is its only sender. SimpleX apps do not read these.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Final

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.deleting import Deleting
from headgate.agent.model import ConnectionId, RecipientId, RouterId, SessionKey, UserId
from headgate.agent.operations import Operations
from headgate.agent.ports import RouterPort
from headgate.agent.records import (
    Records,
    connections,
    receive_queues,
    routers,
    send_queues,
    steps,
    users,
)
from headgate.agent.records.connections import (
    ConnectionKind,
    ConnectionRecord,
    ConnectionStatus,
)
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.send_work import SENDER_KIND, SKEY
from headgate.agent.sending import Sending
from headgate.agent.stored_keys import pack_key
from headgate.agent.tasks import result_of
from headgate.client.smp.recipient import make_key
from headgate.client.smp.requests import NewQueue, new_queue
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.errors import HeadgateError, LinkUsed, Malformed, NoCommonVersion, StoreError
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.versions import CLIENT_VERSIONS, format_versions
from headgate.wire.smp.codec.replies import Ids
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Versions

CONNECTION_BYTES: Final = 12
PRIVATE_BYTES: Final = 32


@value
class OwnQueue:
    """A queue that we read."""

    user: UserId
    connection: ConnectionId
    name: str | None
    router: RouterId
    recipient_id: RecipientId
    address: QueueAddress
    """The address for its sender."""
    delete_connection: Callable[[ConnectionId], Awaitable[None]] = field(repr=False, compare=False)

    async def delete(self) -> None:
        """Delete the queue, with unacknowledged messages, and free its name. When this returns it
        is on the disk; the router gets the request in the background, until it has answered."""
        await self.delete_connection(self.connection)


@value
class OpenedQueue:
    """A queue that we send to."""

    user: UserId
    connection: ConnectionId
    router: RouterId
    address: QueueAddress = field(repr=False)


class Queues:
    """The plain queues of an agent: makes, opens and deletes them. It owns the deletions; queues
    are in the records. `drop` is called with a connection whose messages are not to be shown any
    more. New queues are subscribed from the beginning, or left for fetching; those of a service are
    always subscribed."""

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        sending: Sending,
        *,
        drop: Callable[[ConnectionId], None],
        subscribe: bool = True,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._records = records
        self._routers = routers
        self._sending = sending
        self._subscribe = subscribe
        self._draw = draw
        self._deleting = Deleting(
            records, routers, drop, operations or Operations(), clock or SystemClock()
        )
        self._making = asyncio.Lock()
        """Two callers that want the same name get the same queue."""

    async def find(self, user: UserId, name: str) -> OwnQueue | None:
        """The existing queue of this name."""
        return await self._records.read(find_named, user, name, self._deleting.delete)

    async def wake_all(self) -> None:
        """Continue the work that was left."""
        await self._deleting.wake_all()

    async def close(self) -> None:
        """Stop. Deletions go on when the agent is opened again."""
        await self._deleting.close()

    async def make(self, user: UserId, router: RouterAddress, name: str) -> OwnQueue:
        """The queue of this name: the existing one, or a new one at this router. Raises the errors
        of the request; a NEW whose answer is lost leaves an unknown queue, which the router removes
        after a while."""
        async with self._making:
            known = await self.find(user, name)
            if known is not None:
                return known
            place = await self._records.write(routers.keep, router)
            connection = self._draw(CONNECTION_BYTES)
            password = None if router.password is None else router.password.encode()
            # Routers let a service make only queues that it subscribes.
            subscribe = self._subscribe or await self._records.read(_has_services, user)
            wanted = new_queue(subscribe=subscribe, password=password)
            session, (outcome,) = await self._routers.ask(user, place, connection, [wanted.request])
            if isinstance(outcome, HeadgateError):
                raise outcome
            assert isinstance(outcome, Ids), "what answers NEW"
            record = ConnectionRecord(
                connection, user, ConnectionKind.RECEIVE, ConnectionStatus.READY, name
            )
            queue = _receive_queue(record, place, wanted, outcome, self._draw(PRIVATE_BYTES))
            assert session is not None, "what answered has a session"
            service = outcome.service
            keeping = asyncio.ensure_future(
                self._keep(session, record, queue, service, subscribe=subscribe)
            )
            # If the caller is cancelled from here on, there is a queue all the same.
            await result_of(keeping)
            address = _address(router, queue)
            return OwnQueue(
                user,
                connection,
                name,
                place,
                queue.recipient_id,
                address,
                self._deleting.delete,
            )

    async def _keep(
        self,
        session: SessionKey,
        record: ConnectionRecord,
        queue: ReceiveQueue,
        service: bytes | None,
        *,
        subscribe: bool,
    ) -> None:
        await self._records.write(_keep, record, queue)
        if subscribe:
            self._routers.created(session, queue.recipient_id, record.id, service)

    async def open(self, user: UserId, address: QueueAddress | str) -> OpenedQueue:
        """Become the sender of a queue. Raises `LinkUsed` if there is another. Without a connection
        with the router this returns, and the queue is secured when there is one; if it has another
        sender by then, the messages sent meanwhile fail."""
        if isinstance(address, str):
            address = QueueAddress.parse(address)
        if not address.sender_can_secure:
            raise Malformed("this address is not one of a queue that its sender secures")
        version = _common_version(address.versions)
        place = await self._records.write(routers.keep, address.router)
        private = self._draw(PRIVATE_BYTES)
        wanted = SendQueue(
            place,
            address.sender_id,
            self._draw(CONNECTION_BYTES),
            pack_key(make_key(SENDER_KIND))[1],
            shared_key(private, raw_key(address.key)),
            encode_key(KeyKind.X25519, public_of(private)),
            version,
        )
        queue = await result_of(self._records.write(_open, user, wanted))
        try:
            await self._sending.secure(queue.key)
        except LinkUsed:
            await self._records.write(_forget_unused, queue)
            raise
        return OpenedQueue(user, queue.connection, place, address)


def _common_version(versions: Versions) -> int:
    version = min(versions.highest, CLIENT_VERSIONS.highest)
    if version < max(versions.lowest, CLIENT_VERSIONS.lowest):
        raise NoCommonVersion(
            f"the address is for versions {format_versions(versions)} of envelopes,"
            f" and we have {format_versions(CLIENT_VERSIONS)}"
        )
    return version


def _receive_queue(
    record: ConnectionRecord, router: RouterId, wanted: NewQueue, ids: Ids, e2e_private: bytes
) -> ReceiveQueue:
    made = wanted.made(ids)
    return ReceiveQueue(
        router,
        ids.recipient,
        record.user,
        record.id,
        *pack_key(made.key),
        made.secret,
        e2e_private,
        sender_id=ids.sender,
        status="ready",
    )


def _address(router: RouterAddress, queue: ReceiveQueue) -> QueueAddress:
    public = encode_key(KeyKind.X25519, public_of(queue.e2e_private))
    # The password is for making queues, and not for senders.
    bare = RouterAddress(router.hosts, router.written_port, router.key_hash)
    return QueueAddress(CLIENT_VERSIONS, bare, queue.sender_id, public, Purpose.MESSAGING)


# Jobs of the records.


async def cannot_delete(connection: ConnectionId) -> None:
    """The error of deleting a queue from a file that no agent has open."""
    raise StoreError("to delete a queue, open the agent of its file")


def find_named(
    tables: Database,
    user: UserId,
    name: str,
    delete: Callable[[ConnectionId], Awaitable[None]] = cannot_delete,
) -> OwnQueue | None:
    """The queue that a user made under a name."""
    refusal = f"{name} is the name of a connection that is no queue; take another name"
    found = queue_named(tables, user, name, ConnectionKind.RECEIVE, refusal)
    if found is None:
        return None
    queue, router = found
    address = _address(router, queue)
    return OwnQueue(user, queue.connection, name, queue.router, queue.recipient_id, address, delete)


def queue_named(
    tables: Database, user: UserId, name: str, kind: ConnectionKind, refusal: str
) -> tuple[ReceiveQueue, RouterAddress] | None:
    """The queue with a name, and its router; None if there is none. Raises `StoreError` with the
    refusal if something of another kind has the name."""
    record = connections.named(tables, user, name)
    if record is None:
        return None
    queues = receive_queues.of_connections(tables, [record.id])[record.id]
    if record.kind is not kind or not queues:
        raise StoreError(refusal)
    router = routers.get(tables, queues[0].router)
    assert router is not None, "a queue is at a router that is kept"
    return queues[0], router.address


def _has_services(tables: Database, user: UserId) -> bool:
    found = users.get(tables, user)
    return found is not None and found.services


def _keep(tables: Database, record: ConnectionRecord, queue: ReceiveQueue) -> None:
    connections.add(tables, record)
    receive_queues.add(tables, queue)


def _open(tables: Database, user: UserId, wanted: SendQueue) -> SendQueue:
    """Store a queue with its keys before SKEY; a known one keeps its keys."""
    known = send_queues.get(tables, wanted.key)
    if known is not None:
        owner = connections.get(tables, known.connection)
        if owner is None or owner.user != user or owner.kind is not ConnectionKind.SEND:
            raise StoreError("another connection sends to this queue already")
        return known
    record = ConnectionRecord(wanted.connection, user, ConnectionKind.SEND, ConnectionStatus.READY)
    connections.add(tables, record)
    return steps.before_skey(tables, wanted, SKEY, wanted.sender_id)


def _forget_unused(tables: Database, queue: SendQueue) -> None:
    record = connections.get(tables, queue.connection)
    if record is not None and not record.sent_id:
        connections.remove(tables, queue.connection)
