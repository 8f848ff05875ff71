"""Calls of an application about connections."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headgate.agent.connections.connection import Connection, Invitation
from headgate.agent.connections.connections import Connections
from headgate.agent.connections.inviting import ContactAddress
from headgate.agent.connections.joining import AnyLink
from headgate.agent.given_bytes import own_bytes
from headgate.agent.model import ConnectionId, UserId
from headgate.errors import ConfigError, StoreError
from headgate.wire.smp.codec.router_address import RouterAddress


class ConnectionCalls(ABC):
    """The part of `Agent` that makes and finds connections. Every coroutine may be cancelled:
    stored steps go on.

    New queues are made at the first router that the agent was opened with, unless one is named.
    """

    user: UserId
    _connections: Connections

    @abstractmethod
    async def _router_for(self, router: str | RouterAddress | None, what: str) -> RouterAddress:
        """The router for a new queue or address."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises `Closed` if the agent is closed."""

    async def invite(
        self,
        name: str | None = None,
        *,
        router: str | RouterAddress | None = None,
        info: bytes = b"",
        auto_accept: bool = False,
        short: bool = False,
        shown: bytes = b"",
        pq: bool = False,
        user: UserId | None = None,
    ) -> Invitation:
        """Make a connection for the first user of its link. `Confirmation` follows, to be accepted,
        and then `Connected`; with `auto_accept` it is accepted at once and given `info`, and `Info`
        and `Connected` follow. `short`: return a link of a hundred characters, if the router
        supports them; its holder can read what is `shown`, and the router cannot. `pq`: offer a KEM
        against future computers, which needs the extra `pq`. An unused invitation of this name is
        returned again.

        Raises the router's refusal, `NotConnected` and `TimedOut`; `StoreError` if the name is
        taken; `TooLong` for the info and for `shown`.
        """
        self._check_open()
        wish = _wish(short, shown)
        place = await self._router_for(router, "an invitation")
        owner = self.user if user is None else user
        return await self._connections.invite(
            owner, place, name, info=info, auto_accept=auto_accept, shown=wish, pq=pq
        )

    async def join(
        self,
        link: str | AnyLink,
        *,
        name: str | None = None,
        info: bytes = b"",
        router: str | RouterAddress | None = None,
        pq: bool = False,
        user: UserId | None = None,
    ) -> Connection:
        """Use a link, long or short: an invitation, or the address of a contact. `info` is for its
        maker. `Info` and `Connected` follow when that has accepted. Joining again continues an
        unfinished join.

        Raises `LinkUsed` if another agent has used it, `Malformed` if it is not a link, `TooLong`
        for the info, `StoreError` if the name is taken. Without a connection with the routers this
        returns, and the rest is done when there is one; only the short link of a contact, of which
        nothing is known before, raises `NotConnected`.
        """
        self._check_open()
        place = await self._router_for(router, "the queue to be answered on")
        owner = self.user if user is None else user
        return await self._connections.join(owner, link, place, info, name, pq=pq)

    async def address(
        self,
        name: str,
        *,
        router: str | RouterAddress | None = None,
        short: bool = False,
        shown: bytes = b"",
        user: UserId | None = None,
    ) -> ContactAddress:
        """The address of this name, for anybody: made once, and returned again later, as it was
        made. A `Request` comes from each user of it, to be accepted or rejected. `short` and
        `shown` as for `invite`."""
        self._check_open()
        wish = _wish(short, shown)
        owner = self.user if user is None else user
        known = await self._connections.find_address(owner, name)
        if known is not None:
            return known
        place = await self._router_for(router, f"the address {name}")
        return await self._connections.address(owner, place, name, shown=wish)

    async def shown_by(self, link: str | AnyLink, *, user: UserId | None = None) -> bytes:
        """The bytes that the short link of an address shows, before it is used. Raises
        `ConfigError` for a link of another kind, `Malformed` if the router changed it, `LinkUsed`
        if it is gone, `NotConnected` and `TimedOut`."""
        self._check_open()
        return await self._connections.shown_by(self.user if user is None else user, link)

    async def connection(
        self, which: ConnectionId | str, *, user: UserId | None = None
    ) -> Connection:
        """The connection with this name, or with the id in events. Raises `StoreError` if there is
        none."""
        self._check_open()
        found = await self._connections.find(self.user if user is None else user, which)
        if found is None:
            raise StoreError("there is no such connection: invite or join first")
        return found

    async def connections(self, *, user: UserId | None = None) -> list[Connection]:
        """All connections, ready or being made."""
        self._check_open()
        return await self._connections.everything(self.user if user is None else user)

    async def send(self, connection: ConnectionId, body: bytes, *, notify: bool = False) -> int:
        """Send a message to the connection of an event; see `Connection.send`."""
        self._check_open()
        return await self._connections.send(connection, body, notify=notify)


def _wish(short: bool, shown: bytes) -> bytes | None:
    """The bytes that a short link shows; None for a long link."""
    taken = own_bytes(shown, "what a link shows")
    if taken and not short:
        raise ConfigError("only a short link shows something: short=True")
    return taken if short else None
