"""The session, which outlives a connection: open queues, posts on their way, the next connection.

When a link is lost another follows, after growing pauses. It is used once the queues are open on it
as they were, and begins with all unacknowledged messages.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import count
from typing import Protocol, TypeAlias, TypeVar

from headgate.client.bmq.address import Address
from headgate.client.bmq.errors import Closed, LinkBroken, RequestRefused
from headgate.client.bmq.guids import Guids
from headgate.client.bmq.link import Link
from headgate.client.bmq.posts import Posts
from headgate.core.model.queue_uri import QueueUri
from headgate.core.model.value import value
from headgate.errors import HeadgateError, NotConnected, Refused
from headgate.wire.bmq.codec.control import Category, ClientIdentity
from headgate.wire.bmq.codec.messages import Ack, Push, Put
from headgate.wire.bmq.negotiation import FEATURES, Token

T = TypeVar("T")

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 10.0
"""Seconds between two attempts to connect again."""

ATTEMPT_SECONDS_MAX = 10.0
"""Seconds for one attempt, the opening of queues included."""

LATER = (Category.NOT_READY, Category.TIMEOUT, Category.CANCELED, Category.NOT_CONNECTED)
"""Refusals that are temporary: the router is only just starting, for example."""


@value
class Lost:
    """The connection is lost; another attempt is under way."""

    reason: str


@value
class Restored:
    """The connection is there again, and the queues are open as they were."""

    seconds: float
    """Seconds without a connection."""


Change: TypeAlias = Lost | Restored


@value
class Settings:
    """Settings of a client: its connection, and its limits."""

    timeout: float
    patience: float
    posts_max: int
    posts_bytes_max: int
    name: str
    """The client's name in the router's log and in explanations."""
    token: str | None = field(default=None, repr=False)
    """Proves this name."""
    on_change: Callable[[Change], None] | None = None


class Member(Protocol):
    """An open queue, as the session sees it."""

    name: QueueUri
    number: int
    is_open: bool

    async def open(self, link: Link) -> None:
        """Open it again, as it was."""
        ...

    def abandon(self, link: Link) -> None:
        """Close it on this link, without waiting for the answer."""
        ...

    def take(self, link: Link, push: Push, subscription: int) -> bool:
        """Take a message if it is for this queue, by the number of the subscription; return whether
        it was."""
        ...

    def lost(self, link: Link) -> None: ...

    def end(self, error: HeadgateError) -> None:
        """End the queue with this reason."""
        ...


class Session:
    """The session of a client: started by `start`, and then used until `close`."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self.settings = settings
        self.guids = Guids()
        self.link: Link | None = None
        """The present link, if there is one."""
        self.posts = Posts(settings.posts_max, settings.posts_bytes_max, self._send)
        self.subscription_numbers = count(1)
        """Numbers are never used again, so that a message identifies its subscription, even if that
        was replaced meanwhile."""
        self._address = address
        self._identity = ClientIdentity(
            process_name=presented(settings),
            pid=os.getpid(),
            host_name=socket.gethostname(),
            features=FEATURES,
            guid_info=self.guids.info,
        )
        self._request_numbers = count(1)
        self._queue_numbers = count()
        self._app_numbers = count(1)
        self._members: dict[QueueUri, Member] = {}
        self._sharing: dict[int, list[Member]] = {}
        """The open queues with one queue number."""
        self._ready = asyncio.Event()
        self._failure: HeadgateError | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the first connection; it is tried once."""
        link = self.link = await self._connect()
        self._ready.set()
        self._watching = asyncio.create_task(self._watch(link), name="bmq session")

    async def close(self) -> None:
        link, self.link = self.link, None
        self._fail(Closed("the client was closed"))
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if link is not None:
            with suppress(TimeoutError, HeadgateError):
                async with asyncio.timeout(self.settings.timeout):
                    await link.leave()

    def check(self) -> None:
        """Raise the reason if the session is over."""
        if self._failure is not None:
            raise self._failure

    async def connected(self) -> Link:
        """The link, once there is one."""
        while self.link is None:
            self.check()
            await self._ready.wait()
        return self.link

    async def asking(self, ask: Callable[[Link], Awaitable[T]]) -> T:
        """Send a request over the link; if that is lost before the answer, over the next."""
        while True:
            link = await self.connected()
            try:
                return await ask(link)
            except LinkBroken:
                self.check()

    # Queues.

    def numbers(self, uri: QueueUri) -> tuple[int, int]:
        """The numbers of a queue and of an app of it to be opened. All open apps of a queue, and
        its sender, share the queue's number."""
        canonical = uri.canonical
        others = [m.number for name, m in self._members.items() if name.canonical == canonical]
        number = others[0] if others else next(self._queue_numbers)
        return number, next(self._app_numbers) if uri.app else 0

    def has(self, uri: QueueUri) -> bool:
        return uri in self._members

    def add(self, member: Member) -> None:
        self._members[member.name] = member
        self._sharing.setdefault(member.number, []).append(member)

    def remove(self, member: Member) -> None:
        del self._members[member.name]
        sharing = self._sharing[member.number]
        sharing.remove(member)
        if not sharing:
            del self._sharing[member.number]

    def is_last(self, member: Member) -> bool:
        """Whether no other open queue has its number."""
        return all(other is member for other in self._sharing.get(member.number, ()))

    # Calls of the link.

    def acknowledged(self, acks: Sequence[Ack]) -> None:
        self.posts.settle(acks)

    def pushed(self, link: Link, pushes: Sequence[Push]) -> None:
        """Drop pushes for a queue that was just closed; the router redelivers them."""
        for push in pushes:
            for number in push.subscriptions:
                for member in self._sharing.get(push.queue, ()):
                    if member.take(link, push, number):
                        break

    def lost(self, link: Link) -> None:
        if link is self.link:
            self.link = None
            self._ready.clear()
        for member in self._members.values():
            member.lost(link)

    # Inside.

    def _send(self, put: Put) -> None:
        """Send a message. Without a link it is sent with the others when there is one."""
        if self.link is not None:
            self.link.put(put)

    async def _connect(self) -> Link:
        return await Link.connect(self._address, self._identity, self._request_numbers, self)

    async def _watch(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await link.over()
                since = loop.time()
                self._announce(Lost(link.reason))
                link = await self._restore(link.reason)
                self._announce(Restored(loop.time() - since))
        except NotConnected as error:
            self._fail(error)
        except Exception as error:
            self._fail(NotConnected(f"a mistake in the client: {error!r}"))
            raise

    async def _restore(self, reason: str) -> Link:
        """Connect again. Raises `NotConnected` when the patience is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.patience
        for pause in pauses():
            if loop.time() + pause >= deadline:
                break
            await asyncio.sleep(pause)
            attempt = min(deadline, loop.time() + ATTEMPT_SECONDS_MAX)
            try:
                async with asyncio.timeout_at(attempt):
                    return await self._resume()
            except TimeoutError:
                reason = "it does not answer in time"
            except HeadgateError as error:
                reason = str(error)
        raise NotConnected(
            f"no router on {self._address} for {self.settings.patience:g} seconds: {reason}"
        )

    async def _resume(self) -> Link:
        link = await self._connect()
        try:
            wanted = [member for member in self._members.values() if member.is_open]
            opened = [member for member in wanted if await self._reopen(link, member)]
            if not link.is_open:
                raise LinkBroken(link.reason)
        except BaseException as error:
            link.abort(str(error))
            raise
        for member in opened:
            if self._members.get(member.name) is not member:
                member.abandon(link)  # it was closed meanwhile
        self.link = link
        for put in self.posts:
            link.put(put)
        self._ready.set()
        return link

    async def _reopen(self, link: Link, member: Member) -> bool:
        """Open a queue again. If the router refuses, that queue ends and the others go on."""
        try:
            await member.open(link)
        except Refused as error:
            if isinstance(error, RequestRefused) and error.category in LATER:
                raise
            if self._members.get(member.name) is member:
                self.remove(member)
            member.end(error)
            return False
        return True

    def _fail(self, error: HeadgateError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self.posts.fail(error)
        for member in self._members.values():
            member.end(error)
        self._ready.set()

    def _announce(self, change: Change) -> None:
        """Call the callback; its exceptions are its own."""
        if self.settings.on_change is not None:
            asyncio.get_running_loop().call_soon(self.settings.on_change, change)


def presented(settings: Settings) -> str:
    """The name of the process in the hello, which carries the token."""
    if settings.token is None:
        return settings.name
    return str(Token(settings.name, settings.token))


def pauses() -> Iterator[float]:
    """Pauses between attempts: growing, with jitter, so that the clients of a lost router
    spread."""
    pause = PAUSE_SECONDS_MIN
    while True:
        yield min(PAUSE_SECONDS_MAX, pause * random.uniform(1, 2))
        pause = min(PAUSE_SECONDS_MAX, pause * 2)
