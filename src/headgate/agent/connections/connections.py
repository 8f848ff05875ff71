"""Connections: two agents that write to each other through a queue each way.

One makes an invitation and hands out its link, or has an address that anybody may use; the other
joins. The application's requests are here; `inviting`, `joining`, `accepting` and `leaving` carry
them out, partly by commands. `announcing` keeps the events. See docs/design/agent-connections.md.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.connections.accepting import Accepting
from headgate.agent.connections.announcing import Announcement, Announcements
from headgate.agent.connections.command_tasks import (
    ACCEPT,
    ASK,
    DELETE,
    FOLLOW,
    JOIN,
    ConnectionCommands,
)
from headgate.agent.connections.connection import Connection, ConnectionState, Invitation
from headgate.agent.connections.handshake import ratchet_of
from headgate.agent.connections.inviting import ContactAddress, Inviting
from headgate.agent.connections.joining import AnyLink, Joining
from headgate.agent.connections.leaving import Leaving
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.connections.queue_making import bare
from headgate.agent.connections.ratchet_openers import ContactOpener, RatchetOpener
from headgate.agent.connections.ratchet_sealer import RatchetSealer
from headgate.agent.events import DeliveryEvent, Message
from headgate.agent.given_bytes import own_bytes
from headgate.agent.model import ConnectionId, QueueKey, UserId
from headgate.agent.openers import FollowUp, Opener, PlainOpener
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.receiving import Receiving
from headgate.agent.records import Records, connections, ratchets, receive_queues, routers
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.sealers import FRESH_BYTES, PlainSealer, Sealer
from headgate.agent.sending import Sending
from headgate.agent.tasks import Tasks
from headgate.crypto.kem import Kem
from headgate.errors import HeadgateError, LinkUsed, StoreError
from headgate.wire.smp.agent.agent_messages import (
    ContinueSending,
    MessageReceipt,
    MessageReceipts,
)
from headgate.wire.smp.codec.router_address import RouterAddress


def openers(
    clock: AgentClock,
    kem: Kem | None = None,
    draw: Callable[[int], bytes] = secrets.token_bytes,
) -> dict[ConnectionKind, Opener]:
    """The openers for `Receiving`: of plain queues, connections and addresses. They draw in the
    writer's thread."""
    return {
        ConnectionKind.RECEIVE: PlainOpener(),
        ConnectionKind.DUPLEX: RatchetOpener(clock.now, kem, draw),
        ConnectionKind.CONTACT: ContactOpener(clock.now),
    }


def sealers() -> dict[ConnectionKind, Sealer]:
    """The sealers for `Sending`."""
    return {ConnectionKind.SEND: PlainSealer(), ConnectionKind.DUPLEX: RatchetSealer()}


