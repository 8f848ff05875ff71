"""Joining: using another agent's link, an invitation or the address of a contact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from headgate.agent.connections import handshake
from headgate.agent.connections.command_tasks import ASK, FOLLOW, JOIN, ConnectionCommands
from headgate.agent.connections.handshake import FreshKeys
from headgate.agent.connections.inviting import Inviting, add_connection
from headgate.agent.connections.link_planning import (
    FollowedContact,
    follow_contact,
    follow_invitation,
)
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.connections.queue_making import make_queue
from headgate.agent.model import ConnectionId, RouterId, UserId
from headgate.agent.queues import CONNECTION_BYTES, PRIVATE_BYTES
from headgate.agent.records import commands, connections, requests, routers, send_queues, steps
from headgate.agent.records.commands import CommandRecord
from headgate.agent.records.connections import (
    ConnectionKind,
    ConnectionRecord,
    ConnectionStatus,
)
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.requests import Asked
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.send_work import ADDRESS, LINK, SENDER_KIND, SKEY, described
from headgate.agent.stored_keys import pack_key, unpack_key
from headgate.agent.tasks import result_of
from headgate.client.smp.recipient import Request, make_key
from headgate.client.smp.requests import read_link, secure_by_link
from headgate.client.smp.requests import send as send_request
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES
from headgate.crypto.kem import Kem
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import ConfigError, HeadgateError, LinkUsed, Malformed, StoreError
from headgate.wire.smp.agent.link_data import contact_link_keys
from headgate.wire.smp.agent.links import ContactLink, InvitationLink, parse_link
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.short_links import (
    ContactShortLink,
    InvitationShortLink,
    ShortLink,
    parse_short_link,
)
from headgate.wire.smp.codec.encoding import FieldReader, large, string
from headgate.wire.smp.codec.replies import Lnk, Reply
from headgate.wire.smp.codec.router_address import RouterAddress

AnyLink: TypeAlias = InvitationLink | ContactLink | ShortLink


def parse_any_link(text: str, known: Iterable[RouterAddress] = ()) -> AnyLink:
    """Parse a link, long or short; a short one may leave out the fingerprint of a router that is
    `known`. Raises `Malformed`."""
    bare = text.strip()
    if not bare.startswith(("simplex:/", "https://")):
        raise Malformed("no link: simplex:/invitation#..., /contact#..., /i#... or /a#...")
    _, _, behind = bare.partition("#")
    # After the # a long link has parameters, a short one a key.
    is_long = behind.lstrip("/").startswith("?")
    return parse_link(bare) if is_long else parse_short_link(bare, known)


@value
class Begun:
    """A connection that is being made, and the command for the rest."""

    record: ConnectionRecord
    command: CommandRecord | None


class Joining:
    """Joins other agents by their links. Everything that a repetition needs is in the records
    before anything is sent, so a join continues after a crash, and when it is requested again."""

    def __init__(
        self, parts: ConnectionParts, tasks: ConnectionCommands, inviting: Inviting
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._inviting = inviting

    async def join(
        self,
        user: UserId,
        link: str | AnyLink,
        router: RouterAddress,
        info: bytes,
        name: str | None,
        *,
        pq: bool,
        request: int | None = None,
    ) -> ConnectionRecord:
        """Use a link; our own queue is made at this router. Raises `LinkUsed` if another agent has
        used it. Without a connection with the routers this returns, and the rest is done when there
        is one. `request` is the one that the link came with, if it did."""
        link = await self._parsed(link)
        self._parts.kem_if(pq)
        if isinstance(link, ContactShortLink):
            link = (await self._follow_contact(user, link)).link
        if isinstance(link, ContactLink):
            return await self._ask(user, link, router, info, name, pq)
        handshake.check_info(info, router, has_kem_room=pq)
        id, status = self._parts.draw(CONNECTION_BYTES), ConnectionStatus.JOINING
        record = ConnectionRecord(id, user, ConnectionKind.NEW, status, name, pq=pq)
        place = await self._parts.keep_router(router)
        if isinstance(link, InvitationShortLink):
            key = pack_key(make_key(SENDER_KIND))[1]
            arguments = large(link.text.encode()) + string(key) + info
            begun = self._parts.records.write(_begin_follow, record, place, arguments)
        else:
            handshake.check_link(link)
            queue = await self._send_queue(record.id, link)
            arguments = _pack_join(link, info)
            begun = self._parts.records.write(_begin_join, record, queue, place, arguments, request)
        return await self._go_on(begun)

    async def _parsed(self, link: str | AnyLink) -> AnyLink:
        if not isinstance(link, str):
            return link
        known = await self._parts.records.read(routers.everything)
        return parse_any_link(link, [each.address for each in known])

    async def _go_on(self, begun: asyncio.Future[Begun]) -> ConnectionRecord:
        """Start the stored command, even if the caller is cancelled, and wait for its first
        attempt."""
        first: list[asyncio.Future[None]] = []

        def start(done: asyncio.Future[Begun]) -> None:
            if not done.cancelled() and done.exception() is None:
                command = done.result().command
                first.extend([] if command is None else [self._tasks.start(command)])

        begun.add_done_callback(start)
        found = await result_of(begun)
        for attempt in first:
            await result_of(attempt)
        return found.record

    async def _send_queue(
        self, connection: ConnectionId, link: InvitationLink, key: bytes | None = None
    ) -> SendQueue:
        """The queue of a link, with our keys for it."""
        _, target = handshake.target_of(link)
        router = await self._parts.keep_router(target.address.router)
        if key is None:
            key = pack_key(make_key(SENDER_KIND))[1]
        return handshake.send_queue(
            target, router, connection, key, self._parts.draw(PRIVATE_BYTES)
        )

    async def do_join(self, command: CommandRecord, record: ConnectionRecord) -> None:
        """Secure the inviter's queue, make a reply queue, and confirm."""
        parts = self._parts
        queues = await parts.records.read(send_queues.of_connection, record.id)
        if record.status is not ConnectionStatus.JOINING or not queues:
            await parts.records.write(commands.remove, command.id)
            return
        # Step 2 of the handshake. Without a session now, sending secures it before the
        # confirmation.
        await parts.sending.secure(queues[0].key)
        link, info = _unpack_join(command.arguments)
        first, second, third = (parts.draw(RAW_BYTES) for _ in range(3))
        fresh = FreshKeys(first, second, third, parts.draw(NONCE_BYTES))
        kem = parts.kem if record.pq else None
        keep = _Confirm(command, link, info, fresh, parts.clock.now(), kem)
        async with parts.operations.operation():
            await make_queue(parts, record.user, command.router, record.id, Purpose.MESSAGING, keep)
        # Only the end of the agent cancels this.
        parts.sending.start(queues[0].key)

    # Short links.

    async def do_follow(self, command: CommandRecord, record: ConnectionRecord) -> None:
        """Secure the queue of an invitation by its short link, and read the link's data."""
        reader = FieldReader(command.arguments)
        short = parse_short_link(reader.large().decode())
        key, info = reader.string(), reader.rest()
        assert isinstance(short, InvitationShortLink), "kept by us"
        # LKEY with the same key may be repeated.
        asked = secure_by_link(short.id, unpack_key(SENDER_KIND, key))
        found = await self._ask_one(record.user, short.router, record.id, asked)
        assert isinstance(found, Lnk), "what answers LKEY"
        link = follow_invitation(short, found)
        handshake.check_link(link)
        queue = await self._send_queue(record.id, link, key)
        begun = await self._parts.records.write(
            _begin_behind, command, queue, _pack_join(link, info)
        )
        if begun is not None:
            await result_of(self._tasks.start(begun))

    async def shown_by(self, user: UserId, link: str | AnyLink) -> bytes:
        """The bytes that the short link of an address shows."""
        link = await self._parsed(link)
        if not isinstance(link, ContactShortLink):
            raise ConfigError("only the short link of an address shows something before it is used")
        return (await self._follow_contact(user, link)).shown

    async def _follow_contact(self, user: UserId, link: ContactShortLink) -> FollowedContact:
        asked = read_link(contact_link_keys(link.key).link_id)
        found = await self._ask_one(user, link.router, None, asked)
        assert isinstance(found, Lnk), "what answers LGET"
        return follow_contact(link, found)

    async def _ask_one(
        self,
        user: UserId,
        router: RouterAddress,
        connection: ConnectionId | None,
        request: Request,
    ) -> Reply:
        place = await self._parts.keep_router(router)
        async with self._parts.operations.operation():
            _, (outcome,) = await self._parts.routers.ask(user, place, connection, [request])
        if isinstance(outcome, HeadgateError):
            raise described(outcome, LINK) from outcome
        return outcome

    # Requests to a contact.

    async def _ask(
        self,
        user: UserId,
        link: ContactLink,
        router: RouterAddress,
        info: bytes,
        name: str | None,
        pq: bool,
    ) -> ConnectionRecord:
        """Send an invitation of our own to the address of a contact. The answer is accepted without
        asking the application, since it requested this."""
        _, target = handshake.target_of(link)
        place = await self._parts.keep_router(target.address.router)
        # Each request has a key of its own, and the queue of a contact is never secured.
        private, nonce = self._parts.draw(PRIVATE_BYTES), self._parts.draw(NONCE_BYTES)
        queue = handshake.send_queue(target, place, b"", b"", private)
        record = self._inviting.new_record(user, name, pq=pq)

        asked: list[CommandRecord] = []
        first: list[asyncio.Future[None]] = []

        def also(tables: Database, own: InvitationLink) -> None:
            body = handshake.request(link, own, info, queue, nonce)
            arguments = string(target.address.sender_id) + body
            asked[:] = [_add(tables, record.id, place, ASK, arguments)]

        def then() -> None:
            first.append(self._tasks.start(asked[0]))

        await self._inviting.invite(record, router, accept_info=info, also=also, then=then)
        await result_of(first[0])
        return record

    async def do_ask(self, command: CommandRecord, record: ConnectionRecord) -> None:
        """Send the request."""
        reader = FieldReader(command.arguments)
        asked = send_request(reader.string(), reader.rest(), notify=True)
        async with self._parts.operations.operation():
            _, (outcome,) = await self._parts.routers.ask(
                record.user, command.router, record.id, [asked]
            )
        if isinstance(outcome, HeadgateError):
            raise described(outcome, ADDRESS) from outcome
        await self._parts.records.write(commands.remove, command.id)


