"""What stands between clients and servers: one address for whoever serves, as haproxy gives, or a
network that holds back what is said."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path


class Front:
    """Hands on bytes to one port or socket. When that changes, every connection is cut."""

    def __init__(self) -> None:
        self._to: int | Path | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        assert self._server is not None, "start comes first"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def turn_to(self, place: int | Path | None) -> None:
        """From now on this one serves; nobody does, if it is None."""
        self._to = place
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()

    def hold(self) -> None:
        """Keep to itself what either side says, and leave connections open."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.turn_to(None)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, requests)
        self._writers.update(pair)
        await asyncio.gather(self._pass(reader, requests), self._pass(answers, writer))
        self._writers.difference_update(pair)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._to, Path):
            return await asyncio.open_unix_connection(self._to)
        if self._to is None:
            raise ConnectionError
        return await asyncio.open_connection("127.0.0.1", self._to)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
