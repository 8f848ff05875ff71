"""Channels from the outside: publish and subscribe over the Redis wire.

Any Redis client does the same. This one has only what `headgate pub` and `headgate sub` need.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import hiredis

from headgate.core.model.value import value
from headgate.errors import ConfigError, HeadgateError, NoRouter, NotAllowed

READ_BYTES = 64 * 1024

DENIALS = ("NOAUTH", "WRONGPASS", "NOPERM")
"""Beginnings of errors for missing rights."""


@value
class Published:
    """A message that came by a subscription."""

    channel: bytes
    body: bytes
    pattern: bytes | None = None


class RespClient:
    """One connection with a Redis server: requests, replies in order, messages as they come.

    Used by commands and tests, in one thread; it blocks.
    """

    def __init__(
        self,
        host: str,
        port: int,
        password: str | None = None,
        *,
        user: str | None = None,
        tls: bool = False,
        certificate: Path | None = None,
        timeout: float = 10.0,
    ) -> None:
        """With a certificate, TLS with exactly that one, whatever its name. With `tls` alone, the
        machine's authorities decide."""
        self._where = f"{host}:{port}"
        self._has_tls = tls or certificate is not None
        try:
            plain = self._socket = socket.create_connection((host, port), timeout)
            if self._has_tls:
                try:
                    self._socket = _context(certificate).wrap_socket(plain, server_hostname=host)
                except BaseException:
                    plain.close()
                    raise
        except ssl.SSLError as error:
            raise NoRouter(
                f"no TLS with {self._where}: {error.reason or error}; see whether it has TLS, and"
                " whether the certificate is the right one"
            ) from error
        except OSError as error:
            raise NoRouter(
                f"no router answers on {self._where}: {error.strerror or error};"
                " is [listen.resp] in its configuration?"
            ) from error
        self._reader = hiredis.Reader()
        if password is not None:
            try:
                self.ask("AUTH", *([] if user is None else [user]), password)
            except HeadgateError:
                self.close()
                raise

    def ask(self, *words: str | bytes) -> Any:  # noqa: ANN401
        """Send a command, wait for its answer."""
        self.send(*words)
        answer = self.answer()
        if isinstance(answer, hiredis.ReplyError):
            raise _refusal(str(words[0]), answer)
        return answer

    def send(self, *words: str | bytes) -> None:
        self.send_all([words])

    def send_all(self, commands: Iterable[Sequence[str | bytes]]) -> None:
        """Send commands together; their answers come one by one."""
        data = b"".join(map(_encoded, commands))
        with self._explained():
            self._socket.sendall(data)

    def answer(self) -> Any:  # noqa: ANN401
        """The next frame, of any kind."""
        with self._explained():
            while True:
                frame = self._reader.gets()
                if frame is not False:
                    return frame
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise NoRouter(f"{self._where} closed the connection{self._hint()}")
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
                raise _refusal("the subscription", answer)

    def messages(self) -> Iterator[Published]:
        """The messages of the subscriptions, for as long as the connection lasts."""
        self._socket.settimeout(None)
        while True:
            match self.answer():
                case [b"message", bytes(channel), bytes(body)]:
                    yield Published(channel, body)
                case [b"pmessage", bytes(pattern), bytes(channel), bytes(body)]:
                    yield Published(channel, body, pattern)

    def close(self) -> None:
        self._socket.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A context in which errors of the connection become errors with advice."""
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise NoRouter(f"the connection to {self._where} broke: {why}{self._hint()}") from error
        except hiredis.ProtocolError as error:
            raise NoRouter(
                f"{self._where} does not speak Redis's protocol{self._hint()}"
            ) from error

    def _hint(self) -> str:
        return "" if self._has_tls else "; if it has TLS, say so with --tls, --ca or rediss://"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _encoded(words: Sequence[str | bytes]) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    head = b"*%d\r\n" % len(parts)
    return head + b"".join([b"$%d\r\n%b\r\n" % (len(p), p) for p in parts])


def _context(certificate: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=None if certificate is None else str(certificate)
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate}: {error.strerror or error}") from error
    context.check_hostname = certificate is None
    return context


def _refusal(what: str, answer: hiredis.ReplyError) -> HeadgateError:
    kind = NotAllowed if str(answer).startswith(DENIALS) else HeadgateError
    return kind(f"the router refused {what}: {answer}")
