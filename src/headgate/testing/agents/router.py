"""A router as an agent sees it, in memory: queues, services, one message of a queue at a time.

It is written from the rules of the protocol, and is no part of the real one: what the two agree on
was not copied. Accepted and answered changes outlive its crashes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeAlias

from headgate.client.smp.service import Service
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.testing.agents.network import Connection, Network
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import pack, unpack
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import message_plaintext, quota_plaintext, seal_message
from headgate.wire.smp.codec.transmissions import encode_unsigned, parse

PRIVATE = b"p" * 32
"""The router's half of the secret of every queue: none is kept from anybody here."""
PUBLIC = encode_key(KeyKind.X25519, public_of(PRIVATE))

TEMPORARY = ("STORE try again", "INTERNAL")


@dataclass(eq=False)
class RouterSession:
    """A connection, as the router has it."""

    connection: Connection
    service: ServiceId | None
    is_over: bool = False


@dataclass(eq=False)
class RouterQueue:
    """A queue, with what was sent to it."""

    recipient: bytes
    sender: bytes
    secret: bytes
    sender_key: bytes | None = None
    messages: deque[tuple[bytes, bytes]] = field(default_factory=deque)
    """Ids and plaintexts."""
    service: ServiceId | None = None
    holder: RouterSession | None = None
    """The session that gets its messages; none if there is none, or it is no agent of the world."""
    is_given: bool = False
    """The first message is with the holder."""
    is_full: bool = False
    """It takes nothing until it was read to its end."""


Pushed: TypeAlias = list[tuple[RouterSession, bytes, r.Reply]]
"""Events that follow an answer, each with its session and its queue."""


