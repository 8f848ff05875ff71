"""Who may talk to the admin port, with requests as browsers and others send them."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from headgate.client.admin import ROWS
from headgate.server.admin import guard, login
from headgate.server.admin.app import make_app
from headgate.server.admin.guard import Names, Visitors
from headgate.server.admin.http_server import serving
from headgate.server.net.listener import bind
from tests.server.test_serve import CONFIG, Served

TOKEN = "open sesame"
OPERATOR = "open wide"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
PAGE = "http://evil.example"

# A whole router.


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "headgate.toml").write_text(CONFIG)
    served = Served(tmp_path).started()
    yield served
    served.process.kill()
    served.process.wait()


def ask(
    port: int, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, data


def test_a_web_page_cannot_commit_for_a_sink(router: Served) -> None:
    """What a browser sends, without asking first, for a form or a fetch of another site."""
    path = "/sinks/orders-sink/999999999/commit"
    body = b'{"parts":[],"channel":"x"}'
    for headers in (
        {"Content_Type": "text/plain", "Origin": PAGE, "Sec_Fetch_Site": "cross-site"},
        {"Content_Type": "text/plain", "Origin": "null"},
        {"Content_Type": "text/plain", "Sec_Fetch_Site": "same-site"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/json", "Origin": "http://127.0.0.1:1"},
        {"Content_Type": "application/json"},
    ):
        assert ask(router.port, "POST", path, body, **headers)[0] in (401, 403)
    assert json.loads(router.get("/sinks")[1])["sinks"] == []


def test_a_name_that_was_made_to_lead_here_is_refused(router: Served) -> None:
    for path in ("/status.json", "/sinks", "/journal/segments", "/metrics", "/healthz", "/readyz"):
        status, _, body = ask(router.port, "GET", path, Host="rebind.evil.example:8222")
        assert status == 421
        assert "admin.names" in json.loads(body)["error"]


def test_a_token_is_made_at_the_first_start_and_kept(router: Served, tmp_path: Path) -> None:
    told = json.loads(router.ready.read_text())["admin"]
    path = Path(told["token_file"])
    assert path == tmp_path / "state" / "admin.token"
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text().strip()
    assert len(token) >= 32
    assert ask(router.port, "GET", "/status.json")[0] == 401
    assert ask(router.port, "GET", "/status.json", Authorization=f"Bearer {token}")[0] == 200
    assert router.stop() == 0
    again = Served(tmp_path).started()
    try:
        assert path.read_text().strip() == token
        assert again.get("/status.json")[0] == 200
        assert token not in router.log.read_text() + again.log.read_text()
    finally:
        again.process.kill()
        again.process.wait()


def test_a_router_in_memory_takes_its_token_with_it(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(CONFIG)
    served = Served(tmp_path, HEADGATE_STORE__URL="memory:").started()
    try:
        assert os.listdir(tmp_path / "state") == ["admin.token"]
        assert served.get("/status.json")[0] == 200
        assert served.stop() == 0
        assert not (tmp_path / "state").exists()
    finally:
        served.process.kill()
        served.process.wait()


@pytest.mark.parametrize(
    ("token", "file"), [("file:secret.txt", "secret.txt"), ("open sesame", None)]
)
def test_the_ready_file_names_the_file_of_a_configured_token(
    tmp_path: Path, token: str, file: str | None
) -> None:
    (tmp_path / "secret.txt").write_text("open sesame\n")
    (tmp_path / "headgate.toml").write_text(
        CONFIG.replace("[admin]", f"[admin]\ntoken = '{token}'")
    )
    served = Served(tmp_path).started()
    try:
        told = json.loads(served.ready.read_text())["admin"]["token_file"]
        assert told == (None if file is None else str(tmp_path / file))
        assert served.get("/status.json", "open sesame")[0] == 200
        assert not (tmp_path / "state" / "admin.token").exists()
    finally:
        served.process.kill()
        served.process.wait()


# The port alone.


@asynccontextmanager
async def served(
    *,
    names: Names | None = None,
    visitors: Visitors | None = None,
    refused: list[str] | None = None,
) -> AsyncIterator[int]:
    app = make_app(
        problems=lambda: ["store: disk full"],
        status=dict,
        metrics=bytes,
        rows=5,
        token=TOKEN,
        names=names or Names("127.0.0.1"),
        visitors=visitors,
        operator_token=OPERATOR,
        refused=lambda peer: None if refused is None else refused.append(peer),
        explain=lambda queue, properties: {"queue": queue},
    )
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app, listening):
        yield listening.getsockname()[1]


async def status_of(port: int, method: str, path: str, headers: dict[str, str]) -> int:
    body = b'{"queue": "bmq://a/b"}' if method == "POST" else b""
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    return (await asyncio.to_thread(ask, port, method, path, body, **named))[0]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"Origin": "http://{here}"}, 200),
        ({"Origin": "https://{here}"}, 200),
        ({"Origin": "http://{here}", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://{here}.evil.example"}, 403),
        ({"Origin": "file://{here}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
    ids=str,
)
async def test_only_our_own_pages_may_ask(headers: dict[str, str], expected: int) -> None:
    """Whoever knows the token is held to it too: a browser would add the cookie by itself."""
    async with served() as port:
        here = f"127.0.0.1:{port}"
        sent = {name: value.format(here=here) for name, value in headers.items()}
        for method, path in (("GET", "/status.json"), ("POST", "/explain")):
            assert await status_of(port, method, path, {**BEARER, **JSON, **sent}) == (
                503 if expected == 200 and method == "POST" else expected
            )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_a_change_is_asked_for_in_json(method: str) -> None:
    async with served() as port:
        for kind in (None, "", "text/plain", "application/x-www-form-urlencoded", "text/json"):
            headers = BEARER if kind is None else {**BEARER, "Content-Type": kind}
            assert await status_of(port, method, "/explain", headers) == 415
        kind = ROWS if method == "PUT" else "Application/JSON; charset=utf-8"
        assert await status_of(port, method, "/explain", {**BEARER, "Content-Type": kind}) != 415


@pytest.mark.parametrize(
    ("host", "ours", "foreign"),
    [
        (
            "127.0.0.1",
            ["localhost", "LOCALHOST:80", "127.0.0.1:1", "127.1.2.3", "[::1]:8222", "router.lan"],
            ["evil.example", "10.0.0.1", "localhost.evil.example", "", "127.0.0.1@evil.example"],
        ),
        (
            "0.0.0.0",
            ["10.0.0.1:8222", "[fe80::1]", "router.lan:1", "localhost"],
            ["evil.example", "router.lan.evil.example", "router.lan/x", "[::1", "router.lan:x"],
        ),
        ("router.example", ["router.example:8222", "10.0.0.1"], ["evil.example", "example"]),
        ("localhost", ["localhost:8222", "127.0.0.1"], ["10.0.0.1", "evil.example"]),
    ],
)
def test_the_port_has_its_names(host: str, ours: list[str], foreign: list[str]) -> None:
    names = Names(host, ["Router.LAN"])
    assert [name for name in ours if not names.has(name)] == []
    assert [name for name in foreign if names.has(name)] == []


async def test_health_and_the_bare_readiness_need_no_token() -> None:
    async with served() as port:
        status, _, body = await asyncio.to_thread(ask, port, "GET", "/healthz")
        assert (status, body) == (200, b'{"status":"ok"}\n')
        status, _, body = await asyncio.to_thread(ask, port, "GET", "/readyz")
        assert (status, body) == (503, b"")
        status, _, body = await asyncio.to_thread(
            ask, port, "GET", "/readyz", Authorization=f"Bearer {TOKEN}"
        )
        assert (status, json.loads(body)) == (503, ["store: disk full"])


@pytest.mark.parametrize(
    "given",
    ["", TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", "é"],
)
@pytest.mark.parametrize("path", ["/", "/metrics", "/sinks", "/nope", "//healthz", "/healthz/.."])
async def test_a_token_is_needed_for_all_else(given: str, path: str) -> None:
    async with served() as port:
        answered = await asyncio.to_thread(
            ask, port, "GET", path, Authorization=given.encode().decode("latin-1")
        )
        assert answered[0] == 401
        assert answered[1]["www-authenticate"] == "Bearer"


# Browsers.


async def test_an_invitation_lets_one_browser_in_once() -> None:
    visitors = Visitors()
    async with served(visitors=visitors) as port:
        path = f"/login?code={visitors.invite()}"
        assert (await asyncio.to_thread(ask, port, "HEAD", path))[0] == 403
        foreign = await asyncio.to_thread(ask, port, "GET", path, Sec_Fetch_Site="cross-site")
        assert foreign[0] == 403
        status, headers, _ = await asyncio.to_thread(ask, port, "GET", path, Sec_Fetch_Site="none")
        assert (status, headers["location"]) == (303, "/")
        cookie, *flags = headers["set-cookie"].split("; ")
        assert {flag.lower() for flag in flags} >= {"httponly", "samesite=strict", "path=/"}
        assert TOKEN not in cookie
        index = await asyncio.to_thread(ask, port, "GET", "/", Cookie=f"a=b; {cookie}")
        assert index[0] == 200
        assert "/status.json" in json.loads(index[2])["paths"]
        assert (await asyncio.to_thread(ask, port, "GET", path, Cookie=cookie))[0] == 303
        assert (await asyncio.to_thread(ask, port, "GET", path))[0] == 403
        for wrong in ("/login", "/login?code=", "/login?code=x"):
            assert (await asyncio.to_thread(ask, port, "GET", wrong))[0] == 403
        other = await asyncio.to_thread(
            ask, port, "GET", "/", Cookie=cookie, Origin="http://localhost:3000"
        )
        assert other[0] == 403


def test_who_was_let_in_has_to_leave_and_only_the_latest_are_known() -> None:
    now = 0.0
    visitors = Visitors(lambda: now)
    shown = visitors.admit(visitors.invite())
    assert shown is not None
    assert visitors.knows(shown)
    now = guard.VISIT_SECONDS + 1
    assert not visitors.knows(shown)
    first, *codes = [visitors.invite() for _ in range(guard.VISITS_MAX + 1)]
    assert visitors.admit(first) is None
    inside = [visitors.admit(code) for code in codes]
    assert all(each is not None and visitors.knows(each) for each in inside)


HOSTS = {"ours": "{here}", "foreign": "rebind.evil.example"}
ORIGINS = {"none": None, "ours": "http://{here}", "foreign": PAGE, "null": "null"}
SITES = {"none": None, "typed": "none", "same-origin": "same-origin", "cross-site": "cross-site"}
CREDENTIALS = {
    "none": None,
    "wrong": "Bearer wrong",
    "token": f"Bearer {TOKEN}",
    "operator": f"Bearer {OPERATOR}",
    "cookie": "cookie",
}


def expected_code(host: str, origin: str, site: str, method: str, credential: str) -> int:
    """Before anything else whose page asks, then who."""
    if host == "foreign":
        return 421
    if origin in ("foreign", "null") or site == "cross-site":
        return 403
    if credential in ("none", "wrong"):
        return 401
    return 200 if method == "GET" else 503  # a router that is not ready explains nothing


async def test_the_table_of_who_may_ask() -> None:
    """Host, Origin, Sec-Fetch-Site, method and credential, each with each."""
    visitors = Visitors()
    async with served(visitors=visitors) as port:
        cookie = f"headgate-{port}={visitors.enter(acts=False)}"
        wrong = []
        for keys in product(HOSTS, ORIGINS, SITES, ("GET", "POST"), CREDENTIALS):
            host, origin, site, method, credential = keys
            given = CREDENTIALS[credential]
            headers = {
                "Host": HOSTS[host],
                "Origin": ORIGINS[origin],
                "Sec-Fetch-Site": SITES[site],
                "Authorization": None if given == "cookie" else given,
                "Cookie": cookie if given == "cookie" else None,
                "Content-Type": "application/json",
            }
            here = f"127.0.0.1:{port}"
            sent = {k: v.format(here=here) for k, v in headers.items() if v is not None}
            path = "/status.json" if method == "GET" else "/explain"
            code = await status_of(port, method, path, sent)
            if code != expected_code(*keys):
                wrong.append((keys, code))
    assert wrong == []


async def test_every_answer_says_what_a_browser_may_do_with_it() -> None:
    async with served() as port:
        for path, headers in (("/healthz", {}), ("/nope", {}), ("/healthz", {"Host": "evil"})):
            _, answered, _ = await asyncio.to_thread(ask, port, "GET", path, b"", **headers)
            assert "script-src 'self'" in answered["content-security-policy"]
            assert "trusted-types 'none'" in answered["content-security-policy"]
            assert answered["x-content-type-options"] == "nosniff"
            assert answered["referrer-policy"] == "same-origin"
            assert answered["cross-origin-opener-policy"] == "same-origin"
            assert "access-control-allow-origin" not in answered


# The login.


@pytest.mark.parametrize(
    ("token", "kind", "acts"),
    [
        (TOKEN, "application/x-www-form-urlencoded", False),
        (OPERATOR, "application/x-www-form-urlencoded", True),
        (OPERATOR, "application/json", True),
    ],
)
async def test_a_token_becomes_a_cookie(token: str, kind: str, acts: bool) -> None:
    visitors = Visitors()
    is_json = kind == "application/json"
    body = json.dumps({"token": token}) if is_json else urlencode({"token": token})
    async with served(visitors=visitors) as port:
        origin = f"http://127.0.0.1:{port}"
        status, headers, _ = await asyncio.to_thread(
            ask, port, "POST", "/login", body.encode(), Content_Type=kind, Origin=origin
        )
        assert status == (200 if is_json else 303)
        cookie, *flags = headers["set-cookie"].split("; ")
        assert {flag.lower() for flag in flags} >= {"httponly", "samesite=strict", "path=/"}
        assert "secure" not in {flag.lower() for flag in flags}
        shown = cookie.partition("=")[2]
        assert visitors.may_act(shown) is acts
        assert (await asyncio.to_thread(ask, port, "GET", "/", Cookie=cookie))[0] == 200
        left = await asyncio.to_thread(
            ask, port, "POST", "/logout", b"{}", Cookie=cookie, Content_Type="application/json"
        )
        assert left[0] == 200
        assert (await asyncio.to_thread(ask, port, "GET", "/", Cookie=cookie))[0] == 401


async def test_a_cookie_that_came_by_tls_goes_by_tls_only() -> None:
    async with served() as port:
        _, headers, _ = await asyncio.to_thread(
            ask,
            port,
            "POST",
            "/login",
            f"token={TOKEN}".encode(),
            Origin=f"https://127.0.0.1:{port}",
            Content_Type="application/x-www-form-urlencoded",
        )
        assert headers["set-cookie"].startswith("__Host-headgate-")
        assert "; Secure" in headers["set-cookie"]
        cookie = headers["set-cookie"].partition(";")[0]
        assert (await asyncio.to_thread(ask, port, "GET", "/", Cookie=cookie))[0] == 200


async def test_a_wrong_token_waits_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(login, "asyncio", SimpleNamespace(sleep=sleep))
    refused: list[str] = []
    async with served(refused=refused) as port:
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        status, headers, _ = await asyncio.to_thread(
            ask, port, "POST", "/login", b"token=nope", **form
        )
        assert (status, headers["location"]) == (303, "/login?wrong")
        assert "set-cookie" not in headers
        as_json = {"Content_Type": "application/json"}
        for body, code in ((b'{"token": "nope"}', 401), (b"[1]", 400), (b"x" * 5000, 413)):
            assert (await asyncio.to_thread(ask, port, "POST", "/login", body, **as_json))[
                0
            ] == code
    assert refused == ["127.0.0.1"] * 2
    assert slept == [1.0] * 2


async def test_only_so_many_log_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "AT_ONCE", 0)
    async with served() as port:
        body = f"token={TOKEN}".encode()
        assert (await asyncio.to_thread(ask, port, "POST", "/login", body))[0] == 503


async def test_a_browser_without_a_cookie_is_led_to_the_form() -> None:
    async with served() as port:
        html = {"Accept": "text/html,*/*"}
        status, headers, _ = await asyncio.to_thread(ask, port, "GET", "/", b"", **html)
        assert (status, headers["location"]) == (303, "/login")
        assert (await asyncio.to_thread(ask, port, "GET", "/api/v1/me", b"", **html))[0] == 401
