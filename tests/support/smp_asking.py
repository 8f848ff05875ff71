"""Short ways to ask one thing, and what is often answered."""

from __future__ import annotations

from headgate.client.smp.recipient import Key, Queue, Request, spki
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Err, Msg, Ok, Reply, Sok
from headgate.wire.smp.codec.sealed import QuotaMarker

OK = Ok()
SOK = Sok()
AUTH = Err("AUTH")
NO_MSG = Err("NO_MSG")
QUOTA = Err("QUOTA")
BLOCK = Err("BLOCK")
PROHIBITED = Err("CMD PROHIBITED")


async def one(client: SmpClient, request: Request) -> Reply:
    (reply,) = await client.ask(request)
    return reply


async def asks(client: SmpClient, queue: Queue, command: c.Command | bytes) -> Reply:
    """A command of the recipient."""
    return await one(client, queue.asks(command))


async def secure(client: SmpClient, queue: Queue, sender: Key) -> Reply:
    return await asks(client, queue, c.Key(spki(sender)))


async def message(client: SmpClient, queue: Queue) -> Msg:
    """The next event, which is a message of this queue."""
    entity, reply = await client.event()
    assert entity == queue.id
    assert isinstance(reply, Msg)
    return reply


def body(queue: Queue, reply: Reply) -> bytes:
    """What the sender sent."""
    opened = queue.open(reply)
    assert not isinstance(opened, QuotaMarker), "a message"
    return opened.body


async def receive(client: SmpClient, queue: Queue, reply: Reply | None = None) -> list[bytes]:
    """Everything in a queue, acknowledged one by one, beginning with this message or the next
    event."""
    bodies = []
    reply = await message(client, queue) if reply is None else reply
    while isinstance(reply, Msg):
        bodies.append(body(queue, reply))
        reply = await client.ack(queue, reply.message_id)
    assert reply == OK
    return bodies
