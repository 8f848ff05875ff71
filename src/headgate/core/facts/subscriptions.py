"""Facts of subscriptions: who subscribes to what."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import AppId, QueueId, SessionId

DISPLACEMENTS = FactCounter(
    "displacements", "Queues and services taken by a new session.", ("kind",)
)


@fact(
    FactCounter("subscribed", "Sessions that became a subscriber of a queue."), rare=True, log=None
)
class Subscribed:
    """A session became a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@fact(
    FactCounter(
        "interests_set", "Subscriptions of consumers, by expression, that came or were kept."
    ),
    rare=True,
    log=None,
)
class Interested:
    """A subscription of a session to an app of a queue, from now on; its earlier ones are over. One
    fact for each, all with the same `at`; `places` is their number. A session without subscriptions
    for now has one fact with no places."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId
    place: int
    places: int
    expression: str | None
    priority: int


@fact(
    FactCounter("unsubscribed", "Sessions that ceased to be one of a queue."), rare=True, log=None
)
class Unsubscribed:
    """A session is no longer a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@fact(DISPLACEMENTS, rare=True, log="info")
class Displaced:
    """A new session took over an exclusive queue."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@fact(
    FactCounter("readers_gone", "Named consumers whose messages went back in line."),
    rare=True,
    log="info",
)
class ReaderGone:
    """A named consumer was removed, or had no sessions any more; so many messages that it held are
    in line again. Its number is below zero, as it has no session of its own."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId
    messages: int


SubscriptionFact: TypeAlias = Subscribed | Interested | Unsubscribed | Displaced | ReaderGone
