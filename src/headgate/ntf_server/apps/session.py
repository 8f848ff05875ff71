"""One app's session: greeting, then blocks of requests in and blocks of answers out.

It is given bytes and answers, and says through its `AppPort` what to write and what to carry out.
TLS is not its business; the session id, which is TLS's, is handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key, sign_key
from headgate.crypto.proof import Verifier
from headgate.errors import Malformed
from headgate.server.identity import Identity
from headgate.wire.ntf.hello import VERSIONS, NtfClientHello, NtfServerHello
from headgate.wire.ntf.transmissions import (
    BLOCK,
    NtfAnswer,
    NtfIncoming,
    decode_block,
    encode_answer,
    encode_block,
    pack_blocks,
    read_requests,
)
from headgate.wire.smp.codec.blocks import BlockFrames
from headgate.wire.smp.session import Peer

WAITING_MAX: Final = 16
"""Blocks of one session that wait for their answers; more are not read meanwhile."""


class AppPort(Protocol):
    """The server's end of a session."""

    def write(self, data: bytes) -> None: ...
    def close(self, reason: str) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def opened(self) -> None:
        """The handshake is done."""
        ...

    def carry_out(self) -> None:
        """There is something to be answered: take `next_block`."""
        ...


class AppSession:
    """The session of one app: blocks in, requests out, answers in blocks back. The answers to a
    block are written before the next block is carried out."""

    __slots__ = (
        "_frames",
        "_identity",
        "_is_over",
        "_is_paused",
        "_peer",
        "_port",
        "_private",
        "_version",
        "_waiting",
        "verifier",
    )

    def __init__(self, port: AppPort, identity: Identity, peer: Peer, private: bytes) -> None:
        """`private` is an X25519 key of this connection, raw."""
        self._port = port
        self._identity = identity
        self._peer = peer
        self._private = private
        self.verifier = Verifier(private)
        self._frames = BlockFrames(BLOCK)
        self._version = 0
        self._waiting: deque[bytes] = deque()
        self._is_paused = False
        self._is_over = False
        """It asked to be closed; what follows is not read."""

    def start(self) -> None:
        """Greet the app, unless it did not name the protocol: it could speak no version of ours."""
        if not self._peer.has_protocol:
            self._close("handshake without a protocol")
            return
        key = encode_key(KeyKind.X25519, public_of(self._private))
        signed = sign_key(self._identity.private, key)
        hello = NtfServerHello(VERSIONS, self._peer.session_id, signed)
        self._port.write(encode_block(hello.encode()))

    def receive(self, data: bytes) -> None:
        for block in self._frames.feed(data):
            if self._is_over:
                return
            if self._version:
                self._waiting.append(block)
            else:
                self._greeted(block)
        if not self._waiting:
            return
        if len(self._waiting) > WAITING_MAX and not self._is_paused:
            self._is_paused = True
            self._port.pause()
        self._port.carry_out()

    def next_block(self) -> list[NtfIncoming] | None:
        """The next requests, for one call of `answer`; None if there are none."""
        if self._is_over or not self._waiting:
            return None
        return read_requests(self._waiting.popleft(), self._peer.session_id)

    def answer(self, answers: Sequence[NtfAnswer]) -> None:
        """The answers to a block, in its order."""
        encoded = [encode_answer(each, self._version) for each in answers]
        for block in pack_blocks(encoded):
            self._port.write(block)
        if self._is_paused and len(self._waiting) <= WAITING_MAX // 2:
            self._is_paused = False
            self._port.resume()

    def end(self) -> None:
        """The connection is gone: what was not begun is not carried out."""
        self._is_over = True
        self._waiting.clear()

    def _greeted(self, block: bytes) -> None:
        try:
            hello = NtfClientHello.parse(decode_block(block))
            hello.check(self._identity.fingerprint)
        except Malformed as error:
            self._close(f"handshake {error}")
            return
        self._version = hello.version
        self._port.opened()

    def _close(self, reason: str) -> None:
        self._is_over = True
        self._waiting.clear()
        self._port.close(reason)
