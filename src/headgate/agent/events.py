"""Events for an application: connections up and down, messages, and problems.

Events are immutable. They name routers by address and connections by id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from headgate.agent.model import ConnectionId, UserId
from headgate.core.model.tally import Tally
from headgate.wire.smp.agent.agent_messages import Finding
from headgate.wire.smp.codec.router_address import RouterAddress

if TYPE_CHECKING:
    from headgate.agent.connections.connection import Connection


@dataclass(frozen=True, slots=True)
class Up:
    """Connections that receive messages from now on."""

    user: UserId
    router: RouterAddress
    connections: tuple[ConnectionId, ...]


@dataclass(frozen=True, slots=True)
class Down:
    """Connections that receive no messages until they are up again."""

    user: UserId
    router: RouterAddress
    connections: tuple[ConnectionId, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Another client subscribed to a queue of the connection. It is not subscribed again until that
    is requested."""

    user: UserId
    router: RouterAddress
    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Deleted:
    """A queue of the connection was deleted at the router."""

    user: UserId
    router: RouterAddress
    connection: ConnectionId


class Mismatch(Enum):
    """The difference between a router's queues of a service and those in the records."""

    SERVICE = "service"
    """The router answered for another service."""
    MORE = "more"
    FEWER = "fewer"
    DIFFERENT = "different"
    """As many queues, but others."""


# S001-76: the four name a router and no connection.
@dataclass(frozen=True, slots=True)
class ServiceUp:
    """All queues of the user's service at this router receive messages now."""

    user: UserId
    router: RouterAddress
    tally: Tally
    """The router's tally."""
    drift: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class ServiceDown:
    """The queues of the service receive no messages until the service is up again."""

    user: UserId
    router: RouterAddress
    tally: Tally


@dataclass(frozen=True, slots=True)
class ServiceAll:
    """The router has sent all messages that waited for the service. It may come before
    `ServiceUp`."""

    user: UserId
    router: RouterAddress


@dataclass(frozen=True, slots=True)
class ServiceEnd:
    """Another client subscribed to the service. It is left alone for some minutes."""

    user: UserId
    router: RouterAddress
    tally: Tally


class ProblemKind(Enum):
    """The kind of a `Problem`."""

    REFUSED = "refused"
    """The router refused queues for good; they are not subscribed until that is requested."""
    BLOCKED = "blocked"
    """The router's operator blocked queues."""
    SERVICE = "service"
    """The service cannot be used; its queues are subscribed one by one."""
    ROUTER = "router"
    """The router cannot be reached, which hardly passes by itself."""
    STEP = "step"
    """An internal error of the agent, which is tried again."""
    CRITICAL = "critical"
    """Internal errors so frequent that the agent now waits long before it tries again."""
    UNREADABLE = "unreadable"
    """A message could not be opened. It was acknowledged, so that later ones can come."""
    DROPPED = "dropped"
    """A message was shown many times and never acknowledged. It is not shown again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A connection, and the reason why one of its queues was refused."""

    connection: ConnectionId
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that the application should know of."""

    user: UserId
    router: RouterAddress
    kind: ProblemKind
    text: str = ""
    refusals: tuple[Refusal, ...] = ()
    connection: ConnectionId | None = None
    """The connection of the message concerned."""
    broker_id: bytes | None = None
    """The router's id of that message."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The agent is suspended: nothing is under way, and nothing begins until it is resumed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The application did not read for so long that this many events were left out. The following
    events are consistent all the same."""

    count: int


SubscriptionEvent: TypeAlias = (
    Up
    | Down
    | End
    | Deleted
    | ServiceUp
    | ServiceDown
    | ServiceAll
    | ServiceEnd
    | Problem
    | Suspended
)
"""All events of the engine."""


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """A queue of ours, as the application knows it."""

    connection: ConnectionId
    name: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message. It is shown again until it is acknowledged: after a reconnect, after a restart.

    Dropping the object does not acknowledge it.
    """

    connection: ConnectionId
    queue: NamedQueue | None
    """The plain queue that it came through, if it did."""
    id: int
    body: bytes = field(repr=False)
    attempts: int
    """How often it was shown; 1 for the first time."""
    seconds: int
    """When the router accepted it."""
    acknowledge: Callable[[int, bool], Awaitable[None]] = field(repr=False, compare=False)
    integrity: Finding | None = None
    """The integrity by its number and hash, if it is of a connection."""

    async def ack(self, *, receipt: bool = False) -> None:
        """Acknowledge the message: it is not shown again, and the next message of its queue comes.
        When this returns, that is on the disk. With `receipt` the peer is notified; only messages
        of connections can have one."""
        await self.acknowledge(self.id, receipt)


@dataclass(frozen=True, slots=True)
class QueueFull:
    """The queue was full and refused messages of its sender, which may go on now."""

    user: UserId
    router: RouterAddress
    connection: ConnectionId
    queue: NamedQueue | None


@dataclass(frozen=True, slots=True)
class Sent:
    """The router has the message with the id that `send` returned."""

    connection: ConnectionId
    id: int


@dataclass(frozen=True, slots=True)
class Warned:
    """The message waits, perhaps for hours: its recipient's queue is full."""

    connection: ConnectionId
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Messages that were given up. Others of the connection go on. Without ids: the connection
    could not be made, and no messages can be sent."""

    connection: ConnectionId
    ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The records cannot be written: the disk is full, or another program has locked the file.
    Nothing is lost; receiving and sending go on when they can be."""

    reason: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The peer's application has these messages of ours."""

    connection: ConnectionId
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A confirmation: another agent used our invitation and wants to be connected. It is shown
    again after a restart until it is answered."""

    connection: ConnectionId
    info: bytes = field(repr=False)
    """The peer's information about itself."""
    answer: Callable[[ConnectionId, bytes], Awaitable[None]] = field(repr=False, compare=False)

    async def accept(self, info: bytes = b"") -> None:
        """Accept it; `info` is for its application. `Connected` follows when the router has our
        answer. When this returns, that is on the disk. To refuse, delete the connection."""
        await self.answer(self.connection, info)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: another agent used our address and wants to be connected. It is shown again after
    a restart until it is answered."""

    address: ConnectionId
    """The connection of the address."""
    id: int
    info: bytes = field(repr=False)
    answer: Callable[[int, bytes, str | None, bool], Awaitable[Connection]] = field(
        repr=False, compare=False
    )
    forget: Callable[[int], Awaitable[None]] = field(repr=False, compare=False)

    async def accept(
        self, info: bytes = b"", name: str | None = None, *, pq: bool = False
    ) -> Connection:
        """Accept it as a new connection of this name, which is returned; `info` is for its
        application. `pq`: with a KEM, if it offers or accepts one. `Info` and `Connected` follow.
        Raises `LinkUsed` if it is gone meanwhile."""
        return await self.answer(self.id, info, name, pq)

    async def reject(self) -> None:
        """Drop the request. Its sender is not notified."""
        await self.forget(self.id)


@dataclass(frozen=True, slots=True)
class Info:
    """The peer's information about itself, if no question had it before. `Connected` follows."""

    connection: ConnectionId
    info: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Connected:
    """Messages can be sent in both directions from now on. After a crash it may be shown again."""

    connection: ConnectionId


ConnectionEvent: TypeAlias = Confirmation | Request | Info | Connected
"""All events of handshakes."""

DeliveryEvent: TypeAlias = (
    Message | Receipt | QueueFull | Sent | Warned | Failed | Problem | StoreFailed
)
"""All events of receiving and sending."""
