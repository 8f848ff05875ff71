"""What somebody should look at now, in sentences: each says what, since when, where, and by which
command.

A sentence is there once its condition has held for five seconds, and stays for fifteen after it
ceased, so that it does not flicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headgate.core.model.queue_uri import SCHEME
from headgate.core.model.value import EMPTY
from headgate.errors import ExpressionError
from headgate.expr.explain import explain
from headgate.server.desk.answers import AppRow, DomainRow, Level, Point, Sentence, SessionRow

APPEAR_SECONDS = 5.0
STAY_SECONDS = 15.0
SENTENCES_MAX = 20

BEHIND_MESSAGES = 100
"""Fewer that wait are nobody's worry."""
JOURNAL_LAG = 100_000
LATE_SECONDS = 0.1
BUSY = 0.9
RETURNED_SHARE = 0.05
DISK_FREE = 0.1
CLOCK_SECONDS = 5.0
HAPPENED_MAX = 5

HAPPENED = {
    "limit": (
        "The limit {about} was reached",
        "{count} times in the last ten minutes",
        "/facts?kind=LimitReached",
        "headgate config show",
    ),
    "handshakes": (
        "Handshakes fail",
        "{count} in the last ten minutes, lately: {about}",
        "/facts",
        "headgate check",
    ),
    "drift": (
        "A service disagrees about its queues",
        "service {about}, {count} times in the last ten minutes",
        "/services",
        "headgate service ls",
    ),
    "poisoned": (
        "Messages were given up in {about}",
        "{count} in the last ten minutes: consumers were lost with them too often",
        "/facts?kind=Poisoned",
        "headgate domain poison",
    ),
}
"""Title, text, link and command of what is counted from facts."""


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
    since: float | None = None
    """When it began, if that is known."""


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened, perhaps several times."""

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
    failure: str
    """What it has most often instead of a value."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What conditions are looked for in."""

    now: float
    point: Point
    problems: Sequence[str]
    slow: Sequence[SessionRow]
    apps: Sequence[AppRow]
    has_journal: bool
    domains: Sequence[DomainRow] = ()
    """Those that are nearly full."""
    happened: Mapping[str, Happened] = EMPTY
    """What has happened lately, by its kind and what it is about."""
    undecided: Sequence[UndecidedGroup] = ()
    clock_ahead: float = 0.0
    """How far the machine's clock is ahead of the router's."""
    disk_free: float = 1.0
    """The part of the disk with the state directory that is free."""
    is_draining: bool = False


