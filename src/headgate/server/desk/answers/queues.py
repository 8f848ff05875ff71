"""Answers about services and single queues."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.server.desk.answers.base import Answer
from headgate.server.desk.answers.sessions import Blocker


class ServiceRow(Answer, frozen=True, kw_only=True):
    """A service with a subscriber."""

    service: str
    """The beginning of its id, in hex."""
    role: str
    """Empty if it was first seen before this router started."""
    session: int
    queues_counted: int
    """By the router."""
    queues_expected: int | None = msgspec.field(name="queues_said")
    """By the service, when it subscribed; null if it did not say."""
    drift: str
    swept: int
    """Queues that the sweep is through with: none, or all of them when it has ended."""
    sweep_total: int
    sweep_started: float | None
    """When it subscribed as a whole."""
    sweep_ended: float | None


class ServicesAnswer(Answer, frozen=True, kw_only=True):
    """Services that are subscribed."""

    rows: list[ServiceRow]
    total: int
    queues_in_memory: int
    notices_waiting: int


class QueueAnswer(Answer, frozen=True, kw_only=True):
    """One queue by its name: a shared one by its address, an exclusive one by its id."""

    queue: str
    """Of an exclusive one the digest, as in the journal."""
    kind: Literal["exclusive", "shared"]
    domain: str
    service: str | None
    subscriber: Blocker | None
    backlog_messages: int
    backlog_bytes: int | None
    oldest_at: float | None
    unconfirmed: int | None
    """Null if it is not in memory: then nobody has anything of it."""
    notifier: bool | None
    """Whether somebody is to be told of its messages; null of a shared one."""
    in_memory: bool
    consumers: int | None = None
    """Of a shared one in memory, as what follows."""
    producers: int | None = None
    undelivered: int | None = None
    """In all of its apps."""
    apps: list[str] = msgspec.field(default_factory=list)
    """Of a shared one."""
