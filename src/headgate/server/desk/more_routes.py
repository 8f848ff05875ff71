"""Paths of the API about channels, patterns, services, single queues and comparisons."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.core.channels.audience import Kind
from headgate.core.shared.app import App
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.slices import Slices, best
from headgate.errors import ExpressionError
from headgate.expr.predicate import Failure, compile_expression
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    AsideAnswer,
    AsideReason,
    ChannelsAnswer,
    CompareAnswer,
    PatternRow,
    PatternsAnswer,
    QueueAnswer,
    ServicesAnswer,
)
from headgate.server.desk.asking import Asked, CompareQuestion, question, shown, shown_bytes
from headgate.server.desk.channel_rates import SORTS
from headgate.server.desk.comparing import compared
from headgate.server.desk.kept import message_row
from headgate.server.desk.queue_lookup import look_up
from headgate.server.desk.routes import EVENTS, PAGE, Path, find_queue

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

ASIDE_GROUPS = 100
EVALUATION_UNITS = 100
"""What it counts for to ask an expression in full for the first time."""
PATTERNS_SEEN = 100_000


# Channels.


async def channels(desk: Desk, request: Request) -> ChannelsAnswer:
    """Channels that were published to in the last ten seconds, the busiest first."""
    asked = Asked(request, "sort", "q", *PAGE)
    limit, offset = asked.page()
    key, text = SORTS[asked.choice("sort", *SORTS)], asked.text("q").encode()
    rates, found = desk.sampler.channels, desk.router.broker.channels
    rows = [each for each in rates.sums().values() if text in each.channel]
    chosen = nlargest(offset + limit, rows, key=key)[offset:]
    return ChannelsAnswer(
        rows=[rates.row(each, found) for each in chosen],
        total=len(rows),
        subscribed=found.count(Kind.EXACT) + found.count(Kind.SHARDED),
        counted=rates.has_counted,
    )


async def patterns(desk: Desk, request: Request) -> Slices[PatternsAnswer]:
    """Patterns with their subscribers, the most first."""
    asked = Asked(request, "sort", "q", *PAGE)
    sort = asked.choice("sort", "sessions", "matched")
    return _patterns(desk, sort, asked.text("q").encode(), *asked.page())


def _patterns(
    desk: Desk, sort: str, text: bytes, limit: int, offset: int
) -> Slices[PatternsAnswer]:
    found = desk.router.broker.channels
    rates: Counter[bytes] = Counter()
    for rate in list(desk.sampler.channels.sums().values()):
        for pattern in found.patterns_of(rate.channel):
            rates[pattern] += rate.published
        yield 2
    names = [n for n in islice(found.names(Kind.PATTERN), PATTERNS_SEEN) if text in n]

    def choose(most: int, some: object) -> list[bytes]:
        key = rates.__getitem__ if sort == "matched" else _subscribers
        return nlargest(most, some, key=key)  # type: ignore[call-overload, no-any-return]

    def _subscribers(name: bytes) -> int:
        return found.subscribers(Kind.PATTERN, name)

    chosen = yield from best(names, offset + limit, choose)
    seconds = max(1, desk.sampler.channels.seconds)
    return PatternsAnswer(
        rows=[
            PatternRow(
                pattern=shown_bytes(name),
                sessions=_subscribers(name),
                matched_per_s=rates[name] / seconds,
            )
            for name in chosen[offset:]
        ],
        total=len(names),
    )


async def tail(desk: Desk, request: Request) -> Response:
    """Messages as they come, under the event ``message``, twenty a second at most. Every second,
    ``skipped`` says how many were left out."""
    asked = Asked(request, "pattern", "where", "bodies")
    where = None
    if text := asked.text("where"):
        try:
            where = compile_expression(text)
        except ExpressionError as error:
            raise Refusal(400, str(error), "bad_expression") from None
    bodies = asked.flag("bodies")
    if bodies and not desk.latest().desk.bodies:
        raise Refusal(403, "bodies are not shown", "no_bodies", "set desk.bodies = true")
    desk.tails.check_room()
    pattern = asked.text("pattern", "*").encode()
    stream = desk.tails.stream(pattern, where, shows_bodies=bodies)
    return StreamingResponse(stream, media_type=EVENTS, headers={"cache-control": "no-store"})


# Queues.


async def services(desk: Desk, request: Request) -> ServicesAnswer:
    """Services with a subscriber."""
    asked = Asked(request, "sort", *PAGE)
    return desk.services.answer(asked.choice("sort", "queues", "any"), *asked.page())


async def queue(desk: Desk, request: Request) -> QueueAnswer:
    """One queue by its name, from memory or else with one question to the store."""
    return await look_up(desk, request.path_params["name"])


async def aside(desk: Desk, request: Request) -> Slices[AsideAnswer]:
    """Messages that an app put aside, the oldest first, and why no group matches them."""
    asked = Asked(request, "app", *PAGE)
    _, _, found = find_queue(desk, request)
    app = found.apps.get(asked.text("app")) if found is not None else None
    if found is None or app is None:
        raise Refusal(404, "there is no such app", "no_such_app", "see domains")
    return _aside(found, app, *asked.page())


def _aside(queue: SharedQueue, app: App, limit: int, offset: int) -> Slices[AsideAnswer]:
    entries = [queue.entries[seq] for seq in islice(app.aside, offset, offset + limit)]
    why = []
    for group in list(islice(app.groups, ASIDE_GROUPS)):
        counts: Counter[object] = Counter()
        for entry in entries:
            if group.predicate is not None:
                counts[group.predicate.evaluate(entry.properties)] += 1
        yield EVALUATION_UNITS + len(entries)
        why.append(
            AsideReason(
                expression=None if group.text is None else shown(group.text),
                priority=group.priority,
                false=counts[False],
                name=counts[Failure.NAME],
                type=counts[Failure.TYPE],
                arithmetic=counts[Failure.ARITHMETIC],
            )
        )
    return AsideAnswer(
        rows=[message_row(e.arrived, e.id, e.size, e.properties) for e in entries],
        total=len(app.aside),
        why=why,
    )


async def compare(desk: Desk, request: Request) -> Slices[CompareAnswer]:
    """Two sets of subscriptions on the messages of late: who gets what before, and who after."""
    desk.check_pace()
    asked = await question(request, CompareQuestion)
    return compared(asked, list(desk.sampler.recent.of(asked.domain)))


MORE_PATHS = [
    Path("/channels", channels, "sort", "q", *PAGE),
    Path("/patterns", patterns, "sort", "q", *PAGE),
    Path("/tail", tail, "pattern", "where", "bodies", events=True),
    Path("/services", services, "sort", *PAGE),
    Path("/queues/{name:path}", queue),
    Path("/domains/{domain}/queues/{queue}/aside", aside, "app", *PAGE),
    Path("/expressions/compare", compare, body=CompareQuestion),
]
"""Everything else that may be asked by whoever knows the token."""
