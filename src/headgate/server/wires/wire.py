"""A wire as the router knows it, to check it, open it and name its address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.core.model.ids import SessionId
from headgate.core.model.value import EMPTY
from headgate.server.config import Config
from headgate.server.config.sections import ListenSection
from headgate.server.net.connections import Connections
from headgate.server.net.endpoint import Endpoint, Listen
from headgate.server.router_port import ChannelRouterPort


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check: what was looked at, whether it is fine, and what to know or do."""

    name: str
    ok: bool
    text: str

    @property
    def warns(self) -> bool:
        """Whether it is fine, but somebody should look at it."""
        return self.ok and "warning: " in self.text


class Listening(ABC):
    """The open listener of a wire, with its sessions.

    Each wire has its own. The service owns it: announces its address, drains, reloads and closes
    it.
    """

    _endpoint: Endpoint[Any]
    _connections: Connections

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._endpoint.address

    @property
    @abstractmethod
    def url(self) -> str:
        """The address as a client on this machine takes it."""

    @property
    def public_url(self) -> str:
        """The address as clients elsewhere are given it."""
        return self.url

    @property
    def details(self) -> Mapping[str, object]:
        """Fields of the ready file beside host and port."""
        return EMPTY

    @abstractmethod
    def reload(self) -> None:
        """Read the certificate again. Where it cannot be used, raise and keep the old one."""

    def drain(self, is_draining: bool) -> None:
        """Take no new sessions, or take them again. Sessions that are here stay."""
        self._endpoint.is_draining = is_draining

    def end(self, session: SessionId, reason: str) -> None:
        """End a session at once, if it is one of this listener's."""
        if session in self._connections:
            self._connections[session].close(reason, at_once=True)

    @abstractmethod
    def close(self) -> None:
        """Accept nothing more, and end every session."""


class OpenWire(Protocol):
    """Opens the listener of a wire. `source` is where its clients come from, if another process
    accepts them."""

    def __call__(
        self, router: ChannelRouterPort, config: Config, source: Listen | None = None, /
    ) -> Listening: ...


@dataclass(frozen=True, slots=True)
class Wire:
    """A protocol that clients speak, with a section [listen.NAME] of the configuration."""

    name: str
    section: type[ListenSection]
    open: OpenWire
    """Called if the configuration has the section."""
    check: Callable[[Config], Iterator[Finding]]
    """The needs of a start beyond those of every listener: a free port and a certificate."""

    def listen(self, config: Config) -> ListenSection | None:
        """Its section, if the configuration has it."""
        return config.listen.each().get(self.name)
