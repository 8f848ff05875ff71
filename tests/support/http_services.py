"""Programs of the tests that serve HTTP/2 and HTTP/1.1 over TLS on loopback."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from tests.support.certificates import make_certificate

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Certificate:
    """Of `localhost`, or of another name; it is its own authority."""

    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, name: str = "localhost") -> Certificate:
        folder.mkdir(parents=True, exist_ok=True)
        return cls(*make_certificate(folder, name))

    def server_context(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        if protocols:
            context.set_alpn_protocols(protocols)
        return context


@asynccontextmanager
async def serving_app(
    app: Any,  # noqa: ANN401  # hypercorn and starlette do not agree on the type of an app
    certificate: Certificate,
    protocols: tuple[str, ...] = ("h2", "http/1.1"),
) -> AsyncIterator[int]:
    """Serve an ASGI app; the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.certfile, config.keyfile = str(certificate.certificate), str(certificate.key)
    config.alpn_protocols = list(protocols)
    config.errorlog = None
    config.graceful_timeout = 0.1
    ended = asyncio.Event()
    serving = asyncio.create_task(serve(app, config, shutdown_trigger=ended.wait))
    try:
        yield port
    finally:
        ended.set()
        with suppress(asyncio.CancelledError):
            await serving


@asynccontextmanager
async def serving_streams(
    handle: Handle, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """Serve connections of bytes, with TLS if there is a context; the port."""
    tasks: set[asyncio.Task[None]] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(take, host, 0, ssl=context)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        server.close()
        for task in [*tasks]:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
