"""Answers about sessions."""

from __future__ import annotations

from typing import Literal

from headgate.server.desk.answers.base import Answer
from headgate.server.desk.answers.history import FactRow

PressureName = Literal["easy", "soft", "hard"]


class Blocker(Answer, frozen=True, kw_only=True):
    """A session that another one waits for."""

    session: int
    name: str


class SessionRow(Answer, frozen=True, kw_only=True):
    """A session."""

    session: int
    wire: str
    name: str
    """What it calls itself, or else its agent or its address."""
    peer: str
    """Its address; empty where the wire does not keep it."""
    agent: str
    """The library or program that it says it is."""
    user: str
    """Whom it has shown to be."""
    opened: float
    mailbox_bytes: int
    mailbox_hard: int
    """Above it those who publish to the session wait."""
    pressure: PressureName
    slow_since: float | None
    waits_for: Blocker | None
    """Whom it waits for, if it publishes to somebody who does not read."""
    held_up: int
    """How many wait for it."""
    subscriptions: int
    """Channels and patterns."""
    queues: int
    """Queues, exclusive and shared."""
    in_per_s: float
    """Bytes read from its socket, by the second, since this was last asked, or else since it
    came."""
    out_per_s: float
    """Bytes written to it, in the same time."""
    unconfirmed: int
    """Deliveries of queues that it has not confirmed."""
    oldest_unconfirmed: float | None
    """When the oldest of these was made."""
    idle: float
    """Seconds since it last sent anything."""
    worker: int
    """The worker that has its socket; 0 where there is one process."""


class ClosedRow(Answer, frozen=True, kw_only=True):
    """A session that ended."""

    session: int
    wire: str
    name: str
    """What it called itself, or else its agent or its address."""
    peer: str
    agent: str
    user: str
    reason: str
    at: float


class SessionsAnswer(Answer, frozen=True, kw_only=True):
    """Some sessions."""

    rows: list[SessionRow]
    total: int
    """How many there are of what was asked for."""
    wires: dict[str, int]
    """How many of each wire there are in all."""
    closed: list[ClosedRow]
    """The twenty that ended last."""


class SessionSubscription(Answer, frozen=True, kw_only=True):
    """One subscription of a session to an app of a shared queue."""

    queue: str
    app: str
    expression: str | None
    priority: int
    window: int
    window_bytes: int | None
    unconfirmed: int
    full: bool


class SessionAnswer(Answer, frozen=True, kw_only=True):
    """One session, with what it holds."""

    row: SessionRow
    channels: list[str]
    """A hundred at most, as of all lists here."""
    channels_total: int
    patterns: list[str]
    patterns_total: int
    queues: list[str]
    """Exclusive queues by the digest of their ids, shared ones by name."""
    queues_total: int
    subscriptions: list[SessionSubscription]
    waited_for_by: list[Blocker]
    """Who waits for it."""
    facts: list[FactRow]
    """The last fifty that name it, of those that are kept."""
