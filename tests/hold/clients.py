"""Clients that send whatever they are told."""

from __future__ import annotations

import asyncio
import base64
import resource
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import hiredis

from tests.hold.router import TOKEN
from tests.support.bmq_raw import RawClient

T = TypeVar("T")

PATIENCE_SECONDS = 240.0
"""A busy machine takes a while to do what takes a router 20 seconds of CPU."""
READ_BYTES = 1 << 20


def request(*arguments: bytes) -> bytes:
    return b"*%d\r\n" % len(arguments) + bulks(arguments)


def bulks(arguments: Iterable[bytes]) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments)


class Closed(Exception):
    """The router closed the connection."""


class RespClient:
    """One connection of the Redis wire. It reads when it is asked to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader()

    @classmethod
    async def connect(cls, place: tuple[str, int], address: str) -> RespClient:
        local = None if address == "127.0.0.1" else (address, 0)
        reader, writer = await asyncio.open_connection(*place, local_addr=local, limit=READ_BYTES)
        return cls(reader, writer)

    async def send(self, data: bytes) -> None:
        """Raises if the router closes meanwhile."""
        try:
            self._writer.write(data)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._writer.drain()
        except OSError as error:
            raise Closed(str(error)) from error

    async def reply(self) -> Any:  # noqa: ANN401
        """The next answer; errors are values."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (found := self._parser.gets()) is False:
                try:
                    data = await self._reader.read(READ_BYTES)
                except OSError as error:
                    raise Closed(str(error)) from error
                if not data:
                    raise Closed("closed")
                self._parser.feed(data)
        return found

    async def ask(self, *arguments: bytes) -> Any:  # noqa: ANN401
        await self.send(request(*arguments))
        return await self.reply()

    async def outcome(self, data: bytes, replies: int = 1, *, is_one: bool = True) -> str:
        """Send it, read the answers, and say in a few words what came of it. An error is the last
        answer to one command, however many it has."""
        try:
            await self.send(data)
        except Closed:
            return await self._last_words()
        said = ""
        for _ in range(replies):
            try:
                reply = await self.reply()
            except Closed:
                return f"{said}, closed".removeprefix(", ")
            said = described(reply)
            if is_one and isinstance(reply, hiredis.HiredisError):
                break
        return said

    async def _last_words(self) -> str:
        try:
            return f"{described(await self.reply())}, closed"
        except (Closed, TimeoutError):
            return "closed"

    async def read_away(self, count: int) -> None:
        """Read so many bytes and keep nothing."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while count > 0:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise Closed("closed")
                count -= len(data)

    def hold(self) -> None:
        """Read nothing more."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def vanish(self) -> None:
        self._writer.transport.abort()


def described(reply: object) -> str:
    match reply:
        case hiredis.HiredisError():
            return f"refused: {reply}"
        case list():
            return f"{len(reply):,} answers"
        case bytes() if len(reply) > 40:
            return f"{len(reply):,} bytes"
        case bytes():
            return reply.decode(errors="replace")
        case bool() | None:
            return str(reply).lower()
        case int():
            return f"{reply:,}"
    return str(reply)


class BmqClient(RawClient):
    """One connection of BlazingMQ's wire, with the patience of somebody who asks for much."""

    async def until(self, what: str, found: Callable[[], T | None]) -> T:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await super().until(what, found)
            except AssertionError:
                if time.monotonic() > end:
                    raise


# The admin port.


@dataclass(frozen=True)
class Answered:
    status: int
    body: bytes

    def __str__(self) -> str:
        return f"{self.status}, {len(self.body):,} bytes"


def admin_request(method: str, path: str, body: bytes = b"", length: int | None = None) -> bytes:
    kind = "application/vnd.headgate.rows" if method == "PUT" else "application/json"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Connection: close\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode() + body


async def ask_admin(place: tuple[str, int], method: str, path: str, body: bytes = b"") -> Answered:
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection(*place, limit=READ_BYTES)
        try:
            writer.write(admin_request(method, path, body))
            data = b""
            while more := await reader.read(READ_BYTES):
                data += more
        except OSError:
            data = data or b"HTTP/1.1 000 reset\r\n\r\n"
        finally:
            writer.transport.abort()
    head, _, rest = data.partition(b"\r\n\r\n")
    return Answered(int([*head.split(), b"0", b"0"][1]), rest)


def fingerprint_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def local_addresses(count: int, each: int) -> list[str]:
    """As many addresses of loopback as so many connections need, a port not being free again for
    a while."""
    return [f"127.0.0.{2 + number // each}" for number in range(count)]


def raise_descriptors() -> int:
    """As many files as this process may have open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def reset_on_close(connected: socket.socket) -> None:
    """Have it end with a reset, which leaves no port waiting."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
