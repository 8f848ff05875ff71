"""Channels from the outside: publish and subscribe over the Redis wire, for programs that wait.

Any Redis client does the same. This one is what `headgate pub` and `headgate sub` need, and no
more.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import hiredis

from headgate.core.values import value
from headgate.errors import HeadgateError

READ_BYTES = 64 * 1024


@value
class Published:
    """A message that came by a subscription."""

    channel: bytes
    body: bytes
    pattern: bytes | None = None


class RespClient:
    def __init__(
        self,
        host: str,
        port: int,
        password: str | None = None,
        *,
        certificate: Path | None = None,
        timeout: float = 10.0,
    ) -> None:
        """With a certificate, TLS with whoever has it, whatever the name in it."""
        try:
            self._socket = socket.create_connection((host, port), timeout)
            if certificate is not None:
                context = ssl.create_default_context(cafile=str(certificate))
                context.check_hostname = False
                self._socket = context.wrap_socket(self._socket)
        except OSError as error:
            raise HeadgateError(
                f"no router answers on {host}:{port}: {error.strerror or error};"
                " is [listen.resp] in its configuration?"
            ) from error
        self._reader = hiredis.Reader()
        if password is not None:
            self.ask("AUTH", password)

    def ask(self, *words: str | bytes) -> Any:  # noqa: ANN401
        """Send a command, wait for its answer."""
        self.send(*words)
        answer = self.answer()
        if isinstance(answer, hiredis.ReplyError):
            raise HeadgateError(f"the router refused {words[0]!s}: {answer}")
        return answer

    def send(self, *words: str | bytes) -> None:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        head = b"*%d\r\n" % len(parts)
        self._socket.sendall(head + b"".join([b"$%d\r\n%b\r\n" % (len(p), p) for p in parts]))

    def answer(self) -> Any:  # noqa: ANN401
        """The next frame, whatever it is."""
        while True:
            frame = self._reader.gets()
            if frame is not False:
                return frame
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise HeadgateError("the router closed the connection")
            self._reader.feed(data)

    def publish(self, channel: bytes, body: bytes) -> int:
        """Publish a message; return how many received it."""
        return int(self.ask("PUBLISH", channel, body))

    def subscribe(self, names: Sequence[bytes], *, are_patterns: bool = False) -> None:
        """Return when the router has confirmed every name."""
        self.send("PSUBSCRIBE" if are_patterns else "SUBSCRIBE", *names)
        for _ in names:
            answer = self.answer()
            if isinstance(answer, hiredis.ReplyError):
                raise HeadgateError(f"the router refused the subscription: {answer}")

    def messages(self) -> Iterator[Published]:
        """What comes by the subscriptions, for as long as the router is there."""
        self._socket.settimeout(None)
        while True:
            match self.answer():
                case [b"message", bytes(channel), bytes(body)]:
                    yield Published(channel, body)
                case [b"pmessage", bytes(pattern), bytes(channel), bytes(body)]:
                    yield Published(channel, body, pattern)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
