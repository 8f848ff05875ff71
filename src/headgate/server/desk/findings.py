"""The rules of attention: which conditions hold in a moment, and what is said of each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import urlencode

from headgate.core.model.queue_uri import SCHEME
from headgate.core.model.sizes import in_bytes
from headgate.server.certificates import URGENT_SECONDS
from headgate.server.desk.advice import advice_of
from headgate.server.desk.answers import AppRow
from headgate.server.desk.attention import Finding, Happened, Moment
from headgate.server.desk.words import in_words, percent, some, some_do

BEHIND_MESSAGES = 100
"""Fewer that wait are nobody's worry."""
JOURNAL_LAG = 100_000
LATE_SECONDS = 0.1
BUSY = 0.9
RETURNED_SHARE = 0.05
DISK_FREE = 0.1
CLOCK_SECONDS = 5.0
HAPPENED_MAX = 5
EXPIRY_LATE_SECONDS = 300.0
"""The store is searched once a minute for messages whose time is over."""


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
            "The router could not do its work",
        )
    if moment.is_draining:
        left = some_do(moment.point.sessions, "session", "is", "are")
        yield Finding(
            "warning",
            "draining",
            "",
            "The router is draining",
            f"it lets nobody in; {left} open until they leave",
            "/sessions",
            "headgate undrain",
            "The router was draining",
        )
    yield from _slow(moment)
    for row in moment.apps[:5]:
        yield from _behind(row)
    yield from _unknown(moment)
    yield from _undecided(moment)
    yield from _full(moment)
    yield from map(_happened, list(moment.happened.values())[:HAPPENED_MAX])
    yield from _certificates(moment)
    yield from _flow(moment)
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
            text += f"; {some_do(row.held_up, 'publisher', 'waits', 'wait')} for it"
        yield Finding(
            "error" if row.held_up else "warning",
            "slow",
            str(row.session),
            f"{name} does not keep up",
            text,
            f"/sessions?id={row.session}",
            f"headgate session show {row.session}",
            f"{name} did not keep up",
            row.slow_since,
        )


def _behind(row: AppRow) -> Iterator[Finding]:
    queue = f"{row.domain}/{row.name}"
    where = f"{queue} · {row.app}" if row.app else queue
    app = f" --app {shlex.quote(row.app)}" if row.app else ""
    key = f"{row.queue} {row.app}"
    link = f"/domains?queue={row.queue}&app={row.app}"
    show = f"headgate queue show {shlex.quote(queue)}"
    waits = row.in_line + row.waiting
    if row.aside:
        yield Finding(
            "warning",
            "aside",
            key,
            some_do(row.aside, "message", "matches nobody", "match nobody"),
            f"{where}: no subscription is true for {'it' if row.aside == 1 else 'them'}",
            f"/playground?queue={row.queue}&aside={row.app}",
            f"headgate domain aside {shlex.quote(queue)}{app}",
            f"{some(row.aside, 'message')} matched nobody",
        )
    if waits and not row.consumers:
        yield Finding(
            "warning",
            "unread",
            key,
            f"Nobody reads {where}",
            some_do(waits, "message", "waits", "wait"),
            link,
            show,
            f"Nobody read {where}",
            row.oldest_at,
        )
    elif waits > BEHIND_MESSAGES and row.growth_per_s > 1:
        yield Finding(
            "warning",
            "behind",
            key,
            f"{where} falls behind",
            f"{waits:,} wait, {row.growth_per_s:+,.0f}/s; {row.full:,} of"
            f" {some_do(row.subscriptions, 'subscription', 'has', 'have')} a full window",
            link,
            show,
            f"{where} fell behind",
        )
    if row.stuck:
        yield Finding(
            "warning",
            "stuck",
            key,
            f"{where} is stuck",
            f"{some(waits + row.aside, 'message')}, and nothing moves",
            link,
            show,
            f"{where} was stuck",
        )


def _unknown(moment: Moment) -> Iterator[Finding]:
    for each in moment.unknown:
        queue = each.queue.removeprefix(SCHEME)
        others = f" and {each.consumers - 1:,} more" if each.consumers > 1 else ""
        reads = "reads" if each.consumers == 1 else "read"
        yield Finding(
            "warning",
            "unknown",
            f"{each.queue} {each.app}",
            f"{each.name or f'session {each.session}'}{others} {reads} an app that is not there",
            f"{queue}?id={each.app}: {each.reason}. Correct the id, or add the app to"
            " the domain and reload",
            f"/domains?queue={each.queue}",
            f"headgate queue show {shlex.quote(queue)}",
            f"{each.name or f'session {each.session}'}{others} read an app that was not there",
            each.since,
        )


