"""Effects of the engine, which a shell carries out in order; changes of the records are done before
later effects read them."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from headgate.agent.engine.answers import Failure
from headgate.agent.events import SubscriptionEvent
from headgate.agent.model import (
    ConnectionId,
    RecipientId,
    RouterId,
    SessionKey,
    SlotKey,
    UserId,
    Which,
)
from headgate.core.model.ids import ServiceId
from headgate.core.model.tally import Tally
from headgate.core.model.value import value


@value
class Connect:
    """Open a session for the slot. The attempt is a task of its own: it goes on without its caller.
    It ends in one call of `connected` or `connect_failed`."""

    slot: SlotKey
    number: int
    with_service: bool
    """Whether to show the user's service; its certificate is made if there is none."""


@value
class CloseSession:
    """End the session or the attempt of this number. Its loss is not reported."""

    slot: SlotKey
    number: int


@value
class ConnectRefused:
    """The needed session failed a moment ago and is not tried again now."""

    slot: SlotKey
    failure: Failure


@value
class ReadPage:
    """Read the next rows of receive queues that are not deleted, in the order of their ids."""

    user: UserId
    router: RouterId
    request: int
    after: RecipientId | None
    limit: int
    which: Which


@value
class ReadTally:
    """Read the tally of the service from the records, for `tally_read`."""

    session: SessionKey


@value
class SendSubs:
    """Subscribe these queues. Each gets one answer: a timeout and the loss of the session are
    temporary failures. Answers after the timeout are reported as well."""

    session: SessionKey
    queues: tuple[RecipientId, ...]
    page: int = field(default=0, compare=False)
    """Its number, for `withdrawn`."""


@value
class SendServiceSub:
    """Subscribe the service of the session, with the expected tally."""

    session: SessionKey
    service: ServiceId
    expected: Tally


@value
class SetAssociated:
    """Set or clear the flag of these queues, and the tally with it."""

    user: UserId
    router: RouterId
    queues: tuple[RecipientId, ...]
    associated: bool


@value
class ClearAssociations:
    """Clear the flags of all queues of the user at this router, and the tally with them."""

    user: UserId
    router: RouterId


@value
class StoreServiceId:
    """Store the id that the router gave; with `clear`, clear all flags in the same transaction."""

    user: UserId
    router: RouterId
    service: ServiceId
    clear: bool = False


@value
class DeleteService:
    """Delete the record of the service and clear all flags, in one transaction. The next session
    with a service makes a new certificate."""

    user: UserId
    router: RouterId


@value
class RemoveQueue:
    """Mark a queue that the router has deleted, and remove it from the tally."""

    router: RouterId
    queue: RecipientId


@value
class StoreNewQueue:
    """Store a new queue, with its flag."""

    user: UserId
    router: RouterId
    queue: RecipientId
    connection: ConnectionId
    associated: bool


@value
class StoreNotice:
    """Store the reason why the operator blocked a queue."""

    router: RouterId
    queue: RecipientId
    text: str


@value
class Outcome:
    """The outcome of subscribing a queue, for its callers."""

    queue: RecipientId
    connection: ConnectionId
    failure: Failure | None = None


@value
class Settled:
    """The outcome for requested queues."""

    slot: SlotKey
    outcomes: tuple[Outcome, ...]


@value
class Announce:
    """Give the application an event."""

    event: SubscriptionEvent


@value
class Report:
    """Log an error that needs no action."""

    slot: SlotKey
    text: str


@value
class WakeAt:
    """Call `tick` at this time, or earlier."""

    time: float


Effect: TypeAlias = (
    Connect
    | CloseSession
    | ConnectRefused
    | ReadPage
    | ReadTally
    | SendSubs
    | SendServiceSub
    | SetAssociated
    | ClearAssociations
    | StoreServiceId
    | DeleteService
    | RemoveQueue
    | StoreNewQueue
    | StoreNotice
    | Settled
    | Announce
    | Report
    | WakeAt
)
