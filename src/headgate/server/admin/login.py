"""The login of a browser: with a token in a form, or with an address that works once. It leaves
with a cookie that scripts cannot read and other sites do not cause to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.client.admin import JSON
from headgate.server.admin.bodies import read_body
from headgate.server.admin.guard import (
    KNOWN,
    VISIT_SECONDS,
    Tokens,
    Visitors,
    cookie_name,
    cookie_of,
    is_secure,
    wants_page,
)
from headgate.server.admin.responses import Refusal, answer
from headgate.server.desk.files import StaticFiles

TOKEN_BYTES = 4096
BODY_SECONDS = 5.0
WRONG_SECONDS = 1.0
"""How long whoever gave a wrong token waits for the answer."""
AT_ONCE = 8
"""Tokens that are looked at together: whoever tries some has no token, and must not take all
connections."""
NO_STORE = {"cache-control": "no-store"}


class Login:
    """Lets browsers in and out. `refused` is told the address of whoever gave a wrong token."""

    def __init__(
        self,
        tokens: Tokens,
        visitors: Visitors,
        refused: Callable[[str], None],
        page: StaticFiles | None = None,
    ) -> None:
        self._tokens = tokens
        self._visitors = visitors
        self._refused = refused
        self._page = page
        """The form, if this server has a page."""
        self._at_work = 0

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._invited, methods=["GET"]),
            Route("/login", self._entered, methods=["POST"]),
            Route("/logout", self._left, methods=["POST"]),
        ]

    async def _invited(self, request: Request) -> Response:
        """Where an invitation leads: it is used up, and the browser remembers a cookie."""
        code = request.query_params.get("code", "")
        shown = self._visitors.admit(code) if request.method == "GET" else None
        if shown is not None:
            return self._let_in(request, RedirectResponse("/", 303, NO_STORE), shown)
        if request.scope[KNOWN]:
            return RedirectResponse("/", 303)
        if self._page is not None and wants_page(request.scope):
            if code:
                return RedirectResponse("/login?used", 303, NO_STORE)
            return self._page.page("login.html", request)
        raise Refusal(403, "this address was used before, or is not of this server", "used_code")

    async def _entered(self, request: Request) -> Response:
        """A token, from the form or as JSON."""
        if self._at_work >= AT_ONCE:
            raise Refusal(503, "too many log in", "busy", "try again in a second")
        self._at_work += 1
        try:
            is_json = request.headers.get("content-type", "").partition(";")[0].strip() == JSON
            token = _token(await read_body(request, TOKEN_BYTES, BODY_SECONDS), is_json)
            if not self._tokens.knows(token):
                self._refused(request.client.host if request.client is not None else "")
                await asyncio.sleep(WRONG_SECONDS)
                if is_json:
                    raise Refusal(401, "this is not the token", "wrong_token")
                return RedirectResponse("/login?wrong", 303, NO_STORE)
        finally:
            self._at_work -= 1
        may_act = self._tokens.may_act(token)
        entered = answer({"operator": may_act}) if is_json else RedirectResponse("/", 303, NO_STORE)
        return self._let_in(request, entered, self._visitors.enter(acts=may_act))

    def _let_in(self, request: Request, response: Response, shown: str) -> Response:
        secure = is_secure(request.scope)
        response.set_cookie(
            cookie_name(request.scope, is_secure=secure),
            shown,
            int(VISIT_SECONDS),
            httponly=True,
            samesite="strict",
            secure=secure,
            path="/",
        )
        return response

    async def _left(self, request: Request) -> Response:
        """The cookie is worth nothing any more."""
        shown = cookie_of(request.scope)
        if shown is not None:
            self._visitors.leave(shown)
        left = answer({"left": shown is not None})
        for secure in (True, False):
            left.delete_cookie(
                cookie_name(request.scope, is_secure=secure),
                path="/",
                secure=secure,
                httponly=True,
                samesite="strict",
            )
        return left


def _token(body: bytes, is_json: bool) -> bytes:
    """The text that was given as the token."""
    try:
        if is_json:
            token = msgspec.json.decode(body, type=dict[str, str]).get("token", "")
        else:
            token = parse_qs(body.decode(), max_num_fields=8).get("token", [""])[0]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        form = 'token=TOKEN of a form, or {"token": "TOKEN"} as JSON'
        raise Refusal(400, "there is no token in it", "bad_body", form) from None
    return token.strip().encode()
