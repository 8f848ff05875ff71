"""Health, readiness, metrics, status, explanations and sinks over HTTP, in the router's own event
loop.

``/healthz`` says that the process answers, ``/readyz`` whether it can do its work. Nothing here
but the commit of a sink touches the store: answers come from numbers that the core keeps. The
server is small on purpose: so many connections and no more, and a connection that does not get
to a request is closed, so that nobody can take file descriptors away from the sessions.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.core.limits import KiB
from headgate.core.message import PropertyValue
from headgate.errors import HeadgateError
from headgate.server.metrics import CONTENT_TYPE
from headgate.server.sinks import COMMIT_BYTES, SinkDesk, checked
from headgate.server.staging import Place
from headgate.store.segments import NAME, segments

CONNECTIONS = 64
"""Open connections of the admin port."""

IDLE_SECONDS = 10.0
"""A connection without a request for this long is closed."""

EXPLAIN_BYTES = 512 * KiB
"""The body of a question. Properties are less, but JSON makes up to six bytes of one."""

PATHS = ("/healthz", "/readyz", "/metrics", "/status.json", "/journal/segments", "/sinks")


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A message that somebody thinks of."""

    queue: str
    properties: dict[str, Any] = {}


_decode_question = msgspec.json.Decoder(Question).decode


def make_app(
    *,
    problems: Callable[[], list[str]],
    status: Callable[[], Mapping[str, object]],
    metrics: Callable[[], bytes],
    rows: int,
    journal: Path | None = None,
    sinks: SinkDesk | None = None,
    explain: Callable[[str, Mapping[str, PropertyValue]], Mapping[str, object]] | None = None,
    token: str | None = None,
) -> Starlette:
    """The application. `rows` bounds each list of the status."""

    async def healthz(request: Request) -> Response:
        return answer({"status": "ok"})

    async def readyz(request: Request) -> Response:
        found = problems()
        return answer(found, 503 if found else 200)

    async def scrape(request: Request) -> Response:
        return Response(metrics(), headers={"content-type": CONTENT_TYPE})

    async def status_json(request: Request) -> Response:
        return answer(page(status(), request.query_params, rows))

    async def listing(request: Request) -> Response:
        """The segments that can be downloaded: each fact is in exactly one of them."""
        found = [] if journal is None else await asyncio.to_thread(segments, journal)
        return answer(
            [
                {"name": s.path.name, "first": s.first, "last": s.last, "bytes": s.bytes}
                for s in found
            ]
        )

    async def download(request: Request) -> Response:
        name = request.path_params["name"]
        if journal is None or not NAME.fullmatch(name) or not (journal / name).is_file():
            raise HTTPException(404, "no such segment")
        return FileResponse(journal / name, media_type="application/vnd.apache.parquet")

    async def sinks_json(request: Request) -> Response:
        known = [] if sinks is None else sinks.listing()
        return answer(page({"sinks": known}, request.query_params, rows))

    async def explained(request: Request) -> Response:
        queue, properties = _question(await _body(request, EXPLAIN_BYTES))
        if found := problems():
            raise HTTPException(503, "; ".join(found))
        assert explain is not None, "there is a route only if there is somebody to ask"
        try:
            return answer(explain(queue, properties))
        except HeadgateError as error:
            raise HTTPException(400, str(error)) from None

    endpoints = (healthz, readyz, scrape, status_json, listing, sinks_json)
    return Starlette(
        routes=[
            *(Route(path, e) for path, e in zip(PATHS, endpoints, strict=True)),
            Route("/journal/segments/{name}", download),
            *([] if explain is None else [Route("/explain", explained, methods=["POST"])]),
            *([] if sinks is None else _sink_routes(sinks)),
        ],
        middleware=[] if token is None else [Middleware(TokenNeeded, token=token)],
        exception_handlers={HTTPException: _http_error, Exception: _failure},
    )


def _sink_routes(sinks: SinkDesk) -> list[Route]:
    """What Spark's executors and drivers ask; `sink.py` of the pipeline is the other end."""

    async def stage(request: Request) -> Response:
        sink, numbers = checked(*request.path_params.values())
        return answer(await sinks.stage(Place(sink, *numbers), request.stream()))

    async def commit(request: Request) -> Response:
        sink, [batch] = checked(*request.path_params.values())
        return answer(await sinks.commit(sink, batch, await _body(request, COMMIT_BYTES)))

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
    return asked.queue, {name: _property(name, item) for name, item in asked.properties.items()}