class Attention:
    """Remembers which conditions hold, and since when."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, float, Sentence]] = {}
        """When it was first and last found, and what is said."""

    def sentences(self, findings: Iterable[Finding], now: float) -> list[Sentence]:
        """What is to be shown, errors first, and of these what began first."""
        for each in findings:
            key = (each.kind, each.key)
            first = self._known[key][0] if key in self._known else now
            since = first if each.since is None else each.since
            sentence = Sentence(
                level=each.level,
                title=each.title,
                text=each.text,
                since=since,
                link=each.link,
                command=each.command,
                kind=each.kind,
                key=each.key,
            )
            self._known[key] = (first, now, sentence)
        self._known = {
            key: found for key, found in self._known.items() if now - found[1] <= STAY_SECONDS
        }
        shown = [s for first, last, s in self._known.values() if last - first >= APPEAR_SECONDS]
        shown.sort(key=lambda s: (s.level != "error", s.since))
        return shown[:SENTENCES_MAX]


def findings(moment: Moment) -> Iterator[Finding]:
    """The conditions that hold now."""
    for problem in moment.problems:
        yield Finding(
            "error",
            "problem",
            problem.partition(":")[0],
            "The router cannot do its work",
            problem,
            "/facts?level=error",
            "headgate check",
        )
    if moment.is_draining:
        yield Finding(
            "warning",
            "draining",
            "",
            "The router is draining",
            f"it lets nobody in; {moment.point.sessions:,.0f} sessions are open until they leave",
            "/sessions",
            "headgate undrain",
        )
    yield from _slow(moment)
    yield from _behind(moment)
    yield from _undecided(moment)
    yield from _full(moment)
    yield from _happened(moment)
    yield from _machine(moment)


def _slow(moment: Moment) -> Iterator[Finding]:
    for row in moment.slow[:5]:
        if row.pressure == "easy" and not row.held_up:
            continue
        name = row.name or f"session {row.session}"
        text = f"session {row.session} ({row.wire})"
        if row.pressure != "easy":
            text += f" is over its {row.pressure} limit"
        if row.slow_since is not None:
            text += f" for {in_words(moment.now - row.slow_since)}"
        text += f", {in_bytes(row.mailbox_bytes)} wait to be written"
        if row.held_up:
            verb = "publisher waits" if row.held_up == 1 else "publishers wait"
            text += f"; {row.held_up:,} {verb} for it"
        yield Finding(
            "error" if row.held_up else "warning",
            "slow",
            str(row.session),
            f"{name} does not keep up",
            text,
            f"/sessions?id={row.session}",
            f"headgate session show {row.session}",
            row.slow_since,
        )


def _behind(moment: Moment) -> Iterator[Finding]:
    for row in moment.apps[:5]:
        queue = f"{row.domain}/{row.name}"
        where = f"{queue} · {row.app}" if row.app else queue
        app = f" --app {row.app}" if row.app else ""
        key = f"{row.queue} {row.app}"
        link = f"/domains?queue={row.queue}&app={row.app}"
        waits = row.in_line + row.waiting
        if row.aside:
            yield Finding(
                "warning",
                "aside",
                key,
                f"{row.aside:,} messages match nobody",
                f"{where}: no subscription is true for them",
                f"/playground?queue={row.queue}&aside={row.app}",
                f"headgate domain aside {queue}{app}",
            )
        if waits and not row.consumers:
            yield Finding(
                "warning",
                "unread",
                key,
                f"Nobody reads {where}",
                f"{waits:,} messages wait",
                link,
                f"headgate queue show {queue}",
                row.oldest_at,
            )
        elif waits > BEHIND_MESSAGES and row.growth_per_s > 1:
            yield Finding(
                "warning",
                "behind",
                key,
                f"{where} falls behind",
                f"{waits:,} wait, {row.growth_per_s:+,.0f}/s; {row.full} of {row.subscriptions}"
                " subscriptions have a full window",
                link,
                f"headgate queue show {queue}",
            )
        if row.stuck:
            yield Finding(
                "warning",
                "stuck",
                key,
                f"{where} is stuck",
                f"{waits + row.aside:,} messages, and nothing moves",
                link,
                f"headgate queue show {queue}",
            )


def _undecided(moment: Moment) -> Iterator[Finding]:
    for each in moment.undecided:
        text = f"{each.failure} for {each.share:.0%} of the messages, and never true"
        advice = next(iter(warnings_of(each.expression)), "")
        where = f"{each.queue.removeprefix(SCHEME)}{' · ' if each.app else ''}{each.app}"
        yield Finding(
            "warning",
            "undecided",
            f"{each.queue} {each.app} {each.expression}",
            f"{each.expression} cannot be decided",
            f"{where}: {text}{'; ' if advice else ''}{advice}",
            f"/playground?queue={each.queue}&app={each.app}",
            f"headgate expr check '{each.expression}'",
        )


@lru_cache(256)
def warnings_of(expression: str) -> tuple[str, ...]:
    """What `expr check` says of an expression that was taken."""
    try:
        return explain(expression).warnings
    except ExpressionError:  # the router's limits are wider than the usual ones
        return ()


def _full(moment: Moment) -> Iterator[Finding]:
    for row in moment.domains:
        yield Finding(
            "error" if row.capacity == "full" else "warning",
            "quota",
            row.domain,
            f"{row.domain} is {'full' if row.capacity == 'full' else 'nearly full'}",
            f"{row.messages:,} messages, {in_bytes(row.bytes)}; what comes beyond its quota is"
            " refused",
            f"/domains?domain={row.domain}",
            f"headgate domain show {row.domain}",
        )


def _happened(moment: Moment) -> Iterator[Finding]:
    """What was counted from facts, in words."""
    for each in list(moment.happened.values())[:HAPPENED_MAX]:
        title, text, link, command = HAPPENED[each.kind]
        fields = {"about": each.about, "count": f"{each.count:,}"}
        yield Finding(
            "warning",
            each.kind,
            each.about,
            title.format(**fields),
            text.format(**fields),
            link,
            command,
            each.first,
        )


def _machine(moment: Moment) -> Iterator[Finding]:
    point = moment.point
    if moment.has_journal and point.journal_lag > JOURNAL_LAG:
        yield Finding(
            "warning",
            "journal",
            "lag",
            "The journal falls behind",
            f"{point.journal_lag:,.0f} facts are not sealed",
            "/journal",
            "headgate journal stats",
        )
    if point.loop_lag > LATE_SECONDS:
        yield Finding(
            "warning",
            "late",
            "loop",
            "The event loop is late",
            f"by {point.loop_lag * 1000:.0f} ms: something holds everybody up",
            "/",
            "headgate top",
        )
    if point.delivered > 1 and point.returned > RETURNED_SHARE * point.delivered:
        yield Finding(
            "warning",
            "returned",
            "all",
            "Consumers give much back",
            f"{point.returned:,.0f} of {point.delivered:,.0f} deliveries a second come back",
            "/domains",
            "headgate top",
        )
    if abs(moment.clock_ahead) > CLOCK_SECONDS:
        yield Finding(
            "warning",
            "clock",
            "machine",
            "The machine's clock has jumped",
            f"by {moment.clock_ahead:+,.0f} s; the router goes on with its own until a restart",
            "/facts",
            "headgate check",
        )
    if moment.disk_free < DISK_FREE:
        yield Finding(
            "error",
            "disk",
            "state",
            "The disk is nearly full",
            f"{moment.disk_free:.0%} of the disk with the state directory is free",
            "/settings",
            "headgate check",
        )
    if point.busy > BUSY:
        yield Finding(
            "warning",
            "busy",
            "turns",
            "Turns leave no time",
            f"one is under way {min(1.0, point.busy):.0%} of the time",
            "/",
            "headgate top",
        )


def in_bytes(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
