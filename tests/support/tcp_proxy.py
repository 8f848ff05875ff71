"""What is between a client and a router, and may break at the worst moment."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Proxy:
    """Hands on bytes both ways. While it is deaf it keeps what the router says to itself."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.is_deaf = False
        self.kept = 0
        """Bytes that the router said meanwhile."""

    @property
    def address(self) -> str:
        assert self._server is not None, "start comes first"
        return "tcp://{}:{}".format(*self._server.sockets[0].getsockname())

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)

    def cut(self) -> None:
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()
        self._pairs.clear()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._pairs.append((writer, requests))
        for task in (self._requests(reader, requests), self._answers(answers, writer)):
            made = asyncio.create_task(task)
            self._tasks.add(made)
            made.add_done_callback(self._tasks.discard)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                if self.is_deaf:
                    self.kept += len(data)
                else:
                    writer.write(data)
        writer.close()
