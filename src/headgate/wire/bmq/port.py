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
        """Whether the client reads what it is told."""
        ...

    def refused(self, queue: QueueId, error: HeadgateError) -> None:
        """Something was refused that the core never saw."""
        ...

    def identify(self, token: Token | None) -> str | None:
        """Who the client is, by what it says or by its certificate: a name, an empty one if it
        need not have any, or nothing if that was wrong."""
        ...

    def named(self, name: str) -> None:
        """The client said how it is called."""
        ...

    def turn_away(self, token: Token | None, events: bytes) -> None:
        """Say this to a client whose token is wrong, after a while if such come often, and end the
        session."""
        ...

    def again(self) -> None:
        """Call `go_on` a little later: the router has no room now."""
        ...

    def soon(self) -> None:
        """Call `go_on` when others had their turn."""
        ...
