"""Questions about expressions, answered by the code that routes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from starlette.requests import Request

from headgate.core.model.ids import QueueId
from headgate.core.shared.explain import Explanation
from headgate.core.turn.slices import Slices
from headgate.errors import HeadgateError
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    CompareAnswer,
    ExpressionAnswer,
    MessageRow,
    RecentAnswer,
)
from headgate.server.desk.asking import (
    Asked,
    CompareQuestion,
    ExplainQuestion,
    ExpressionQuestion,
    properties_of,
    question,
)
from headgate.server.desk.comparing import compared
from headgate.server.desk.kept import message_row
from headgate.server.desk.playground import tried

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

RECENT_SHOWN = 100
RECENT_SEEN = 1000
"""Messages of a domain that are looked through for those of one queue."""


async def expression(desk: Desk, request: Request) -> Slices[ExpressionAnswer]:
    """What an expression means, on a message that somebody thinks of and on recent ones. Five a
    second are answered to a viewer."""
    desk.check_pace(request, counts=True)
    return tried(desk.router, desk.sampler.recent, await question(request, ExpressionQuestion))


async def explain(desk: Desk, request: Request) -> Slices[Explanation]:
    """Who would get a message, and why not the others."""
    desk.check_pace(request)
    asked = await question(request, ExplainQuestion)
    try:
        return desk.router.explaining(asked.queue, properties_of(asked.properties))
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_question") from None


async def recent(desk: Desk, request: Request) -> RecentAnswer:
    """Messages that came lately, without bodies; with `aside`, those that this app holds and that
    no subscription of it matches."""
    asked = Asked(request, "queue", "domain", "aside", "limit")
    name = asked.text("queue")
    limit = asked.number("limit", 8, 1, RECENT_SHOWN)
    wanted = asked.text("domain") or name.removeprefix("bmq://").partition("/")[0]
    kept = desk.sampler.recent
    if "aside" in request.query_params:
        rows = _aside(desk, name, asked.text("aside"), limit)
    else:
        newest = islice(kept.newest(wanted), RECENT_SEEN)
        found = (each for each in newest if not name or each.queue == name.encode())
        rows = [each.row() for each in islice(found, limit)]
    return RecentAnswer(rows=rows, kept=len(kept.of(wanted)))


def _aside(desk: Desk, name: str, app: str, limit: int) -> list[MessageRow]:
    """What an app put aside, the newest first."""
    queue = desk.router.broker.shard.shared.queues.get(QueueId(name.encode()))
    here = queue.apps.get(app) if queue is not None else None
    if queue is None or here is None:
        raise Refusal(404, "there is no such app", "no_such_app", "see domains")
    entries = [queue.entries[seq] for seq in islice(reversed(here.aside), limit)]
    return [message_row(e.arrived, e.id, e.size, e.properties) for e in entries]


async def compare(desk: Desk, request: Request) -> Slices[CompareAnswer]:
    """Two sets of subscriptions on recent messages: who gets what before, and who after."""
    desk.check_pace(request, counts=True)
    asked = await question(request, CompareQuestion)
    return compared(asked, list(desk.sampler.recent.of(asked.domain)))
