"""Receiving: each message is opened, stored and then shown, in order for each connection.

`Receiving` is the `MessagePort` of an agent: sessions pass their messages to it and never wait. A
message to show is a `Ticket` among the events. See docs/design/agent-delivery.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from itertools import islice
from typing import Final, TypeAlias

from headgate.agent.acknowledging import Acknowledger
from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.connections.envelope_opening import finding_of
from headgate.agent.deliveries import Held, Place, Source
from headgate.agent.events import (
    DeliveryEvent,
    Message,
    Problem,
    ProblemKind,
    QueueFull,
    Receipt,
    StoreFailed,
)
from headgate.agent.left_messages import LeftMessages
from headgate.agent.model import ConnectionId, QueueKey, RecipientId, SessionKey
from headgate.agent.openers import RECEIPT, FollowUp, PlainOpener, receipt_ids
from headgate.agent.operations import Operations
from headgate.agent.pauses import FAST, Pauses
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, receive_queues, received, steps
from headgate.agent.records.connections import ConnectionKind
from headgate.agent.records.database import Database
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.taking import (
    Full,
    Handled,
    Openers,
    Origin,
    Repeated,
    Stored,
    Unreadable,
    take_in,
)
from headgate.agent.tasks import Tasks, result_of
from headgate.agent.tickets import Bodies, Ticket
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.wire.smp.codec.replies import Msg

INBOX_MAX: Final = 1000
"""Bodies in memory."""
ATTEMPTS_MAX: Final = 8
DROP_SECONDS: Final = 24 * 3600.0
"""A message is shown so often, and for at least so long, before it is dropped."""
BATCH: Final = 256
"""Messages whose connections are looked up together."""

PLAIN_ONLY: Final[Openers] = {ConnectionKind.RECEIVE: PlainOpener()}

Show: TypeAlias = Callable[[DeliveryEvent | Ticket], None]
"""Adds an event. It returns at once."""

StoreReceipt: TypeAlias = Callable[[Database, ReceivedMessage, float], None]


@value
class Arrival:
    """A message as its session delivered it."""

    source: Source
    key: QueueKey
    message: Msg = field(repr=False)

    @property
    def place(self) -> Place:
        return self.key, self.message.message_id


class Receiving:
    """The receiving of an agent: messages of sessions are taken, stored, and shown.

    What must hold: a message is shown only when it is stored; after its mark of acknowledgement it
    is not shown; messages of a connection are shown in the order in which they came, and no
    connection waits for another; no more than `inbox_max` bodies are in memory.

    A message without room in memory stays at its router, from which it is requested again when
    there is room.
    """

    def __init__(
        self,
        records: Records,
        routers: RouterPort,
        show: Show,
        *,
        openers: Openers = PLAIN_ONLY,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        self._records = records
        self._routers = routers
        self._show = show
        self._openers = openers
        self._operations = operations or Operations()
        self._clock = clock or SystemClock()
        self._tasks = Tasks()
        self._acknowledger = Acknowledger(
            records, routers, self._operations, self._clock, self._tasks
        )
        self.bodies = Bodies(inbox_max)
        self._left = LeftMessages(
            records, routers, self._operations, self._clock, self._tasks, self.bodies
        )
        self._sources: dict[SessionKey, Source] = {}
        self._held = Held()
        self._unshown: dict[int, Ticket] = {}
        """Tickets that the application did not reach yet, by the id of the message."""
        self._arrived: deque[Arrival] = deque()
        """Messages whose connection is not known yet."""
        self._is_sorting = False
        self._lanes: dict[ConnectionId, deque[Arrival]] = {}
        """The messages of each connection with a running worker, in order."""
        self._is_refused = False
        """Whether the disk refused the last message: that is reported once."""
        self._kept_back: dict[ConnectionId, dict[int, Ticket]] = {}
        """Messages of connections that are not made yet, by id."""
        self.follow: Callable[[FollowUp], None] | None = None
        """Called when a stored message means work for the agent."""
        self.store_receipt: StoreReceipt | None = None
        """Stores a receipt for a message, in the transaction that marks it."""

    # Calls of sessions.

    def take(self, session: SessionKey, queue: RecipientId, message: Msg) -> None:
        """Take a message of a queue, pushed or as an answer."""
        # S000-62: both are the same from here on.
        if self._tasks.is_closed:
            return
        source = self._sources.get(session)
        if source is None:
            source = self._sources[session] = Source(session)
        if not self.bodies.admit():
            self._left.add(source, queue)
            return
        self._arrived.append(Arrival(source, (session.slot.router, queue), message))
        if not self._is_sorting:
            self._is_sorting = True
            self._tasks.run(self._sort(), "sorting messages")

    def forget(self, session: SessionKey) -> None:
        """Forget a session that is over: its messages come again."""
        source = self._sources.pop(session, None)
        if source is None:
            return
        source.is_over = True
        self._left.forget(source)
        self._acknowledger.forget(source)
        self._held.forget(source, unless=set(self._unshown))
        for waiting in (self._arrived, *self._lanes.values()):
            here = len(waiting)
            for _ in range(here):
                arrival = waiting.popleft()
                if arrival.source is source:
                    self.bodies.release()
                else:
                    waiting.append(arrival)
        self._left.look()

    def drop(self, connection: ConnectionId) -> None:
        """Show no more messages of a deleted connection."""
        self._kept_back.pop(connection, None)
        for ticket in list(self._unshown.values()):
            if ticket.origin.connection == connection:
                del self._unshown[ticket.id]
                self.bodies.give(ticket)

    # Calls of the application.

    async def acknowledge(self, id: int, receipt: bool = False) -> None:
        """Acknowledge a message. Raises `StoreError` if that cannot be stored; then it was not
        acknowledged."""
        # Even if the caller is cancelled here, it is acknowledged: the mark is being stored.
        await asyncio.shield(self._mark(id, receipt))

    def _mark(self, id: int, receipt: bool = False) -> asyncio.Future[ReceivedMessage]:
        also = self.store_receipt if receipt else None
        marked = self._records.write(_acknowledge, id, also, self._clock.now())
        marked.add_done_callback(lambda done: self._marked(id, done, receipt))
        return marked

    def show_kept(self, connection: ConnectionId) -> None:
        """Show the messages that came before the connection was made."""
        for ticket in self._kept_back.pop(connection, {}).values():
            self._unshown[ticket.id] = ticket
            self._show(ticket)

    async def close(self) -> None:
        """Stop. Messages that were not shown do not count as attempts."""
        await self._tasks.close()
        tickets, self._unshown = list(self._unshown.values()), {}
        unshown = [each.id for each in tickets if not each.is_again or each.counted is not None]
        if unshown:
            with suppress(StoreError):
                await self._records.write(received.uncount, unshown)

    # Sorting: the connection of each message.

    async def _sort(self) -> None:
        pauses = Pauses(self._clock, FAST)
        while self._arrived:
            try:
                async with self._operations.operation():
                    batch = {arrival.key for arrival in islice(self._arrived, BATCH)}
                    found = await self._records.read(receive_queues.get_many, batch)
            except StoreError:
                await pauses.wait()
                continue
            # Some may be gone with their session meanwhile; none came before these.
            while self._arrived and (arrival := self._arrived[0]).key in batch:
                self._arrived.popleft()
                queue = found.get(arrival.key)
                if queue is None:  # deleted meanwhile
                    self._done_with(arrival)
                else:
                    self._append(queue.connection, arrival)
        self._is_sorting = False

    def _append(self, connection: ConnectionId, arrival: Arrival) -> None:
        if connection in self._lanes:
            self._lanes[connection].append(arrival)
            return
        self._lanes[connection] = deque([arrival])
        self._tasks.run(self._work(connection), "receiving")

    # Lanes: one message of a connection at a time.

    async def _work(self, connection: ConnectionId) -> None:
        # S000-68: in order, one after the other; connections do not wait for each other.
        lane = self._lanes[connection]
        pauses = Pauses(self._clock, FAST)
        while lane:
            async with self._operations.operation():
                if not lane:
                    break  # gone with its session, while suspended
                arrival = lane.popleft()
                is_done = await self._take_in(arrival)
            if is_done:
                pauses.reset()
            else:
                lane.appendleft(arrival)
                await pauses.wait()
        del self._lanes[connection]

    async def _take_in(self, arrival: Arrival) -> bool:
        """Open, store and show a message. False if the disk refuses, and it is tried again."""
        held = self._held.find(arrival.place)
        if held is not None:
            id, source = held
            if source is arrival.source or id in self._unshown:
                # A repetition, and the application has it or will get it.
                self._held.put(arrival.place, id, arrival.source)
                self._done_with(arrival)
                return True
        try:
            taken = await self._records.write(
                take_in, arrival.key, arrival.message, self._openers, self._clock.now()
            )
        except StoreError as error:
            # Only stored messages are acknowledged. It goes on when the disk has room.
            if arrival.source.is_over:
                self._done_with(arrival)
                return True
            if not self._is_refused:
                self._is_refused = True
                self._show(StoreFailed(str(error)))
            return False
        self._is_refused = False
        match taken:
            case Stored(origin, message) if origin.is_held:
                self._hold(arrival, message.id)
                self._keep_back(origin, message)
            case Stored(origin, message, body):
                self._hold(arrival, message.id)
                ticket = Ticket(origin, message, self._load)
                self.bodies.keep(ticket, body)
                self._unshown[message.id] = ticket
                self._show(ticket)
                self._left.look()
                return True
            case Repeated(origin, message):
                await self._take_again(arrival, origin, message)
            case Handled(follow_up):
                self._follow(follow_up)
                self._acknowledger.add(arrival.source, arrival.place)
            case Full(origin, None):
                self._show(QueueFull(origin.user, origin.router, origin.connection, origin.queue))
                self._acknowledger.add(arrival.source, arrival.place)
            case Full(_, follow_up):
                self._follow(follow_up)
                self._acknowledger.add(arrival.source, arrival.place)
            case Unreadable(origin, reason):
                # It must not block later messages.
                self._report(ProblemKind.UNREADABLE, origin, arrival, reason)
                self._acknowledger.add(arrival.source, arrival.place)
            case None:
                pass  # its queue was deleted
        self._done_with(arrival)
        return True

    async def _take_again(self, arrival: Arrival, origin: Origin, message: ReceivedMessage) -> None:
        """Handle a message that came before."""
        # ACC-99: acknowledged by the application: only the router does not know yet.
        if message.acked:
            self._acknowledger.add(arrival.source, arrival.place)
            return
        self._hold(arrival, message.id)
        if message.id in self._unshown:
            return
        if origin.is_held:
            self._keep_back(origin, message)
            return
        age = self._clock.now() - message.first_seconds
        if message.attempts >= ATTEMPTS_MAX and age > DROP_SECONDS:
            with suppress(StoreError):  # then it is dropped when it comes next
                await self.acknowledge(message.id)
                reason = f"it was shown {ATTEMPTS_MAX} times and not acknowledged"
                self._report(ProblemKind.DROPPED, origin, arrival, reason)
            return
        ticket = Ticket(origin, message, self._load, is_again=True)
        self._unshown[message.id] = ticket
        self._show(ticket)

    def _keep_back(self, origin: Origin, message: ReceivedMessage) -> None:
        ticket = Ticket(origin, message, self._load)
        self._kept_back.setdefault(origin.connection, {})[message.id] = ticket
        # `Connected` is shown now if it was not, and then the messages kept back.
        self._follow(FollowUp(origin.connection))

    def _follow(self, follow_up: FollowUp | None) -> None:
        if follow_up is not None and self.follow is not None:
            self.follow(follow_up)

    def _hold(self, arrival: Arrival, id: int) -> None:
        if not arrival.source.is_over:
            self._held.put(arrival.place, id, arrival.source)

    def _marked(
        self, id: int, done: asyncio.Future[ReceivedMessage], receipt: bool = False
    ) -> None:
        """Acknowledge a message at all of its places, after the application's mark is on the
        disk."""
        if done.cancelled() or done.exception() is not None:
            return
        ticket = self._unshown.pop(id, None)
        if ticket is not None:
            self.bodies.give(ticket)
        for place, source in self._held.take(id):
            self._acknowledger.add(source, place)
        if receipt:
            self._follow(FollowUp(done.result().connection))

    # Showing.

    async def _load(self, ticket: Ticket) -> Message | Receipt | None:
        # S000-71: nothing is shown while suspended.
        await self._operations.allowed()
        if self._unshown.get(ticket.id) is not ticket:
            return None
        body = ticket.body
        if body is None:
            body = await self._records.read(received.body, ticket.id)
        attempts = await self._count(ticket) if ticket.is_again else ticket.message.attempts
        if self._unshown.get(ticket.id) is not ticket:
            return None  # acknowledged while its body was read
        del self._unshown[ticket.id]
        self.bodies.give(ticket)
        if body is None:
            return None
        origin, message = ticket.origin, ticket.message
        if message.kind == RECEIPT:
            # The application does not acknowledge it; if its mark is lost it comes again.
            self._mark(message.id)
            return Receipt(origin.connection, receipt_ids(body))
        finding = None if message.peer_id is None else finding_of(message.flags, message.peer_id)
        return Message(
            origin.connection,
            origin.queue,
            message.id,
            body,
            attempts,
            message.broker_seconds,
            self.acknowledge,
            finding,
        )

    async def _count(self, ticket: Ticket) -> int:
        """Store that a message is shown again. One that is only received, by an application that
        restarts again and again before it, does not count as an attempt."""
        if ticket.counted is None:
            ticket.counted = self._records.write(received.count, ticket.id)
        try:
            # A reader that is cancelled here calls again, and it counts once.
            return await result_of(ticket.counted)
        except StoreError:
            ticket.counted = None
            raise

    def _report(self, kind: ProblemKind, origin: Origin, arrival: Arrival, reason: str) -> None:
        self._show(
            Problem(
                origin.user,
                origin.router,
                kind,
                reason,
                connection=origin.connection,
                broker_id=arrival.message.message_id,
            )
        )

    # Room.

    def _done_with(self, arrival: Arrival) -> None:
        self.bodies.release()
        self._left.look()


def _acknowledge(
    tables: Database, id: int, store_receipt: StoreReceipt | None, now: float
) -> ReceivedMessage:
    """Mark a message, and store a receipt for it if one is wanted: a job of the records."""
    before = received.get(tables, id)
    if store_receipt is not None and before is not None and not before.acked:
        store_receipt(tables, before, now)
    return steps.before_ack(tables, id)
