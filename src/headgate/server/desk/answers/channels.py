"""Answers about channels, patterns and tails."""

from __future__ import annotations

from typing import Any, Literal

from headgate.server.desk.answers.base import Answer


class ChannelRow(Answer, frozen=True, kw_only=True):
    """A channel, in the last ten seconds that were counted."""

    channel: str
    kind: Literal["exact", "sharded", "other"]
    """``other`` is all that is not counted apart."""
    rate: float
    bytes_per_s: float
    receivers: int
    """The most that a message had."""
    deliveries_per_s: float
    patterns_hearing: list[str]
    """At most ten."""


class ChannelsAnswer(Answer, frozen=True, kw_only=True):
    """Channels that were published to in the last ten seconds."""

    rows: list[ChannelRow]
    total: int
    subscribed: int
    """Channels with a subscriber, heard or not."""
    counted: bool
    """Whether anything was published since the router started."""


class PatternRow(Answer, frozen=True, kw_only=True):
    """A pattern that somebody subscribed to."""

    pattern: str
    sessions: int
    matched_per_s: float
    """Messages of the counted channels that it matches."""


class PatternsAnswer(Answer, frozen=True, kw_only=True):
    """Patterns with their subscribers."""

    rows: list[PatternRow]
    total: int


class TailMessage(Answer, frozen=True, kw_only=True):
    """One message, under the event ``message`` of a tail."""

    at: float
    channel: str | None
    queue: str | None
    size: int
    properties: dict[str, Any]
    body: str | None
    """Cut at 2 KiB; only if `desk.bodies` is set and it was asked for."""


class TailSkipped(Answer, frozen=True, kw_only=True):
    """How many messages of the last second were not shown, under the event ``skipped``."""

    count: int
