"""News of every second: shared by tabs, missed when they stop, and found again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, StorageState, expect

from tests.support.page_browser import Look, looking
from tests.support.page_shop import TOKEN, PageRouter, Shop
from tests.support.tcp_proxy import Proxy

SILENT_MS = 4_500
"""After so long without news the page says so."""

AWAY = ("net::ERR_", "status of 502", "status of 503", "status of 401")


class Wire:
    """A proxy between the browser and the router, in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._proxy = Proxy(port)
        asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(10)
        self.url = self._proxy.address.replace("tcp:", "http:")

    def deaf(self, is_deaf: bool) -> None:
        """Keep what the router says to itself, or cut what was kept and begin anew."""
        self._proxy.is_deaf = is_deaf
        if not is_deaf:
            self._loop.call_soon_threadsafe(self._proxy.cut)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def wired(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.stop()


def test_silence_is_shown_in_red_and_ends_by_itself(
    browser: Browser, router: PageRouter, shop: Shop
) -> None:
    with wired(router.port) as wire, looking(browser, wire.url) as look:
        look.log_in(TOKEN)
        page = look.go("")
        state = page.locator("#state")
        wire.deaf(True)
        expect(state).to_contain_text("no news for")
        expect(page.locator("body")).to_have_class("away")
        expect(state).to_have_class("pill error")
        look.accessible()
        wire.deaf(False)
        expect(state).to_have_text("live")
        expect(page.locator("body")).not_to_have_class("away")
        look.clean(*AWAY)


def test_a_list_says_that_nobody_answers_and_asks_again(browser: Browser, tmp_path: Path) -> None:
    with PageRouter(tmp_path) as router, looking(browser, router.url) as look:
        look.log_in(TOKEN)
        page = look.go("sessions")
        expect(page.get_by_text("Nobody is connected.")).to_be_visible()
        router.kill()
        expect(page.get_by_text("The router does not answer.")).to_be_visible()
        expect(page.locator("#state")).to_contain_text("no news for")
        look.accessible()
        router.start()
        # A router that was started again knows no cookies.
        expect(page.get_by_text("You were logged out")).to_be_visible()
        look.clean(*AWAY)


def busy_at_first(route: Route, status: int, left: list[int]) -> None:
    """Refuse as a router that is busy, until nothing is left; then let the router answer."""
    if not left:
        route.continue_()
        return
    left.pop()
    body = {"error": "the store has no time", "code": "busy", "hint": "ask again soon"}
    route.fulfill(status=status, json=body)


def test_a_router_that_is_busy_is_asked_again(look: Look, shop: Shop) -> None:
    """A list says so meanwhile; the playground only waits."""
    page, refusals = look.page, [1]
    page.route("**/api/v1/sessions?*", lambda route: busy_at_first(route, 503, refusals))
    page.route("**/api/v1/expression", lambda route: busy_at_first(route, 429, refusals))
    look.go("sessions")
    expect(page.get_by_role("alert")).to_contain_text("the store has no time ask again soon")
    look.accessible()
    expect(page.get_by_label("Sessions").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    refusals += [1, 1]
    look.go("playground?queue=bmq://orders/incoming&app=shipping")
    expect(page.get_by_text("Looked up by")).to_be_visible()
    assert refusals == []
    look.clean("status of 503", "status of 429")


FULL = {"error": "32 look already", "code": "too_many_viewers", "hint": "close a page"}


def test_who_finds_all_places_of_viewers_taken_is_told_so(look: Look, shop: Shop) -> None:
    """And gets news as soon as one is free."""
    taken = [True]
    page = look.page
    page.route(
        "**/api/v1/live",
        lambda route: route.fulfill(status=503, json=FULL) if taken else route.continue_(),
    )
    look.go("")
    expect(page.get_by_role("alert")).to_contain_text("no news: 32 look already; close a page")
    look.fits()
    look.accessible()
    taken.clear()
    expect(page.locator("#state")).to_have_text("live")
    expect(page.get_by_role("alert")).to_have_count(0)
    look.clean("status of 503")


def requested(page: Page) -> list[str]:
    """The streams that a tab asks for from now on."""
    found: list[str] = []
    page.on(
        "request", lambda request: found.append(request.url) if "/live" in request.url else None
    )
    return found


def test_tabs_share_one_stream_and_hand_it_over(
    browser: Browser,
    router: PageRouter,
    shop: Shop,
    cookies: StorageState,
) -> None:
    with looking(browser, router.url, state=cookies) as first:
        page = first.go("")
        expect(page.locator("#state")).to_have_text("live")
        second = Look(first.context, first.url)
        asked = requested(second.page)
        second.go("sessions")
        expect(second.page.locator("#state")).to_have_text("live")
        expect(second.page.locator("#about")).to_contain_text("sessions")
        assert asked == []
        with second.page.expect_request("**/api/v1/live"):
            page.close()
        sessions = second.page.locator("main tbody tr")
        expect(sessions.first).to_be_visible()
        second.page.wait_for_timeout(SILENT_MS)
        expect(second.page.locator("#state")).to_have_text("live")
        assert len(asked) == 1
        first.clean()
        second.clean()


def test_a_tab_that_nobody_looks_at_lets_go_of_the_stream(
    browser: Browser,
    router: PageRouter,
    cookies: StorageState,
) -> None:
    hide = """(state) => {
      Object.defineProperty(document, "hidden", {value: state, configurable: true});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with looking(browser, router.url, state=cookies) as look:
        look.page.clock.install()
        asked = requested(look.page)
        page = look.go("")
        expect(page.locator("#state")).to_have_text("live")
        page.evaluate(hide, True)
        page.clock.fast_forward(61_000)
        page.clock.run_for(5_000)
        expect(page.locator("#state")).to_contain_text("no news for")
        page.evaluate(hide, False)
        page.clock.run_for(1_000)
        expect(page.locator("#state")).to_have_text("live")
        assert len(asked) == 2
        look.clean()
