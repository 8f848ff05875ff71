"""Sentences about what needs attention now: each says what, since when, where, and by which
command.

A sentence is there once its condition has held for five seconds, and stays for fifteen after it
ceased, so that it does not flicker. From the moment the condition ceases it is told as something
that was: with `ended`, and after all that still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.model.value import EMPTY
from headgate.server.certificates import CertificateEnd
from headgate.server.desk.answers import AppRow, DomainRow, Level, Point, Sentence, SessionRow
from headgate.server.desk.words import in_words

APPEAR_SECONDS = 5.0
STAY_SECONDS = 15.0
SENTENCES_MAX = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that holds now."""

    level: Level
    kind: str
    key: str
    title: str
    text: str
    link: str
    command: str
    past: str
    """The title when it is over."""
    since: float | None = None
    """When it began, if that is known."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A kind of event that happened lately: how often, and when first."""

    kind: str
    about: str
    count: int
    first: float


@dataclass(frozen=True, slots=True)
class UndecidedGroup:
    """A group whose expression has no value for most messages, and is never true."""

    queue: str
    domain: str
    app: str
    expression: str
    share: float
    """Of the messages that it was sampled on."""
    reason: str
    """The most frequent reason why it has no value, in the words of `explain`."""


@dataclass(frozen=True, slots=True)
class UnknownApp:
    """An app that somebody reads and its domain does not have."""

    queue: str
    app: str
    session: int
    name: str
    """Of the session that reads it; of several, the one that came last."""
    consumers: int
    reason: str
    """Why it gets nothing, in the words of `explain`."""
    since: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample of the router's state, in which conditions are looked for."""

    now: float
    point: Point
    problems: Sequence[str]
    slow: Sequence[SessionRow]
    apps: Sequence[AppRow]
    has_journal: bool
    domains: Sequence[DomainRow] = ()
    """Domains that are nearly full."""
    happened: Mapping[str, Happened] = EMPTY
    """Recent events, counted by kind and subject."""
    undecided: Sequence[UndecidedGroup] = ()
    clock_ahead: float = 0.0
    """How far the machine's clock is ahead of the router's."""
    disk_free: float = 1.0
    """The part of the disk with the state directory that is free."""
    is_draining: bool = False
    unknown: Sequence[UnknownApp] = ()
    certificates: Sequence[CertificateEnd] = ()
    """Certificates that end soon, or have ended."""
    expiry_late: float = 0.0
    """Seconds by which messages were removed after their time, lately, at most."""
    expiry_queues: int = 0
    """Queues that still have such messages."""


class Attention:
    """The conditions that hold, and since when."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, float, Finding]] = {}
        """When it was first and last found, and what."""

    def sentences(self, findings: Iterable[Finding], now: float) -> list[Sentence]:
        """The findings in the order of the page: errors first, the oldest of them first; then those
        that are over."""
        for each in findings:
            key = (each.kind, each.key)
            first = self._known[key][0] if key in self._known else now
            self._known[key] = (first, now, each)
        self._known = {
            key: found for key, found in self._known.items() if now - found[1] <= STAY_SECONDS
        }
        shown = [
            _sentence(finding, first, last, now)
            for first, last, finding in self._known.values()
            if last - first >= APPEAR_SECONDS
        ]
        shown.sort(key=lambda s: (s.ended is not None, s.level != "error", s.since))
        return shown[:SENTENCES_MAX]


def _sentence(finding: Finding, first: float, last: float, now: float) -> Sentence:
    since = first if finding.since is None else finding.since
    is_over = last < now
    return Sentence(
        level=finding.level,
        title=finding.past if is_over else finding.title,
        text=f"over now; it lasted {in_words(last - since)}" if is_over else finding.text,
        since=since,
        ended=last if is_over else None,
        link=finding.link,
        command=finding.command,
        kind=finding.kind,
        key=finding.key,
    )