def _property(name: str, item: object) -> PropertyValue:
    match item:
        case bool() | int() | str():
            return item
        case {"hex": str(digits), **rest} if not rest:
            with suppress(ValueError):
                return bytes.fromhex(digits)
    raise HTTPException(
        400,
        f"property {name!r}: a value is true or false, a whole number, a text, or bytes written"
        ' as {"hex": "00ff"}',
    )


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    with suppress(ClientDisconnect):  # then nobody waits for the answer
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise HTTPException(413, f"a body has at most {most} bytes here")
    return bytes(body)


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    data = msgspec.json.encode(value) + b"\n"
    return Response(data, status, headers, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for this class"
    detail: dict[str, object] = {"error": error.detail}
    if error.status_code == 404:
        detail = {"error": "no such path", "paths": PATHS}
    return answer(detail, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    return answer({"error": "the router failed to answer; its log says why"}, 500)


class TokenNeeded:
    """Lets through who knows the token, and everybody to ``/healthz``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.expected = b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/healthz":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self.expected):
                refusal = answer(
                    {"error": "say Authorization: Bearer TOKEN, with admin.token"},
                    401,
                    {"www-authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


# The status, in pages.


def page(status: Mapping[str, object], query: Mapping[str, str], rows: int) -> dict[str, object]:
    """The status with every list cut to a page; ``total`` says how long the lists are."""
    unknown = set(query) - {"limit", "offset", "sort"}
    if unknown:
        raise HTTPException(400, "known parameters are limit, offset and sort")
    limit = _number(query, "limit", 1, rows, rows)
    offset = _number(query, "offset", 0, 10**9, 0)
    sort = query.get("sort")
    if sort is not None and not re.fullmatch("-?[a-z_]{1,64}", sort):
        raise HTTPException(400, "sort is the name of a field, with a - in front for descending")
    total: dict[str, int] = {}
    fields: set[str] = set()

    def cut(name: str, value: object, deep: int = 0) -> object:
        if isinstance(value, dict) and not deep:
            return {k: cut(f"{name}.{k}", v, deep + 1) for k, v in value.items()}
        if not isinstance(value, list):
            return value
        total[name] = len(value)
        for row in value[:1]:
            fields.update(row if isinstance(row, dict) else ())
        chosen = value if sort is None else _sorted(value, sort)
        return chosen[offset : offset + limit]

    paged: dict[str, object] = {name: cut(name, value) for name, value in status.items()}
    if sort is not None and fields and sort.removeprefix("-") not in fields:
        raise HTTPException(400, f"no list can be sorted by that; by {', '.join(sorted(fields))}")
    paged["page"] = {"limit": limit, "offset": offset, "sort": sort, "total": total}
    return paged


def _number(query: Mapping[str, str], name: str, least: int, most: int, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise HTTPException(400, f"{name} is a whole number from {least} to {most}")
    return int(text)


def _sorted(rows: list[Any], sort: str) -> list[Any]:
    name = sort.removeprefix("-")
    if not all(isinstance(row, dict) and name in row for row in rows):
        return rows

    def rank(row: dict[str, Any]) -> tuple[bool, float, str]:
        value = row[name]
        if isinstance(value, int | float):
            return False, value, ""
        return True, 0, str(value)

    return sorted(rows, key=rank, reverse=sort.startswith("-"))


# The server.


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed when there are too many or it does nothing."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        self._look_again()

    def _look_again(self) -> None:
        self._idle = self.loop.call_later(IDLE_SECONDS, self._close_if_idle, self.cycle)

    def _close_if_idle(self, cycle: object) -> None:
        # The same request as last time, and it is over: nothing happened since.
        if self.cycle is cycle and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()
        else:
            self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.cancel()
        super().connection_lost(exc)


class QuietServer(uvicorn.Server):
    """Leaves the signals to `serve.py`, which owns the order of the shutdown."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve an application on a socket. The task ends early only if the server fails."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS + 1,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="admin")
    starting = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait([task, starting], return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.wait([task])
