"""The guard of the admin port: lets in who knows its token, and no web page of somebody else.

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

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.client.admin import JSON, ROWS
from headgate.server.admin.responses import Refusal, problem

Value = TypeVar("Value")

OPEN_PATHS = ("/healthz", "/readyz", "/login")
"""Paths that are answered without a token. ``/readyz`` then says no more than its status code."""

OPEN_FOLDER = "/static/"
"""Files of the page, which are the same for everybody: the form to log in needs some."""

KNOWN = "headgate.known"
"""In the scope of a request: whether whoever asks knows the token."""

OPERATOR = "headgate.operator"
"""In the scope of a request: whether whoever asks knows the operator's token, and may act."""

VIEWER = "headgate.viewer"
"""In the scope of a request: who asks. A browser by its cookie, a program by its address."""

STREAMS = ("/api/v1/live", "/api/v1/tail")
"""Answers without an end. They have places of their own, so that they take none of those who ask
for something."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # With no-referrer a browser would say "Origin: null" with our own form.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers that allow a browser little with an answer."""

READS = ("GET", "HEAD")
NEAR = (b"none", b"same-origin")
"""``Sec-Fetch-Site`` of a request that somebody typed, or that our own page made."""

WORKING = 48
"""Requests of those who know the token that are under way at once."""

VISITS_MAX = 64
"""Invitations that were not used, and browsers that were let in: the oldest is forgotten."""

VISIT_SECONDS = 8 * 3600.0
"""How long a browser that was let in may stay."""


class Visitors:
    """Browsers. An invitation lets one in, once, and so does a token; from then on it shows a
    cookie. Only digests are kept, in memory: a restart lets nobody in."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._invited: dict[bytes, bool] = {}
        self._inside: dict[bytes, tuple[float, bool]] = {}
        """Until when each may stay, and whether it may act."""

    def invite(self, *, acts: bool = False) -> str:
        """A code that lets one browser in."""
        code = secrets.token_urlsafe(32)
        _put(self._invited, _digest(code), acts)
        return code

    def admit(self, code: str) -> str | None:
        """Let in a browser with a code that was not used yet; return the secret of its visit."""
        if _digest(code) not in self._invited:
            return None
        return self.enter(acts=self._invited.pop(_digest(code)))

    def enter(self, *, acts: bool) -> str:
        """Let in a browser that has shown a token; return the secret of its visit."""
        shown = secrets.token_urlsafe(32)
        _put(self._inside, _digest(shown), (self._clock() + VISIT_SECONDS, acts))
        return shown

    def leave(self, shown: str) -> None:
        """A browser logs out."""
        self._inside.pop(_digest(shown), None)

    def knows(self, shown: str) -> bool:
        return self._clock() < self._inside.get(_digest(shown), (0.0, False))[0]

    def may_act(self, shown: str) -> bool:
        return self.knows(shown) and self._inside[_digest(shown)][1]


class Tokens:
    """The token to look, and the one to act if there is any. Compared so that the time it takes
    tells nothing."""

    def __init__(self, look: str, act: str | None = None) -> None:
        self._look = look.encode()
        self._act = None if act is None else act.encode()

    def knows(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._look) or self.may_act(given)

    def may_act(self, given: bytes) -> bool:
        return self._act is not None and hmac.compare_digest(given, self._act)


def _digest(secret: str) -> bytes:
    """Looked up instead of the secret: how long that takes tells nothing about it."""
    return hashlib.sha256(secret.encode()).digest()


def _put(place: dict[bytes, Value], key: bytes, value: Value) -> None:
    place[key] = value
    if len(place) > VISITS_MAX:
        del place[next(iter(place))]


class Names:
    """Names of the port, as those call it who mean it.

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
    """Lets requests through to the application, or answers them itself, unread.

    The outermost part of an admin port. No request passes without a token, a visit, or a path that
    is open to all.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, names: Names, visitors: Visitors) -> None:
        self.app = app
        self._tokens = tokens
        self._names = names
        self._visitors = visitors
        self._working = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        is_known, may_act = self._is_known(scope)
        refusal = self._refusal(scope, is_known)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, send_guarded)
            return
        scope[KNOWN], scope[OPERATOR], scope[VIEWER] = is_known, may_act, _viewer(scope)
        if _is_open(scope) or scope["path"] in STREAMS:
            await self.app(scope, receive, send_guarded)
            return
        self._working += 1
        try:
            await self.app(scope, receive, send_guarded)
        finally:
            self._working -= 1

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request; a browser without a login is led to the form."""
        if refusal.status_code != 401:
            await problem(refusal)(scope, receive, send)
        elif scope["method"] == "GET" and wants_page(scope):
            await RedirectResponse("/login", 303)(scope, receive, send)
        else:
            refusal.headers = {"www-authenticate": "Bearer"}
            await problem(refusal)(scope, receive, send)

    def _refusal(self, scope: Scope, is_known: bool) -> Refusal | None:
        foreign = self._foreign(scope)
        if foreign is not None:
            return foreign
        if _is_open(scope):
            return None
        if not is_known:
            return Refusal(
                401,
                "say Authorization: Bearer TOKEN; the token is admin.token of the configuration,"
                " or in the file admin.token of the state directory",
                hint="with a browser, open /login",
            )
        wanted = ROWS if scope["method"] == "PUT" else JSON
        if scope["method"] not in READS and _kind(scope) != wanted.encode():
            return Refusal(415, f"say Content-Type: {wanted}")
        if self._working >= WORKING:
            return Refusal(503, f"{WORKING} requests are under way; ask again", "busy")
        return None

    def _foreign(self, scope: Scope) -> Refusal | None:
        """Why a request comes from a web page that is not ours, if it may."""
        hosts = _all(scope, b"host")
        for host in hosts:
            if not self._names.has(host.decode("latin-1")):
                return Refusal(
                    421,
                    "the server does not go by the name in Host; use its address, or add the name"
                    " to admin.names",
                )
        for origin in _all(scope, b"origin"):
            scheme, _, authority = origin.lower().partition(b"://")
            if scheme not in (b"http", b"https") or [authority] != [h.lower() for h in hosts]:
                return Refusal(
                    403, "the request comes from a web page of somebody else", "foreign_origin"
                )
        if any(site.lower() not in NEAR for site in _all(scope, b"sec-fetch-site")):
            return Refusal(
                403,
                "the request comes from a web page of somebody else; type the address instead",
                "foreign_site",
            )
        return None

    def _is_known(self, scope: Scope) -> tuple[bool, bool]:
        """Whether whoever asks may look, and may act."""
        for given in _all(scope, b"authorization"):
            kind, _, token = given.partition(b" ")
            if kind == b"Bearer" and self._tokens.knows(token):
                return True, self._tokens.may_act(token)
        shown = cookie_of(scope)
        if shown is not None and self._visitors.knows(shown):
            return True, self._visitors.may_act(shown)
        return False, False