@value
class _Confirm:
    """A job of the records that stores a reply queue with the confirmation that names it."""

    command: CommandRecord
    link: InvitationLink = field(repr=False)
    info: bytes = field(repr=False)
    fresh: FreshKeys
    now: float
    kem: Kem | None = field(repr=False)

    def __call__(self, tables: Database, reply: ReceiveQueue, address: QueueAddress) -> None:
        connection = self.command.connection
        record = connections.get(tables, connection)
        if record is None or record.status is not ConnectionStatus.JOINING:
            raise StoreError("the connection was deleted meanwhile")
        [queue] = send_queues.of_connection(tables, connection)
        made = handshake.confirm(
            connection, self.link, queue, address, self.info, self.fresh, self.now, self.kem
        )
        connections.amend(
            tables,
            connection,
            kind=ConnectionKind.DUPLEX,
            agent_version=made.agent_version,
            e2e_version=made.e2e_version,
        )
        steps.before_confirmation(tables, reply, made.ratchet, made.message, queue.key)
        commands.remove(tables, self.command.id)


def _pack_join(link: InvitationLink, info: bytes) -> bytes:
    return large(link.text.encode()) + info


def _unpack_join(arguments: bytes) -> tuple[InvitationLink, bytes]:
    reader = FieldReader(arguments)
    link = parse_link(reader.large().decode())
    assert isinstance(link, InvitationLink), "kept by us"
    return link, reader.rest()


