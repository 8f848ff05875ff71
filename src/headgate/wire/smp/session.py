"""One client's session: handshake, then blocks of requests in and blocks of answers out.

It is given the bytes of blocks and effects, and calls its `SmpPort` with bytes to write and
commands to submit. TLS is outside; its session id is passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.model.ids import ServiceId, SessionId
from headgate.core.model.value import value
from headgate.crypto.box import public_of
from headgate.crypto.keys import (
    KeyKind,
    SigningKey,
    check_chain,
    encode_key,
    fingerprint,
    kind_of,
    leaf_key,
    open_signed_key,
    raw_key,
    sign_key,
)
from headgate.crypto.proof import ServiceProof, Verifier
from headgate.errors import HeadgateError, Malformed, Overloaded
from headgate.wire.port import SessionPort
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BlockFrames, pack, unpack
from headgate.wire.smp.codec.ciphers import Cipher, PlainCipher, router_cipher
from headgate.wire.smp.codec.transmissions import BadAuthorization, parse, signed
from headgate.wire.smp.errors import error_text
from headgate.wire.smp.handshake import (
    LEGACY,
    VERSIONS,
    ClientHello,
    Role,
    ServerHello,
    ServiceAccepted,
    ServiceHello,
    ServiceRefused,
    TransportError,
)
from headgate.wire.smp.requests import ID_BYTES, RequestPort, RequestReader, RequestRef
from headgate.wire.smp.responses import GRANTED, LATER, NOBODY, Responses, request_of

MESSAGING_SINCE = 19
"""The first version in which a service may have messages; before, such a client is like any
other."""

UNANSWERED_MAX = 1024
"""Unanswered requests of one session; more are not read meanwhile."""

PLAIN = PlainCipher()

Answer: TypeAlias = tuple[RequestRef, r.Reply]


@value
class Credentials:
    """The router's certificates and key."""

    chain: tuple[bytes, ...]
    private: SigningKey
    """The private key of the leaf of the chain."""
    fingerprint: bytes


@value
class Peer:
    """The client as TLS describes it."""

    session_id: bytes
    has_protocol: bool
    """Whether it named the protocol in ALPN."""
    chain: tuple[bytes, ...]
    """The certificates that it sent, leaf first."""


class SmpPort(RequestPort, SessionPort, Protocol):
    """The server's end of a SimpleX session."""

    def defer(self, effects: Sequence[e.Effect]) -> None:
        """Pass these effects to `write_later` a little later."""
        ...

    def deferred(self) -> Sequence[e.Effect]:
        """Take back the deferred effects that were not passed on yet."""
        ...

    def opened(self) -> None:
        """Note that the handshake is done."""
        ...


