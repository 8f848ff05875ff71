"""Facts of queues and apps, apart from their single messages."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import AppId, QueueId, SessionId


@fact(FactCounter("queues_created", "Queues that were made."), rare=False, log=None)
class QueueCreated:
    """A queue was made."""

    at: float
    queue: QueueId
    domain: str


@fact(FactCounter("queues_deleted", "Queues that were removed."), rare=False, log=None)
class QueueDeleted:
    """A queue was removed, with this many messages in it."""

    at: float
    queue: QueueId
    messages: int


@fact(FactCounter("queues_damaged", "Times a queue could not be read."), rare=True, log="error")
class QueueDamaged:
    """The store has a queue whose record or first message it cannot read."""

    at: float
    queue: QueueId


@fact(
    FactCounter(
        "queues_amended", "Changes of who may do what with a queue: keys, links, notifiers."
    ),
    rare=False,
    log=None,
)
class QueueAmended:
    """The parties of a queue were changed."""

    at: float
    queue: QueueId
    change: str


@fact(
    FactCounter("queues_purged", "Queues that were emptied by an operator."),
    rare=False,
    log="warning",
)
class QueuePurged:
    """An operator emptied a queue of so many messages; each has a fact of its own."""

    at: float
    queue: QueueId
    messages: int


@fact(
    FactCounter("apps_unknown", "Sessions that read an app which the domain does not have."),
    rare=True,
    log="warning",
)
class AppUnknown:
    """A session reads an app that the domain does not have; until it has, no messages come."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId
    name: str = ""
    """The name of the session."""
    known: str = ""
    """The apps that the domain has."""


@fact(
    FactCounter(
        "apps_removed", "Times an app that its domain no longer has let go of a queue's messages."
    ),
    rare=False,
    log="warning",
)
class AppRemoved:
    """A domain no longer has this app, which dropped so many messages of a queue."""

    at: float
    queue: QueueId
    app: AppId
    messages: int


@fact(
    FactCounter("modes_kept", "Times a domain was to have another mode while the router ran."),
    rare=True,
    log="error",
)
class ModeKept:
    """A reload gave a domain another mode, which cannot change while the router runs; none of its
    new settings apply."""

    at: float
    domain: str
    reason: str


@fact(
    FactCounter(
        "capacity_changes",
        "Queues and domains that crossed a mark.",
        ("scope", "state"),
    ),
    rare=False,
    log="warning",
)
class CapacityChanged:
    """A queue or a domain crossed a mark on its way up or down: normal, high or full.

    `detail` says where the messages are: those put aside and being redelivered in each app, the
    expressions of its subscriptions, and the oldest message that was put aside.
    """

    at: float
    scope: str
    name: str
    state: str
    detail: str


@fact(
    FactCounter("queues_stuck", "Apps of queues that stopped making progress."),
    rare=False,
    log="warning",
)
class QueueStuck:
    """An app of a queue has undelivered messages and made no progress for `seconds`."""

    at: float
    queue: QueueId
    app: AppId
    seconds: float
    detail: str


@fact(
    FactCounter("queues_moved", "Stuck apps of queues that made progress again."),
    rare=False,
    log="info",
)
class QueueMoved:
    """A stuck app of a queue made progress again."""

    at: float
    queue: QueueId
    app: AppId


@fact(
    FactCounter("groups_created", "Groups that clients made."),
    rare=False,
    log="info",
)
class GroupCreated:
    """A client made a group of a queue, which is an app of it; it begins with so many `messages` of
    the queue and its history."""

    at: float
    queue: QueueId
    app: AppId
    messages: int = 0
    where: str | None = None
    """The expression that selects its messages."""


@fact(
    FactCounter("groups_dropped", "Groups of clients that are gone.", ("reason",)),
    rare=False,
    log="warning",
)
class GroupDropped:
    """A group that a client made was removed, on request or because it was not read for long; it
    dropped so many messages."""

    at: float
    queue: QueueId
    app: AppId
    messages: int
    reason: str
    """asked or idle."""


@fact(
    FactCounter("messages_trimmed", "Messages of a history that were removed.", adds="messages"),
    rare=False,
    log=None,
)
class Trimmed:
    """So many messages of a queue's history were removed."""

    at: float
    queue: QueueId
    messages: int


@fact(
    FactCounter("messages_skipped", "Messages that a group was moved beyond.", adds="messages"),
    rare=False,
    log="info",
)
class Skipped:
    """An app was moved forward, past so many messages that it was never given."""

    at: float
    queue: QueueId
    app: AppId
    messages: int


QueueFact: TypeAlias = (
    QueueCreated
    | QueueDeleted
    | QueueDamaged
    | QueueAmended
    | QueuePurged
    | AppUnknown
    | AppRemoved
    | ModeKept
    | CapacityChanged
    | QueueStuck
    | QueueMoved
    | GroupCreated
    | GroupDropped
    | Trimmed
    | Skipped
)
