"""The port of the router: what wires and connections may ask of it.

`Router` is its local form, where the core is in the same process. A user of the port cannot
know whether that is so, which an import contract holds: wires and connections do not import the
router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from headgate.core.broker import Broker
from headgate.core.commands import Command
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Effect
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.core.reader_commands import Block

NOBODY = SessionId(0)
"""Stands in a fact for a session that did not come to be."""

Outlet: TypeAlias = Callable[[Sequence[Effect]], None]
"""Where a session's effects go."""


class RouterPort(Protocol):
    """The router as the listeners of durable wires see it: sessions come and go, their commands
    are put in line, and what they ask about the core is a question here."""

    @property
    def limits(self) -> Limits: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    # Sessions.

    def expect(self, wire: str) -> None:
        """Keep room for sessions of a wire that has a listener."""
        ...

    def connect(self, wire: str, name: str, outlet: Outlet) -> SessionId:
        """A new session; raise if there are too many."""
        ...

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        """Put a session's commands in line for the next turn. That there is no room is a fact."""
        ...

    def submit_again(self, commands: Sequence[Command]) -> None:
        """Submit commands again that the inbox had no room for, which was counted then."""
        ...

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        """A session is over. If it was lost, what it had unconfirmed counts as an attempt."""
        ...

    # Pressure.

    def record_pressure(self) -> None:
        """Tell who became slow and who caught up, if anybody did."""
        ...

    def relieve(self, session: SessionId | None = None) -> None:
        """Something left the mailbox of a session, or it is gone."""
        ...

    def drained(self, session: SessionId) -> None:
        """A session has room again: what waited for that may go on."""
        ...

    # Questions.

    def session(self, session: SessionId) -> Session | None:
        """The record of a session, if it is not over."""
        ...

    def stuck(self) -> Iterable[tuple[SessionId, Mailbox]]:
        """The sessions whose socket took less than it was given."""
        ...

    def domain(self, name: str) -> Domain | None:
        """The settings of a domain, if there is one of this name."""
        ...

    def is_subscribed(self, session: SessionId) -> bool:
        """Whether a session subscribes to a queue, watches one, or is of a service."""
        ...

    def notify(self) -> None:
        """Have notices sent that notifiers wait for, if there are any."""
        ...

    # Facts.

    def announce(self, facts: Sequence[Fact]) -> None:
        """These have happened."""
        ...

    def recording_limits(self, session: SessionId) -> AbstractContextManager[None]:
        """A block in which a limit may be reached, which then is a fact."""
        ...


class ChannelRouterPort(RouterPort, Protocol):
    """The same for the wire of channels, which are in its own process whatever else is not."""

    @property
    def broker(self) -> Broker: ...
