"""Channels, patterns, and tails of them."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.core.channels.audience import Kind
from headgate.core.turn.slices import Slices, best
from headgate.errors import ExpressionError
from headgate.expr.predicate import compile_expression
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    ChannelsAnswer,
    PatternRow,
    PatternsAnswer,
)
from headgate.server.desk.asking import (
    Asked,
    shown_bytes,
)
from headgate.server.desk.channel_rates import SORTS
from headgate.server.desk.routes.path import EVENTS, PAGE

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

PATTERNS_SEEN = 100_000


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
