"""What stands in front of two routers, as haproxy does: one address for whoever serves."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Front:
    """Hands on bytes to one port. When that changes, every connection is cut."""

    def __init__(self) -> None:
        self._to: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        assert self._server is not None, "start comes first"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def turn_to(self, port: int | None) -> None:
        """From now on this one serves; nobody does, if it is None."""
        self._to = port
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.turn_to(None)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._to is None:
                raise ConnectionError
            answers, requests = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, requests)
        self._writers.update(pair)
        await asyncio.gather(_pass(reader, requests), _pass(answers, writer))
        self._writers.difference_update(pair)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
