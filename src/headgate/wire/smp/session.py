"""One client's session: greeting, then blocks of requests in and blocks of answers out.

It is given blocks' bytes and effects, and says through its `Host` what to write and what to ask
of the core. TLS is not its business; the session id, which is TLS's, is handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.names import ServiceId, SessionId
from headgate.core.values import value
from headgate.errors import HeadgateError, Overloaded
from headgate.wire.smp import replies as r
from headgate.wire.smp.answers import LATER, NOBODY, Answers
from headgate.wire.smp.blocks import Frames, pack, unpack
from headgate.wire.smp.box import Cipher, PlainCipher, public_of, router_cipher
from headgate.wire.smp.encoding import Malformed
from headgate.wire.smp.errors import error_text
from headgate.wire.smp.handshake import (
    LEGACY,
    VERSIONS,
    ClientHello,
    Role,
    ServerHello,
    ServiceGranted,
    ServiceHello,
    ServiceRefused,
    TransportError,
)
from headgate.wire.smp.keys import (
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
from headgate.wire.smp.proof import ServiceProof, Verifier
from headgate.wire.smp.requests import ID_BYTES, Asked, Requests, Shell
from headgate.wire.smp.transmissions import BadAuthorization, parse, signed

MESSAGING_SINCE = 19
"""The version from which a service may have messages; before, such a client is like any other."""

UNANSWERED_MAX = 1024
"""Requests of one session that are carried out at a time; more are not read meanwhile."""

PLAIN = PlainCipher()


@value
class Credentials:
    """Who the router is."""

    chain: tuple[bytes, ...]
    private: SigningKey
    """Of the leaf of the chain."""
    fingerprint: bytes


@value
class Peer:
    """What TLS knows of the client."""

    session_id: bytes
    has_protocol: bool
    """Whether it named the protocol in ALPN."""
    chain: tuple[bytes, ...]
    """The certificates that it showed, leaf first."""


class Host(Shell, Protocol):
    """The shell of a session."""

    def write(self, blocks: bytes, messages: int) -> None:
        """Send these blocks; so many messages are in them."""
        ...

    def submit(self, commands: Sequence[core.Command]) -> None: ...

    def defer(self, effects: Sequence[e.Effect]) -> None:
        """Hand these to `tell` a little later."""
        ...

    def opened(self) -> None:
        """The handshake is done."""
        ...

    def pause(self) -> None:
        """Read nothing more from the client, until `resume`."""
        ...

    def resume(self) -> None: ...

    def close(self, reason: str) -> None:
        """End the session when everything is written."""
        ...


class SmpSession:
    __slots__ = (
        "_answers",
        "_cipher",
        "_credentials",
        "_frames",
        "_host",
        "_is_paused",
        "_peer",
        "_pending",
        "_private",
        "_requests",
        "_unanswered",
        "_version",
        "id",
    )

    def __init__(self, host: Host, id: SessionId, credentials: Credentials, peer: Peer) -> None:
        self.id = id
        self._host = host
        self._credentials = credentials
        self._peer = peer
        self._private = host.draw(32)
        self._frames = Frames()
        self._cipher: Cipher = PLAIN
        self._version = 0
        self._answers: Answers | None = None
        self._requests: Requests | None = None
        self._pending: tuple[ClientHello, ServiceProof] | None = None
        """A greeting that waits for the service's id."""
        self._unanswered = 0
        self._is_paused = False

    def start(self) -> None:
        """Greet the client."""
        key = encode_key(KeyKind.X25519, public_of(self._private))
        hello = ServerHello(
            VERSIONS if self._peer.has_protocol else LEGACY,
            self._peer.session_id,
            self._credentials.chain,
            sign_key(self._credentials.private, key),
        )
        self._write([hello.encode()])

    # What the connection says.

    def receive(self, data: bytes) -> None:
        for block in self._frames.feed(data):
            if self._requests is not None:
                self._take(block, self._requests)
            elif self._version == 0:
                self._greeted(block)
            else:
                # The client waits for its service's id before it may say anything.
                self._host.close("handshake spoke too early")

    @property
    def is_cut_off(self) -> bool:
        """Whether the stream ended in the middle of a block."""
        return bool(self._frames.held)

    # What the core says.

    def tell(self, effects: Sequence[e.Effect]) -> None:
        """Answers come before what nobody asked for: a batch of subscriptions is answered, then
        the messages follow. Those who lost a queue are told later, together."""
        answers = self._answers
        if answers is None:
            self._identified(effects)
            return
        replies: list[bytes] = []
        events: list[bytes] = []
        later: list[e.Effect] = []
        messages = answered = 0
        for effect in effects:
            if isinstance(effect, LATER):
                later.append(effect)
                continue
            is_event = getattr(effect, "ref", None) is None
            (events if is_event else replies).append(answers.tell(effect))
            messages += isinstance(effect, e.Deliver)
            answered += not is_event
        if later:
            self._host.defer(later)
        self._unanswered -= answered
        # What was asked for is an answer, also if it is a message: who does not take its answers
        # is not read, or it could ask for any number of bytes.
        self._write(pack(replies + events), 0 if replies else messages)
        if self._is_paused and self._unanswered <= UNANSWERED_MAX // 2:
            self._is_paused = False
            self._host.resume()

    def tell_later(self, effects: Sequence[e.Effect]) -> None:
        """Say what was deferred."""
        assert self._answers is not None, "nothing is deferred before the handshake is done"
        self._write(pack([self._answers.tell(effect) for effect in effects]))

    # The handshake.

    def _greeted(self, block: bytes) -> None:
        try:
            hello = ClientHello.parse(PLAIN.open(block))
        except Malformed:
            self._host.close("handshake malformed")
            return
        if hello.key_hash != self._credentials.fingerprint:
            self._host.close("handshake meant another router")
            return
        lowest, highest = VERSIONS
        if not self._peer.has_protocol or not lowest <= hello.version <= highest:
            self._host.close("handshake no common version")
            return
        service = hello.service
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
            self._refuse(TransportError.BAD_SERVICE)

    def _service_proof(self, service: ServiceHello) -> ServiceProof:
        """What proves that the client is the service: the certificates that TLS has checked its
        keys of, and a key of this session signed by them."""
        if service.chain != self._peer.chain:
            raise Malformed("another chain than that of TLS")
        check_chain(service.chain, self._host.now())
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
            self._write([ServiceGranted(effect.service).encode()])
            self._open(hello, proof, effect.service)
        else:
            self._refuse(TransportError.BAD_SERVICE)

    def _refuse(self, error: TransportError) -> None:
        self._write([ServiceRefused(error).encode()])
        self._host.close(f"handshake {error.name.lower().replace('_', ' ')}")

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
                self._host.close("handshake malformed")
                return
        role = hello.service.role if hello.service is not None and service is not None else None
        verifier = Verifier(self._private, proof)
        self._answers = Answers(hello.version, self._host.draw)
        self._requests = Requests(self._host, self.id, hello.version, verifier, role, service)
        self._host.opened()

    # Blocks.

    def _take(self, block: bytes, requests: Requests) -> None:
        """The requests of a block go to the core together."""
        try:
            transmissions = unpack(self._cipher.open(block))
        except Malformed:
            self._answer([(NOBODY, r.Err("BLOCK"))])
            return
        commands: list[core.Command] = []
        answers: list[tuple[Asked, r.Reply]] = []
        for data in transmissions:
            try:
                asked = parse(data, self._version)
            except BadAuthorization as error:
                answers.append((Asked(error.correlation, b""), r.Err("BLOCK")))
                continue
            except Malformed:
                answers.append((NOBODY, r.Err("BLOCK")))
                continue
            read = requests.read(asked, signed(self._peer.session_id, asked))
            if isinstance(read, core.Request):
                commands.append(read)
            else:
                assert not isinstance(read, core.Command), "a client asks for answers"
                answers.append((Asked(asked.correlation, asked.entity), read))
        if commands:
            answers += self._submit(commands)
        if answers:
            self._answer(answers)

    def _submit(self, commands: list[core.Command]) -> list[tuple[Asked, r.Reply]]:
        try:
            self._host.submit(commands)
        except HeadgateError as error:
            text = error_text(error)
            return [(c.ref, r.Err(text)) for c in commands if isinstance(c, core.Request)]  # type: ignore[misc]
        self._unanswered += len(commands)
        if self._unanswered > UNANSWERED_MAX and not self._is_paused:
            self._is_paused = True
            self._host.pause()
        return []

    def _answer(self, answers: Sequence[tuple[Asked, r.Reply]]) -> None:
        assert self._answers is not None, "the handshake is done"
        encode = self._answers.encode
        self._write(pack([encode(asked, reply) for asked, reply in answers]))

    def _write(self, payloads: Sequence[bytes], messages: int = 0) -> None:
        if payloads:
            self._host.write(b"".join(map(self._cipher.seal, payloads)), messages)
