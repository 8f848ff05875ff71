"""The API of a router that runs, asked as programs ask it; every answer is held against its
description."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.json_schema import faults
from tests.support.repository import DOCS

DOCUMENT = json.loads((DOCS / "reference" / "openapi.json").read_text())
JSON = "application/json"


class Answered:
    """What came back."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)


class Api:
    """One admin port, asked with a token."""

    def __init__(self, port: int, token: str | None) -> None:
        self.port = port
        self.token = token

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answered:
        sent = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        if method != "GET":
            sent["content-type"] = JSON
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        connection.request(method, path, data, {**sent, **(headers or {})})
        response = connection.getresponse()
        found = Answered(
            response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        )
        connection.close()
        return found

    def get(self, path: str, expected: int = 200) -> Any:  # noqa: ANN401
        return self._checked("GET", path, None, expected)

    def post(self, path: str, body: object, expected: int = 200) -> Any:  # noqa: ANN401
        return self._checked("POST", path, body, expected)

    def _checked(self, method: str, path: str, body: object, expected: int) -> Any:  # noqa: ANN401
        answered = self.ask(method, f"/api/v1/{path}", body)
        while answered.status == 429 != expected:  # tests ask faster than people
            time.sleep(float(answered.headers["retry-after"]))
            answered = self.ask(method, f"/api/v1/{path}", body)
        assert answered.status == expected, answered.body
        check(method, f"/api/v1/{path.partition('?')[0]}", answered)
        return answered.json

    @contextmanager
    def stream(self, path: str) -> Iterator[Events]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        connection.request("GET", f"/api/v1/{path}", headers=headers)
        response = connection.getresponse()
        try:
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield Events(response)
        finally:
            connection.close()


class Events:
    """The events of a stream."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self, wanted: str) -> Any:  # noqa: ANN401
        """The data of the next event of a name."""
        while True:
            line = self._response.readline()
            assert line, "the stream was ended"
            if line == f"event: {wanted}\n".encode():
                return json.loads(self._response.readline().removeprefix(b"data: "))


def check(method: str, path: str, answered: Answered) -> None:
    """An answer is as the description says."""
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
    if answered.status == 200:
        operation = described(method, path)
        schema = operation["responses"]["200"]["content"][JSON]["schema"]
    assert faults(answered.json, schema, DOCUMENT) == []


def described(method: str, path: str) -> Any:  # noqa: ANN401
    """The operation that a path is one of: the one with most of it written out."""
    found = [
        name
        for name in DOCUMENT["paths"]
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name.replace("{name}", ".+")), path)
        and method.lower() in DOCUMENT["paths"][name]
    ]
    assert found, path
    best = min(found, key=lambda name: name.count("{"))
    return DOCUMENT["paths"][best][method.lower()]
