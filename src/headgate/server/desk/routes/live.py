"""The live stream, its history, and what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import (
    AttentionAnswer,
)
from headgate.server.desk.asking import (
    Asked,
)
from headgate.server.desk.routes.path import EVENTS
from headgate.server.desk.series import FINE_POINTS, NAMES, SPAN_MAX

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk


async def live(desk: Desk, request: Request) -> Response:
    """One ``tick`` a second, and with `facts` a ``fact`` for each that is worth a line."""
    wants_facts = Asked(request, "facts").flag("facts")
    viewers = desk.sampler.viewers
    viewers.check_room()
    stream = viewers.stream(wants_facts=wants_facts)
    return StreamingResponse(stream, media_type=EVENTS, headers={"cache-control": "no-store"})


async def series(desk: Desk, request: Request) -> dict[str, list[float]]:
    """Columns of the history: `at`, and one for each name."""
    asked = Asked(request, "names", "span")
    names = [name for name in request.query_params.get("names", "").split(",") if name]
    wrong = [name for name in names if name not in NAMES]
    if wrong:
        raise Refusal(400, "there is no such series", "bad_parameter", f"use {', '.join(NAMES)}")
    span = asked.number("span", FINE_POINTS, 1, SPAN_MAX)
    return desk.sampler.history.columns(list(dict.fromkeys(names)) or list(NAMES), span)


async def attention(desk: Desk, request: Request) -> AttentionAnswer:
    """What needs attention, as of the last sample."""
    return AttentionAnswer(at=desk.sampler.at, rows=desk.sampler.sentences)
