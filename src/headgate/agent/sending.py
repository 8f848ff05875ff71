"""Sending: a message is stored, and then sent until its router has it or it is given up.

Each send queue has one worker, so messages of a queue keep their order. See
docs/design/agent-delivery.md.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.connections.handshake import CONFIRMATION
from headgate.agent.engine.backoff import spread
from headgate.agent.events import DeliveryEvent, Failed, Sent, StoreFailed, Warned
from headgate.agent.given_bytes import own_bytes
from headgate.agent.model import ConnectionId, QueueKey
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, SLOW, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, connections, outgoing, send_queues, steps
from headgate.agent.records.connections import ConnectionKind
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import (
    GIVE_UP_QUOTA_SECONDS,
    GIVE_UP_SECONDS,
    DeliveryRecord,
    MessageKey,
)
from headgate.agent.sealers import (
    FRESH_BYTES,
    REFUSED,
    SECURED,
    Outgoing,
    PlainSealer,
    Sealer,
)
from headgate.agent.send_work import (
    ADDRESS,
    SENDER_KIND,
    Work,
    described,
    next_work,
    queues_with_work,
    secured,
    sent,
)
from headgate.agent.stored_keys import unpack_key
from headgate.agent.taking import NOTIFY
from headgate.agent.tasks import Tasks
from headgate.client.smp.failures import may_pass
from headgate.client.smp.recipient import Request
from headgate.client.smp.requests import secure_as_sender, send
from headgate.core.model.value import value
from headgate.errors import HeadgateError, LinkUsed, RequestRefused, StoreError
from headgate.wire.smp.agent.agent_messages import AgentMessage

QUOTA: Final = "QUOTA"
GROUP: Final = 1000
"""Messages given up in one transaction."""

Sealers: TypeAlias = Mapping[ConnectionKind, Sealer]

GivenUp: TypeAlias = dict[ConnectionId, tuple[int, ...]]
"""Messages given up by connection, of those that the application sent."""

PLAIN_ONLY: Final[Sealers] = {ConnectionKind.SEND: PlainSealer()}


class Sending:
    """The sending of an agent: messages are stored, and then sent.

    What must hold: a message is stored when `send` has returned, and is then sent or given up,
    which an event reports; messages of a queue are sent in the order of `send`; a message that is
    sent again is the same bytes; one that fails does not stop later ones.
    """

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        show: Callable[[DeliveryEvent], None],
        *,
        sealers: Sealers = PLAIN_ONLY,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._records = records
        self._routers = routers
        self._show = show
        self._sealers = sealers
        self._operations = operations or Operations()
        self._clock = clock or SystemClock()
        self._draw = draw
        self._tasks = Tasks()
        self._workers: dict[QueueKey, _Worker] = {}
        self.settled: Callable[[ConnectionId, bool], None] | None = None
        """Called after a message was sent or given up; with whether the application sent it."""

    async def send(self, connection: ConnectionId, body: bytes, *, notify: bool = False) -> int:
        """Store a message for a connection; return the id in its events. Raises `TooLong`, or
        `LinkUsed` if the queue has another sender, and `StoreError`; then nothing is stored."""
        taken = own_bytes(body, "a message")
        now, fresh = self._clock.now(), self._draw(FRESH_BYTES)
        stored = self._records.write(self.store, connection, taken, notify, now, fresh)
        stored.add_done_callback(self._stored)
        # Even if the caller is cancelled here, the message is sent.
        id, _ = await asyncio.shield(stored)
        return id

    async def send_control(self, connection: ConnectionId, message: AgentMessage) -> None:
        """Store a message of the agent itself to the peer's."""
        now, fresh = self._clock.now(), self._draw(FRESH_BYTES)
        stored = self._records.write(self.store, connection, b"", False, now, fresh, message)
        stored.add_done_callback(self._stored)
        await asyncio.shield(stored)

    async def secure(self, queue: QueueKey) -> None:
        """Secure an opened queue now. Raises `LinkUsed` if another agent did; after a temporary
        error it goes on in the background."""
        known = await self._records.read(send_queues.get, queue)
        if known is not None and known.status == REFUSED:
            raise LinkUsed(ADDRESS)
        work = await self._records.read(next_work, queue)
        if work is None or not work.is_securing:
            return
        async with self._operations.operation():
            failure = await self._secure(work)
        if failure is None:
            return
        if may_pass(failure):
            self.start(queue)
            return
        raise described(failure, ADDRESS) from failure

    def start(self, queue: QueueKey) -> None:
        """Have the waiting messages of a queue sent."""
        worker = self._workers.get(queue)
        if worker is not None:
            worker.has_more = True
            return
        self._workers[queue] = worker = _Worker()
        self._tasks.run(self._work(queue, worker), "sending")

    async def wake(self, wanted: Iterable[ConnectionId]) -> None:
        """Continue the unfinished work of these connections."""
        # S000-54: waiting messages and commands go on when their connection is subscribed.
        for queue in await self._records.read(queues_with_work, list(wanted)):
            self.start(queue)

    async def wake_all(self) -> None:
        """Continue all unfinished work."""
        after: QueueKey = (0, b"")
        while page := await self._records.read(outgoing.queues_page, after):
            for queue in page:
                self.start(queue)
            after = page[-1]

    def continue_with(self, queue: QueueKey) -> None:
        """Go on at once: the recipient has room again."""
        worker = self._workers.get(queue)
        if worker is not None:
            worker.may_continue.set()

    async def close(self) -> None:
        """Stop. Stored messages are sent when the agent is opened again."""
        await self._tasks.close()

    # Storing.

    def store(
        self,
        tables: Database,
        connection: ConnectionId,
        body: bytes,
        notify: bool,
        now: float,
        fresh: bytes,
        control: AgentMessage | None = None,
    ) -> tuple[int, list[QueueKey]]:
        """Store a message: a job of the records. Then the workers of its queues have to be
        started."""
        record = connections.get(tables, connection)
        queues = send_queues.of_connection(tables, connection)
        sealer = None if record is None else self._sealers.get(record.kind)
        if record is None:
            raise StoreError("nothing can be sent: there is no such connection any more")
        if sealer is None or not queues:
            raise StoreError("nothing can be sent: it only receives, or is not Connected yet")
        if queues[0].status == REFUSED:
            raise LinkUsed(ADDRESS)
        id = record.sent_id + 1
        message = Outgoing(connection, id, body, notify, now, fresh, control)
        kept, ratchet = sealer.seal(tables, queues[0], message)
        keys = [queue.key for queue in queues]
        steps.before_send(tables, kept, keys, ratchet)
        return id, keys

    def _stored(self, done: asyncio.Future[tuple[int, list[QueueKey]]]) -> None:
        if not done.cancelled() and done.exception() is None:
            for queue in done.result()[1]:
                self.start(queue)

    # The worker of a queue.

    async def _work(self, queue: QueueKey, worker: _Worker) -> None:
        pauses = Pauses(self._clock, FAST)
        try:
            while True:
                worker.has_more = False
                try:
                    async with self._operations.operation():
                        work = await self._records.read(next_work, queue)
                        delay = None if work is None else await self._do(work)
                    # There is no await between the check and the return: a message stored now finds
                    # no worker.
                    if work is None and not worker.has_more:
                        return
                except StoreError as error:
                    if not worker.is_refused:
                        worker.is_refused = True
                        self._show(StoreFailed(str(error)))
                    await pauses.wait()
                    continue
                worker.is_refused = False
                if delay is None:
                    pauses.reset()
                elif delay.seconds is None:
                    await pauses.wait()
                else:
                    await self._pause(worker, delay)
        finally:
            del self._workers[queue]

    async def _pause(self, worker: _Worker, delay: _Delay) -> None:
        assert delay.seconds is not None, "of a message"
        worker.may_continue.clear()
        until = worker.may_continue if delay.is_quota else asyncio.Event()
        await self._clock.wait(spread(delay.seconds, self._clock.jitter()), until)

    async def _do(self, work: Work) -> _Delay | None:
        """Do the next work; return how long to wait before the next."""
        if work.is_securing:
            failure = await self._secure(work)
        else:
            failure = await self._deliver(work)
        if failure is None:
            return None
        is_quota = isinstance(failure, RequestRefused) and failure.error == QUOTA
        if not is_quota and not may_pass(failure):
            if not work.is_securing:
                await self._give_up_one(work, failure)
            return None
        if work.delivery is None:
            return _Delay()
        return await self._put_off(work.delivery, failure, is_quota)

    async def _secure(self, work: Work) -> HeadgateError | None:
        """Secure a queue. If another agent has, all its messages are given up."""
        queue = work.queue
        assert queue.private_key is not None, "kept before the queue is secured"
        key = unpack_key(SENDER_KIND, queue.private_key)
        failure = await self._ask(work, secure_as_sender(queue.sender_id, key))
        if failure is None:
            await self._records.write(secured, queue, SECURED)
        elif not may_pass(failure):
            await self._records.write(secured, queue, REFUSED)
            while gone := await self._records.write(self._give_up, queue.key, None):
                self._failed(gone, str(described(failure, ADDRESS)))
        return failure

    async def _deliver(self, work: Work) -> HeadgateError | None:
        queue, delivery, message = work.queue, work.delivery, work.message
        assert delivery is not None, "there is work at a queue that is secured"
        if message is None:
            return StoreError("the message is gone; run `headgate agent check`")
        sealer = self._sealers.get(work.kind)
        if sealer is None:
            return StoreError(f"messages of {work.kind} connections cannot be sent")
        try:
            body = sealer.encode(queue, message)
        except HeadgateError as error:
            return error
        key = None
        if queue.private_key is not None:
            key = unpack_key(SENDER_KIND, queue.private_key)
        notify = bool(message.flags & NOTIFY)
        failure = await self._ask(work, send(queue.sender_id, body, key, notify=notify))
        if failure is None:
            is_shown = await self._records.write(sent, queue, delivery.number, message, sealer)
            if is_shown:
                self._show(Sent(*message.key))
            self._settled(message.connection, is_shown)
        return failure

    async def _ask(self, work: Work, request: Request) -> HeadgateError | None:
        queue = work.queue
        _, (outcome,) = await self._routers.ask(
            work.user, queue.router, queue.connection, [request]
        )
        return outcome if isinstance(outcome, HeadgateError) else None

    # Failures.

    async def _put_off(
        self, delivery: DeliveryRecord, failure: HeadgateError, is_quota: bool
    ) -> _Delay | None:
        """Try again later, unless it was tried for long enough."""
        borne = GIVE_UP_QUOTA_SECONDS if is_quota else GIVE_UP_SECONDS
        before = self._clock.now() - borne
        if delivery.created < before:
            gone = await self._records.write(self._give_up, delivery.queue, before)
            self._failed(gone, str(failure))
            return None
        fast, slow = delivery.fast, delivery.slow
        if is_quota:
            delay, slow = slow, SLOW.after(slow)
            if delay == SLOW.first:
                connection, id = delivery.message
                self._show(Warned(connection, id, "the queue of its recipient is full"))
        else:
            delay, fast = fast, FAST.after(fast)
        # They outlive a restart.
        await self._records.write(outgoing.put_delays, delivery.number, fast, slow)
        return _Delay(delay, is_quota)

    async def _give_up_one(self, work: Work, failure: HeadgateError) -> None:
        """Give up a message that can never be sent; others may be."""
        assert work.delivery is not None, "it is a message that failed"
        gone = await self._records.write(self._give_up_delivery, work.delivery.number)
        if work.message is None:
            connection, id = work.delivery.message
            gone = {connection: (id,)}
        elif work.message.kind == CONFIRMATION:
            failure = described(failure, ADDRESS)
        self._failed(gone, str(failure))

    def _give_up(self, tables: Database, queue: QueueKey, before: float | None) -> GivenUp:
        return self._gone(tables, outgoing.give_up(tables, queue, before, limit=GROUP))

    def _give_up_delivery(self, tables: Database, number: int) -> GivenUp:
        gone = outgoing.sent(tables, number)
        return self._gone(tables, [] if gone is None else [gone])

    def _gone(self, tables: Database, messages: list[MessageKey]) -> GivenUp:
        """Apply the effects of removed messages to their connections."""
        by_connection: dict[ConnectionId, list[int]] = {}
        for connection, id in messages:
            by_connection.setdefault(connection, []).append(id)
        found: GivenUp = {}
        for connection, ids in by_connection.items():
            record = connections.get(tables, connection)
            sealer = None if record is None else self._sealers.get(record.kind)
            found[connection] = (
                tuple(ids) if sealer is None else sealer.gave_up(tables, connection, ids)
            )
        return found

    def _failed(self, gone: GivenUp, reason: str) -> None:
        for connection, ids in gone.items():
            self._show(Failed(connection, ids, reason))
            self._settled(connection, False)

    def _settled(self, connection: ConnectionId, is_application: bool) -> None:
        if self.settled is not None:
            self.settled(connection, is_application)


@value
class _Delay:
    """A delay of a worker."""

    seconds: float | None = None
    """None if there is no message yet to store it with: then the pauses of the worker grow."""
    is_quota: bool = False
    """Whether the recipient may end it early."""


class _Worker:
    """The worker of one send queue."""

    __slots__ = ("has_more", "is_refused", "may_continue")

    def __init__(self) -> None:
        self.has_more = False
        """Whether messages were stored since it looked."""
        self.is_refused = False
        """Whether the disk refused, which was reported."""
        self.may_continue = asyncio.Event()
