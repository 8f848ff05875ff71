"""The port of a session: the shell that has its socket and the router."""

from __future__ import annotations

from typing import Protocol

from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId
from headgate.errors import HeadgateError
from headgate.wire.bmq.negotiation import Token
from headgate.wire.port import SessionPort


class BmqPort(SessionPort, Protocol):
    """The server's end of a BlazingMQ session."""

    def domain(self, name: str) -> Domain | None: ...

    def takes_answers(self) -> bool:
        """Whether the client reads its answers."""
        ...

    def refused(self, queue: QueueId, error: HeadgateError) -> None:
        """Record a refusal that the core did not make."""
        ...

    def identify(self, token: Token | None) -> str | None:
        """The name of the client by its token or certificate; empty if it needs none, None if the
        token or certificate is wrong."""
        ...

    def named(self, name: str) -> None:
        """Note the name that the client gave."""
        ...

    def turn_away(self, token: Token | None, events: bytes) -> None:
        """Write this to a client with a wrong token, delayed if such come often, and end the
        session."""
        ...

    def again(self) -> None:
        """Call `go_on` a little later: the router has no room now."""
        ...

    def soon(self) -> None:
        """Call `go_on` when others had a turn."""
        ...
