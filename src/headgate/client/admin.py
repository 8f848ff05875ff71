"""The admin port of a router, for programs: the command line, the source and the sink.

All requests may be repeated without harm, so when a router is away or has no room, they are
repeated for a while. They bypass proxies, which usually do not reach an admin port.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from headgate.errors import ConfigError, NoRouter, NotAllowed, NotARouter, RouterError

T = TypeVar("T")

JSON = "application/json"
ROWS = "application/vnd.headgate.rows"
"""Rows that a sink stages; `server/admin/staging.py` describes them."""

PATIENCE_SECONDS = 30.0
"""Seconds of repeated requests to a router that is away or has no room: it may be restarting."""

ANSWER_SECONDS = 120.0
"""Seconds that one answer may take. A commit waits for its turn, and for slow sessions of
channels."""

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between two attempts; the last is repeated."""

AGAIN = (429, 503)
"""Answers that may change: a full queue, a router that starts or whose store fails."""

SILENCE_SECONDS = 30.0
"""Seconds without a line after which a stream of events is broken."""

LINE_BYTES = 1024 * 1024
"""Longest line of an event."""

TOKEN_BYTES = 64 * 1024
"""Largest file with a token."""

TOKEN, TOKEN_FILE = "HEADGATE_ADMIN__TOKEN", "HEADGATE_TOKEN_FILE"
"""Environment variables with the token, and with the path of a file that has it."""


class Tls(NamedTuple):
    """Files for TLS, if the system's authorities are not enough, or the client authenticates."""

    ca: str = ""
    """The authorities of the router's certificate; empty for the system's."""
    certificate: str = ""
    key: str = ""
    """The client's key, which may also be in the file of the certificate."""

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error)
            named = ", ".join(each for each in self if each)
            raise ConfigError(f"the files for TLS cannot be used ({named}): {why}") from None
        return context


class Event(NamedTuple):
    """An event of a stream of the admin port: its kind, and its JSON."""

    kind: str
    content: Any


