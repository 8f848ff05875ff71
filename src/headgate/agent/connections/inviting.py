"""Inviting: connections for the first user of their link, and addresses for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from headgate.agent.connections import handshake
from headgate.agent.connections.command_tasks import ACCEPT
from headgate.agent.connections.link_planning import short_link_of
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.connections.queue_making import ShortLinkWish, bare, make_queue, queue_address
from headgate.agent.connections.status import Happening, next_status
from headgate.agent.model import ConnectionId, UserId
from headgate.agent.queues import CONNECTION_BYTES, queue_named
from headgate.agent.records import commands, connections, ratchets, receive_queues, routers
from headgate.agent.records.connections import (
    ConnectionKind,
    ConnectionRecord,
    ConnectionStatus,
)
from headgate.agent.records.database import Database
from headgate.agent.records.ratchets import RatchetRecord
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import StoreError
from headgate.wire.smp.agent.links import ContactLink, InvitationLink
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet_start import OfferedKeys
from headgate.wire.smp.agent.short_links import ShortLink
from headgate.wire.smp.codec.router_address import RouterAddress

Also: TypeAlias = Callable[[Database, InvitationLink], None]
"""Further jobs in the transaction that stores an invitation."""


@value
class ContactAddress:
    """An address that anybody may use, again and again."""

    connection: ConnectionId
    name: str | None
    link: ContactLink | ShortLink
    """The link to pass on; its text is `str(link)`."""


class Inviting:
    """Makes connections and addresses for others to use. All state is in the records."""

    def __init__(self, parts: ConnectionParts) -> None:
        self._parts = parts
        self._naming = asyncio.Lock()
        """Two callers that want the same name get the same address."""

    async def invite(
        self,
        record: ConnectionRecord,
        router: RouterAddress,
        *,
        accept_info: bytes | None = None,
        shown: bytes | None = None,
        also: Also | None = None,
        then: Callable[[], object] | None = None,
    ) -> InvitationLink | ShortLink:
        """Make a connection for the first user of its link. With `accept_info` that is accepted
        without asking the application. With `shown` the link is a short one that shows it, if the
        router supports those. `also` runs in the same transaction, and `then` is called after
        it."""
        kem = self._parts.kem_if(record.pq)
        if accept_info is not None:
            # An info that is too long could never be sent, and later no caller would get the error.
            handshake.check_answer_info(accept_info, has_kem_room=record.pq)
        pair = None if kem is None else await asyncio.to_thread(kem.generate)
        draw = self._parts.draw
        offered = OfferedKeys(PrivatePair(draw(RAW_BYTES), draw(RAW_BYTES)), pair)

        def link_of(address: QueueAddress) -> InvitationLink:
            return handshake.invitation(address, offered)

        # Step 1 of the handshake: the queue and its keys are stored before the link is published.
        keep = _KeepInvitation(
            record, handshake.offered_record(offered), accept_info, link_of, also
        )
        place = await self._parts.keep_router(router)
        wish = None if shown is None else ShortLinkWish(link_of, shown)
        queue, address = await make_queue(
            self._parts, record.user, place, record.id, Purpose.MESSAGING, keep, wish, then
        )
        return short_link_of(bare(router), queue) or link_of(address)

    async def find_invitation(
        self, user: UserId, name: str
    ) -> tuple[ConnectionRecord, InvitationLink | ShortLink] | None:
        """The unused invitation of this name."""
        return await self._parts.records.read(_find_invitation, user, name)

    def new_record(self, user: UserId, name: str | None, *, pq: bool) -> ConnectionRecord:
        """The record of a connection that is about to be made."""
        status = next_status(ConnectionStatus.NEW, Happening.INVITE)
        assert status is not None, "in the table"
        id = self._parts.draw(CONNECTION_BYTES)
        return ConnectionRecord(id, user, ConnectionKind.DUPLEX, status, name, pq=pq)

    async def address(
        self, user: UserId, router: RouterAddress, name: str, *, shown: bytes | None = None
    ) -> ContactAddress:
        """The address of this name: the existing one, or a new one at this router, with a short
        link if something is `shown`."""
        async with self._naming:
            known = await self.find_address(user, name)
            if known is not None:
                return known
            connection = self._parts.draw(CONNECTION_BYTES)
            record = ConnectionRecord(
                connection, user, ConnectionKind.CONTACT, ConnectionStatus.READY, name
            )
            place = await self._parts.keep_router(router)
            wish = None if shown is None else ShortLinkWish(handshake.contact_link, shown)
            keep = _KeepAddress(record)
            queue, address = await make_queue(
                self._parts, user, place, connection, Purpose.CONTACT, keep, wish
            )
            link = short_link_of(bare(router), queue) or handshake.contact_link(address)
            return ContactAddress(connection, name, link)

    async def find_address(self, user: UserId, name: str) -> ContactAddress | None:
        """The existing address of this name."""
        return await self._parts.records.read(_find_address, user, name)


@value
class _KeepInvitation:
    """A job of the records that stores a new queue with its connection."""

    record: ConnectionRecord
    ratchet: RatchetRecord
    accept_info: bytes | None = field(repr=False)
    link_of: Callable[[QueueAddress], InvitationLink] = field(repr=False)
    also: Also | None = None

    def __call__(self, tables: Database, queue: ReceiveQueue, address: QueueAddress) -> None:
        add_connection(tables, self.record)
        receive_queues.add(tables, queue)
        ratchets.put(tables, self.record.id, self.ratchet)
        if self.accept_info is not None:
            commands.add(tables, self.record.id, queue.router, ACCEPT, self.accept_info)
        if self.also is not None:
            self.also(tables, self.link_of(address))


@value
class _KeepAddress:
    """A job of the records that stores a new queue with its address."""

    record: ConnectionRecord

    def __call__(self, tables: Database, queue: ReceiveQueue, address: QueueAddress) -> None:
        add_connection(tables, self.record)
        receive_queues.add(tables, queue)


# Jobs of the records.


def add_connection(tables: Database, record: ConnectionRecord) -> None:
    """Store a new connection. Raises `StoreError` if its name is taken."""
    if record.name is not None and connections.named(tables, record.user, record.name):
        raise StoreError(f"there is something of the name {record.name} already; take another name")
    connections.add(tables, record)


def _find_invitation(
    tables: Database, user: UserId, name: str
) -> tuple[ConnectionRecord, InvitationLink | ShortLink] | None:
    record = connections.named(tables, user, name)
    if record is None or record.status is not ConnectionStatus.INVITED:
        return None
    [queue, *_] = receive_queues.of_connections(tables, [record.id])[record.id]
    router = routers.get(tables, queue.router)
    assert router is not None, "a queue is at a router that is kept"
    address = queue_address(router.address, queue.sender_id, queue.e2e_private, Purpose.MESSAGING)
    offered = handshake.offered_keys(ratchets.get(tables, record.id))
    link = short_link_of(bare(router.address), queue)
    return record, link or handshake.invitation(address, offered)


def _find_address(tables: Database, user: UserId, name: str) -> ContactAddress | None:
    refusal = f"{name} is the name of something else than an address; take another name"
    found = queue_named(tables, user, name, ConnectionKind.CONTACT, refusal)
    if found is None:
        return None
    queue, router = found
    address = queue_address(router, queue.sender_id, queue.e2e_private, Purpose.CONTACT)
    link = short_link_of(bare(router), queue) or handshake.contact_link(address)
    return ContactAddress(queue.connection, name, link)
