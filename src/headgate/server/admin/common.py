"""Answers of every admin port: health, readiness, metrics, status, and the journal.

``/healthz`` says that the process answers, ``/readyz`` whether it can do its work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from headgate.core.turn.slices import Slices
from headgate.journal.segments import IDENTITY_HEADER, NAME, identity_file, segments
from headgate.server.admin.guard import KNOWN, Guard, Names, Tokens, Visitors, wants_page
from headgate.server.admin.login import Login
from headgate.server.admin.metrics import CONTENT_TYPE
from headgate.server.admin.pages import in_slices, page
from headgate.server.admin.responses import Refusal, answer, problem
from headgate.server.desk.files import StaticFiles

R = TypeVar("R")

LOOPBACK = Names("127.0.0.1")

COMMON_PATHS = ("/healthz", "/readyz", "/metrics", "/status.json", "/journal/segments")


class CommonPages:
    """The pages of one server. `problems` are what keeps it from being ready, `rows` bounds each
    list of the status, and `login` lets browsers in."""

    def __init__(
        self,
        problems: Callable[[], list[str]],
        status: Callable[[], Mapping[str, object]],
        metrics: Callable[[], Slices[bytes] | bytes],
        rows: int,
        journal: Path | None,
        login: Login,
        page: StaticFiles | None = None,
    ) -> None:
        self._problems = problems
        self._status = status
        self._metrics = metrics
        self._rows = rows
        self._journal = journal
        self._login = login
        self._page = page
        """The page for browsers, if this server has one."""
        self._at_work = asyncio.Lock()
        """Long answers are put together one after another: all at once, their slices would add
        up."""

    def routes(self, listed: Sequence[str]) -> list[Route]:
        """`listed` is what whoever asks for nothing in particular is told."""

        async def index(request: Request) -> Response:
            if self._page is not None and wants_page(request.scope):
                return self._page.page("index.html", request)
            return answer({"paths": listed})

        endpoints = (
            self._healthz,
            self._readyz,
            self._scrape,
            self._status_json,
            self._listing,
        )
        return [
            Route("/", index),
            *self._login.routes(),
            *(Route(path, each) for path, each in zip(COMMON_PATHS, endpoints, strict=True)),
            Route("/journal/segments/{name}", self._download),
            *([] if self._page is None else [self._page.route()]),
        ]

    async def done(self, work: Slices[R] | R) -> R:
        """The result of work, in slices if it has them."""
        if not isinstance(work, Generator):
            return work
        async with self._at_work:
            return await in_slices(work)

    async def paged(self, lists: Mapping[str, object], request: Request) -> Response:
        """The page of some lists that the query asks for."""
        async with self._at_work:
            return answer(await page(lists, request.query_params, self._rows))

    async def _healthz(self, request: Request) -> Response:
        return answer({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        found = self._problems()
        status = 503 if found else 200
        return answer(found, status) if request.scope[KNOWN] else Response(status_code=status)

    async def _scrape(self, request: Request) -> Response:
        exposed = await self.done(self._metrics())
        return Response(exposed, headers={"content-type": CONTENT_TYPE})

    async def _status_json(self, request: Request) -> Response:
        return await self.paged(self._status(), request)

    async def _listing(self, request: Request) -> Response:
        """The segments that can be downloaded: each fact is in exactly one of them."""
        journal = self._journal
        found = [] if journal is None else await asyncio.to_thread(segments, journal)
        return answer(
            [
                {"name": s.path.name, "first": s.first, "last": s.last, "bytes": s.bytes}
                for s in found
            ],
            headers=None if journal is None else {IDENTITY_HEADER: identity_file(journal)},
        )

    async def _download(self, request: Request) -> Response:
        name, journal = request.path_params["name"], self._journal
        if journal is None or not NAME.fullmatch(name) or not (journal / name).is_file():
            raise HTTPException(404, "no such segment")
        return FileResponse(journal / name, media_type="application/vnd.apache.parquet")


def guarded(
    routes: Sequence[Route],
    listed: Sequence[str],
    tokens: Tokens,
    names: Names,
    visitors: Visitors,
) -> Starlette:
    """The application, for those who know the token or are visitors."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for this class"
        if error.status_code == 404 and not isinstance(error, Refusal):
            return problem(Refusal(404, "no such path", "no_such_path"), paths=listed)
        return problem(error)

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, tokens=tokens, names=names, visitors=visitors)],
        exception_handlers={HTTPException: refuse, Exception: _fail},
    )
    app.router.redirect_slashes = False  # a path that is not there is not another one
    return app


async def _fail(request: Request, error: Exception) -> Response:
    failed = Refusal(500, "the server failed to answer; its log says why")
    return problem(failed)
