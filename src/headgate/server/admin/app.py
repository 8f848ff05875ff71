"""Health, readiness, metrics, status, explanations and sinks over HTTP, in the router's own event
loop.

``/healthz`` says that the process answers, ``/readyz`` whether it can do its work. Nothing here
but the commit of a sink touches the store: answers come from numbers that the core keeps. The
server is small on purpose: so many connections and no more, and a connection that does not get
to a request is closed, so that nobody can take file descriptors away from the sessions.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.core.model.limits import KiB
from headgate.core.model.message import PropertyValue
from headgate.core.turn.slices import Slices
from headgate.errors import HeadgateError
from headgate.journal.segments import IDENTITY_HEADER, NAME, identity_file, segments
from headgate.server.admin.guard import KNOWN, Guard, Names, Visitors, cookie_name
from headgate.server.admin.metrics import CONTENT_TYPE
from headgate.server.admin.pages import in_slices, page
from headgate.server.admin.queues import QueueAdmin
from headgate.server.admin.responses import answer
from headgate.server.admin.sinks import COMMIT_BYTES, SinkAdmin, checked
from headgate.server.admin.staging import Place

R = TypeVar("R")

CONNECTIONS = 64
"""Open connections of the admin port: more than can be at work, so that there always is one for
``/healthz``."""

IDLE_SECONDS = 10.0
"""A connection without a request for this long is closed, and one whose peer reads nothing."""

LINGER_SECONDS = 2.0
"""How long the rest of a request that was answered is read away: who is still sending it would not
see the answer."""

BODY_SECONDS = 30.0
"""How long the body of a request may take; that of a sink's rows may take longer."""

EXPLAIN_BYTES = 512 * KiB
"""The body of a question. Properties are less, but JSON makes up to six bytes of one."""

LOOPBACK = Names("127.0.0.1")