# Jobs of the records.


def _begin_join(
    tables: Database,
    record: ConnectionRecord,
    queue: SendQueue,
    place: RouterId,
    arguments: bytes,
    request: int | None,
) -> Begun:
    """Before SKEY: store the connection, the key, and the command. A link that we joined before is
    continued, with its stored keys."""
    if request is not None and not requests.answer(tables, Asked.REQUEST, request):
        raise StoreError("no such request: it was answered already")
    known = send_queues.get(tables, queue.key)
    if known is not None:
        return _begin_again(tables, record, known, place, arguments)
    add_connection(tables, record)
    steps.before_skey(tables, queue, SKEY, queue.sender_id)
    return Begun(record, _add(tables, record.id, place, JOIN, arguments))


def _begin_again(
    tables: Database,
    record: ConnectionRecord,
    known: SendQueue,
    place: RouterId,
    arguments: bytes,
) -> Begun:
    before = connections.get(tables, known.connection)
    kinds = (ConnectionKind.NEW, ConnectionKind.DUPLEX)
    if before is None or before.user != record.user or before.kind not in kinds:
        raise StoreError("another connection sends to this queue already")
    if before.status in (ConnectionStatus.FAILED, ConnectionStatus.DELETING):
        raise LinkUsed(LINK)
    if before.kind is ConnectionKind.DUPLEX:
        return Begun(before, None)  # confirmed already
    for command in commands.of_connections(tables, [before.id])[before.id]:
        if command.kind == JOIN:
            commands.remove(tables, command.id)
    return Begun(before, _add(tables, before.id, place, JOIN, arguments))


def _begin_follow(
    tables: Database, record: ConnectionRecord, place: RouterId, arguments: bytes
) -> Begun:
    """Before LKEY: store the connection, and the key among the arguments."""
    add_connection(tables, record)
    return Begun(record, _add(tables, record.id, place, FOLLOW, arguments))


def _begin_behind(
    tables: Database, command: CommandRecord, queue: SendQueue, arguments: bytes
) -> CommandRecord | None:
    """After LKEY: join the invitation behind the short link. None if the connection is gone."""
    commands.remove(tables, command.id)
    record = connections.get(tables, command.connection)
    if record is None or record.status is not ConnectionStatus.JOINING:
        return None
    steps.before_skey(tables, queue, SKEY, queue.sender_id)
    return _add(tables, record.id, command.router, JOIN, arguments)


def _add(
    tables: Database, connection: ConnectionId, place: RouterId, kind: str, arguments: bytes
) -> CommandRecord:
    id = commands.add(tables, connection, place, kind, arguments)
    return CommandRecord(id, connection, place, kind, arguments, 0)
