"""Facts of channels and patterns."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import SessionId


@fact(
    FactCounter("channel_counts", "Rows that count what was published on a channel in a second."),
    rare=False,
    log=None,
)
class ChannelCounted:
    """Messages published on a channel in the second up to `at`. The busiest channels are named;
    `*other*` sums the rest, and `channels` is their number."""

    at: float
    channel: bytes
    channels: int
    published: int
    size: int
    deliveries: int
    receivers_max: int


@fact(
    FactCounter("channel_subscriptions", "Subscriptions to channels and patterns."),
    rare=True,
    log=None,
)
class ChannelSubscribed:
    """A session subscribed to a channel or a pattern; `family` is exact, pattern or sharded."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@fact(
    FactCounter(
        "channel_unsubscriptions", "Subscriptions to channels and patterns that ended by request."
    ),
    rare=True,
    log=None,
)
class ChannelUnsubscribed:
    """A session is no longer subscribed to a channel or a pattern."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@fact(
    FactCounter("slot_moves", "Times slots of the cluster went to another node."),
    rare=False,
    log="info",
)
class SlotsMoved:
    """So many slots of a cluster moved to another node, and so many channels lost their
    subscribers."""

    at: float
    slots: int
    channels: int


ChannelFact: TypeAlias = ChannelCounted | ChannelSubscribed | ChannelUnsubscribed | SlotsMoved