PATHS = ("/healthz", "/readyz", "/metrics", "/status.json", "/journal/segments", "/sinks")
LISTED = (*PATHS, "/explain")
"""What whoever does not find the way is told."""


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A message that somebody thinks of."""

    queue: str
    properties: dict[str, Any] = {}


_decode_question = msgspec.json.Decoder(Question).decode


class Purging(msgspec.Struct, forbid_unknown_fields=True):
    """A queue that is to be emptied, or removed."""

    queue: str
    removes: bool = False
    forced: bool = False


def make_app(
    *,
    problems: Callable[[], list[str]],
    status: Callable[[], Mapping[str, object]],
    metrics: Callable[[], Slices[bytes] | bytes],
    rows: int,
    journal: Path | None = None,
    sinks: SinkAdmin | None = None,
    explain: Callable[[str, Mapping[str, PropertyValue]], Slices[object] | object] | None = None,
    queues: QueueAdmin | None = None,
    token: str,
    names: Names = LOOPBACK,
    visitors: Visitors | None = None,
) -> Starlette:
    """The application. `rows` bounds each list of the status; `token`, `names` and `visitors` say
    who may ask."""
    visitors = visitors or Visitors()
    at_work = asyncio.Lock()
    """Long answers are put together one after another: all at once, their slices would add up."""

    async def done(work: Slices[R] | R) -> R:
        """What comes of work, in slices if it has them."""
        if not isinstance(work, Generator):
            return work
        async with at_work:
            return await in_slices(work)

    async def index(request: Request) -> Response:
        return answer({"paths": LISTED})

    async def login(request: Request) -> Response:
        """Where an invitation leads: it is used up, and the browser remembers a cookie."""
        code = request.query_params.get("code", "")
        shown = visitors.admit(code) if request.method == "GET" else None
        if shown is not None:
            entered = RedirectResponse("/", 303, {"cache-control": "no-store"})
            entered.set_cookie(cookie_name(request.scope), shown, httponly=True, samesite="strict")
            return entered
        if request.scope[KNOWN]:
            return RedirectResponse("/", 303)
        raise HTTPException(403, "this address was used before, or is not of this router")

    async def healthz(request: Request) -> Response:
        return answer({"status": "ok"})

    async def readyz(request: Request) -> Response:
        found = problems()
        status = 503 if found else 200
        return answer(found, status) if request.scope[KNOWN] else Response(status_code=status)

    async def scrape(request: Request) -> Response:
        return Response(await done(metrics()), headers={"content-type": CONTENT_TYPE})

    async def status_json(request: Request) -> Response:
        async with at_work:
            return answer(await page(status(), request.query_params, rows))

    async def listing(request: Request) -> Response:
        """The segments that can be downloaded: each fact is in exactly one of them."""
        found = [] if journal is None else await asyncio.to_thread(segments, journal)
        return answer(
            [
                {"name": s.path.name, "first": s.first, "last": s.last, "bytes": s.bytes}
                for s in found
            ],
            headers=None if journal is None else {IDENTITY_HEADER: identity_file(journal)},
        )

    async def download(request: Request) -> Response:
        name = request.path_params["name"]
        if journal is None or not NAME.fullmatch(name) or not (journal / name).is_file():
            raise HTTPException(404, "no such segment")
        return FileResponse(journal / name, media_type="application/vnd.apache.parquet")

    async def sinks_json(request: Request) -> Response:
        known = [] if sinks is None else sinks.listing()
        async with at_work:
            return answer(await page({"sinks": known}, request.query_params, rows))

    async def explained(request: Request) -> Response:
        queue, properties = _question(await _body(request, EXPLAIN_BYTES))
        if found := problems():
            raise HTTPException(503, "; ".join(found))
        assert explain is not None, "there is a route only if there is somebody to ask"
        try:
            return answer(await done(explain(queue, properties)))
        except HeadgateError as error:
            raise HTTPException(400, str(error)) from None

    endpoints = (healthz, readyz, scrape, status_json, listing, sinks_json)
    return Starlette(
        routes=[
            Route("/", index),
            Route("/login", login),
            *(Route(path, e) for path, e in zip(PATHS, endpoints, strict=True)),
            Route("/journal/segments/{name}", download),
            *([] if explain is None else [Route("/explain", explained, methods=["POST"])]),
            *([] if sinks is None else _sink_routes(sinks)),
            *([] if queues is None else _queue_routes(queues, problems)),
        ],
        middleware=[Middleware(Guard, token=token, names=names, visitors=visitors)],
        exception_handlers={HTTPException: _http_error, Exception: _failure},
    )


def _queue_routes(queues: QueueAdmin, problems: Callable[[], list[str]]) -> list[Route]:
    """What an operator asks about shared queues; ``headgate queues`` is the other end."""

    async def asked(work: Callable[[], Awaitable[object]]) -> Response:
        if found := problems():
            raise HTTPException(503, "; ".join(found))
        try:
            return answer(await work())
        except HeadgateError as error:
            raise HTTPException(409, str(error)) from None

    async def listing(request: Request) -> Response:
        domain, after = request.path_params["domain"], request.query_params.get("after", "")
        return await asked(lambda: queues.listing(domain, after))

    async def purge(request: Request) -> Response:
        wanted = _purging(await _body(request, EXPLAIN_BYTES))
        return await asked(
            lambda: queues.purge(wanted.queue, removes=wanted.removes, forced=wanted.forced)
        )

    return [
        Route("/queues/{domain}", listing),
        Route("/queues", purge, methods=["DELETE"]),
    ]


def _purging(body: bytes) -> Purging:
    try:
        return msgspec.json.decode(body, type=Purging)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        form = 'write {"queue": "bmq://DOMAIN/NAME", "removes": false, "forced": false}'
        raise HTTPException(400, f"{error}; {form}") from None


def _sink_routes(sinks: SinkAdmin) -> list[Route]:
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
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise HTTPException(413, f"a body has at most {most} bytes here")
        except TimeoutError:
            raise HTTPException(408, "the body of the request did not come to its end") from None
    return bytes(body)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for this class"
    detail: dict[str, object] = {"error": error.detail}
    if error.status_code == 404:
        detail = {"error": "no such path", "paths": LISTED}
    return answer(detail, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    return answer({"error": "the router failed to answer; its log says why"}, 500)


# The server.


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed when it does nothing, or makes room for a newer one.

    A request without the token is over as soon as its head has come, and there are fewer requests
    under way than connections: so there always is a connection that can make room.
    """

    is_leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self._lingering: asyncio.TimerHandle | None = None
        self._look_again()
        self._make_room()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest, if this one is too many."""
        here = [each for each in self.connections if isinstance(each, BoundedProtocol)]
        staying = [each for each in here if not each.is_leaving]
        if len(staying) > CONNECTIONS:
            idle = [each for each in staying if each.is_idle and each is not self]
            min(idle, key=lambda each: each.since, default=self).leave()

    def leave(self) -> None:
        self.is_leaving = True  # it is among the connections until the loop comes to it
        self.transport.abort()

    def _look_again(self) -> None:
        now = (self.cycle, self.transport.get_write_buffer_size())
        self._idle = self.loop.call_later(IDLE_SECONDS, self._close_if_idle, *now)

    def _close_if_idle(self, cycle: object, unread: int) -> None:
        # The same request as last time: it is over, or nobody reads its answer.
        is_stuck = unread > 0 and unread == self.transport.get_write_buffer_size()
        if self.cycle is cycle and (self.is_idle or is_stuck):
            self.leave()
        else:
            self._look_again()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        if self.conn.their_state is h11.SEND_BODY:
            self._lingering = self.loop.call_later(LINGER_SECONDS, self._end_request, self.cycle)

    def _end_request(self, cycle: object) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.cancel()
        if self._lingering is not None:
            self._lingering.cancel()
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
        backlog=CONNECTIONS,
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
