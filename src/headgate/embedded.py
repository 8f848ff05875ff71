"""A router inside your own process, for programs, tests and tools that need no socket.

::

    async with Router.open("sqlite:q.db", domains=[Domain.exclusive("mail")]) as router:
        alice, bob = router.session("alice"), router.session("bob")
        await bob.create("bob", domain="mail", subscribe=True)
        await alice.send("bob", b"hello")  # it is stored when this returns
        delivery = await bob.receive()
        await delivery.confirm()

It is the router that `headgate serve` runs, without its wires: accepted messages are in the store,
and an exclusive queue has one subscriber at a time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.client.bmq.subscription import Subscription
from headgate.core import commands, effects
from headgate.core.model.domain import Domain
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, PropertyValue
from headgate.core.model.queue_uri import SCHEME, parse_uri
from headgate.core.model.value import EMPTY
from headgate.core.model.window import Window
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router as ServedRouter
from headgate.store import open_store

__all__ = ["Delivery", "Router", "Session"]

ID_BYTES = 16


class Router:
    """A router with its store, while `open` has it open."""

    def __init__(self, router: ServedRouter) -> None:
        self._router = router

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: str = "memory:",
        *,
        domains: Iterable[Domain] = (),
        directory: Path | None = None,
        limits: Limits | None = None,
    ) -> AsyncIterator[Self]:
        """Open a store by its URL (`memory:`, `sqlite:FILE`, `postgresql://...`) and route with it.

        A relative file is below the directory, by default the current one. At the end all requests
        are finished, and the store is closed.
        """
        router = ServedRouter(
            store=open_store(store, directory or Path()),
            domains={domain.name: domain for domain in domains},
            limits=limits or Limits(),
        )
        await router.start()
        try:
            yield cls(router)
        finally:
            await router.stop()

    def session(self, name: str = "") -> Session:
        """A session of its own: its subscriptions are its own until it is closed."""
        return Session(self._router, name)


class Session:
    """A client of an embedded router: it sends, subscribes, receives and confirms.

    Names of exclusive queues are texts or bytes; shared queues are named by their address,
    ``bmq://DOMAIN/QUEUE``. A refused request raises a `HeadgateError` with the reason.
    """

    def __init__(self, router: ServedRouter, name: str) -> None:
        self._router = router
        self._session = InProcessSession(router, name)

    # Exclusive queues.

    async def create(self, queue: str | bytes, *, domain: str, subscribe: bool = False) -> None:
        """Make an exclusive queue and, if asked, subscribe to it."""
        await self._session.ask(commands.Create, _id(queue), domain, subscribe=subscribe)

    async def subscribe(self, queue: str | bytes) -> None:
        """Become the subscriber of an exclusive queue, in place of the present one."""
        self._keep(await self._session.ask(commands.Subscribe, _id(queue)))

    async def delete(self, queue: str | bytes) -> None:
        """Delete an exclusive queue with its messages."""
        await self._session.ask(commands.Delete, _id(queue))

    # Shared queues.

    async def open(
        self,
        queue: str,
        *,
        app: str = "",
        read: bool = True,
        write: bool = False,
        subscriptions: Iterable[Subscription] = (),
    ) -> None:
        """Open a shared queue, for an app of a fanout domain if it is named. Without subscriptions
        a reader gets all messages."""
        wanted = tuple(_interest(each) for each in subscriptions) or (commands.Interest(),)
        await self._session.ask(
            commands.Open,
            _id(queue),
            parse_uri(queue).domain,
            app,
            read=read,
            write=write,
            interests=wanted if read else (),
        )

    async def close_queue(self, queue: str, *, app: str = "") -> None:
        """Close a shared queue: other consumers get its unconfirmed messages."""
        await self._session.ask(commands.Close, _id(queue), app)

    # Messages.

    async def send(
        self,
        queue: str | bytes,
        body: bytes,
        properties: Mapping[str, PropertyValue] | None = None,
        *,
        id: bytes | None = None,
    ) -> bytes:
        """Send a message and return its id when it is stored. A message to a shared queue with an
        id that the queue remembers is not stored again."""
        name = MessageId(id or secrets.token_bytes(ID_BYTES))
        message = Message(name, body, self._router.clock(), dict(properties or EMPTY))
        await self._session.ask(commands.Send, _id(queue), message)
        return name

    async def receive(self) -> Delivery:
        """The next message for this session."""
        return Delivery(self, await self._session.delivery())

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        while True:
            yield await self.receive()

    async def _confirm(self, given: effects.Deliver) -> None:
        self._keep(
            await self._session.ask(
                commands.Confirm, given.queue, (given.message.id,), app=given.app
            )
        )

    def _keep(self, answer: effects.Effect) -> None:
        """Keep an answer that is itself the next message."""
        if isinstance(answer, effects.Deliver):
            self._session.events.put_nowait(answer)

    # The end.

    def close(self) -> None:
        """Leave: unconfirmed messages go to other consumers, or to the next subscriber."""
        self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        await asyncio.sleep(0)


class Delivery:
    """A message that a session got, until it is confirmed."""

    __slots__ = ("_given", "_session")

    def __init__(self, session: Session, given: effects.Deliver) -> None:
        self._session = session
        self._given = given

    @property
    def queue(self) -> str:
        return self._given.queue.decode(errors="backslashreplace")

    @property
    def id(self) -> bytes:
        return self._given.message.id

    @property
    def body(self) -> bytes:
        return self._given.message.body

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        return self._given.message.properties

    @property
    def attempts(self) -> int:
        """How many consumers were lost with this message."""
        return self._given.attempts

    async def confirm(self) -> None:
        """Confirm the message, so that the next one may come."""
        await self._session._confirm(self._given)


def _id(queue: str | bytes) -> QueueId:
    """The core's name of a queue: a shared one by its address without an app."""
    if isinstance(queue, str) and queue.startswith(SCHEME):
        queue = parse_uri(queue).canonical
    return QueueId(queue.encode() if isinstance(queue, str) else queue)


def _interest(wanted: Subscription) -> commands.Interest:
    window = Window(wanted.max_unconfirmed_messages, wanted.max_unconfirmed_bytes)
    return commands.Interest(wanted.expression, wanted.priority, window)