class AdminPort:
    """The admin port of a router, tried until it answers or patience runs out. With TLS its
    certificate must fit the URL, by the authorities of the machine or of the files."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        tls: Tls | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._tls = tls.context() if tls is not None and url.startswith("https:") else None
        self._answer_seconds = answer_seconds
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        try:
            self._parts: SplitResult = urlsplit(self.url)
            is_right = self._parts.scheme in ("http", "https") and self._parts.hostname is not None
            self._port = self._parts.port
        except ValueError:
            is_right = False
        if not is_right:
            raise RouterError(f"the router is a URL such as http://127.0.0.1:8222, not {url}")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] = b"",
        *,
        kind: str = JSON,
        patience: float = PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        """The JSON of the answer."""
        return self.take(method, path, _decode, body, kind=kind, patience=patience)

    def take(
        self,
        method: str,
        path: str,
        take: Callable[[http.client.HTTPResponse], T],
        body: bytes | IO[bytes] = b"",
        *,
        kind: str = JSON,
        patience: float = PATIENCE_SECONDS,
    ) -> T:
        """The result of `take` for the answer. It raises ValueError, or a subclass, for an answer
        that is not a router's."""
        end = time.monotonic() + patience
        tries = 0
        while True:
            try:
                return self._once(method, path, take, body, kind)
            except RouterError as refused:
                if refused.status not in AGAIN:
                    raise
                error = refused
            except (OSError, http.client.HTTPException) as failure:
                error = self._absence(failure)
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            tries += 1
            if time.monotonic() + pause > end:
                raise error from None
            time.sleep(pause)

    def events(self, path: str) -> Iterator[Event]:
        """The events of a stream, for as long as it lasts; NoRouter has the reason of its end."""
        with closing(self._connection(SILENCE_SECONDS)) as connection:
            try:
                headers = {**self._headers, "accept": "text/event-stream"}
                connection.request("GET", self._parts.path + path, None, headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise self._refused(response)
                yield from _events(response)
            except (OSError, http.client.HTTPException, ValueError) as failure:
                raise self._absence(failure) from None
        raise NoRouter(f"the router at {self.url} ended the stream; it may be stopping")

    def _absence(self, failure: Exception) -> NoRouter:
        why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        return NoRouter(
            f"the router at {self.url} does not answer: {why}; see whether it runs, and whether"
            " this is its admin port"
        )

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host = self._parts.hostname
        assert host is not None, "a URL without a host was refused"
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, self._port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(host, self._port, timeout=seconds)

    def _once(
        self,
        method: str,
        path: str,
        take: Callable[[http.client.HTTPResponse], T],
        body: bytes | IO[bytes],
        kind: str,
    ) -> T:
        with closing(self._connection(self._answer_seconds)) as connection:
            # It may answer before it has read everything, and then not read on.
            with suppress(BrokenPipeError, ConnectionResetError):
                headers = dict(self._headers)
                if method != "GET":
                    headers |= {"content-length": str(_length(body)), "content-type": kind}
                connection.request(method, self._parts.path + path, body or None, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise self._refused(response)
            try:
                return take(response)
            except (ValueError, KeyError, TypeError):
                raise self._not_a_router() from None

    def _refused(self, response: http.client.HTTPResponse) -> RouterError:
        """The error for an answer."""
        try:
            problem = _decode(response)
            hint = problem.get("hint")
            why = f"{problem['error']}; {hint}" if hint else str(problem["error"])
        except (ValueError, KeyError, TypeError, AttributeError):
            if response.status not in AGAIN:
                return self._not_a_router()
            why = response.reason  # from a proxy in between
        return _refusal(self.url, response.status, why, bool(self._headers))

    def _not_a_router(self) -> NotARouter:
        return NotARouter(
            f"what answers at {self.url} is not the admin port of a router that can do this"
        )


def _events(lines: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream: the kind and the lines of data of each. Other lines are comments."""
    kind, data = "message", b""
    while line := lines.readline(LINE_BYTES):
        name, _, text = line.rstrip(b"\r\n").partition(b":")
        match name:
            case b"event":
                kind = text.strip().decode()
            case b"data":
                data += text.strip()
                if len(data) > LINE_BYTES:
                    raise ValueError("an event that is too long")
            case b"" if not text:
                if data:
                    yield Event(kind, json.loads(data))
                kind, data = "message", b""


def tls_of(options: Mapping[str, str]) -> Tls | None:
    """The files in the options `tlsCa`, `tlsCertificate` and `tlsKey`."""
    given = {name.lower(): text for name, text in options.items()}
    tls = Tls(*(given.get(name, "") for name in ("tlsca", "tlscertificate", "tlskey")))
    return tls if any(tls) else None


def _decode(response: http.client.HTTPResponse) -> Any:  # noqa: ANN401
    return json.loads(response.read())


def _refusal(url: str, status: int, why: str, has_token: bool) -> RouterError:
    if status == 401 and has_token:
        return NotAllowed(
            f"the router at {url} does not know this token: see where it comes from with headgate"
            " context show, and say the right one with --token-file or headgate login",
            status,
            why,
        )
    if status == 401:
        return NotAllowed(
            f"the router at {url} wants its token: name its configuration with --config, or the"
            f" file admin.token of its state directory with --token-file (tokenFile in Spark), set"
            f" {TOKEN}, or keep it with headgate login",
            status,
            why,
        )
    if status == 403:
        return NotAllowed(f"the router at {url} refuses: {why}", status, why)
    return RouterError(f"the router at {url} refuses ({status}): {why}", status, why)


def _length(body: bytes | IO[bytes]) -> int:
    """The number of bytes of a body, which is rewound."""
    if isinstance(body, bytes):
        return len(body)
    length = body.seek(0, os.SEEK_END)
    body.seek(0)
    return length


# The token.


def read_token(path: Path) -> str:
    """The token in a file; raises OSError if there is no file, ConfigError if it has no token."""
    with path.open("rb") as file:
        data = file.read(TOKEN_BYTES + 1)
    with suppress(UnicodeDecodeError):
        text = data.decode("ascii").strip()
        if text and len(data) <= TOKEN_BYTES and text.isprintable():
            return text
    raise ConfigError(f"there is no token in {path}; it is one line of text")


def token_of(options: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    """The token in the options `token` and `tokenFile`, or else in the environment."""
    given = {name.lower(): text for name, text in options.items()}
    text, path = given.get("token", ""), given.get("tokenfile", "")
    if not text and not path:
        text, path = environ.get(TOKEN, ""), environ.get(TOKEN_FILE, "")
    if text.startswith("file:"):
        text, path = "", text.removeprefix("file:")
    if text or not path:
        return text or None
    try:
        return read_token(Path(path))
    except OSError as error:
        raise ConfigError(f"the token cannot be read from {path}: {error.strerror}") from None
