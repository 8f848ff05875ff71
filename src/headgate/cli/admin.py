"""The admin port as commands ask it: version 1 of its API, once, and with errors for people."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from headgate.client.admin import JSON, AdminPort, Event, Tls
from headgate.errors import NoRouter, NotAllowed, NotARouter, RouterError

if TYPE_CHECKING:
    from http.client import HTTPResponse

API = "/api/v1"
EVENTS = "text/event-stream"
TOO_MANY, TRIES = 429, 3
NO_PATH = "no such path"
"""The answer of a router that does not know a path."""
COMMANDS = {
    "; see sessions": "; headgate session ls lists those there are",
    "; see domains": "; headgate domain ls lists what there is",
}
"""Where the API names a path of its own, and commands that ask for the same."""
NO_METHOD = 405
"""The answer to an action that it does not know, if something else has its path."""
ANSWER_SECONDS = 10.0
ACTION_SECONDS = 600.0
"""A large queue is emptied a part at a time."""


class Answer(NamedTuple):
    """An answer of the admin port, as it is."""

    body: bytes
    is_json: bool


class Admin:
    """A router, asked by a person: if it is not there, it is not waited for."""

    def __init__(self, url: str, token: str | None = None, ca: Path | None = None) -> None:
        self.url = url
        tls = None if ca is None else Tls(ca=str(ca))
        self._asking = AdminPort(url, token, answer_seconds=ANSWER_SECONDS, tls=tls)
        self._acting = AdminPort(url, token, answer_seconds=ACTION_SECONDS, tls=tls)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """The answer of the API at a path."""
        return self._ask(self._asking, "GET", API + path + _query(query))

    def post(self, path: str, content: Mapping[str, object]) -> dict[str, Any]:
        """Ask the API a question that does not fit into a path."""
        return self._ask(self._asking, "POST", API + path, content)

    def act(self, path: str, content: Mapping[str, object]) -> dict[str, Any]:
        """Have something done, however long that takes."""
        try:
            return self._ask(self._acting, "POST", API + path, content)
        except RouterError as error:
            if not isinstance(error, NotARouter) and error.status != NO_METHOD:
                raise
            raise NotAllowed(
                f"the router at {self.url} lets nobody act over its admin port; set"
                " admin.operator_token in its configuration, and restart it"
            ) from None

    def plain(
        self, method: str, path: str, content: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """Ask what is not of the API: older paths, and those of every server of ours."""
        return self._ask(self._acting, method, path, content)

    def text(self, path: str) -> str:
        """A page that is not JSON."""
        return self._asking.take("GET", path, lambda reply: reply.read().decode(), patience=0)

    def events(self, path: str, **query: object) -> Iterator[Event]:
        """The lines that the API sends, for as long as somebody reads them."""
        return self.stream(API + path + _query(query))

    def stream(self, path: str) -> Iterator[Event]:
        """The events on a stream of the admin port."""
        return self._asking.events(path)

    def raw(self, method: str, path: str, body: bytes) -> Answer:
        """An answer of the admin port, of any kind."""

        def take(reply: HTTPResponse) -> Answer:
            kind = reply.headers.get_content_type()
            if kind == EVENTS:
                raise NotARouter(f"{path} is a stream; say --stream")
            return Answer(reply.read(), kind == JSON)

        try:
            return self._acting.take(method, path, take, body, patience=0)
        except RouterError as error:
            if error.why == NO_PATH:
                text = (
                    f"the router at {self.url} has no path {path}; headgate docs admin names them"
                )
                raise RouterError(text, error.status) from None
            raise self._readable(error) from None

    def _ask(
        self,
        port: AdminPort,
        method: str,
        path: str,
        content: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        body = b"" if content is None else json.dumps(content).encode()
        try:
            return self._patiently(port, method, path, body)
        except RouterError as error:
            raise self._readable(error) from None

    def _readable(self, error: RouterError) -> RouterError:
        """The error as a person wants to have it."""
        if isinstance(error, NoRouter | NotAllowed | NotARouter):
            return error
        if error.why == NO_PATH:
            text = f"the router at {self.url} cannot do that; is it older?"
            return NotARouter(text, error.status)
        if error.why:  # the router says what is wrong with what was asked
            text = error.why
            for path, command in COMMANDS.items():
                text = text.replace(path, command)
            return RouterError(text, error.status, error.why)
        return error

    def _patiently(self, port: AdminPort, method: str, path: str, body: bytes) -> dict[str, Any]:
        """Ask again if others have asked so much that there is no room in this second."""
        for _ in range(TRIES - 1):
            try:
                return port.ask(method, path, body, patience=0)
            except RouterError as error:
                if error.status != TOO_MANY:
                    raise
            time.sleep(1.0)
        return port.ask(method, path, body, patience=0)


def part(name: object) -> str:
    """A name as one part of a path."""
    return quote(str(name), safe="")


def _query(parameters: Mapping[str, object]) -> str:
    known = {name: _text(value) for name, value in parameters.items() if value is not None}
    return f"?{urlencode(known)}" if known else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
