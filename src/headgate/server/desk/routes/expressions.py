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
from headgate.server.desk.playground import tried

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

RECENT_SHOWN = 100
RECENT_SEEN = 1000
"""Messages that are compared with the subscriptions of an app."""


async def expression(desk: Desk, request: Request) -> Slices[ExpressionAnswer]:
    """What an expression means, on a message that somebody thinks of and on recent ones."""
    desk.check_pace()
    return tried(desk.router, desk.sampler.recent, await question(request, ExpressionQuestion))


async def explain(desk: Desk, request: Request) -> Slices[Explanation]:
    """Who would get a message, and why not the others."""
    desk.check_pace()
    asked = await question(request, ExplainQuestion)
    try:
        return desk.router.explaining(asked.queue, properties_of(asked.properties))
    except HeadgateError as error:
        raise Refusal(400, str(error), "bad_question") from None


async def recent(desk: Desk, request: Request) -> RecentAnswer:
    """Messages that came lately, without bodies; with `aside`, those that no group of that app
    matches now."""
    asked = Asked(request, "queue", "domain", "aside", "limit")
    name = asked.text("queue")
    limit = asked.number("limit", 8, 1, RECENT_SHOWN)
    wanted = asked.text("domain") or name.removeprefix("bmq://").partition("/")[0]
    kept = desk.sampler.recent
    newest = islice(kept.newest(wanted), RECENT_SEEN)
    found = [each for each in newest if not name or each.queue == name.encode()]
    if "aside" in request.query_params:
        queue = desk.router.broker.shard.shared.queues.get(QueueId(name.encode()))
        app = queue.apps.get(asked.text("aside")) if queue is not None else None
        if app is None:
            raise Refusal(404, "there is no such app", "no_such_app", "see domains")
        groups = app.groups
        found = [m for m in found if next(iter(groups.matching(m.properties)), None) is None]
    return RecentAnswer(rows=[each.row() for each in found[:limit]], kept=len(kept.of(wanted)))


async def compare(desk: Desk, request: Request) -> Slices[CompareAnswer]:
    """Two sets of subscriptions on the messages of late: who gets what before, and who after."""
    desk.check_pace()
    asked = await question(request, CompareQuestion)
    return compared(asked, list(desk.sampler.recent.of(asked.domain)))