class Connections:
    """The connections of an agent, made and deleted here.

    What must hold: everything that must be the same when it is repeated is in the records before it
    is sent; a handshake goes on after a crash at any point, once `resume` was called; events of
    handshakes come until the application has read them, confirmations and requests until they are
    answered.
    """

    def __init__(
        self,
        records: Records,
        ports: RouterPort,
        receiving: Receiving,
        sending: Sending,
        show: Callable[[DeliveryEvent | Announcement], None],
        *,
        messages: Callable[[ConnectionId], AsyncIterator[Message]] | None = None,
        kem: Kem | None = None,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._records = records
        self._sending = sending
        self._messages = messages
        self._draw = draw
        self._clock = clock or SystemClock()
        self._tasks = Tasks()
        parts = ConnectionParts(
            records, ports, sending, operations or Operations(), self._clock, draw, kem
        )
        self._commands = ConnectionCommands(parts, show)
        self._inviting = Inviting(parts)
        self._joining = Joining(parts, self._commands, self._inviting)
        self._accepting = Accepting(parts, self._joining)
        self._leaving = Leaving(parts, self._commands, receiving.drop)
        self._announcements = Announcements(parts, self, self._commands, show, receiving.show_kept)
        self._commands.does = {
            JOIN: self._joining.do_join,
            FOLLOW: self._joining.do_follow,
            ASK: self._joining.do_ask,
            ACCEPT: self._accepting.do_accept,
            DELETE: self._leaving.do_delete,
        }
        receiving.follow = self._follow
        receiving.store_receipt = self._store_receipt
        sending.settled = self._settled

    # Requests of the application.

    async def invite(
        self,
        user: UserId,
        router: RouterAddress,
        name: str | None = None,
        *,
        info: bytes = b"",
        auto_accept: bool = False,
        shown: bytes | None = None,
        pq: bool = False,
    ) -> Invitation:
        """Make a connection for the first user of its link. With `auto_accept` that is accepted and
        given `info`, and otherwise shown as a `Confirmation`. With `shown` the link is a short one
        that shows it, if the router supports those. With `pq` a KEM is offered. An unused
        invitation of this name is returned again, as it was made."""
        accept_info = own_bytes(info, "the info") if auto_accept else None
        known = None if name is None else await self._inviting.find_invitation(user, name)
        if known is not None:
            return Invitation(self._connection(known[0]), known[1])
        record = self._inviting.new_record(user, name, pq=pq)
        link = await self._inviting.invite(record, router, accept_info=accept_info, shown=shown)
        return Invitation(self._connection(record), link)

    async def join(
        self,
        user: UserId,
        link: str | AnyLink,
        router: RouterAddress,
        info: bytes = b"",
        name: str | None = None,
        *,
        pq: bool = False,
    ) -> Connection:
        """Use a link of any kind; our own queue is made at `router`, and `info` is for the maker of
        the link. Raises `LinkUsed` if another agent has used it. Without a connection with the
        routers this returns, and the rest is done when there is one."""
        taken = own_bytes(info, "the info")
        return self._connection(await self._joining.join(user, link, router, taken, name, pq=pq))

    async def address(
        self, user: UserId, router: RouterAddress, name: str, *, shown: bytes | None = None
    ) -> ContactAddress:
        """The address of this name: the existing one, or a new one at this router, with a short
        link if something is `shown`."""
        return await self._inviting.address(user, router, name, shown=shown)

    async def shown_by(self, user: UserId, link: str | AnyLink) -> bytes:
        """The bytes that the short link of an address shows, before it is used."""
        return await self._joining.shown_by(user, link)

    async def find_address(self, user: UserId, name: str) -> ContactAddress | None:
        return await self._inviting.find_address(user, name)

    async def accept(self, connection: ConnectionId, info: bytes = b"") -> None:
        await self._accepting.accept(connection, own_bytes(info, "the info"))

    async def accept_request(
        self, id: int, info: bytes = b"", name: str | None = None, pq: bool = False
    ) -> Connection:
        taken = own_bytes(info, "the info")
        return self._connection(await self._accepting.accept_request(id, taken, name, pq=pq))

    async def reject_request(self, id: int) -> None:
        await self._accepting.reject_request(id)

    async def send(self, connection: ConnectionId, body: bytes, *, notify: bool = False) -> int:
        return await self._sending.send(connection, body, notify=notify)

    def messages(self, connection: ConnectionId) -> AsyncIterator[Message]:
        assert self._messages is not None, "whoever shows events may read those of one apart"
        return self._messages(connection)

    async def delete(self, connection: ConnectionId) -> None:
        await self._leaving.delete(connection)

    async def find(self, user: UserId, which: ConnectionId | str) -> Connection | None:
        """The connection with this id or name."""
        if isinstance(which, str):
            record = await self._records.read(connections.named, user, which)
        else:
            record = await self._records.read(connections.get, which)
        is_ours = record is not None and not record.deleted and record.kind in PEERS
        return self._connection(record) if record is not None and is_ours else None

    async def everything(self, user: UserId) -> list[Connection]:
        """The connections of a user, ready or being made."""
        found: list[Connection] = []
        after = b""
        while page := await self._records.read(connections.page, user, after):
            found += [
                self._connection(record)
                for record in page
                if record.kind in PEERS and not record.deleted
            ]
            after = page[-1].id
        return found

    async def state(self, connection: ConnectionId) -> ConnectionState:
        """The state of a connection. Raises `StoreError` if there is none."""
        return await self._records.read(_state, connection)

    # Life.

    async def resume(self) -> None:
        """Continue what was unfinished when the agent stopped: commands, and unread events.
        `Sending.wake_all` is for waiting messages."""
        await self._announcements.resume()
        await self._commands.resume()

    async def close(self) -> None:
        """Stop. Stored work goes on when the agent is opened again."""
        await self._commands.close()
        await self._tasks.close()

    def _connection(self, record: ConnectionRecord) -> Connection:
        return Connection(self, record.id, record.name)

    # Reports of receiving and sending.

    def _follow(self, follow_up: FollowUp) -> None:
        if follow_up.continue_with is not None:
            # The peer has read: messages that waited after QUOTA go on at once.
            self._sending.continue_with(follow_up.continue_with)
        elif follow_up.was_full is not None:
            work = self._send_continue(follow_up.connection, follow_up.was_full)
            self._tasks.run(work, "continuing")
        else:
            self._tasks.run(self._after(follow_up.connection), "announcing")

    async def _after(self, connection: ConnectionId) -> None:
        """Show the events in the records for a connection, and send the messages stored for it."""
        pauses = Pauses(self._clock, FAST)
        while True:
            try:
                await self._announcements.update(connection)
                await self._sending.wake([connection])
                return
            except StoreError:
                await pauses.wait()

    async def _send_continue(self, connection: ConnectionId, key: QueueKey) -> None:
        try:
            message = await self._records.read(_continue_message, key)
            if message is not None:
                await self._sending.send_control(connection, message)
        except HeadgateError:
            return  # no peer yet, or no longer; the peer tries again by itself

    def _settled(self, connection: ConnectionId, is_application: bool) -> None:
        """Note that a message has reached the router, or was given up."""
        self._leaving.settled(connection)
        if not is_application:
            self._tasks.run(self._after(connection), "announcing")

    def _store_receipt(self, tables: Database, message: ReceivedMessage, now: float) -> None:
        if message.peer_id is None or message.hash is None:
            raise StoreError("only messages of connections have receipts")
        receipts = MessageReceipts((MessageReceipt(message.peer_id, message.hash),))
        fresh = self._draw(FRESH_BYTES)
        # A receipt that cannot be sent any more does not keep a message from being acknowledged.
        with suppress(LinkUsed, StoreError):
            self._sending.store(tables, message.connection, b"", False, now, fresh, receipts)


PEERS = (ConnectionKind.NEW, ConnectionKind.DUPLEX)
"""Kinds of connections that have a peer, now or later."""


# Jobs of the records.


def _state(tables: Database, connection: ConnectionId) -> ConnectionState:
    record = connections.get(tables, connection)
    if record is None:
        raise StoreError("the connection was deleted")
    ratchet = ratchets.get(tables, connection)
    has_state = ratchet is not None and ratchet.state is not None
    is_post_quantum = has_state and ratchet_of(ratchet).is_post_quantum
    return ConnectionState(record.status, is_post_quantum, record.info)


def _continue_message(tables: Database, key: QueueKey) -> ContinueSending | None:
    """The notice that a queue of ours has room again, with the queue as its sender knows it."""
    queue = receive_queues.get(tables, key)
    router = routers.get(tables, key[0])
    if queue is None or router is None:
        return None
    return ContinueSending(bare(router.address), queue.sender_id)
