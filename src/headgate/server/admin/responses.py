"""Answers of the admin port: JSON, with a line feed for people with a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "wrong_content_type",
    421: "wrong_host",
    429: "too_many",
    503: "not_ready",
}
"""The text of a status, unless the refusal has one of its own."""


class Refusal(HTTPException):
    """A request that is refused: what is wrong, in one word for programs, and what to do."""

    def __init__(
        self, status: int, error: str, code: str = "", hint: str = "", *, after: int | None = None
    ) -> None:
        """`after` is in how many seconds it may be asked again."""
        super().__init__(status, error, None if after is None else {"retry-after": str(after)})
        self.code = code or CODES.get(status, "failed")
        self.hint = hint


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    data = msgspec.json.encode(value) + b"\n"
    return Response(data, status, headers, media_type="application/json")


def problem(error: HTTPException, **more: object) -> Response:
    """The answer to a request that is refused."""
    refusal = error if isinstance(error, Refusal) else Refusal(error.status_code, error.detail)
    named = {"error": refusal.detail, "code": refusal.code, "hint": refusal.hint, **more}
    return answer(named, error.status_code, error.headers)
