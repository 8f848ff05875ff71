"""The client, as its users see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from headgate.client.bmq.address import EXAMPLE, parse_address
from headgate.client.bmq.errors import within
from headgate.client.bmq.queue import EVERYTHING, Queue
from headgate.client.bmq.session import Change, Session, Settings
from headgate.client.bmq.subscription import Subscription, checked
from headgate.core.model.limits import MiB
from headgate.core.model.queue_uri import parse_uri
from headgate.errors import ConfigError, Prohibited, Refused
from headgate.wire.bmq.codec.payload import Compression
from headgate.wire.bmq.requests import READ, WRITE

COMPRESSIONS = {"none": Compression.NONE, "zlib": Compression.ZLIB}


class Client:
    """A client, made by `connect` and left with ``async with`` or `close`."""

    def __init__(self, session: Session, compression: Compression) -> None:
        self._session = session
        self._compression = compression

    @classmethod
    async def connect(
        cls,
        address: str = EXAMPLE,
        *,
        certificate: Path | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109
        patience: float = 60.0,
        compression: Literal["none", "zlib"] = "none",
        unacknowledged_messages: int = 10_000,
        unacknowledged_bytes: int = 32 * MiB,
        name: str | None = None,
        token: str | None = None,
        client_certificate: Path | None = None,
        client_key: Path | None = None,
        on_change: Callable[[Change], None] | None = None,
    ) -> Self:
        """Connect with the router at ``tcp://HOST:PORT``, or ``tcps://HOST:PORT`` for TLS.

        `certificate`: for TLS, whoever has this one is right; without it, whom the machine trusts.
        `timeout`: seconds that any call may take, the time without a connection included.
        `patience`: seconds without a connection after which it is given up, and every call raises
        `NotConnected`. The first connection is tried once.
        `compression`: of bodies above 1024 bytes.
        `unacknowledged_messages`, `unacknowledged_bytes`: `Queue.post` waits for room while so much
        is on its way.
        `name`: what the router calls the client, in its log and in explanations; without it, the
        name of the program.
        `token`: shows a router that knows its clients that this is the one of that name.
        `client_certificate`, `client_key`: show it with TLS; the key may be in the same file.
        `on_change`: told that the connection was `Lost` or `Restored`.
        """
        if token is not None and name is None:
            raise ConfigError("a token is that of a name; give both")
        settings = Settings(
            timeout,
            patience,
            unacknowledged_messages,
            unacknowledged_bytes,
            Path(*sys.argv[:1]).name if name is None else name,
            token,
            on_change,
        )
        where = parse_address(address, certificate, client_certificate, client_key)
        session = Session(where, settings)
        async with within(timeout, f"connecting with {address}"):
            await session.start()
        return cls(session, COMPRESSIONS[compression])

    @property
    def is_connected(self) -> bool:
        return self._session.link is not None

    async def open(
        self,
        uri: str,
        *,
        read: bool = False,
        write: bool = False,
        subscriptions: Iterable[Subscription] = (),
    ) -> Queue:
        """Open ``bmq://DOMAIN/QUEUE``, or ``bmq://DOMAIN/QUEUE?id=APP`` to read a queue with apps.

        A reader without `subscriptions` gets everything. Raises `Refused` with the router's
        words, or ours.
        """
        self._session.check()
        name = parse_uri(uri)
        wanted = checked(subscriptions)
        if not (read or write):
            raise Prohibited("a queue is opened to read, to write or both")
        if wanted and not read:
            raise Prohibited("subscriptions are for reading")
        if self._session.has(name):
            raise Prohibited(f"{uri} is open already; to read and write, open it for both at once")
        flags = (READ if read else 0) | (WRITE if write else 0)
        if read:
            wanted = wanted or EVERYTHING
        queue = Queue(self._session, name, flags, wanted, self._compression)
        self._session.add(queue)
        try:
            async with within(self._session.settings.timeout, f"opening {uri}"):
                await self._session.asking(queue.open)
        except BaseException as error:
            self._session.remove(queue)
            if self._session.link is not None and not isinstance(error, Refused):
                queue.abandon(self._session.link)
            raise
        return queue

    async def close(self) -> None:
        """Leave. What is confirmed is told first; what is not acknowledged raises `Closed`."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
