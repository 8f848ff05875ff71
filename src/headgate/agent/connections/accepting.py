"""Accepting: answering the user of an invitation, or a request at an address."""

from __future__ import annotations

import asyncio
from dataclasses import field

from headgate.agent.connections import handshake
from headgate.agent.connections.command_tasks import ACCEPT
from headgate.agent.connections.joining import Joining
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.model import ConnectionId, QueueKey
from headgate.agent.queues import PRIVATE_BYTES
from headgate.agent.records import (
    commands,
    connections,
    ratchets,
    receive_queues,
    requests,
    routers,
    steps,
)
from headgate.agent.records.commands import INFO, CommandRecord
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.database import Database
from headgate.agent.records.requests import Asked
from headgate.agent.records.routers import Router
from headgate.agent.send_work import SENDER_KIND, SKEY
from headgate.agent.stored_keys import pack_key
from headgate.agent.tasks import result_of
from headgate.client.smp.recipient import make_key
from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES
from headgate.errors import StoreError
from headgate.wire.smp.agent.agent_messages import ReplyQueues, parse_content
from headgate.wire.smp.agent.links import InvitationLink, parse_link


@value
class AcceptKeys:
    """Keys drawn for one answer."""

    key: bytes = field(repr=False)
    """Secures the peer's queue."""
    private: bytes = field(repr=False)
    nonce: bytes = field(repr=False)


@value
class Accepted:
    """The queue and the router for an answer."""

    queue: QueueKey
    router: Router


class Accepting:
    """Answers confirmations and requests, each once: the stored answer removes the question."""

    def __init__(self, parts: ConnectionParts, joining: Joining) -> None:
        self._parts = parts
        self._joining = joining

    async def accept(self, connection: ConnectionId, info: bytes = b"") -> None:
        """Accept the user of our invitation. Raises `StoreError` if there is none, or it was
        accepted already, and `TooLong` for the info; then nothing is changed."""
        draw = self._parts.draw
        keys = AcceptKeys(
            pack_key(make_key(SENDER_KIND))[1], draw(PRIVATE_BYTES), draw(NONCE_BYTES)
        )
        written = self._parts.records.write(
            _accept, connection, info, keys, self._parts.clock.now()
        )
        written.add_done_callback(self._start)
        await result_of(written)

    async def do_accept(self, command: CommandRecord, record: ConnectionRecord) -> None:
        """Accept without asking the application, if there is a peer."""
        waiting = await self._parts.records.read(
            requests.waiting, Asked.CONFIRMATION, command.connection
        )
        if waiting:
            await self.accept(command.connection, command.arguments)

    async def accept_request(
        self, id: int, info: bytes = b"", name: str | None = None, pq: bool = False
    ) -> ConnectionRecord:
        """Accept a request at our address: join the invitation that it brought. Our queue is made
        on the router of the address."""
        found = await self._parts.records.read(_request, id)
        if found is None:
            raise StoreError("no such request: it was answered already")
        owner, router, link = found
        return await self._joining.join(
            owner.user, link, router.address, info, name, pq=pq, request=id
        )

    async def reject_request(self, id: int) -> None:
        """Drop a request."""
        await result_of(self._parts.records.write(requests.answer, Asked.REQUEST, id))

    def _start(self, done: asyncio.Future[Accepted]) -> None:
        if not done.cancelled() and done.exception() is None:
            accepted = done.result()
            self._parts.routers.add_router(accepted.router.id, accepted.router.address)
            self._parts.sending.start(accepted.queue)


# Jobs of the records.


def _accept(
    tables: Database, connection: ConnectionId, info: bytes, keys: AcceptKeys, now: float
) -> Accepted:
    """Step 4 of the handshake, before SKEY and the answer: the key, the ratchet and the answer."""
    record = connections.get(tables, connection)
    questions = requests.waiting(tables, Asked.CONFIRMATION, connection)
    if record is None or not questions:
        raise StoreError("nobody waits to be accepted: it was done, or the connection is gone")
    reply = parse_content(questions[0].content)
    assert isinstance(reply, ReplyQueues), "kept by us"
    target = handshake.reply_target(reply)
    router = routers.get(tables, routers.keep(tables, target.address.router))
    assert router is not None, "just kept"
    queue = handshake.send_queue(target, router.id, connection, keys.key, keys.private)
    queue = steps.before_skey(tables, queue, SKEY, queue.sender_id)
    made = handshake.answer(record, ratchets.get(tables, connection), queue, info, keys.nonce, now)
    steps.before_confirmation(tables, None, made.ratchet, made.message, queue.key)
    connections.amend(tables, connection, info=questions[0].info)
    requests.answer(tables, Asked.CONFIRMATION, questions[0].id)
    for command in commands.of_connections(tables, [connection])[connection]:
        if command.kind == ACCEPT:
            # The application was not asked about the peer, so its info is shown now.
            commands.remove(tables, command.id)
            commands.add(tables, connection, router.id, INFO, b"")
    return Accepted(queue.key, router)


def _request(tables: Database, id: int) -> tuple[ConnectionRecord, Router, InvitationLink] | None:
    """The address of a request, its router, and the link to join."""
    question = requests.get(tables, Asked.REQUEST, id)
    owner = None if question is None else connections.get(tables, question.connection)
    if question is None or owner is None:
        return None
    [queue, *_] = receive_queues.of_connections(tables, [owner.id])[owner.id]
    router = routers.get(tables, queue.router)
    assert router is not None, "a queue is at a router that is kept"
    link = parse_link(question.content.decode())
    assert isinstance(link, InvitationLink), "checked when it came"
    return owner, router, link
