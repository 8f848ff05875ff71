"""A path of the API, and how it becomes a route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.server.admin.pages import in_slices
from headgate.server.admin.responses import answer
from headgate.server.desk.asking import (
    Asked,
)

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

PREFIX = "/api/v1"
EVENTS = "text/event-stream"
Handler = Callable[["Desk", Request], Awaitable[object]]
PAGE = ("limit", "offset")


class Path:
    """A path of the API: its name, its method, what it takes and who answers."""

    def __init__(
        self,
        path: str,
        handler: Handler,
        *parameters: str,
        body: type[Any] | None = None,
        events: bool = False,
    ) -> None:
        self.path = path
        self.handler = handler
        self.parameters = parameters
        self.body = body
        self.events = events

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"


def routes(desk: Desk, paths: list[Path]) -> list[Route]:
    """The routes of some paths."""
    return [Route(PREFIX + p.path, _endpoint(desk, p), methods=[p.method]) for p in paths]


def _endpoint(desk: Desk, path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        desk.check_ready()
        Asked(request, *path.parameters)
        found = await path.handler(desk, request)
        if isinstance(found, Response):
            return found
        if isinstance(found, Generator):
            async with desk.at_work:
                found = await in_slices(found)
        return answer(found, headers={"cache-control": "no-store"})

    return endpoint