class WorldRouter:
    """A router in memory, owned by a world, which crashes it and starts it again."""

    def __init__(self, number: int, network: Network, random: Random) -> None:
        self.name = f"router {number}"
        self.address = RouterAddress((f"router{number}.example",), None, bytes([number]) * 32)
        self.network = network
        self.random = random
        self.quota = random.choice((3, 100))
        self.version = random.choice((19, 19, 18))
        self.gives_in_answer = random.random() < 0.5
        """Whether SUB is answered with a message, or one follows the answer."""
        self.is_up = True
        self.offers_services = True
        self.refuses_services = False
        self.queues: dict[bytes, RouterQueue] = {}
        self.by_sender: dict[bytes, RouterQueue] = {}
        self.services: dict[bytes, ServiceId] = {}
        """By fingerprint."""
        self.sessions: dict[RouterSession, None] = {}
        self._ids = count(1000 * number + 1)
        network.routers[self.address] = self

    # Sessions.

    def greeted(self, connection: Connection, service: Service | None) -> RouterSession:
        id = None
        if service is not None and self.offers_services:
            if service.fingerprint not in self.services:
                self.services[service.fingerprint] = ServiceId(self._id("v"))
            id = self.services[service.fingerprint]
        session = RouterSession(connection, id)
        self.sessions[session] = None
        named = "" if id is None else f" as {name_of(id)}"
        self.network.trace.add(self.name, f"has {connection}{named}")
        return session

    def ended(self, session: RouterSession) -> None:
        session.is_over = True
        if self.sessions.pop(session, self) is None:
            self.network.trace.add(self.name, f"has lost {session.connection}")
        for queue in self.queues.values():
            if queue.holder is session:
                queue.holder, queue.is_given = None, False

    def crash(self, forgets: bool, offers: bool) -> None:
        """Vanish with all sessions. The router that comes back may have lost its services, or offer
        none."""
        self.is_up = False
        for session in list(self.sessions):
            session.connection.cut()
            self.ended(session)
        if forgets or not offers:
            self.services.clear()
            for queue in self.queues.values():
                queue.service = None
        self.offers_services = offers

    # What others do.

    def take(self, queue: RouterQueue) -> None:
        """Another client subscribes to a queue, and leaves."""
        holder, queue.holder, queue.is_given = queue.holder, None, False
        queue.service = None
        if holder is not None:
            self._push(holder, queue.recipient, r.SmpEnd())

    def take_service(self, session: RouterSession) -> None:
        """Another client with the same certificate subscribes to the service, and leaves."""
        assert session.service is not None, "a session of a service"
        ended = [q for q in self.queues.values() if q.service == session.service]
        for queue in ended:
            queue.holder, queue.is_given = None, False
        self._push(session, session.service, r.Ends(_tally(ended)))

    # Requests.

    def asked(self, session: RouterSession, payload: bytes) -> None:
        if not self.is_up or session.is_over:
            return
        answers: list[bytes] = []
        pushed: Pushed = []
        for data in unpack(payload):
            asked = parse(data, self.version)
            command = c.parse_command(asked.command, self.version)
            weather = self.network.weather
            if self.random.random() < weather.refusal and not isinstance(command, c.Ping):
                reply: r.Reply = r.Err(self.random.choice(TEMPORARY))
            else:
                reply = self._do(session, asked.entity, command, pushed)
            if not isinstance(command, c.Ping):
                self.network.trace.add(
                    self.name,
                    f"answers {session.connection.process.name}:"
                    f" {command.tag.decode()} {name_of(asked.entity)}: {_brief(reply)}",
                )
            # IDS and PONG are about no queue.
            entity = b"" if isinstance(reply, r.Ids | r.Pong) else asked.entity
            encoded = r.encode_reply(reply, self.version)
            answers.append(encode_unsigned(asked.correlation, entity, encoded))
        for payload in pack(answers):
            session.connection.answer(payload)
        for to, entity, event in pushed:
            self._push(to, entity, event)

    def _push(self, session: RouterSession, entity: bytes, event: r.Reply) -> None:
        if not session.is_over:
            name = session.connection.process.name
            self.network.trace.add(self.name, f"sends {name}: {name_of(entity)}: {_brief(event)}")
            encoded = encode_unsigned(b"", entity, r.encode_reply(event, self.version))
            for payload in pack([encoded]):
                session.connection.answer(payload)

    def _do(
        self,
        session: RouterSession,
        entity: bytes,
        command: c.Command,
        pushed: Pushed,
    ) -> r.Reply:
        match command:
            case c.Ping():
                return r.Pong()
            case c.New(dh=dh):
                return self._make(session, dh)
            case c.Sub():
                return self._subscribe(session, entity, pushed)
            case c.Subs():
                return self._subscribe_service(session, entity, pushed)
            case c.SmpAck(message_id=id):
                return self._acknowledge(session, entity, id)
            case c.SKey(key=key):
                queue = self.by_sender.get(entity)
                if queue is None or queue.sender_key not in (None, key):
                    return r.Err("AUTH")
                queue.sender_key = key
                return r.Ok()
            case c.SmpSend(body=body):
                return self._accept(entity, body, pushed)
        raise AssertionError(f"{command} is not asked by these agents")

    def _make(self, session: RouterSession, dh: bytes) -> r.Reply:
        queue = RouterQueue(self._id("r"), self._id("s"), shared_key(PRIVATE, raw_key(dh)))
        queue.holder, queue.service = session, session.service
        self.queues[queue.recipient] = self.by_sender[queue.sender] = queue
        return r.Ids(
            queue.recipient, queue.sender, PUBLIC, Purpose.MESSAGING, service=session.service
        )

    def _subscribe(
        self,
        session: RouterSession,
        entity: bytes,
        pushed: Pushed,
    ) -> r.Reply:
        queue = self.queues.get(entity)
        if queue is None:
            return r.Err("AUTH")
        if self.refuses_services and session.service is not None:
            return r.Err("SERVICE")
        if queue.holder is not None and queue.holder is not session:
            pushed.append((queue.holder, entity, r.SmpEnd()))
        queue.holder, queue.service = session, session.service
        message = self._give(queue)
        if message is not None and self.gives_in_answer and session.service is None:
            return message
        if message is not None:
            pushed.append((session, entity, message))
        return r.Sok(session.service)

    def _subscribe_service(
        self,
        session: RouterSession,
        entity: bytes,
        pushed: Pushed,
    ) -> r.Reply:
        if self.refuses_services or entity != session.service:
            return r.Err("SERVICE")
        ours = [queue for queue in self.queues.values() if queue.service == entity]
        displaced: dict[RouterSession, list[RouterQueue]] = {}
        for queue in ours:
            if queue.holder is not session:
                if queue.holder is not None:
                    displaced.setdefault(queue.holder, []).append(queue)
                queue.holder, queue.is_given = session, False
            if not queue.is_given and (message := self._give(queue)) is not None:
                pushed.append((session, queue.recipient, message))
        pushed.append((session, b"", r.Alls()))
        pushed += [(other, entity, r.Ends(_tally(gone))) for other, gone in displaced.items()]
        return r.Soks(_tally(ours))

    def _acknowledge(self, session: RouterSession, entity: bytes, id: bytes) -> r.Reply:
        queue = self.queues.get(entity)
        if queue is None:
            return r.Err("AUTH")
        if queue.holder is not session or not queue.is_given or queue.messages[0][0] != id:
            return r.Err("NO_MSG")
        queue.messages.popleft()
        queue.is_given = False
        queue.is_full = queue.is_full and bool(queue.messages)
        return self._give(queue) or r.Ok()

    def _accept(self, entity: bytes, body: bytes, pushed: Pushed) -> r.Reply:
        queue = self.by_sender.get(entity)
        if queue is None:
            return r.Err("AUTH")
        now = int(self.network.now)
        if queue.is_full:
            return r.Err("QUOTA")
        if len(queue.messages) >= self.quota:
            queue.is_full = True
            self._append(queue, quota_plaintext(now), pushed)
            return r.Err("QUOTA")
        self._append(queue, message_plaintext(now, False, body), pushed)
        return r.Ok()

    def _append(
        self,
        queue: RouterQueue,
        plaintext: bytes,
        pushed: Pushed,
    ) -> None:
        queue.messages.append((self._id("m"), plaintext))
        if queue.holder is not None and not queue.is_given:
            message = self._give(queue)
            assert message is not None, "one was just appended"
            pushed.append((queue.holder, queue.recipient, message))

    def _give(self, queue: RouterQueue) -> r.Msg | None:
        if not queue.messages:
            return None
        queue.is_given = True
        id, plaintext = queue.messages[0]
        return r.Msg(id, seal_message(queue.secret, id, plaintext))

    def _id(self, kind: str) -> bytes:
        return f"{kind}{next(self._ids):023d}".encode()


def name_of(id: bytes) -> str:
    """An id of this router, in few letters."""
    return id[:1].decode() + id[1:].lstrip(b"0").decode()


def _tally(queues: Iterable[RouterQueue]) -> Tally:
    return Tally.of(QueueId(queue.recipient) for queue in queues)


def _brief(reply: r.Reply) -> str:
    match reply:
        case r.Msg(message_id=id):
            return f"MSG {name_of(id)}"
        case r.Err(text):
            return f"ERR {text}"
        case r.Sok(service):
            return "SOK" if service is None else f"SOK {name_of(service)}"
        case r.Ids(recipient):
            return f"IDS {name_of(recipient)}"
        case _:
            return reply.tag.decode()
