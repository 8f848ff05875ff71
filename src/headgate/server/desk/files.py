"""The files of the page: read once, served from memory, with a digest by which a browser knows that
it has them already.

They lie in ``static/`` as a browser gets them; nothing is built. The guard sends a policy with them
that lets a page run our own scripts and styles and nothing else: none inside the page, none of
others, and no text that becomes a script or markup.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC = Path(__file__).parent / "static"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page, as it is sent."""

    body: bytes
    kind: str
    tag: str

    def response(self, request: Request) -> Response:
        """The file, or that the browser has it."""
        headers = {"cache-control": "no-cache", "etag": self.tag}
        known = request.headers.get("if-none-match", "")
        if self.tag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers, media_type=self.kind)


class StaticFiles:
    """All files of the page, by their path below ``static/``. They need no token: they are the same
    for every router, and the page that asks for one is made of them."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in TYPES
        }

    def paths(self) -> list[str]:
        return list(self._files)

    def page(self, name: str, request: Request) -> Response:
        """One of the HTML files, for a path of its own."""
        return self._files[name].response(request)

    def route(self) -> Route:
        async def file(request: Request) -> Response:
            found = self._files.get(request.path_params["path"])
            if found is None:
                raise HTTPException(404, "no such file")
            return found.response(request)

        return Route("/static/{path:path}", file)


def _read(path: Path) -> StaticFile:
    body = path.read_bytes()
    return StaticFile(body, TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
