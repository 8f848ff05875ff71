"""Receiving and sending for tests: a clock that does not wait, a router in memory whose failures
are chosen, a port over links with a real router, and an application that reads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from headgate.agent.connections.announcing import Announcement
from headgate.agent.connections.connections import Connections, openers, sealers
from headgate.agent.events import ConnectionEvent, DeliveryEvent, Message
from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    SlotKey,
    UserId,
)
from headgate.agent.operations import Operations
from headgate.agent.ports import MessagePort
from headgate.agent.queues import OpenedQueue, OwnQueue, Queues
from headgate.agent.receiving import INBOX_MAX, Receiving
from headgate.agent.records import Records, routers
from headgate.agent.sending import Sending
from headgate.agent.tickets import Ticket
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.waiting import Outcome
from headgate.core.model.parties import Purpose
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.kem import Kem
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.errors import NotConnected, RequestRefused, TimedOut
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import message_plaintext, quota_plaintext, seal_message
from tests.support.agent_records import NOW
from tests.support.smp_router import Rig

ROUTER_ADDRESS = RouterAddress(("relay.example.org",), None, b"k" * 32)


def address_of(rig: Rig) -> RouterAddress:
    return RouterAddress((rig.host,), rig.port, rig.fingerprint)


class TestClock:
    """Time that passes when somebody waits, and at once. While it is held, waiting takes until it
    is let go, or until what is waited for."""

    __test__ = False

    def __init__(self) -> None:
        self.time = NOW
        self.pauses: list[float] = []
        self.is_held = False
        self._let_go = asyncio.Event()

    def now(self) -> float:
        return self.time

    def jitter(self) -> float:
        return 0.0

    async def wait(self, seconds: float, until: asyncio.Event) -> None:
        self.pauses.append(seconds)
        if not self.is_held:
            self.time += seconds
            await asyncio.sleep(0)
            return
        self._let_go.clear()
        waiting = [asyncio.ensure_future(each.wait()) for each in (until, self._let_go)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def let_go(self) -> None:
        self.is_held = False
        self._let_go.set()


class Application:
    """Reads what an agent shows."""

    def __init__(self) -> None:
        self.waiting: deque[DeliveryEvent | Ticket | Announcement] = deque()

    def show(self, event: DeliveryEvent | Ticket | Announcement) -> None:
        self.waiting.append(event)

    async def read(self) -> DeliveryEvent | ConnectionEvent:
        """The next event, when it is there."""
        while True:
            while not self.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)
            event = self.waiting[0]
            found = await event.load() if isinstance(event, Ticket | Announcement) else event
            self.waiting.popleft()
            if found is not None:
                return found

    async def message(self) -> Message:
        event = await self.read()
        assert isinstance(event, Message), event
        return event

    async def messages(self, count: int, *, ack: bool = True) -> list[bytes]:
        """So many bodies, each acknowledged before the next."""
        bodies = []
        for _ in range(count):
            message = await self.message()
            bodies.append(message.body)
            if ack:
                await message.ack()
        return bodies


@dataclass
class ModelQueue:
    """A queue of the router in memory."""

    secret: bytes
    recipient: bytes
    sender: bytes
    sender_key: bytes | None = None
    messages: deque[tuple[bytes, bytes, bool]] = field(default_factory=deque)
    """Broker ids and plaintexts, or what stands in place of a sealed body."""
    subscriber: ModelPort | None = None
    is_given: bool = False
    """The first message is with the subscriber."""
    accepted: list[bytes] = field(default_factory=list)
    """Every body that was ever taken."""


class ModelRouter:
    """A router in memory, as far as queues go: one message of a queue is given at a time, the next
    after its ACK, and what was not acknowledged is given again to the next subscriber."""

    def __init__(self, quota: int = 10**9) -> None:
        self.quota = quota
        self.queues: dict[bytes, ModelQueue] = {}
        self.by_sender: dict[bytes, ModelQueue] = {}
        self.links: dict[bytes, tuple[ModelQueue, c.NewLink]] = {}
        self._ids = count(1)

    def make(self, dh: bytes, link: c.NewLink | None = None) -> r.Ids:
        recipient, sender = b"r%023d" % next(self._ids), b"s%023d" % next(self._ids)
        link_id = None
        if link is not None:
            sender, link_id = link.sender, link.id or b"l%023d" % next(self._ids)
        private = bytes([next(self._ids) % 256]) * 32
        queue = ModelQueue(shared_key(private, raw_key(dh)), recipient, sender)
        self.queues[recipient] = self.by_sender[sender] = queue
        public = encode_key(KeyKind.X25519, public_of(private))
        if link is not None and link_id is not None:
            self.links[link_id] = queue, link
        return r.Ids(recipient, sender, public, Purpose.MESSAGING, link_id)

    def put(self, queue: ModelQueue, body: bytes) -> None:
        """Take a message from a sender."""
        self.put_plaintext(queue, message_plaintext(int(NOW), False, body))
        queue.accepted.append(body)

    def put_marker(self, queue: ModelQueue) -> None:
        self.put_plaintext(queue, quota_plaintext(int(NOW)))

    def put_plaintext(self, queue: ModelQueue, plaintext: bytes) -> None:
        """It is sealed when it is given: so many can wait without taking much memory."""
        self._append(queue, plaintext, is_sealed=False)

    def put_sealed(self, queue: ModelQueue, sealed: bytes) -> None:
        self._append(queue, sealed, is_sealed=True)

    def _append(self, queue: ModelQueue, content: bytes, is_sealed: bool) -> None:
        queue.messages.append((b"m%023d" % next(self._ids), content, is_sealed))
        if queue.subscriber is not None and not queue.is_given:
            msg = self.give(queue)
            assert msg is not None
            queue.subscriber.give(queue.recipient, msg)

    def give(self, queue: ModelQueue) -> r.Msg | None:
        if not queue.messages:
            return None
        queue.is_given = True
        id, content, is_sealed = queue.messages[0]
        return r.Msg(id, content if is_sealed else seal_message(queue.secret, id, content))

    def do(self, port: ModelPort, request: Request) -> Outcome:
        """Carry out a request."""
        command, entity = request.command, request.entity
        match command:
            case c.New():
                ids = self.make(command.dh, command.link)
                self.queues[ids.recipient].subscriber = port
                return ids
            case c.Sub():
                queue = self.queues[entity]
                queue.subscriber = port
                return self.give(queue) or r.Ok()
            case c.SmpAck(message_id=id):
                queue = self.queues[entity]
                if queue.subscriber is not port or not queue.is_given or queue.messages[0][0] != id:
                    return RequestRefused("NO_MSG")
                queue.messages.popleft()
                queue.is_given = False
                return self.give(queue) or r.Ok()
            case c.SKey(key=key):
                found = self.by_sender.get(entity)
                if found is None or found.sender_key not in (None, key):
                    return RequestRefused("AUTH")
                found.sender_key = key
                return r.Ok()
            case c.LGet() | c.LKey():
                if entity not in self.links:
                    return RequestRefused("AUTH")
                found, link = self.links[entity]
                if isinstance(command, c.LKey):
                    if found.sender_key not in (None, command.key):
                        return RequestRefused("AUTH")
                    found.sender_key = command.key
                return r.Lnk(found.sender, link.fixed, link.user)
            case c.Del():
                gone = self.queues.pop(entity, None)
                if gone is None:
                    return RequestRefused("AUTH")
                del self.by_sender[gone.sender]
                return r.Ok()
            case c.SmpSend(body=body):
                found = self.by_sender.get(entity)
                if found is None:
                    return RequestRefused("AUTH")
                if len(found.messages) >= self.quota:
                    return RequestRefused("QUOTA")
                self.put(found, body)
                return r.Ok()
        raise AssertionError(command)


class ModelPort:
    """The sessions of one agent with a router in memory. `script` has what becomes of the next
    requests: an error that comes in place of doing it, `LOST` for one whose answer is lost, or
    none for one that works."""

    LOST = "lost"

    def __init__(self, router: ModelRouter, messages: MessagePort | None = None) -> None:
        self.router = router
        self.messages = messages
        self.script: deque[object] = deque()
        self.asked: list[Request] = []
        self.routers: dict[RouterId, RouterAddress] = {}
        self.made: list[tuple[bytes, ConnectionId]] = []
        self.gone: list[bytes] = []
        self._numbers = count(1)
        self.session: SessionKey | None = None

    def connect(self) -> SessionKey:
        if self.session is None:
            number = next(self._numbers)
            self.session = SessionKey(SlotKey(1, 1), number, b"session %d" % number)
        return self.session

    def disconnect(self) -> None:
        session, self.session = self.session, None
        for queue in self.router.queues.values():
            if queue.subscriber is self:
                queue.subscriber, queue.is_given = None, False
        if session is not None and self.messages is not None:
            self.messages.forget(session)

    def give(self, queue: RecipientId, message: r.Msg) -> None:
        assert self.messages is not None, "an agent that receives"
        self.messages.take(self.connect(), queue, message)

    def subscribe(self, *queues: bytes) -> None:
        """As the shell does after a connect."""
        self.connect()
        for queue in queues or tuple(self.router.queues):
            outcome = self.router.do(self, Request(c.Sub(), queue))
            if isinstance(outcome, r.Msg):
                self.give(queue, outcome)

    async def ask(
        self,
        user: UserId,
        router: RouterId,
        connection: ConnectionId | None,
        requests: Sequence[Request],
    ) -> tuple[SessionKey | None, list[Outcome]]:
        await asyncio.sleep(0)
        session = self.connect()
        outcomes: list[Outcome] = []
        for request in requests:
            self.asked.append(request)
            fate = self.script.popleft() if self.script else None
            if isinstance(fate, Exception):
                outcomes.append(fate)  # type: ignore[arg-type]
                continue
            if self.session is not session:
                outcomes.append(NotConnected("the session is over"))
                continue
            outcome = self.router.do(self, request)
            if fate == self.LOST:
                outcomes.append(TimedOut("an answer", 30))
                continue
            if isinstance(outcome, r.Msg):
                self.give(request.entity, outcome)
            outcomes.append(outcome)
        return session, outcomes

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        self.routers[router] = address

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: bytes | None,
        *,
        subscribed: bool = True,
    ) -> None:
        self.made.append((queue, connection))

    def removed(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        self.gone.append(row.id)


class LinkPort:
    """The sessions of one agent with real routers: one link for each user and router."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.messages: MessagePort | None = None
        self.routers: dict[RouterId, RouterAddress] = {}
        self.made: list[tuple[bytes, ConnectionId]] = []
        self.gone: list[bytes] = []
        self.sessions: dict[SessionKey, Link] = {}
        self._numbers = count(1)
        self._connecting = asyncio.Lock()

    async def connect(self, user: UserId, router: RouterId) -> tuple[SessionKey, Link]:
        async with self._connecting:
            slot = SlotKey(user, router)
            for key, link in self.sessions.items():
                if key.slot == slot:
                    return key, link
            found = await self.records.read(routers.get, router)
            assert found is not None
            number = next(self._numbers)
            link = await Link.connect(found.address, self, slot=number)
            key = SessionKey(slot, number, link.session_id)
            self.sessions[key] = link
            return key, link

    async def ask(
        self,
        user: UserId,
        router: RouterId,
        connection: ConnectionId | None,
        requests: Sequence[Request],
    ) -> tuple[SessionKey | None, list[Outcome]]:
        try:
            key, link = await self.connect(user, router)
        except NotConnected as error:
            return None, [error for _ in requests]

        def each(place: int, outcome: Outcome) -> None:
            if isinstance(outcome, r.Msg):
                self._take(link, requests[place].entity, outcome)

        return key, await link.ask_all(requests, each=each)

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        self.routers[router] = address

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: bytes | None,
        *,
        subscribed: bool = True,
    ) -> None:
        self.made.append((queue, connection))

    def removed(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        self.gone.append(row.id)

    # The handler of its links.

    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        if isinstance(event, r.Msg):
            self._take(link, entity, event)

    def answered_late(self, link: Link, request: Request, reply: r.Reply) -> None:
        if isinstance(reply, r.Msg):
            self._take(link, request.entity, reply)

    def unexpected(self, link: Link, report: object) -> None:
        raise AssertionError(report)

    def lost(self, link: Link, reason: str) -> None:
        for key, each in list(self.sessions.items()):
            if each is link:
                del self.sessions[key]
                if self.messages is not None:
                    self.messages.forget(key)

    def _take(self, link: Link, entity: bytes, message: r.Msg) -> None:
        for key, each in self.sessions.items():
            if each is link and self.messages is not None:
                self.messages.take(key, entity, message)

    async def close(self) -> None:
        for link in list(self.sessions.values()):
            link.close()
            await link.wait_closed()


class Party:
    """One agent: its records, receiving, sending and queues, and an application."""

    def __init__(
        self,
        records: Records,
        port: ModelPort | LinkPort,
        clock: TestClock | None = None,
        inbox_max: int = INBOX_MAX,
        kem: Kem | None = None,
    ) -> None:
        self.records = records
        self.port = port
        self.clock = clock or TestClock()
        self.application = Application()
        self.operations = Operations()
        self.receiving = Receiving(
            records,
            port,
            self.application.show,
            openers=openers(self.clock, kem),
            operations=self.operations,
            clock=self.clock,
            inbox_max=inbox_max,
        )
        self.sending = Sending(
            records,
            port,
            self.application.show,
            sealers=sealers(),
            operations=self.operations,
            clock=self.clock,
        )
        self.connections = Connections(
            records,
            port,
            self.receiving,
            self.sending,
            self.application.show,
            kem=kem,
            operations=self.operations,
            clock=self.clock,
        )
        self.queues = Queues(
            records,
            port,
            self.sending,
            drop=self.receiving.drop,
            operations=self.operations,
            clock=self.clock,
        )
        port.messages = self.receiving

    async def make(self, name: str, address: RouterAddress = ROUTER_ADDRESS) -> OwnQueue:
        return await self.queues.make(1, address, name)

    async def open(self, queue: OwnQueue) -> OpenedQueue:
        return await self.queues.open(1, queue.address.text)

    async def close(self) -> None:
        await self.connections.close()
        await self.receiving.close()
        await self.sending.close()
        await self.queues.close()
        if isinstance(self.port, LinkPort):
            await self.port.close()
        await self.records.close()


async def quiet(party: Party) -> None:
    """Wait until nothing happens any more: what is under way ends, and the records are asked until
    nobody wants anything of them."""
    while True:
        before = party.records.statements
        for _ in range(20):
            await asyncio.sleep(0)
            await party.records.read(lambda _: None)
        if party.records.statements == before:
            return
