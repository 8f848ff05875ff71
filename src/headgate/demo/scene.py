"""A short play with the router in the lead: what each subscriber receives, and why.

It shows the ways to subscribe, each in an act of its own: first with sessions inside the router's
process, then over the network, where the last client trusts nobody.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack

from headgate.client.bmq import Client, Subscription
from headgate.client.smp import requests
from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.core.channels.audience import Framing, Kind
from headgate.core.commands import Confirm, Create, Delete, Send, Subscribe
from headgate.core.effects import Deliver, End
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.message import Message, Properties
from headgate.core.model.value import EMPTY
from headgate.expr.predicate import compile_expression
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.wire.smp.codec.replies import Msg, Reply
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import Body

LINE = "scene.line"
ORDERS = "scene.orders"
ORDERS_QUEUE = "bmq://scene.orders/incoming"

DOMAINS: Mapping[str, Domain] = {
    LINE: Domain(LINE, Mode.EXCLUSIVE, max_messages=128),
    ORDERS: Domain(
        ORDERS,
        Mode.FANOUT,
        apps=("shipping", "audit"),
        filters={"audit": (compile_expression("amount >= 1000"),)},
        message_ttl=3600.0,
        journal_bodies=True,
    ),
}
"""The domains of the scene, beside those of the configuration."""

CONSUMERS = (
    ("express", "shipping", 'kind == "express"', 10, 'kind == "express" is true'),
    ("heavy", "shipping", "amount >= 1000", 5, "amount >= 1000 is true"),
    ("rest", "shipping", None, 1, "nobody with a higher priority wants it"),
    ("auditor", "audit", None, 0, "amount >= 1000 is true for its app"),
)
"""Name, app, expression, priority, and why each receives the one message that it does."""

POSTS: tuple[tuple[str, Properties], ...] = (
    ("one kidney", {"kind": "express", "amount": 90}),
    ("one book", {"kind": "standard", "amount": 20}),
    ("a piano", {"kind": "standard", "amount": 4000}),
)

SECONDS_MAX = 10.0
"""The scene is over in a moment; if it is not, something is wrong and it says so."""

Show = Callable[[str], None]

Explained = Callable[[str, Properties], Iterable[str]]
"""The router's plan for a message, in lines."""


async def play(router: Router, show: Show) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        await a_queue(router, show)
        fan_out(router, show)


async def a_queue(router: Router, show: Show) -> None:
    """Durable, one subscriber at a time, one message unconfirmed."""
    show("A queue: durable, one subscriber at a time, one message unconfirmed")
    queue = QueueId(secrets.token_bytes(24))
    alice, phone, tablet = (InProcessSession(router, name) for name in ("alice", "phone", "tablet"))
    await phone.ask(Create, queue, LINE, subscribe=True)
    for text in ("see you at six", "bring the tickets"):
        await alice.ask(Send, queue, _message(router, text))
        show(f"  alice sent       {text!r}; the receipt came after it was on disk")
    first = await phone.delivery()
    show(f"  phone received   {_text(first)!r}: it is the subscriber and nothing was in flight")
    await tablet.ask(Subscribe, queue)
    ended = await phone.events.get()
    assert isinstance(ended, End), "the phone is told that it is no longer the subscriber"
    show("  phone received   END: the tablet subscribed, and a queue has one subscriber")
    again = await tablet.delivery()
    show(f"  tablet received  {_text(again)!r}: the phone had not confirmed it")
    following = await tablet.ask(Confirm, queue, (again.message.id,))
    assert isinstance(following, Deliver), "a confirm is answered with the next message"
    show(f"  tablet received  {_text(following)!r}: the answer to its confirm")
    await tablet.ask(Confirm, queue, (following.message.id,))
    await tablet.ask(Delete, queue)
    _close(alice, phone, tablet)


