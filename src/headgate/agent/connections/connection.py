"""A connection as an application uses it, and an invitation to one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import field
from typing import TYPE_CHECKING

from headgate.agent.model import ConnectionId
from headgate.agent.records.connections import ConnectionStatus
from headgate.core.model.value import value
from headgate.wire.smp.agent.links import InvitationLink
from headgate.wire.smp.agent.short_links import ShortLink

if TYPE_CHECKING:
    from headgate.agent.connections.connections import Connections
    from headgate.agent.events import Message


@value
class ConnectionState:
    """The state of a connection at one moment."""

    status: ConnectionStatus
    is_post_quantum: bool
    """Whether the secret of a KEM is used in both directions."""
    info: bytes | None = field(repr=False)
    """The peer's information about itself, once it is known."""

    @property
    def is_ready(self) -> bool:
        """Whether messages go both ways."""
        return self.status is ConnectionStatus.READY


class Connection:
    """One connection. It has no state: all of it is in the records, and two objects with one id are
    equal. Every coroutine may be cancelled; what it had begun goes on."""

    __slots__ = ("_owner", "id", "name")

    def __init__(self, owner: Connections, id: ConnectionId, name: str | None) -> None:
        self._owner = owner
        self.id = id
        self.name = name

    async def send(self, body: bytes, *, notify: bool = False) -> int:
        """Send a message: when this returns it is stored, and `Sent` or `Failed` with this id
        follow. Messages are sent in the order of calls. Raises `TooLong`, `LinkUsed` if the
        connection failed, and `StoreError`, also if it is not made yet; then nothing is sent."""
        return await self._owner.send(self.id, body, notify=notify)

    def messages(self) -> AsyncIterator[Message]:
        """Its messages, in order; each has to be acknowledged. From the first call on, for as long
        as the agent is open, they come here and no longer by `Agent.events`. The iteration may be
        left and resumed, and ends when the agent is closed."""
        return self._owner.messages(self.id)

    async def state(self) -> ConnectionState:
        """Its present state. Raises `StoreError` if it was deleted."""
        return await self._owner.state(self.id)

    async def delete(self) -> None:
        """Send the waiting messages, delete our queue at its router, and forget the connection.
        When this returns, the decision is on the disk."""
        await self._owner.delete(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connection) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Connection({self.id.hex()})"


@value
class Invitation:
    """A connection that waits for a user of its link."""

    connection: Connection
    link: InvitationLink | ShortLink = field(repr=False)
    """The link to pass on; its text is `str(link)`. Its first user is connected."""
