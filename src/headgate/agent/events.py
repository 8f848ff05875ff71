"""Events for an application: who is up and who is down, messages, and what went wrong.

Events are values that never change. They name routers by address and connections by id.
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
    """Connections that receive messages now, and did not before."""

    user: UserId
    router: RouterAddress
    connections: tuple[ConnectionId, ...]


@dataclass(frozen=True, slots=True)
class Down:
    """Connections that were up, and receive nothing until they are up again."""

    user: UserId
    router: RouterAddress
    connections: tuple[ConnectionId, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Another client subscribed to a queue of the connection. It is not subscribed again until
    somebody asks for it."""

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
    """The difference between what a router has of a service and what the records have."""

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
    """What the router has."""
    drift: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class ServiceDown:
    """The queues of the service receive nothing until the service is up again."""

    user: UserId
    router: RouterAddress
    tally: Tally


@dataclass(frozen=True, slots=True)
class ServiceAll:
    """The router has sent what waited for the service. It may come before `ServiceUp`."""

    user: UserId
    router: RouterAddress


@dataclass(frozen=True, slots=True)
class ServiceEnd:
    """Another client subscribed to the service. It is not asked for again for some minutes."""

    user: UserId
    router: RouterAddress
    tally: Tally


class ProblemKind(Enum):
    """The kind of a `Problem`: what it is about."""

    REFUSED = "refused"
    """The router refused queues for good; they are not subscribed until somebody asks."""
    BLOCKED = "blocked"
    """The router's operator blocked queues."""
    SERVICE = "service"
    """The service cannot be used; its queues are subscribed one by one."""
    ROUTER = "router"
    """The router cannot be reached in a way that time alone will not mend."""
    STEP = "step"
    """Something of the agent itself failed, and is tried again."""
    CRITICAL = "critical"
    """It failed so often that the agent now waits long before it tries again."""
    UNREADABLE = "unreadable"
    """A message could not be opened. It was acknowledged, so that others can come."""
    DROPPED = "dropped"
    """A message was shown many times and never acknowledged. It is not shown again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A connection, and why a queue of it was refused."""

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
    """Of the message that it is about."""
    broker_id: bytes | None = None
    """The router's id of that message."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The agent is suspended: nothing is under way any more, and nothing begins until it is
    resumed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The application did not read for so long that this many events were left out. Those that
    follow lead to what is true now all the same."""

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
"""Every event that the engine makes."""


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """A queue of ours, as the application knows it."""

    connection: ConnectionId
    name: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message. It is shown again until it is acknowledged: after a reconnect, after a restart.

    Whoever lets go of it without `ack` has not acknowledged it.
    """

    connection: ConnectionId
    queue: NamedQueue | None
    """The plain queue that it came through, if it was one."""
    id: int
    body: bytes = field(repr=False)
    attempts: int
    """How often it was shown; 1 for the first time."""
    seconds: int
    """When the router took it."""
    acknowledge: Callable[[int, bool], Awaitable[None]] = field(repr=False, compare=False)
    integrity: Finding | None = None
    """What its number and hash show, if it is of a connection."""

    async def ack(self, *, receipt: bool = False) -> None:
        """The application has done what it wanted with it: it is not shown again, and the next
        message of its queue comes. When this returns, that is on the disk. With `receipt` the peer
        gets to know; only messages of connections have one."""
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
    """The router has the message that `send` returned this id for."""

    connection: ConnectionId
    id: int


@dataclass(frozen=True, slots=True)
class Warned:
    """The message waits, perhaps for hours: the queue of its recipient is full."""

    connection: ConnectionId
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Messages that were given up. The others of the connection go on. Without ids: the connection
    could not be made, and no messages go through it."""

    connection: ConnectionId
    ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The records cannot be written: the disk is full, or somebody has locked the file. Nothing is
    lost; receiving and sending go on when they can be."""

    reason: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The peer's application has these messages of ours."""

    connection: ConnectionId
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A confirmation: somebody used our invitation and wants to be connected. It is shown again
    after a restart until it is answered."""

    connection: ConnectionId
    info: bytes = field(repr=False)
    """What it writes of itself, as its application understands it."""
    answer: Callable[[ConnectionId, bytes], Awaitable[None]] = field(repr=False, compare=False)

    async def accept(self, info: bytes = b"") -> None:
        """Connect with it; `info` is for its application. `Connected` follows when the router has
        our answer. When this returns, that is on the disk. Who does not want to be connected
        deletes the connection."""
        await self.answer(self.connection, info)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: somebody wants to be connected with us, and used our address for it. It is shown
    again after a restart until it is answered."""

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
        """Connect with it, as a new connection of this name, which is returned; `info` is for its
        application. `pq`: with a KEM, if it offers or takes one. `Info` and `Connected` follow.
        Raises `LinkUsed` if it has gone meanwhile."""
        return await self.answer(self.id, info, name, pq)

    async def reject(self) -> None:
        """Forget it. Who asked does not get to know."""
        await self.forget(self.id)


@dataclass(frozen=True, slots=True)
class Info:
    """Information that the peer of a connection writes of itself, if it was not asked about before.
    `Connected` follows."""

    connection: ConnectionId
    info: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Connected:
    """Messages go both ways from now on. After a crash it may be shown again."""

    connection: ConnectionId


ConnectionEvent: TypeAlias = Confirmation | Request | Info | Connected
"""Every event of handshakes."""

DeliveryEvent: TypeAlias = (
    Message | Receipt | QueueFull | Sent | Warned | Failed | Problem | StoreFailed
)
"""Every event that receiving and sending make."""
