"""Effects, which the engine asks a shell to do. The shell carries them out in their order; those
that change the records are done before later effects that read them."""

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
    """Open a session for the slot. The attempt is a task of its own: it goes on when whoever asked
    for it gives up. It ends in one call of `connected` or `connect_failed`."""

    slot: SlotKey
    number: int
    with_service: bool
    """Show the service of the user; make its certificate if there is none."""


@value
class CloseSession:
    """End the session or the attempt of this number. Its loss need not be reported."""

    slot: SlotKey
    number: int


@value
class ConnectRefused:
    """The session that was needed failed a moment ago and is not tried again now."""

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
    temporary failures. Answers after the timeout are passed on as well."""

    session: SessionKey
    queues: tuple[RecipientId, ...]
    page: int = field(default=0, compare=False)
    """Its number, for `withdrawn`."""


@value
class SendServiceSub:
    """Subscribe the service of the session, with the tally that is expected."""

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
    """Keep the id that the router gave; with `clear`, clear all flags in the same transaction."""

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
    """The router has deleted the queue: mark it, and take it out of the tally."""

    router: RouterId
    queue: RecipientId


@value
class StoreNewQueue:
    """Keep a queue that was created, with its flag."""

    user: UserId
    router: RouterId
    queue: RecipientId
    connection: ConnectionId
    associated: bool


@value
class StoreNotice:
    """Keep with the queue why the operator blocked it."""

    router: RouterId
    queue: RecipientId
    text: str


@value
class Outcome:
    """The outcome of subscribing a queue, for whoever waits for it."""

    queue: RecipientId
    connection: ConnectionId
    failure: Failure | None = None


@value
class Settled:
    """The outcome for queues that were asked for."""

    slot: SlotKey
    outcomes: tuple[Outcome, ...]


@value
class Announce:
    """Give the application an event."""

    event: SubscriptionEvent


@value
class Report:
    """Log an error that is nobody's to mend."""

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