def _viewer(scope: Scope) -> bytes:
    shown = cookie_of(scope)
    if shown is not None:
        return _digest(shown)
    client = scope.get("client")
    return str(client[0]).encode() if client else b""


def _is_open(scope: Scope) -> bool:
    return scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_FOLDER)


def wants_page(scope: Scope) -> bool:
    """Whether a browser shows what comes to somebody."""
    is_page = not scope["path"].startswith("/api/")
    return is_page and any(b"text/html" in accepted for accepted in _all(scope, b"accept"))


def is_secure(scope: Scope) -> bool:
    """Whether a browser came by TLS: through a proxy, as it says itself."""
    return any(origin.lower().startswith(b"https://") for origin in _all(scope, b"origin"))


def cookie_name(scope: Scope, *, is_secure: bool = False) -> str:
    """Cookies are for all ports of a host, so that of one router must not be another's."""
    server = scope.get("server")
    return f"{'__Host-' if is_secure else ''}headgate-{server[1] if server else 0}"


def cookie_of(scope: Scope) -> str | None:
    for header in _all(scope, b"cookie"):
        try:
            cookies = SimpleCookie(header.decode("latin-1"))
        except CookieError:
            continue
        for secure in (True, False):
            found = cookies.get(cookie_name(scope, is_secure=secure))
            if found is not None:
                return found.value
    return None


def _kind(scope: Scope) -> bytes:
    kinds = _all(scope, b"content-type")
    return kinds[0].partition(b";")[0].strip().lower() if len(kinds) == 1 else b""


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
