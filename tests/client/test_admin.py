"""The client of the admin port, with a server that answers as it is told."""

from __future__ import annotations

import io
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headgate.client import admin
from headgate.client.admin import ROWS, AdminPort, Event, Tls, token_of
from headgate.errors import ConfigError, NoRouter, NotAllowed, NotARouter, RouterError
from tests.support.certificates import make_certificate
from tests.support.scripted_router import Scripted


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: int | bytes | None) -> Scripted:
        made.append(Scripted(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "PAUSES", (0.01,))


def test_what_may_be_another_answer_later_is_asked_again(
    scripted: Callable[..., Scripted],
) -> None:
    server = scripted(None, 503, 429, 200)
    file = io.BytesIO(b"rows")
    file.seek(2)
    assert AdminPort(server.url + "/", "secret").ask("PUT", "/sinks/x", file) == {"repeated": False}
    assert server.asked == [("PUT", "/sinks/x", b"rows", "Bearer secret")] * 4


def test_a_refusal_is_one_line_at_once(scripted: Callable[..., Scripted]) -> None:
    server = scripted(413, 200)
    with pytest.raises(RouterError) as caught:
        AdminPort(server.url).ask("POST", "/x")
    assert str(caught.value) == f"the router at {server.url} refuses (413): because"
    assert len(server.asked) == 1


def test_patience_has_an_end(scripted: Callable[..., Scripted]) -> None:
    server = scripted(*[503] * 1000)
    with pytest.raises(RouterError, match=r"refuses \(503\): because"):
        AdminPort(server.url).ask("POST", "/x", patience=0.1)
    assert len(server.asked) > 1
    with pytest.raises(NoRouter) as caught:
        AdminPort("http://127.0.0.1:1").ask("POST", "/x", patience=0.05)
    assert "the router at http://127.0.0.1:1 does not answer: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_server_is_recognised(scripted: Callable[..., Scripted]) -> None:
    for answer in (b"<html>", b"[1"):
        with pytest.raises(NotARouter, match="is not the admin port of a router"):
            AdminPort(scripted(answer).url).ask("POST", "/x")


def test_a_file_is_sent_as_rows_and_all_else_as_json(scripted: Callable[..., Scripted]) -> None:
    server = scripted(200, 200)
    AdminPort(server.url).ask("PUT", "/x", io.BytesIO(b"rows"), kind=ROWS)
    AdminPort(server.url).ask("DELETE", "/x")
    assert server.kinds == ["application/vnd.headgate.rows", "application/json"]


def test_a_missing_or_wrong_token_is_told_with_where_it_is(
    scripted: Callable[..., Scripted],
) -> None:
    server = scripted(401, 401, 403)
    with pytest.raises(NotAllowed, match="wants its token: name its configuration"):
        AdminPort(server.url).ask("POST", "/x")
    with pytest.raises(NotAllowed, match="does not know this token") as caught:
        AdminPort(server.url, "secret").ask("POST", "/x")
    assert "secret" not in str(caught.value)
    with pytest.raises(NotAllowed, match="refuses: because"):
        AdminPort(server.url).ask("POST", "/x")


@pytest.mark.parametrize("url", ["here", "127.0.0.1:1", "ftp://x", "http://", "http://x:y"])
def test_a_wrong_url_is_said_at_once(url: str) -> None:
    with pytest.raises(RouterError, match="the router is a URL such as"):
        AdminPort(url)


def test_the_token_is_found_in_options_and_in_the_environment(tmp_path: Path) -> None:
    file, other = tmp_path / "token", tmp_path / "other"
    file.write_text("of the file\n")
    other.write_text("of the other\n")
    everything = {"HEADGATE_ADMIN__TOKEN": "of the variable", "HEADGATE_TOKEN_FILE": str(other)}
    assert token_of({"token": "of the option", "tokenFile": str(file)}, everything) == (
        "of the option"
    )
    assert token_of({"tokenFile": str(file)}, everything) == "of the file"
    assert token_of({}, everything) == "of the variable"
    assert token_of({}, {"HEADGATE_ADMIN__TOKEN": f"file:{file}"}) == "of the file"
    assert token_of({}, {"HEADGATE_TOKEN_FILE": str(other)}) == "of the other"
    assert token_of({}, {}) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"a\nb", b"x" * 70_000])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    with pytest.raises(ConfigError, match="cannot be read from"):
        token_of({"tokenFile": str(file)}, {})
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="there is no token in"):
        token_of({"tokenFile": str(file)}, {})


# TLS, and streams.


EVENTS = b': a comment\n\nevent: tick\ndata: {"n": 1}\n\ndata: {"n":\ndata:  2}\n\nevent: empty\n\n'


class Streaming(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/refused":
            body = b'{"error": "no", "code": "no", "hint": "do this"}'
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(EVENTS if self.path == "/events" else b"data: no JSON\n\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def streaming(certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Streaming)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_stream_is_read_event_by_event_until_it_ends() -> None:
    with streaming() as url:
        events = AdminPort(url).events("/events")
        assert next(events) == Event("tick", {"n": 1})
        assert next(events) == Event("message", {"n": 2})
        with pytest.raises(NoRouter, match="ended the stream"):
            next(events)


def test_a_stream_that_is_refused_or_none_says_so() -> None:
    with streaming() as url:
        with pytest.raises(RouterError, match="no; do this"):
            next(AdminPort(url).events("/refused"))
        with pytest.raises(NoRouter, match="does not answer"):
            next(AdminPort(url).events("/nonsense"))
    with pytest.raises(NoRouter, match="does not answer"):
        next(AdminPort("http://127.0.0.1:1").events("/events"))


def test_a_port_with_tls_is_who_has_the_certificate(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    other, _ = make_certificate(tmp_path / "other")
    with streaming((certificate, key)) as url:
        assert next(AdminPort(url, tls=Tls(str(certificate))).events("/events")).kind == "tick"
        for trusted in (Tls(str(other)), None):
            with pytest.raises(NoRouter, match=r"(?i)certificate"):
                next(AdminPort(url, tls=trusted).events("/events"))
    with pytest.raises(ConfigError, match="the files for TLS"):
        AdminPort(url, tls=Tls(str(tmp_path / "nothing")))