class SmpSession:
    """One SMP client: blocks in, commands to the core, replies in blocks out.

    The server owns it with a connection. It makes the handshake, opens and seals blocks, and
    answers each transmission once.
    """

    __slots__ = (
        "_answered",
        "_answers",
        "_asked",
        "_cipher",
        "_credentials",
        "_frames",
        "_held",
        "_host",
        "_is_over",
        "_is_paused",
        "_peer",
        "_pending",
        "_private",
        "_requests",
        "_version",
        "id",
    )

    def __init__(self, host: SmpPort, id: SessionId, credentials: Credentials, peer: Peer) -> None:
        self.id = id
        self._host = host
        self._credentials = credentials
        self._peer = peer
        self._private = host.draw(32)
        self._frames = BlockFrames()
        self._cipher: Cipher = PLAIN
        self._version = 0
        self._answers: Responses | None = None
        self._requests: RequestReader | None = None
        self._pending: tuple[ClientHello, ServiceProof] | None = None
        """A handshake that waits for the service's id."""
        self._asked = 0
        """Requests submitted to the core, which answers them in this order."""
        self._answered = 0
        self._held: deque[tuple[int, bytes]] = deque()
        """Answers made without the core, each with the number of core answers that come before
        it."""
        self._is_paused = False
        self._is_over = False
        """Whether the client asked to be closed; later requests are not read."""

    def start(self) -> None:
        """Begin the handshake."""
        key = encode_key(KeyKind.X25519, public_of(self._private))
        hello = ServerHello(
            VERSIONS if self._peer.has_protocol else LEGACY,
            self._peer.session_id,
            self._credentials.chain,
            sign_key(self._credentials.private, key),
        )
        self._write([hello.encode()])

    # Calls of the connection.

    def receive(self, data: bytes) -> None:
        for block in self._frames.feed(data):
            if self._is_over:
                return
            if self._requests is not None:
                self._take(block, self._requests)
            elif self._version == 0:
                self._greeted(block)
            else:
                # The client waits for its service's id before it may send requests.
                self._close("handshake spoke too early")

    @property
    def is_cut_off(self) -> bool:
        """Whether the stream ended in the middle of a block."""
        return bool(self._frames.held)

    # Calls of the core.

    def write_effects(self, effects: Sequence[e.Effect]) -> None:
        """Write effects: answers first, in the order of the requests, then messages that no request
        asked for. Losses of queues are sent later, together, except to a client that takes queues
        back, which would mistake a late notice for a new loss."""
        answers = self._answers
        if answers is None:
            self._identified(effects)
            return
        lost: list[bytes] = []
        replies: list[bytes] = []
        events: list[bytes] = []
        later: list[e.Effect] = []
        messages = 0
        for effect in effects:
            # S000-18, S001-60: losses are sent with the next flush.
            if isinstance(effect, LATER):
                later.append(effect)
                continue
            if isinstance(effect, GRANTED):
                lost += [answers.encode_effect(each) for each in (*self._host.deferred(), *later)]
                later = []
            if e.ref_of(effect) is None:
                events.append(answers.encode_effect(effect))
            else:
                if self._held:
                    replies += self._let_go()
                replies.append(answers.encode_effect(effect))
                self._answered += 1
            messages += isinstance(effect, e.Deliver)
        if later:
            self._host.defer(later)
        replies += self._let_go()
        # A requested message counts as an answer: a client that does not take its answers is not
        # read, or it could request any number of bytes.
        # S000-30, SMP-12, SMP-15: all answers, then the messages, in as few blocks as possible.
        self._write(pack(lost + replies + events), 0 if replies else messages)
        if self._is_paused and self._unanswered <= UNANSWERED_MAX // 2:
            self._is_paused = False
            self._host.resume()

    def write_later(self, effects: Sequence[e.Effect]) -> None:
        """Write the deferred effects."""
        assert self._answers is not None, "nothing is deferred before the handshake is done"
        self._write(pack([self._answers.encode_effect(effect) for effect in effects]))

    # The handshake.

    def _greeted(self, block: bytes) -> None:
        try:
            hello = ClientHello.parse(PLAIN.open(block))
        except Malformed:
            self._close("handshake malformed")
            return
        if hello.key_hash != self._credentials.fingerprint:
            self._close("handshake meant another router")
            return
        lowest, highest = VERSIONS
        if not self._peer.has_protocol or not lowest <= hello.version <= highest:
            self._close("handshake no common version")
            return
        service = hello.service
        # S001-6, S001-10, S001-25: no service, or none of this version: no third message.
        if service is None or (service.role is Role.MESSAGING and hello.version < MESSAGING_SINCE):
            self._open(hello, None, None)
            return
        self._version = hello.version
        try:
            proof = self._service_proof(service)
        except Malformed:
            self._refuse(TransportError.BAD_AUTH)
            return
        self._pending = hello, proof
        role = service.role.value.decode()
        drawn = ServiceId(self._host.draw(ID_BYTES))
        command = core.Identify(self.id, NOBODY, proof.fingerprint, role, drawn)
        try:
            self._host.submit([command])
        except Overloaded:
            # S004-19: the client takes it for temporary and tries again.
            self._refuse(TransportError.BAD_SERVICE)

    def _service_proof(self, service: ServiceHello) -> ServiceProof:
        """The proof that the client is the service: certificates whose keys TLS has checked, and a
        session key signed by them."""
        # S000-92, S001-13: the identity of a service is that of its TLS certificate.
        if service.chain != self._peer.chain:
            raise Malformed("another chain than that of TLS")
        check_chain(service.chain, self._host.now())
        # S001-12, S001-14: the key of this session, if the certificate has signed it.
        key = open_signed_key(service.signed_key, leaf_key(service.chain))
        if kind_of(key) is not KeyKind.ED25519:
            raise Malformed("the key of a service's session is one of Ed25519")
        return ServiceProof(fingerprint(service.chain), key)

    def _identified(self, effects: Sequence[e.Effect]) -> None:
        if self._pending is None:
            return
        (hello, proof), self._pending = self._pending, None
        effect = effects[0]
        if isinstance(effect, e.Identified):
            # S001-11: the third message has the id of the service.
            self._write([ServiceAccepted(effect.service).encode()])
            self._open(hello, proof, effect.service)
        else:
            self._refuse(TransportError.BAD_SERVICE)

    def _refuse(self, error: TransportError) -> None:
        self._write([ServiceRefused(error).encode()])
        self._close(f"handshake {error.name.lower().replace('_', ' ')}")

    def _close(self, reason: str) -> None:
        """Close the session. No data sent after this is answered."""
        self._is_over = True
        self._pending = None
        self._host.close(reason)

    def _open(
        self, hello: ClientHello, proof: ServiceProof | None, service: ServiceId | None
    ) -> None:
        self._version = hello.version
        if hello.is_encrypted and hello.key is not None:
            try:
                self._cipher = router_cipher(
                    self._private, raw_key(hello.key), self._peer.session_id
                )
            except Malformed:
                self._close("handshake malformed")
                return
        role = hello.service.role if hello.service is not None and service is not None else None
        verifier = Verifier(self._private, proof)
        self._answers = Responses(hello.version, self._host.draw)
        self._requests = RequestReader(self._host, self.id, hello.version, verifier, role, service)
        self._host.opened()

    # Blocks.

    def _take(self, block: bytes, requests: RequestReader) -> None:
        """Submit the requests of a block together. Answers without the core keep their place among
        them."""
        try:
            transmissions = unpack(self._cipher.open(block))
        except Malformed:
            # ACC-90: an error is answered, and the session goes on.
            self._write(pack([self._encoded(NOBODY, r.Err("BLOCK"))]))
            return
        read = [self._read(data, requests) for data in transmissions]
        answers = self._submit(read)
        if answers:
            self._write(pack([self._encoded(asked, reply) for asked, reply in answers]))

    def _read(self, data: bytes, requests: RequestReader) -> core.Request | Answer:
        """The request to the core, or the answer to one that is not passed on."""
        try:
            asked = parse(data, self._version)
        except BadAuthorization as error:
            return RequestRef(error.correlation, b""), r.Err("BLOCK")
        except Malformed:
            return NOBODY, r.Err("BLOCK")
        read = requests.read(asked, signed(self._peer.session_id, asked))
        if isinstance(read, core.Request):
            return read
        assert not isinstance(read, core.Command), "a client asks for answers"
        return RequestRef(asked.correlation, asked.entity), read

    def _submit(self, read: Sequence[core.Request | Answer]) -> list[Answer]:
        """Submit requests to the core; return those answered at once, all or none."""
        commands = [each for each in read if not isinstance(each, tuple)]
        try:
            if commands:
                self._host.submit(commands)
        except HeadgateError as error:
            refusal = r.Err(error_text(error))
            return [
                each if isinstance(each, tuple) else (request_of(each.ref), refusal)
                for each in read
            ]
        if not commands:
            return [each for each in read if isinstance(each, tuple)]
        for each in read:
            if isinstance(each, tuple):
                # ACC-50: each answer in the place of its command.
                self._held.append((self._asked, self._encoded(*each)))
            else:
                self._asked += 1
        if self._unanswered > UNANSWERED_MAX and not self._is_paused:
            self._is_paused = True
            self._host.pause()
        return []

    @property
    def _unanswered(self) -> int:
        return self._asked - self._answered + len(self._held)

    def _let_go(self) -> list[bytes]:
        """The held answers whose turn has come."""
        queued = []
        while self._held and self._held[0][0] <= self._answered:
            queued.append(self._held.popleft()[1])
        return queued

    def _encoded(self, asked: RequestRef, reply: r.Reply) -> bytes:
        assert self._answers is not None, "the handshake is done"
        return self._answers.encode(asked, reply)

    def _write(self, payloads: Sequence[bytes], messages: int = 0) -> None:
        if payloads:
            self._host.write(b"".join(map(self._cipher.seal, payloads)), messages)
