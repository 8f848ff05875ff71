"""Making the queue of a connection: at the router first, then in the records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from headgate.agent.connections.link_planning import plan_link
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.model import ConnectionId, RouterId, UserId
from headgate.agent.queues import PRIVATE_BYTES
from headgate.agent.records import routers
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.stored_keys import pack_key
from headgate.agent.tasks import result_of
from headgate.client.smp.requests import CORRELATION_BYTES, new_queue
from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key
from headgate.crypto.proof import link_sender
from headgate.errors import HeadgateError, UnexpectedReply
from headgate.wire.smp.agent.links import ConnectionLink
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.versions import CLIENT_VERSIONS
from headgate.wire.smp.codec.replies import Ids
from headgate.wire.smp.codec.router_address import RouterAddress

Keep: TypeAlias = Callable[[Database, ReceiveQueue, QueueAddress], object]
"""A job of the records that stores a queue with its connection or address."""


@value
class ShortLinkWish:
    """A wish for a short link of a queue: its target, once the address is known, and the bytes that
    it shows."""

    link_of: Callable[[QueueAddress], ConnectionLink]
    shown: bytes


async def make_queue(
    parts: ConnectionParts,
    user: UserId,
    place: RouterId,
    connection: ConnectionId,
    purpose: Purpose,
    keep: Keep,
    wish: ShortLinkWish | None = None,
    then: Callable[[], object] | None = None,
) -> tuple[ReceiveQueue, QueueAddress]:
    """Make a queue at a stored router. A NEW whose answer is lost leaves an unknown queue, which
    the router removes after a while. A router without short links makes the queue without one. If
    the caller is cancelled the queue may be made all the same: then it is stored, and `then` is
    called."""
    router = await parts.records.read(routers.get, place)
    assert router is not None, "kept before"
    private, correlation = parts.draw(PRIVATE_BYTES), parts.draw(CORRELATION_BYTES)
    planned = None
    if wish is not None:
        # The sender's id is derived from the correlation id, so the address is known before the
        # queue.
        address = queue_address(router.address, link_sender(correlation), private, purpose)
        planned = plan_link(wish.link_of(address), wish.shown, parts.draw)
    password = router.address.password
    wanted = new_queue(
        purpose=purpose,
        link=None if planned is None else planned.data,
        password=None if password is None else password.encode(),
        correlation=correlation,
    )
    session, (outcome,) = await parts.routers.ask(user, place, connection, [wanted.request])
    if isinstance(outcome, HeadgateError):
        raise outcome
    assert isinstance(outcome, Ids), "what answers NEW"
    assert session is not None, "what answered has a session"
    made = wanted.made(outcome)
    queue = ReceiveQueue(
        place,
        outcome.recipient,
        user,
        connection,
        *pack_key(made.key),
        made.secret,
        private,
        sender_id=outcome.sender,
        mode=purpose.name.lower(),
    )
    if planned is not None and outcome.link is not None:
        if outcome.sender != link_sender(correlation):
            raise UnexpectedReply("a queue with a link, and another id for its sender than it has")
        queue = replace(
            queue,
            link_id=outcome.link,
            link_key=planned.key,
            link_root_key=planned.root_key,
            link_fixed=planned.fixed,
        )
    address = queue_address(router.address, queue.sender_id, private, purpose)

    async def store() -> None:
        await parts.records.write(keep, queue, address)
        parts.routers.created(session, queue.recipient_id, connection, outcome.service)
        if then is not None:
            then()

    await result_of(asyncio.ensure_future(store()))
    return queue, address


def queue_address(
    router: RouterAddress, sender_id: bytes, private: bytes, purpose: Purpose
) -> QueueAddress:
    """The address of a queue of ours; `private` is our key of X25519 for it."""
    public = encode_key(KeyKind.X25519, public_of(private))
    return QueueAddress(CLIENT_VERSIONS, bare(router), sender_id, public, purpose)


def bare(router: RouterAddress) -> RouterAddress:
    """The router without its password, which is for making queues and not for senders."""
    return RouterAddress(router.hosts, router.written_port, router.key_hash)
