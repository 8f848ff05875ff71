"""The files of the page: where they are, how they are sent, and what is in none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from headgate.server.admin.app import make_app
from headgate.server.desk.files import STATIC, StaticFiles

OURS = sorted(path for path in STATIC.rglob("*.*") if path.parent.name != "vendor")
IMPORT = re.compile(r'from "(\.[^"]+)"|import "(\.[^"]+)"')
LINKED = re.compile(r'(?:src|href)="(/static/[^"]+)"')


TOKEN = "open sesame"
BROWSER = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def client() -> AsyncClient:
    app = make_app(
        problems=list,
        status=dict,
        metrics=lambda: b"x 1\n",
        rows=5,
        token=TOKEN,
        page=StaticFiles(),
    )
    return AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1")


async def test_a_browser_is_asked_for_the_token_and_then_shown_the_page(
    client: AsyncClient,
) -> None:
    stranger = await client.get("/", headers=BROWSER)
    assert (stranger.status_code, stranger.headers["location"]) == (303, "/login")
    form = await client.get("/login", headers=BROWSER)
    assert form.text == (STATIC / "login.html").read_text()
    entered = await client.post("/login", data={"token": TOKEN})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    shown = await client.get("/", headers=BROWSER)
    assert shown.text == (STATIC / "index.html").read_text()
    assert shown.headers["cache-control"] == "no-cache"


async def test_whoever_wants_no_page_is_told_the_paths(client: AsyncClient) -> None:
    told = await client.get("/", headers={"authorization": f"Bearer {TOKEN}"})
    assert "/healthz" in told.json()["paths"]


async def test_an_address_that_was_used_leads_to_the_form(client: AsyncClient) -> None:
    used = await client.get("/login?code=used", headers=BROWSER)
    assert (used.status_code, used.headers["location"]) == (303, "/login?used")


async def test_a_file_has_its_type_and_a_policy(client: AsyncClient) -> None:
    answer = await client.get("/static/app.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy


async def test_a_browser_that_has_a_file_is_told_so(client: AsyncClient) -> None:
    first = await client.get("/static/base.css")
    for known in (first.headers["etag"], f'"other", W/{first.headers["etag"]}'):
        again = await client.get("/static/base.css", headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    other = await client.get("/static/base.css", headers={"if-none-match": '"other"'})
    assert other.content == first.content


@pytest.mark.parametrize(
    "path", ["nothing.js", "..%2ffiles.py", "/etc/passwd", "pages", "pages/", ""]
)
async def test_nothing_but_the_files_is_found(client: AsyncClient, path: str) -> None:
    assert (await client.get(f"/static/{path}")).status_code == 404


def test_every_file_is_served() -> None:
    files = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert set(StaticFiles().paths()) == files


@pytest.mark.parametrize("page", ["index.html", "login.html"])
def test_a_page_has_nothing_inline_and_all_that_it_links_to(page: str) -> None:
    text = (STATIC / page).read_text()
    assert re.findall(r"<script(?![^>]* src=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?:", text) == []
    missing = [link for link in LINKED.findall(text) if not (STATIC / link[8:]).is_file()]
    assert missing == []


@pytest.mark.parametrize("path", [p for p in OURS if p.suffix == ".js"], ids=lambda p: p.name)
def test_a_module_imports_what_is_there_and_makes_nothing_of_text(path: Path) -> None:
    text = path.read_text()
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|cssText"
    )
    assert re.findall(forbidden, text) == []
    assert re.findall(r"""["'`]https?:""", text.replace("http://www.w3.org/2000/svg", "")) == []
    wanted = [path.parent / (a or b) for a, b in IMPORT.findall(text)]
    assert [str(each) for each in wanted if not each.is_file()] == []


def test_every_module_belongs_to_the_page() -> None:
    found = {STATIC / "app.js", STATIC / "theme.js", STATIC / "login.js"}
    waiting = [STATIC / "app.js"]
    while waiting:
        path = waiting.pop()
        for a, b in IMPORT.findall(path.read_text()):
            module = (path.parent / (a or b)).resolve()
            if module not in found:
                found.add(module)
                waiting.append(module)
    assert {p for p in OURS if p.suffix == ".js"} == found