class Received:
    """A message and the channel it came by."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        return Framing(lambda size: b"", b" on " + channel)


def fan_out(router: Router, show: Show) -> None:
    """Ephemeral: whoever is subscribed now receives, and nothing is kept."""
    show("A fan-out: whoever is subscribed now receives, nothing is kept")
    channels = router.broker.channels
    received = Received()
    names: dict[SessionId, str] = {}
    sessions = []
    for name, wanted in (("anna", b"news"), ("ben", b"news"), ("carl", b"sport")):
        session = InProcessSession(router, name)
        sessions.append(session)
        names[session.id] = name
        channels.subscribe(session.id, Kind.EXACT, [wanted], received)
    published = [(b"news", b"rain tomorrow"), (b"sport", b"two to one")]
    counts = channels.publish(Kind.EXACT, published)
    for (channel, body), receivers in zip(published, counts, strict=True):
        heard = f"{receivers} receiver{'' if receivers == 1 else 's'}"
        show(f"  published        {body.decode()!r} on {channel.decode()}: {heard}")
    for blob, receivers_of, _ in channels.take():
        for receiver in receivers_of:
            show(f"  {names[receiver]:<5}received    {blob.decode()!r}")
    _close(*sessions)


class Inbox:
    """The events of a link, as they come."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Reply] = asyncio.Queue()

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        self.events.put_nowait(event)

    def answered_late(self, link: Link, request: Request, reply: Reply) -> None:
        raise AssertionError("the scene waits for its answers")

    def unexpected(self, link: Link, report: Unexpected) -> None:
        raise AssertionError(f"the router of the scene has sent {report}")

    def lost(self, link: Link, reason: str) -> None:
        """Do nothing: requests that wait for an answer fail."""


async def sealed(address: str, show: Show, password: str | None = None) -> None:
    """A message of strangers: the router knows neither what it says nor who sent it. The password
    is what it asks of those who make queues."""
    async with asyncio.timeout(SECONDS_MAX):
        show("A sealed message: over TLS, to a queue that its sender knows by another id")
        show(f"  the router is    {address}")
        router = RouterAddress.parse(address)
        inbox = Inbox()
        async with (
            await Link.connect(router, inbox) as bob,
            await Link.connect(router, Inbox()) as amy,
        ):
            new = requests.new_queue(password=None if password is None else password.encode())
            queue = new.made(await bob.ask(new.request))
            show(
                f"  bob made         queue {queue.id.hex()[:8]}..., and gives away its sender's id:"
            )
            show(
                f"                   {queue.sender.hex()[:8]}... From one the other cannot be told"
            )
            await amy.ask(requests.send(queue.sender, b"the plum tree is in flower"))
            received = await inbox.events.get()
            assert isinstance(received, Msg), "the queue has one message"
            show(
                f"  bob received     {len(received.sealed)} bytes, {received.sealed.hex()[:16]}...,"
            )
            opened = queue.open(received)
            assert isinstance(opened, Body), "the queue is not full"
            show(f"                   and opened them: {opened.body.decode()!r}")
            await bob.ask(requests.acknowledge(queue.id, queue.key, received.message_id))
            await bob.ask(requests.delete(queue.id, queue.key))


async def orders(address: str, show: Show, explained: Explained) -> None:
    """Expressions over properties filter per app and route per consumer."""
    async with asyncio.timeout(SECONDS_MAX), AsyncExitStack() as stack:
        show(
            "Routed orders: expressions decide which app, and which consumer of it, gets a message"
        )
        show("  audit            wants only amount >= 1000; the rest is confirmed for it")
        shop = await stack.enter_async_context(await Client.connect(address, name="shop"))
        posting = await shop.open(ORDERS_QUEUE, write=True)
        consumers = []
        for name, app, expression, priority, _ in CONSUMERS:
            client = await stack.enter_async_context(await Client.connect(address, name=name))
            wanted = Subscription(expression, priority, max_unconfirmed_messages=10)
            uri = f"{ORDERS_QUEUE}?id={app}"
            consumers.append(await client.open(uri, read=True, subscriptions=[wanted]))
            shown_expression = expression or "no expression"
            show(f"  {name:<16} reads {app} with {shown_expression}, priority {priority}")
        for text, properties in POSTS:
            await posting.post(text.encode(), properties)
            shown = ", ".join(f"{name}={item!r}" for name, item in properties.items())
            show(f"  shop posted      {text!r} with {shown}")
        for (name, *_, why), queue in zip(CONSUMERS, consumers, strict=True):
            delivery = await anext(queue)
            show(f"  {name:<8}received {delivery.body.decode()!r}: {why}")
            await delivery.confirm()
        show("Why did the piano go where it went? headgate explain asks the router:")
        for line in explained(ORDERS_QUEUE, POSTS[-1][1]):
            show(f"  {line}")


def _message(router: Router, text: str, properties: Properties = EMPTY) -> Message:
    identity = MessageId(secrets.token_bytes(16))
    return Message(identity, text.encode(), router.clock(), properties)


def _text(delivery: Deliver) -> str:
    return delivery.message.body.decode()


def _close(*sessions: InProcessSession) -> None:
    for session in sessions:
        session.close()
