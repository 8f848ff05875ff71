"""Health, readiness, metrics, status, explanations and sinks over HTTP, in the router's own event
loop.

Nothing here but the commit of a sink touches the store: answers come from numbers that the core
keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.core.model.limits import KiB
from headgate.core.model.message import PropertyValue
from headgate.core.turn.slices import Slices
from headgate.errors import HeadgateError
from headgate.server.admin.bodies import property_of, read_body
from headgate.server.admin.common import COMMON_PATHS, LOOPBACK, CommonPages, guarded
from headgate.server.admin.guard import Names, Tokens, Visitors
from headgate.server.admin.login import Login
from headgate.server.admin.responses import answer
from headgate.server.admin.sinks import COMMIT_BYTES, SinkAdmin, checked
from headgate.server.admin.staging import Place
from headgate.server.desk.files import StaticFiles

EXPLAIN_BYTES = 512 * KiB
"""The body of a question. Properties are less, but JSON makes up to six bytes of one."""

PATHS = (*COMMON_PATHS, "/sinks")
LISTED = (*PATHS, "/explain")
"""The answer to a path that does not exist."""


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A message that somebody thinks of."""

    queue: str
    properties: dict[str, Any] = {}


_decode_question = msgspec.json.Decoder(Question).decode


def make_app(
    *,
    problems: Callable[[], list[str]],
    status: Callable[[], Mapping[str, object]],
    metrics: Callable[[], Slices[bytes] | bytes],
    rows: int,
    journal: Path | None = None,
    sinks: SinkAdmin | None = None,
    explain: Callable[[str, Mapping[str, PropertyValue]], Slices[object] | object] | None = None,
    token: str,
    operator_token: str | None = None,
    names: Names = LOOPBACK,
    visitors: Visitors | None = None,
    refused: Callable[[str], None] = lambda peer: None,
    more: Sequence[Route] = (),
    page: StaticFiles | None = None,
) -> Starlette:
    """The application. `rows` bounds each list of the status; the tokens, `names` and `visitors`
    say who may ask, `refused` is called when somebody failed to log in, and `more` are routes of
    the desk, and `page` is what a browser is shown."""
    visitors = visitors or Visitors()
    tokens = Tokens(token, operator_token)
    login = Login(tokens, visitors, refused, page)
    pages = CommonPages(problems, status, metrics, rows, journal, login, page)

    async def sinks_json(request: Request) -> Response:
        known = [] if sinks is None else sinks.listing()
        return await pages.paged({"sinks": known}, request)

    async def explained(request: Request) -> Response:
        queue, properties = _question(await read_body(request, EXPLAIN_BYTES))
        if found := problems():
            raise HTTPException(503, "; ".join(found))
        assert explain is not None, "there is a route only if there is somebody to ask"
        try:
            return answer(await pages.done(explain(queue, properties)))
        except HeadgateError as error:
            raise HTTPException(400, str(error)) from None

    routes = [
        *more,
        *pages.routes(LISTED),
        Route("/sinks", sinks_json),
        *([] if explain is None else [Route("/explain", explained, methods=["POST"])]),
        *([] if sinks is None else _sink_routes(sinks)),
    ]
    return guarded(routes, LISTED, tokens, names, visitors)


def _sink_routes(sinks: SinkAdmin) -> list[Route]:
    """Requests of Spark's executors and drivers; `sink.py` of the pipeline is the other end."""

    async def stage(request: Request) -> Response:
        sink, numbers = checked(*request.path_params.values())
        in_pieces = request.query_params.get("in_pieces") == "true"
        return answer(await sinks.stage(Place(sink, *numbers), request.stream(), in_pieces))

    async def commit(request: Request) -> Response:
        sink, [batch] = checked(*request.path_params.values())
        return answer(await sinks.commit(sink, batch, await read_body(request, COMMIT_BYTES)))

    async def abort(request: Request) -> Response:
        sink, [batch] = checked(*request.path_params.values())
        return answer(await sinks.abort(sink, batch))

    async def forget(request: Request) -> Response:
        sink, _ = checked(*request.path_params.values())
        return answer(await sinks.forget(sink))

    return [
        Route("/sinks/{sink}/{batch}/{partition}/{attempt}", stage, methods=["PUT"]),
        Route("/sinks/{sink}/{batch}/commit", commit, methods=["POST"]),
        Route("/sinks/{sink}/{batch}/abort", abort, methods=["POST"]),
        Route("/sinks/{sink}", forget, methods=["DELETE"]),
    ]


def _question(body: bytes) -> tuple[str, dict[str, PropertyValue]]:
    """The queue that is asked about, and the properties of the message."""
    try:
        asked = _decode_question(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        form = 'write {"queue": "bmq://DOMAIN/NAME", "properties": {"name": value}}'
        raise HTTPException(400, f"not a question: {error}; {form}") from None
    return asked.queue, {name: property_of(name, item) for name, item in asked.properties.items()}
