"""The files of the page: read once, served from memory, with a digest by which a browser knows that
it has them already.

They lie in ``static/`` as a browser gets them; nothing is built. The policy that goes with them
lets a page run our own scripts and styles and nothing else: none inside the page, none of others,
and no text that becomes a script or markup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # Not no-referrer: a browser would send ``Origin: null`` with our own login.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""What a browser is told with every answer."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page, as it is sent."""

    body: bytes
    kind: str
    tag: str

    def response(self, request: Request) -> Response:
        """The file, or that the browser has it."""
        headers = {**HEADERS, "cache-control": "no-cache", "etag": self.tag}
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