def _undecided(moment: Moment) -> Iterator[Finding]:
    for each in moment.undecided:
        text = f"{each.reason}, in {percent(each.share)} of the messages, and it is never true"
        advice = advice_of(each.expression)
        where = f"{each.queue.removeprefix(SCHEME)}{' · ' if each.app else ''}{each.app}"
        asked = {"queue": each.queue, "app": each.app, "expression": each.expression}
        yield Finding(
            "warning",
            "undecided",
            f"{each.queue} {each.app} {each.expression}",
            f"{each.expression} cannot be decided",
            f"{where}: {text}{'; ' if advice else ''}{advice}",
            f"/playground?{urlencode(asked)}",
            f"headgate expr check {shlex.quote(each.expression)}",
            f"{each.expression} could not be decided",
        )


def _full(moment: Moment) -> Iterator[Finding]:
    for row in moment.domains:
        state = "full" if row.capacity == "full" else "nearly full"
        yield Finding(
            "error" if row.capacity == "full" else "warning",
            "quota",
            row.domain,
            f"{row.domain} is {state}",
            f"{some(row.messages or 0, 'message')}, {in_bytes(row.bytes or 0)}; what comes beyond"
            " its quota is refused",
            f"/domains?domain={row.domain}",
            f"headgate domain show {row.domain}",
            f"{row.domain} was {state}",
        )


def _happened(each: Happened) -> Finding:
    """What was counted from facts, in words."""
    times = some(each.count, "time")
    title, past, text, link, command = {
        "limit": (
            f"The limit {each.about} was reached",
            f"The limit {each.about} was reached",
            f"{times} in the last ten minutes",
            "/facts?kind=LimitReached",
            "headgate config show",
        ),
        "handshakes": (
            "Handshakes fail",
            "Handshakes failed",
            f"{each.count:,} in the last ten minutes, lately: {each.about}",
            "/facts",
            "headgate check",
        ),
        "drift": (
            "A service disagrees about its queues",
            "A service disagreed about its queues",
            f"service {each.about}, {times} in the last ten minutes",
            "/queues",
            "headgate service ls",
        ),
        "poisoned": (
            f"Messages were given up in {each.about}",
            f"Messages were given up in {each.about}",
            f"{each.count:,} in the last ten minutes: consumers were lost with"
            f" {'it' if each.count == 1 else 'them'} too often",
            "/facts?kind=Poisoned",
            "headgate domain poison",
        ),
    }[each.kind]
    return Finding("warning", each.kind, each.about, title, text, link, command, past, each.first)


def _certificates(moment: Moment) -> Iterator[Finding]:
    for each in moment.certificates:
        is_over = each.left <= 0
        ends = "has ended" if is_over else f"ends in {in_words(each.left)}"
        yield Finding(
            "error" if each.left < URGENT_SECONDS else "warning",
            "certificate",
            each.what,
            f"The certificate of {each.what} {ends}",
            f"{each.path}: {'clients refuse it' if is_over else 'clients will refuse it then'};"
            " put a new one in its place and reload",
            "/settings",
            "headgate cert ls",
            f"The certificate of {each.what} was old",
        )


def _flow(moment: Moment) -> Iterator[Finding]:
    point = moment.point
    if moment.has_journal and point.journal_lag > JOURNAL_LAG:
        yield Finding(
            "warning",
            "journal",
            "lag",
            "The journal falls behind",
            f"{some_do(point.journal_lag, 'fact', 'is', 'are')} not sealed",
            "/journal",
            "headgate journal stats",
            "The journal fell behind",
        )
    if moment.expiry_late > EXPIRY_LATE_SECONDS:
        text = f"lately up to {in_words(moment.expiry_late)} after their time"
        if moment.expiry_queues:
            left = some_do(moment.expiry_queues, "queue", "has", "have")
            text += f"; {left} more of them, and nothing else of it is delivered"
        yield Finding(
            "warning",
            "expiry",
            "late",
            "Old messages are removed late",
            text,
            "/domains",
            "headgate domain ls",
            "Old messages were removed late",
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
            "Consumers gave much back",
        )


def _machine(moment: Moment) -> Iterator[Finding]:
    point = moment.point
    if point.loop_lag > LATE_SECONDS:
        yield Finding(
            "warning",
            "late",
            "loop",
            "The event loop is late",
            f"by {point.loop_lag * 1000:.0f} ms: something holds everybody up",
            "/",
            "headgate top",
            "The event loop was late",
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
            "The machine's clock had jumped",
        )
    if moment.disk_free < DISK_FREE:
        yield Finding(
            "error",
            "disk",
            "state",
            "The disk is nearly full",
            f"{percent(moment.disk_free)} of the disk with the state directory is free",
            "/settings",
            "headgate check",
            "The disk was nearly full",
        )
    if point.busy > BUSY:
        yield Finding(
            "warning",
            "busy",
            "turns",
            "Turns leave no time",
            f"one is under way {percent(min(1.0, point.busy))} of the time",
            "/",
            "headgate top",
            "Turns left no time",
        )
