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
    """A client, made by `connect` and closed by ``async with`` or `close`."""

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

        `certificate`: for TLS, the router's own; without it, the machine's authorities decide.
        `timeout`: seconds that any call may take, including time without a connection. `patience`:
        seconds without a connection after which it is given up, and every call raises
        `NotConnected`. The first connection is tried once. `compression`: of bodies above 1024
        bytes. `unacknowledged_messages`, `unacknowledged_bytes`: `Queue.post` waits while so much
        is unacknowledged. `name`: the client's name in the router's log and in explanations; by
        default, that of the program. `token`: proves that name to a router that knows its clients.
        `client_certificate`, `client_key`: prove it by TLS; the key may be in the same file.
        `on_change`: called when the connection is `Lost` or `Restored`.
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

        A reader without `subscriptions` gets all messages. Raises `Refused`, with the router's text
        if it refused.
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
        """Close the client. Confirmations are sent first; unacknowledged posts raise `Closed`."""
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
