"""Posting to push services over HTTP/2, or HTTP/1.1 where there is nothing else.

An endpoint is somebody's program. It may hang, reset, redirect, answer with anything of any length,
or be where we must not connect to. Every post ends in an answer or in `NoAnswer`, within a time and
a number of bytes, and on connections that no other host shares.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from headgate.agent.tasks import Tasks
from headgate.core.model.value import value
from headgate.errors import ConfigError, Prohibited
from headgate.notify.endpoints import ANSWER_BYTES_MAX, ANSWER_SECONDS_MAX, IPAddress
from headgate.ntf_server.pushing.names import Names

log = logging.getLogger("headgate.ntf")

CONNECT_SECONDS: Final = 3.0
"""For one address; then the next one is tried."""

ADDRESSES_MAX: Final = 4
"""Of one host that are tried."""

CONNECTIONS_MAX: Final = 4
"""With one host."""

HOSTS_MAX: Final = 200
"""With which there are connections."""

IDLE_SECONDS: Final = 60.0
"""After which the connections with a host are closed."""


@value
class Target:
    """The target of a push: host, port and path."""

    host: str
    """A name, or an address; one of IPv6 without its brackets. In lower case."""
    port: int
    path: str
    """With its query, if it has one. It names a device."""

    @property
    def authority(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == 443 else f"{shown}:{self.port}"


@value
class HttpAnswer:
    """The answer of a push service."""

    status: int
    retry_after: str | None
    body: bytes


@value
class NoAnswer:
    """The outcome of a post without an answer that we take."""

    text: str
    """Why, for the log: it names no device."""


Posted: TypeAlias = HttpAnswer | NoAnswer


class AnswerTooLong(Exception):
    """An answer of more bytes than we read."""


class HttpPosting:
    """The posting of one provider. It owns `names` and the connections, those of each host apart: a
    certificate is good for the host that it was checked for."""

    def __init__(
        self,
        names: Names,
        context: ssl.SSLContext,
        *,
        http1: bool = True,
        seconds: float = ANSWER_SECONDS_MAX,
        hosts_max: int = HOSTS_MAX,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._names = names
        self._context = context
        self._http1 = http1
        self._seconds = seconds
        self._hosts_max = hosts_max
        self._idle_seconds = idle_seconds
        self._hosts: OrderedDict[tuple[str, int], HostConnections] = OrderedDict()
        """By host and port, those used last at the end."""
        self._closings = Tasks()

    def __len__(self) -> int:
        """With how many hosts there are connections."""
        return len(self._hosts)

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Posted:
        """Post once, and once more if the connection broke."""
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    return await self._post(target, headers, body)
                except httpx.TransportError:
                    # It may have been closed while it was idle: the second one is a fresh one.
                    return await self._post(target, headers, body)
        except TimeoutError:
            return NoAnswer(f"no answer within {self._seconds:g} seconds")
        except AnswerTooLong:
            return NoAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        except Prohibited as error:
            return NoAnswer(str(error))
        except (httpx.TransportError, OSError) as error:
            return NoAnswer(f"no connection: {type(error).__name__}")

    async def close(self) -> None:
        for connections in [*self._hosts.values()]:
            self._leave(connections)
        await self._closings.close()
        self._names.close()

    async def _post(self, target: Target, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        connections = await self._begin(target)
        try:
            return await connections.post(target, headers, body)
        except BaseException:
            # A request that got no answer stays in the library's count of the connection, so the
            # next one has a connection of its own. Those under way there are not disturbed.
            self._leave(connections)
            raise
        finally:
            connections.under_way -= 1
            self._close_unused(connections)

    async def _begin(self, target: Target) -> HostConnections:
        """Connections for one request, which counts as under way from here on."""
        key = target.host, target.port
        if key not in self._hosts:
            addresses = await self._names.addresses(*key)
            # Somebody else may have opened it meanwhile.
            if key not in self._hosts:
                self._hosts[key] = HostConnections(
                    key, addresses[:ADDRESSES_MAX], self._context, self._http1
                )
        connections = self._hosts[key]
        connections.under_way += 1
        connections.used_at = asyncio.get_running_loop().time()
        self._hosts.move_to_end(key)
        self._leave_idle()
        return connections

    def _leave_idle(self) -> None:
        """Close what was not used for a while, and what is too much."""
        now = asyncio.get_running_loop().time()
        while self._hosts:
            oldest = next(iter(self._hosts.values()))
            if now - oldest.used_at < self._idle_seconds and len(self._hosts) <= self._hosts_max:
                return
            self._leave(oldest)

    def _leave(self, connections: HostConnections) -> None:
        """Begin nothing more on these connections."""
        if self._hosts.get(connections.key) is connections:
            del self._hosts[connections.key]
        connections.is_left = True
        self._close_unused(connections)

    def _close_unused(self, connections: HostConnections) -> None:
        if connections.is_left and not connections.under_way and not connections.is_closed:
            connections.is_closed = True
            self._closings.run(connections.close(), "closing connections", to_end=True)


class HostConnections:
    """The connections with one host, at addresses that were looked at when they were opened."""

    def __init__(
        self,
        key: tuple[str, int],
        addresses: list[IPAddress],
        context: ssl.SSLContext,
        http1: bool,
    ) -> None:
        self.key = key
        self.under_way = 0
        self.used_at = 0.0
        self.is_left = False
        self.is_closed = False
        self._addresses = addresses
        # A transport follows no redirect, keeps no cookie, and asks no proxy of the environment.
        self._transport = httpx.AsyncHTTPTransport(
            verify=context,
            http1=http1,
            http2=True,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
            ),
        )

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Raises `httpx.TransportError`, or `AnswerTooLong`."""
        for address in [*self._addresses]:
            try:
                return await self._post(address, target, headers, body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
                self._addresses.append(self._addresses.pop(0))
        raise failure

    async def close(self) -> None:
        try:
            await self._transport.aclose()
        except Exception as error:
            # It is closed, however it went.
            log.debug("closing failed", extra={"fields": {"error": type(error).__name__}})

    async def _post(
        self, address: IPAddress, target: Target, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        where = httpx.URL(
            scheme="https", host=str(address), port=target.port, raw_path=target.path.encode()
        )
        request = httpx.Request(
            "POST",
            where,
            headers={"Host": target.authority, **headers},
            content=body,
            extensions={
                # The address is connected to, the name is checked: TLS sends and compares it.
                "sni_hostname": target.host,
                "timeout": {"connect": CONNECT_SECONDS},
                "trace": _closing_unfinished(),
            },
        )
        response = await self._transport.handle_async_request(request)
        try:
            return HttpAnswer(
                response.status_code, response.headers.get("Retry-After"), await _read(response)
            )
        finally:
            await response.aclose()


def _closing_unfinished() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Watches a request. The library leaves a socket open if it is cancelled during TLS, as happens
    when an endpoint hangs there."""
    connected: Any = None

    async def watch(event: str, details: Mapping[str, Any]) -> None:
        nonlocal connected
        if event == "connection.connect_tcp.complete":
            connected = details["return_value"]
        elif event == "connection.start_tls.failed":
            await connected.aclose()

    return watch


async def _read(response: httpx.Response) -> bytes:
    """The bytes as they came: an answer that is small and unpacks to much is not unpacked."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise AnswerTooLong
    return bytes(body)


def client_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """TLS that checks certificates by the authorities of the system, and by this file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise ConfigError(f"{ca_file} has no certificates in PEM") from None
        except OSError as error:
            raise ConfigError(f"{ca_file} cannot be read: {error.strerror}") from error
    return context
