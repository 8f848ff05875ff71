"""Fetching single messages of plain queues that are not subscribed, with GET.

A router does not let a session that has read a queue with GET subscribe to it, for as long as the
session lasts. So each fetch has a link of its own, which ends with the acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.events import DeliveryEvent, Message, Problem, ProblemKind, QueueFull
from headgate.agent.model import QueueKey, QueueRow
from headgate.agent.openers import PlainOpener
from headgate.agent.operations import Operations
from headgate.agent.ports import FetchPort
from headgate.agent.records import Records, receive_queues, received, steps
from headgate.agent.records.connections import ConnectionKind
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.stored_keys import unpack_key
from headgate.agent.taking import Full, Openers, Origin, Repeated, Stored, Unreadable, take_in
from headgate.agent.tasks import Tasks
from headgate.client.smp import requests
from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.errors import HeadgateError, Prohibited, StoreError
from headgate.wire.smp.codec import replies as r

PLAIN_ONLY: Final[Openers] = {ConnectionKind.RECEIVE: PlainOpener()}


class Fetching:
    """The fetching of messages, each over a link of its own. Owned by an agent.

    What must hold: a queue under a fetch is not subscribed, and locked until its message is
    acknowledged, or there is none, or the link is over; a message is shown only when it is stored.
    """

    def __init__(
        self,
        records: Records,
        routers: FetchPort,
        show: Callable[[DeliveryEvent], None],
        *,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
    ) -> None:
        self.records = records
        self.routers = routers
        self.show = show
        self.operations = operations or Operations()
        self.clock = clock or SystemClock()
        self.tasks = Tasks()
        self.under_way: set[_Fetch] = set()

    async def fetch(self, key: QueueKey) -> Message | None:
        """The first message of a queue, or None. Raises `Prohibited` if the queue is subscribed or
        a message of it is not acknowledged yet, errors of connecting, and `StoreError`."""
        queue = await self.records.read(receive_queues.get, key)
        if queue is None or queue.deleted:
            raise StoreError("there is no such queue any more; make it again")
        await self._finished(key)
        fetch = _Fetch(self, queue)
        if not self.routers.lock(queue.user, queue.router, fetch.row):
            raise Prohibited(
                "the queue is subscribed, or a message of it was fetched and not acknowledged"
            )
        self.under_way.add(fetch)
        message = None
        try:
            await fetch.open()
            message = await fetch.next()
        finally:
            # S004-26: a cancelled caller leaves no lock.
            if message is None:
                fetch.end()
        return message

    async def _finished(self, key: QueueKey) -> None:
        """Wait for the end of an acknowledged fetch, so that the next can begin at once."""
        for before in [each for each in self.under_way if each.key == key]:
            if before.finishing is not None:
                await asyncio.wait([before.finishing])

    async def close(self) -> None:
        """Stop. Unacknowledged messages come again."""
        for fetch in list(self.under_way):
            fetch.end()
        await self.tasks.close()


class _Fetch:
    """One fetch: the handler of its link."""

    def __init__(self, owner: Fetching, queue: ReceiveQueue) -> None:
        self.key = queue.key
        self.row = QueueRow(queue.recipient_id, queue.connection, queue.assoc)
        self.finishing: asyncio.Task[None] | None = None
        """The task that acknowledges at the router what the application has acknowledged."""
        self._owner = owner
        self._queue = queue
        self._private = unpack_key(queue.key_kind, queue.private_key)
        self._link: Link | None = None
        self._is_over = False

    async def open(self) -> None:
        self._link = await self._owner.routers.connect_alone(self._queue.router, self)

    async def next(self) -> Message | None:
        """The first message that the application has not acknowledged."""
        owner, queue = self._owner, self._queue
        while True:
            async with owner.operations.operation():
                reply = await self._ask(requests.get(queue.recipient_id, self._private))
                if not isinstance(reply, r.Msg):
                    return None
                now = owner.clock.now()
                taken = await owner.records.write(take_in, queue.key, reply, PLAIN_ONLY, now)
                match taken:
                    case Stored(origin, message, body):
                        return self._message(origin, message, body, message.attempts)
                    case Repeated(origin, message) if not message.acked:
                        found = await owner.records.read(received.body, message.id)
                        attempts = await owner.records.write(received.count, message.id)
                        if found is not None:
                            return self._message(origin, message, found, attempts)
                    case Full(origin):
                        owner.show(
                            QueueFull(origin.user, origin.router, origin.connection, origin.queue)
                        )
                    case Unreadable(origin, reason):
                        owner.show(_unreadable(origin, reply, reason))
                    case None:
                        return None
                # Acknowledged before, or not for the application.
                await self._acknowledge(reply.message_id)

    def _message(
        self, origin: Origin, message: ReceivedMessage, body: bytes, attempts: int
    ) -> Message:
        return Message(
            origin.connection,
            origin.queue,
            message.id,
            body,
            attempts,
            message.broker_seconds,
            self.acknowledge,
        )

    async def acknowledge(self, id: int, receipt: bool = False) -> None:
        """Acknowledge the message. Senders of plain queues get no receipts."""
        marked = self._owner.records.write(steps.before_ack, id)
        marked.add_done_callback(self._marked)
        # Even if the caller is cancelled here, it is acknowledged: the mark is being stored.
        await asyncio.shield(marked)

    def _marked(self, done: asyncio.Future[ReceivedMessage]) -> None:
        if not done.cancelled() and done.exception() is None:
            work = self._finish(done.result().broker_id)
            self.finishing = self._owner.tasks.run(work, "acknowledging")

    async def _finish(self, broker_id: bytes) -> None:
        try:
            await self._acknowledge(broker_id)
        except HeadgateError:
            pass  # ACC-99: it comes again, and is recognised.
        finally:
            self.end()

    async def _acknowledge(self, broker_id: bytes) -> None:
        queue = self._queue
        await self._ask(requests.acknowledge(queue.recipient_id, self._private, broker_id))

    async def _ask(self, request: Request) -> r.Reply:
        assert self._link is not None, "a fetch that was opened"
        return await self._link.ask(request)

    def end(self) -> None:
        """Close the link, and release the queue."""
        if self._is_over:
            return
        self._is_over = True
        owner, queue = self._owner, self._queue
        owner.under_way.discard(self)
        # S000-55: it may be subscribed from now on.
        owner.routers.unlock(queue.user, queue.router, self.row)
        if self._link is not None:
            self._link.close()
            owner.tasks.run(self._link.wait_closed(), "closing a link", to_end=True)

    # Calls of the link.

    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        """Nothing is pushed to a session that has no subscription."""

    def answered_late(self, link: Link, request: Request, reply: r.Reply) -> None:
        """Ignore it: the caller has left, and so has the link."""

    def unexpected(self, link: Link, report: Unexpected) -> None:
        """Ignore it: the link is short; the next one starts anew."""

    def lost(self, link: Link, reason: str) -> None:
        self.end()


def _unreadable(origin: Origin, message: r.Msg, reason: str) -> Problem:
    return Problem(
        origin.user,
        origin.router,
        ProblemKind.UNREADABLE,
        reason,
        connection=origin.connection,
        broker_id=message.message_id,
    )
