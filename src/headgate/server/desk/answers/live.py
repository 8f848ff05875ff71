"""The live stream, and the sentences about what needs attention."""

from __future__ import annotations

from typing import Literal

from headgate.server.desk.answers.base import Answer
from headgate.server.desk.answers.channels import ChannelRow
from headgate.server.desk.answers.domains import AppRow
from headgate.server.desk.answers.sessions import ClosedRow, SessionRow

Level = Literal["error", "warning"]


class Point(Answer, frozen=True, kw_only=True):
    """The numbers of one second. Every one of them is a series."""

    published: float = 0.0
    """Messages published to channels, by the second."""
    fanned_out: float = 0.0
    """Receivers of these, by the second."""
    turns: float = 0.0
    """Turns taken, by the second."""
    statements: float = 0.0
    """Statements that the store was asked, by the second."""
    accepted: float = 0.0
    """Messages that queues took, by the second."""
    delivered: float = 0.0
    """Deliveries of queues, by the second."""
    confirmed: float = 0.0
    """Confirms, by the second."""
    put_aside: float = 0.0
    """Messages that nobody wanted, by the second."""
    returned: float = 0.0
    """Messages that consumers gave back, by the second."""
    opened: float = 0.0
    """Sessions that began, by the second."""
    closed: float = 0.0
    """Sessions that ended, by the second."""
    refused: float = 0.0
    """Commands that were refused, by the second."""
    sessions: float = 0.0
    """Sessions that are open."""
    sessions_slow: float = 0.0
    """Sessions over the soft limit of a mailbox."""
    publishers_waiting: float = 0.0
    """Sessions that wait for one that hears them and does not read."""
    backlog_messages: float = 0.0
    """Messages of shared queues that are not confirmed."""
    backlog_bytes: float = 0.0
    """Their bytes."""
    deliveries_unconfirmed: float = 0.0
    """Deliveries that wait for their confirm."""
    oldest_unconfirmed_seconds: float = 0.0
    """Age of the oldest of exclusive queues."""
    mailbox_bytes: float = 0.0
    """Bytes in the mailboxes of all sessions."""
    journal_lag: float = 0.0
    """Facts committed and not sealed."""
    outbox_bytes: float = 0.0
    """Their bytes, about."""
    inbox_commands: float = 0.0
    """Commands that wait for their turn."""
    channels: float = 0.0
    """Channels with a subscriber."""
    patterns: float = 0.0
    """Distinct patterns with a subscriber."""
    queues_subscribed: float = 0.0
    """Exclusive queues with a subscriber."""
    services_subscribed: float = 0.0
    """Services with a subscriber."""
    notices_waiting: float = 0.0
    """Notices that wait for their notifier."""
    confirm_p50: float = 0.0
    """Half of the confirms of this second took no longer, about."""
    confirm_p99: float = 0.0
    """99 of 100 confirms of this second took no longer, about."""
    turn_seconds: float = 0.0
    """How long a turn took, on average."""
    busy: float = 0.0
    """The part of the second in which a turn was under way, from 0 to 1."""
    loop_lag: float = 0.0
    """How late the event loop was to take this sample, in seconds."""
    memory: float = 0.0
    """Bytes of memory that the process has."""
    cpu: float = 0.0
    """The part of a core that the process took; above 1 with threads."""
    sample_seconds: float = 0.0
    """How long it took to make the sample before this one."""


class Sentence(Answer, frozen=True, kw_only=True):
    """Something that somebody should look at."""

    level: Level
    title: str
    text: str
    since: float
    """When it began."""
    ended: float | None
    """When it was over, if it is; then the title says what was. It goes after 15 seconds."""
    link: str
    """Where on the page it can be seen: what follows the #."""
    command: str
    """What shows the same in a terminal."""
    kind: str
    """Which rule it is of."""
    key: str
    """What it is about; with `kind` it is the same sentence as before."""


class AttentionAnswer(Answer, frozen=True, kw_only=True):
    """What needs attention, worst first, as of the last sample."""

    at: float
    rows: list[Sentence]


class Tick(Answer, frozen=True, kw_only=True):
    """What the live stream has every second, under the event ``tick``. It is the same for all."""

    at: float
    point: Point
    attention: list[Sentence]
    slow: list[SessionRow]
    """The eight sessions that need attention most."""
    apps: list[AppRow]
    """The eight apps with most that is undelivered."""
    top: list[ChannelRow]
    """The eight busiest channels."""
    closed: list[ClosedRow]
    """The six that ended last."""
    uptime: float
    version: str
    store: str
    """The kind of the store."""
    stage: str
    """What the router does if it does not serve: starting, draining, stopping."""
    journal: bool
    viewers: int
