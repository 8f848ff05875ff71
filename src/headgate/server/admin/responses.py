"""Answers of the admin port: JSON, with a line feed for people with a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    data = msgspec.json.encode(value) + b"\n"
    return Response(data, status, headers, media_type="application/json")
