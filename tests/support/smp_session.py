"""SMP sessions without a socket: real ones, on a real broker, and clients that send them blocks.

`SmpHarness` is a `Rig` with the inbox of a shard. What a session submits waits there until `settle`
has the turns taken; what the core has for a session is handed to it in the parts that the server
hands out. Only the shell is a fake: a clock that stands still, bytes that are drawn from a seed, a
connection that takes everything or nothing. `tests.support.smp_transcript` plays whole
conversations on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from headgate.client.smp.recipient import Key, Request, spki
from headgate.client.smp.service import FOREVER, Service
from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.delivery.mailbox import Pressure
from headgate.core.model.domain import SMP_DOMAIN, Domain, Mode
from headgate.core.model.ids import MessageId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.value import value
from headgate.core.turn.handouts import handouts
from headgate.core.turn.inbox import Inbox
from headgate.crypto.box import shared_key
from headgate.crypto.keys import fingerprint, leaf_key, open_signed_key, public_key, raw_key
from headgate.crypto.proof import authenticator
from headgate.errors import HeadgateError
from headgate.store.base import Store
from headgate.testing.rig import Rig
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BlockFrames, pack, unpack
from headgate.wire.smp.codec.ciphers import Cipher, PlainCipher, client_cipher
from headgate.wire.smp.codec.transmissions import Transmission, encode, parse_reply, signed
from headgate.wire.smp.handshake import (
    ClientHello,
    Role,
    ServerHello,
    ServiceAccepted,
    ServiceReply,
    parse_service_reply,
)
from headgate.wire.smp.proofs import ASSOCIATING
from headgate.wire.smp.session import Credentials, Peer, SmpSession
from tests.support.smp_parties import CA_CERTIFICATE, LEAF, LEAF_CERTIFICATE, NOW

CHAIN = (LEAF_CERTIFICATE, CA_CERTIFICATE)
"""Of the router."""

PLAIN = PlainCipher()
LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)


def digest(name: str) -> bytes:
    """32 bytes that belong to a name, and are the same in every run."""
    return sha256(name.encode()).digest()


def make_key(name: str) -> Key:
    """The private key of this name: ``bob`` of Ed25519, ``x:bob`` of X25519, ``448:bob`` of
    Ed448."""
    if name.startswith("x:"):
        return digest(name)
    if name.startswith("448:"):
        return Ed448PrivateKey.from_private_bytes((digest(name) + digest(name))[:57])
    return Ed25519PrivateKey.from_private_bytes(digest(name))


def make_service(name: str, until: datetime = FOREVER) -> Service:
    """The service of this name, with the same certificate in every run."""
    private = Ed25519PrivateKey.from_private_bytes(digest(f"service {name}"))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .serial_number(1)
        .public_key(private.public_key())
        .not_valid_before(LONG_AGO)
        .not_valid_after(until)
        .sign(private, None)
    )
    return Service(certificate.public_bytes(Encoding.DER), private)


class SmpHarness(Rig):
    """A broker with the domain of SMP, and the sessions of its clients.

    `connect` makes a client, `settle` has everything done that was asked. Nobody is notified and
    no END leaves by itself: `flush` and `notify` are the clocks of the server.
    """

    def __init__(
        self, *, limits: Limits | None = None, quota: int = 128, store: Store | None = None
    ) -> None:
        domain = Domain(SMP_DOMAIN, Mode.EXCLUSIVE, max_messages=quota, marks_quota=True)
        super().__init__(domain, limits=limits, store=store, now=NOW)
        self._quota = quota
        self.credentials = Credentials(CHAIN, LEAF, fingerprint(CHAIN))
        self.draw = Random(7).randbytes
        self.inbox = Inbox(self.broker.limits, is_near=True)
        self.creating_error: HeadgateError | None = None
        """Why nobody may make a queue."""
        self.passwords: list[bytes | None] = []
        """Those that came with a NEW."""
        self.bodies: dict[MessageId, bytes] = {}
        """Of the messages that were submitted."""
        self.ports: dict[SessionId, FakePort] = {}

    def connect(
        self,
        name: str,
        *,
        version: int = 19,
        service: str = "",
        role: Role = Role.MESSAGING,
        with_key: bool = True,
    ) -> SmpSessionClient:
        """A client whose handshake is done."""
        client = SmpSessionClient(self, name, make_service(service) if service else None)
        client.greet(version, role=role if service else None, with_key=with_key)
        self.settle()
        return client

    def restarted(self) -> SmpHarness:
        """Another router on the same store."""
        other = SmpHarness(limits=self.broker.limits, quota=self._quota, store=self.store)
        other.draw = self.draw
        other.bodies = self.bodies
        return other

    # What the server does.

    def submit(self, commands: Sequence[core.Command]) -> None:
        self.inbox.submit(commands)
        for command in commands:
            if isinstance(command, core.Send):
                self.bodies[command.message.id] = command.message.body

    def settle(self) -> None:
        """Take turns until nobody asks for anything more."""
        while self.inbox:
            outcome = self.turn(self.inbox.take())
            self.inbox.settle(outcome, has_failed=False)
            for session, effects in handouts(outcome.effects):
                port = self.ports.get(session)
                if port is not None:
                    port.session.write_effects(effects)

    def take(self) -> list[core.Command]:
        """Everything that is in line, for who wants to take the turns itself."""
        taken: list[core.Command] = []
        while self.inbox:
            taken += self.inbox.take()
        return taken

    def flush(self) -> None:
        """Let the events go that are collected. Who does not read waits for its turn."""
        for port in self.ports.values():
            if port.waiting and port.mailbox.pressure is Pressure.EASY:
                port.session.write_later(port.deferred())

    def notify(self) -> None:
        """Have notifiers get their notices."""
        self.inbox.insist([core.Notify()])
        self.settle()

    def disconnect(self, session: SessionId, reason: str) -> None:
        if self.ports.pop(session, None) is not None:
            self.broker.close_session(session, reason, self.now)
            self.inbox.insist([core.Disconnect(session)])


class FakePort:
    """The shell of one session, an `SmpPort`: what it is asked is kept for the test to look at."""

    session: SmpSession

    def __init__(self, harness: SmpHarness, client: SmpSessionClient) -> None:
        self._harness = harness
        self._client = client
        opened, _ = harness.broker.open_session("smp", "", harness.now)
        self.id = opened.id
        self.mailbox = opened.mailbox
        self.closed: str | None = None
        """Why the session is over."""
        self.is_open = False
        """The handshake is done."""
        self.is_paused = False
        """Nothing is read from the client."""
        self.is_stuck = False
        """The client takes nothing; what it is sent waits in its mailbox."""
        self.waiting: list[e.Effect] = []
        """Effects that were deferred."""
        self.messages: list[int] = []
        """How many were in each write."""
        harness.ports[self.id] = self

    def take_all(self) -> None:
        """The client reads again, and takes what waits for it."""
        self.is_stuck = False
        while (blocks := self.mailbox.take(self._harness.now)) is not None:
            assert isinstance(blocks, bytes)
            self._client.receive(blocks)
        self._harness.inbox.insist([core.Drained(self.id)])

    # What the session asks.

    def now(self) -> float:
        return self._harness.now

    def draw(self, length: int) -> bytes:
        return self._harness.draw(length)

    def creating(self, password: bytes | None) -> HeadgateError | None:
        self._harness.passwords.append(password)
        return self._harness.creating_error

    def write(self, blocks: bytes, messages: int) -> None:
        assert self.closed is None, "a session that is over writes nothing"
        self.messages.append(messages)
        if self.is_stuck:
            self.mailbox.offer(blocks, len(blocks), self._harness.now, messages=messages)
        else:
            self._client.receive(blocks)

    def submit(self, commands: Sequence[core.Command]) -> None:
        self._harness.submit(commands)

    def defer(self, effects: Sequence[e.Effect]) -> None:
        self.waiting += effects

    def deferred(self) -> list[e.Effect]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def opened(self) -> None:
        assert not self.is_open, "a handshake ends once"
        assert self.closed is None, "a session that is over is not opened"
        self.is_open = True

    def pause(self) -> None:
        assert not self.is_paused, "it is paused once"
        self.is_paused = True

    def resume(self) -> None:
        assert self.is_paused, "only what is paused is resumed"
        self.is_paused = False

    def close(self, reason: str) -> None:
        assert self.closed is None, "a session ends once"
        self.closed = reason
        self._harness.disconnect(self.id, reason)


@value
class Received:
    """One transmission of the router: what it answers, what it is about, and what it means."""

    correlation: bytes
    entity: bytes
    reply: r.Reply


class SmpSessionClient:
    """A client, which checks of what it receives what a real one checks.

    It encodes with the codecs of the client's side. `post` sends a block of requests, `ask` waits
    for what comes of it; `received` has a list for each block that came.
    """

    def __init__(
        self,
        harness: SmpHarness,
        name: str,
        service: Service | None = None,
        *,
        has_protocol: bool = True,
    ) -> None:
        self.harness = harness
        self.name = name
        self.session_id = digest(f"session {name}")
        self.service = service
        self.service_key = Ed25519PrivateKey.from_private_bytes(digest(f"session key {name}"))
        self.service_id = b""
        self.service_reply: ServiceReply | None = None
        self.version = 0
        self.received: list[list[Received]] = []
        self.blocks = 0
        """How many came, those of the handshake included."""
        self._private = digest(f"key {name}")
        self._cipher: Cipher = PLAIN
        self._sealed: Cipher | None = None
        """What takes over when the handshake is done."""
        self._frames = BlockFrames()
        self._asked = 0
        self._waiting: dict[bytes, bytes] = {}
        """The entities of requests that wait for their answers."""
        self._hello: ServerHello | None = None
        self.port = FakePort(harness, self)
        chain = service.chain if service is not None else ()
        peer = Peer(self.session_id, has_protocol, chain)
        self.port.session = SmpSession(self.port, self.port.id, harness.credentials, peer)
        self.port.session.start()

    # The handshake.

    @property
    def hello(self) -> ServerHello:
        """What the router began with."""
        assert self._hello is not None, "the router begins"
        return self._hello

    @property
    def router_key(self) -> bytes:
        return raw_key(open_signed_key(self.hello.signed_key, leaf_key(self.hello.chain)))

    def client_hello(
        self, version: int, *, role: Role | None = None, with_key: bool = True
    ) -> ClientHello:
        """What this client would answer."""
        shown = None
        if role is not None:
            assert self.service is not None, "only a service has a role"
            shown = self.service.hello(role, public_key(self.service_key))
        key = spki(self._private) if with_key else None
        return ClientHello(version, fingerprint(CHAIN), key, service=shown)

    def greet(
        self,
        version: int,
        *,
        role: Role | None = None,
        with_key: bool = True,
        hello: ClientHello | None = None,
    ) -> None:
        """Answer the router, with another hello than one's own if there is one."""
        hello = hello or self.client_hello(version, role=role, with_key=with_key)
        self.version = hello.version
        if hello.is_encrypted:
            self._sealed = client_cipher(self._private, self.router_key, self.session_id)
        if hello.service is None:
            self._begin()
        self.send(PLAIN.seal(hello.encode()))

    def _begin(self) -> None:
        self._cipher = self._sealed or PLAIN

    # Asking.

    def transmission(self, request: Request) -> Transmission:
        """As a client signs it: SUBS and NSUBS with the session's key of the service, and what
        ties a queue to the service with both."""
        self._asked += 1
        correlation = request.correlation
        if correlation is None:
            correlation = digest(f"{self.name} {self._asked}")[:24]
        command, key, by_service = request.command, request.key, request.service_signed
        encoded = command
        if not isinstance(encoded, bytes):
            encoded = c.encode_command(encoded, self.version)
        bare = Transmission(b"", None, correlation, request.entity, encoded)
        over = signed(self.session_id, bare)
        if self.service_id and key is None and isinstance(command, c.Subs | c.NSubs):
            key = self.service_key
        if by_service is None:
            by_service = bool(self.service_id) and isinstance(command, ASSOCIATING)
        if key is None:
            return bare
        second = self.service_key.sign(over) if by_service else None
        if by_service and isinstance(command, ASSOCIATING) and self.service is not None:
            over = self.service.fingerprint + over
        if isinstance(key, bytes):
            authorization = authenticator(shared_key(key, self.router_key), correlation, over)
        else:
            authorization = key.sign(over)
        return Transmission(authorization, second, correlation, request.entity, encoded)

    def encode(self, request: Request | Transmission) -> bytes:
        """The bytes of a request; its answer is expected."""
        sent = request if isinstance(request, Transmission) else self.transmission(request)
        if sent.correlation:
            self._waiting[sent.correlation] = sent.entity
        return encode(sent, self.version)

    def post(self, *requests: Request | Transmission) -> None:
        """Send one block, and wait for nothing."""
        (payload,) = pack([self.encode(request) for request in requests])
        self.send_payload(payload)

    def ask(self, *requests: Request | Transmission) -> list[r.Reply]:
        """Send one block, and return everything that came then."""
        self.received.clear()
        self.post(*requests)
        self.harness.settle()
        return self.replies()

    def replies(self) -> list[r.Reply]:
        """What came so far, whatever it is about."""
        return [each.reply for block in self.received for each in block]

    def seal(self, payload: bytes) -> bytes:
        """The next block."""
        return self._cipher.seal(payload)

    def send_payload(self, payload: bytes) -> None:
        self.send(self.seal(payload))

    def send(self, data: bytes) -> None:
        assert not self.port.is_paused, "nothing is read from who is paused"
        if self.port.closed is None:
            self.port.session.receive(data)

    def hang_up(self) -> None:
        self._waiting.clear()
        self.harness.disconnect(self.port.id, "closed by the client")

    # Receiving.

    def receive(self, data: bytes) -> None:
        for block in self._frames.feed(data):
            self.blocks += 1
            if self._hello is None:
                self._hello = ServerHello.parse(PLAIN.open(block))
            elif self._is_third():
                self._take_third(parse_service_reply(PLAIN.open(block)))
            else:
                payload = self._cipher.open(block)
                self.received.append([self._parse(data) for data in unpack(payload)])

    def _is_third(self) -> bool:
        """Whether the router owes the third message of the handshake."""
        return self.service is not None and self.service_reply is None and not self.port.is_open

    def _take_third(self, reply: ServiceReply) -> None:
        self.service_reply = reply
        if isinstance(reply, ServiceAccepted):
            self.service_id = reply.service_id
            self._begin()

    def _parse(self, data: bytes) -> Received:
        sent = parse_reply(data)
        reply = r.parse_reply_command(sent.command, self.version)
        assert r.has_right_entity(reply, sent.entity), f"{reply} about {sent.entity.hex()}"
        if sent.correlation:
            entity = self._waiting.pop(sent.correlation)
            assert sent.entity == entity or isinstance(reply, r.Err), "about what was asked"
        return Received(sent.correlation, sent.entity, reply)

    @property
    def unanswered(self) -> int:
        """Requests that nothing came for yet."""
        return len(self._waiting)
