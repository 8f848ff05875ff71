"""Ten thousand sessions: lists are paged, somebody can be found among them, and what a tab holds
does not grow with them or with the time that it is looked at."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.support.page_browser import Look, looking
from tests.support.page_shop import TOKEN, PageRouter, Shop

SESSIONS = 10_000
AT_ONCE = 100
"""That come together, and are named before others come."""
TURNS = 30
NODES_MAX = 4_000
"""Of the document, whatever page is shown: about a thousand are usual."""
HEAP_MAX = 24 * 2**20
"""Three are usual."""
GROWTH_MAX = 4 * 2**20
"""Between the first and the last of many looks, when all is collected."""


@pytest.fixture(scope="module")
def crowded(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PageRouter, Shop]]:
    with (
        PageRouter(tmp_path_factory.mktemp("crowd")) as router,
        Shop(router) as shop,
        ExitStack() as stack,
    ):
        address = (router.addresses["resp"]["host"], router.addresses["resp"]["port"])
        for first in range(0, SESSIONS, AT_ONCE):
            some = [
                stack.enter_context(socket.create_connection(address, timeout=60))
                for _ in range(AT_ONCE)
            ]
            for number, each in enumerate(some, first):
                each.sendall(b"CLIENT SETNAME member-%05d\r\nSUBSCRIBE hall\r\n" % number)
            for each in some:
                assert each.recv(100)
        yield router, shop


@pytest.fixture
def crowd(browser: Browser, crowded: tuple[PageRouter, Shop]) -> Iterator[Look]:
    with looking(browser, crowded[0].url) as look:
        look.log_in(TOKEN)
        yield look
        look.clean()


def measured(session: CDPSession) -> dict[str, float]:
    """What the tab has once everything is collected that nobody needs."""
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in found}


def nodes(page: Page) -> int:
    count: int = page.evaluate("document.querySelectorAll('*').length")
    return count


def test_the_list_is_paged_and_somebody_is_found(crowd: Look) -> None:
    page = crowd.go("sessions")
    rows = page.get_by_label("Sessions").locator("tbody tr")
    expect(page.get_by_text(re.compile(r"^10,0\d\d sessions: "))).to_be_visible()
    expect(rows).to_have_count(20)
    expect(page.locator(".pager")).to_contain_text("1–20 of 10,0")
    page.get_by_role("button", name="next").click()
    expect(page.locator(".pager")).to_contain_text("21–40 of 10,0")
    expect(rows).to_have_count(20)
    page.get_by_role("searchbox").fill("member-09876")
    expect(rows).to_have_count(1)
    rows.get_by_role("link").click()
    expect(page.get_by_role("heading", name="member-09876")).to_be_visible()
    assert nodes(page) < NODES_MAX
    crowd.fits()
    crowd.accessible()


def test_who_does_not_read_is_first_among_all(
    crowd: Look, crowded: tuple[PageRouter, Shop]
) -> None:
    _, shop = crowded
    with shop.stuck_subscriber("report-builder", "etl-nightly"):
        page = crowd.go("")
        expect(page.locator("#about")).to_contain_text(re.compile(r"10,0\d\d sessions"))
        sentence = page.locator(".attention li", has_text="report-builder does not keep up")
        expect(sentence).to_be_visible()
        page = crowd.go("sessions")
        first = page.get_by_label("Sessions").locator("tbody tr").first
        expect(first).to_contain_text("report-builder")
        assert nodes(page) < NODES_MAX


def test_what_a_tab_holds_is_bounded(crowd: Look) -> None:
    """Looked at page by page, and at all pages in turn."""
    page = crowd.go("sessions")
    session = crowd.context.new_cdp_session(page)
    session.send("Performance.enable")
    pager = page.locator(".pager")
    before: dict[str, float] = {}
    for turn in range(1, TURNS + 1):
        expect(pager).to_contain_text(f"{20 * turn - 19}–{20 * turn} of 10,0")
        page.get_by_role("button", name="next").click()
        if turn == 5:
            before = measured(session)
    for path, title in (("", "Overview"), ("facts", "Facts"), ("channels", "Channels")) * 3:
        crowd.go(path)
        expect(page.locator("nav [aria-current]")).to_contain_text(title)
        expect(page.locator("#state")).to_have_text("live")
    page = crowd.go("sessions")
    expect(pager).to_contain_text("1–20 of 10,0")
    after = measured(session)
    assert nodes(page) < NODES_MAX
    assert after["JSHeapUsedSize"] < HEAP_MAX
    assert after["JSHeapUsedSize"] - before["JSHeapUsedSize"] < GROWTH_MAX
    assert after["Nodes"] < NODES_MAX, "those that were shown before are let go"
