"""Between a store and its server: forwards bytes, and does something odd at COMMIT."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType

COMMIT = b"Q\0\0\0\x0bCOMMIT\0"
"""The message of the protocol. Whoever sends it waits for its answer, so it comes alone."""


class Odd(Enum):
    """When the connection is cut."""

    BEFORE = "COMMIT does not reach the server, which learns that the store is gone"
    KEPT = "COMMIT does not reach the server, which does not learn that the store is gone"
    DURING = "COMMIT reaches the server, which does not learn that the store is gone"
    AFTER = "the server did it, and its answer does not reach the store"


class Proxy:
    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._kept: asyncio.StreamWriter | None = None
        self.at_commit: Odd | None = None
        """What to do at the next COMMIT; once."""
        self.refuses = False
        """It takes no new connections; set by itself after the odd thing if `refuses_then`."""
        self.refuses_then = False

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for writer in self._writers:
            await _close(writer)
        for task in self._tasks:
            await _end(task)
        await self._server.wait_closed()

    async def deliver(self) -> None:
        """Let the COMMIT that was kept back reach the server, if that still listens."""
        assert self._kept is not None
        with suppress(ConnectionError):
            self._kept.write(COMMIT)
            await self._kept.drain()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            await _close(writer)
            return
        answers, server = await asyncio.open_unix_connection(self._socket)
        self._writers += [writer, server]
        backwards = asyncio.create_task(_forward(answers, writer))
        self._tasks.append(backwards)
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                odd = self.at_commit
                if chunk == COMMIT and odd is not None:
                    self.at_commit, self.refuses = None, self.refuses_then
                    await _end(backwards)
                    await self._be_odd(odd, answers, server)
                    await _close(writer)
                    return
                server.write(chunk)
                await server.drain()
        await _close(server)

    async def _be_odd(
        self, odd: Odd, answers: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        if odd in (Odd.DURING, Odd.AFTER):
            server.write(COMMIT)
            await server.drain()
        if odd is Odd.AFTER:
            assert b"COMMIT" in await answers.read(1 << 16)
        if odd is Odd.KEPT:
            self._kept = server
        elif odd is not Odd.DURING:
            await _close(server)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
