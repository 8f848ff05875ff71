"""Messages on their way to the router, until it acknowledges them.

A limited number is on its way; others wait for room, in order. When a connection is lost, the
messages on their way are sent again over the next one, also in order.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headgate.client.bmq.errors import NotAccepted
from headgate.errors import HeadgateError
from headgate.wire.bmq.codec.messages import Ack, AckStatus, Put


@dataclass(slots=True, eq=False)
class Post:
    """A message, and the caller that waits for its acknowledgement."""

    put: Put
    done: asyncio.Future[None]
    """Done when the router accepted it."""


class Posts:
    """The messages of a client that wait for room, or for their acknowledgement.

    Owned by the client's session. Every post ends once: acknowledged, refused, or closed.
    """

    def __init__(self, messages_max: int, bytes_max: int, send: Callable[[Put], None]) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._send = send
        self._sent: dict[bytes, Post] = {}
        self._bytes = 0
        self._waiting: OrderedDict[bytes, Post] = OrderedDict()

    def __iter__(self) -> Iterator[Put]:
        """The messages that were sent, or would have been with a connection."""
        return iter([post.put for post in self._sent.values()])

    def add(self, put: Put) -> Post:
        """Send it when there is room."""
        post = Post(put, asyncio.get_running_loop().create_future())
        self._waiting[put.guid] = post
        self._admit()
        return post

    def discard(self, post: Post) -> None:
        """Drop a message whose caller has left or has its answer."""
        if self._sent.pop(post.put.guid, None) is not None:
            self._bytes -= len(post.put.data)
        else:
            self._waiting.pop(post.put.guid, None)
        self._admit()

    def settle(self, acks: Iterable[Ack]) -> None:
        """Apply acknowledgements. An unknown one is of a message that was given up, or needed no
        answer."""
        for ack in acks:
            post = self._sent.pop(ack.guid, None)
            if post is None:
                continue
            self._bytes -= len(post.put.data)
            if post.done.done():
                continue  # cancelled a moment ago
            if ack.status == AckStatus.SUCCESS:
                post.done.set_result(None)
            else:
                post.done.set_exception(NotAccepted(ack.status))
        self._admit()

    def fail(self, error: HeadgateError, queue: int | None = None) -> None:
        """Fail the messages for one queue, or all of them."""
        failed = [post for post in self._all() if queue in (None, post.put.queue)]
        for post in failed:
            if not post.done.done():
                post.done.set_exception(error)
            self._waiting.pop(post.put.guid, None)
        for post in failed:
            self.discard(post)

    async def settled(self, queue: int) -> None:
        """Wait until no message for a queue is on its way."""
        while waiting := [post.done for post in self._all() if post.put.queue == queue]:
            await asyncio.wait(waiting)
            await asyncio.sleep(0)  # a caller that waits for one of them removes it

    def _all(self) -> list[Post]:
        return [*self._sent.values(), *self._waiting.values()]

    def _admit(self) -> None:
        sent = self._sent
        while self._waiting and len(sent) < self._messages_max:
            guid, post = next(iter(self._waiting.items()))
            size = len(post.put.data)
            if sent and self._bytes + size > self._bytes_max:
                break  # a larger one goes alone
            del self._waiting[guid]
            if not post.done.done():
                sent[guid] = post
                self._bytes += size
                self._send(post.put)
