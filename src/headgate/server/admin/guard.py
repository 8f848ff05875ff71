"""Who may talk to the admin port: who knows its token, and no web page of somebody else.

A browser sends what any page asks it to, also to ports of this machine. It says so, though: it
names the page in ``Origin`` and how near that is in ``Sec-Fetch-Site``, it puts the name that it
looked up into ``Host``, and it asks before it sends JSON for another site. So all of these are
looked at before anything else of a request is, and then the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.client.admin import JSON, ROWS
from headgate.server.admin.responses import answer

Value = TypeVar("Value")

OPEN_PATHS = ("/healthz", "/readyz", "/login")
"""What is answered without a token. ``/readyz`` then says no more than its status code."""

KNOWN = "headgate.known"
"""In the scope of a request: whether whoever asks knows the token."""

READS = ("GET", "HEAD")
NEAR = (b"none", b"same-origin")
"""``Sec-Fetch-Site`` of a request that somebody typed, or that our own page made."""

WORKING = 48
"""Requests of those who know the token that are under way at once."""

VISITS_MAX = 16
"""Invitations that were not used, and browsers that were let in: the oldest is forgotten."""

VISIT_SECONDS = 12 * 3600.0
"""How long a browser that was let in may stay."""


class Visitors:
    """Browsers. An invitation lets one in, once; from then on it shows a cookie."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._invited: dict[bytes, None] = {}
        self._inside: dict[bytes, float] = {}

    def invite(self) -> str:
        """A code that lets one browser in."""
        code = secrets.token_urlsafe(32)
        _put(self._invited, _digest(code), None)
        return code

    def admit(self, code: str) -> str | None:
        """What a browser shows from now on, for a code that was not used yet."""
        if _digest(code) not in self._invited:
            return None
        del self._invited[_digest(code)]
        shown = secrets.token_urlsafe(32)
        _put(self._inside, _digest(shown), self._clock() + VISIT_SECONDS)
        return shown

    def knows(self, shown: str) -> bool:
        return self._clock() < self._inside.get(_digest(shown), 0.0)


def _digest(secret: str) -> bytes:
    """Looked up instead of the secret: how long that takes tells nothing about it."""
    return hashlib.sha256(secret.encode()).digest()


def _put(place: dict[bytes, Value], key: bytes, value: Value) -> None:
    place[key] = value
    if len(place) > VISITS_MAX:
        del place[next(iter(place))]


class Names:
    """What the port is called by those who mean it.

    Addresses cannot be made to lead elsewhere, as names can: those of this machine are always
    right, and others if the port can be reached under one at all.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        self._names = {"localhost", host.lower(), *(name.lower() for name in names)}
        self._is_near = _is_loopback(host) or host.lower() == "localhost"

    def has(self, authority: str) -> bool:
        """Whether ``HOST`` or ``HOST:PORT`` is meant for us. The port may be that of a tunnel."""
        try:
            parts = urlsplit(f"//{authority}")
            name = (parts.hostname or "").rstrip(".")
            if parts.username is not None or parts.path or parts.query or parts.fragment:
                return False
            _ = parts.port
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._is_near


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets requests through to the application, or answers them itself, unread."""

    def __init__(self, app: ASGIApp, token: str, names: Names, visitors: Visitors) -> None:
        self.app = app
        self._expected = b"Bearer " + token.encode()
        self._names = names
        self._visitors = visitors
        self._working = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_known = self._is_known(scope)
        refusal = self._refusal(scope, is_known)
        if refusal is not None:
            status, error = refusal
            headers = {"www-authenticate": "Bearer"} if status == 401 else {}
            await answer({"error": error}, status, headers)(scope, receive, send)
            return
        scope[KNOWN] = is_known
        if scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        self._working += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._working -= 1

    def _refusal(self, scope: Scope, is_known: bool) -> tuple[int, str] | None:
        foreign = self._foreign(scope)
        if foreign is not None:
            return 403, foreign
        if scope["path"] in OPEN_PATHS:
            return None
        if not is_known:
            return 401, (
                "say Authorization: Bearer TOKEN; the token is admin.token of the configuration,"
                " or in the file admin.token of the state directory"
            )
        wanted = ROWS if scope["method"] == "PUT" else JSON
        if scope["method"] not in READS and _kind(scope) != wanted.encode():
            return 415, f"say Content-Type: {wanted}"
        if self._working >= WORKING:
            return 503, f"{WORKING} requests are under way; ask again"
        return None

    def _foreign(self, scope: Scope) -> str | None:
        """Why a request comes from a web page that is not ours, if it may."""
        hosts = _all(scope, b"host")
        for host in hosts:
            if not self._names.has(host.decode("latin-1")):
                return (
                    "the server does not go by the name in Host; use its address, or add the name"
                    " to admin.names"
                )
        for origin in _all(scope, b"origin"):
            scheme, _, authority = origin.lower().partition(b"://")
            if scheme not in (b"http", b"https") or [authority] != [h.lower() for h in hosts]:
                return "the request comes from a web page of somebody else"
        if any(site.lower() not in NEAR for site in _all(scope, b"sec-fetch-site")):
            return "the request comes from a web page of somebody else; type the address instead"
        return None

    def _is_known(self, scope: Scope) -> bool:
        if any(hmac.compare_digest(t, self._expected) for t in _all(scope, b"authorization")):
            return True
        shown = cookie_of(scope)
        return shown is not None and self._visitors.knows(shown)


def cookie_name(scope: Scope) -> str:
    """Cookies are for all ports of a host, so that of one router must not be another's."""
    server = scope.get("server")
    return f"headgate-{server[1] if server else 0}"


def cookie_of(scope: Scope) -> str | None:
    for header in _all(scope, b"cookie"):
        try:
            found = SimpleCookie(header.decode("latin-1")).get(cookie_name(scope))
        except CookieError:
            continue
        if found is not None:
            return found.value
    return None


def _kind(scope: Scope) -> bytes:
    kinds = _all(scope, b"content-type")
    return kinds[0].partition(b";")[0].strip().lower() if len(kinds) == 1 else b""


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
