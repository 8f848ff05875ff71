"""Every page in two sizes and two themes: nothing is complained about, nothing has to be scrolled
sideways, no rule of accessibility is broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, StorageState, expect

from tests.support.page_browser import SIZES, THEMES, Look, Size, Theme, looking
from tests.support.page_shop import PageRouter, Shop

PAGES = {
    "": "Messages per second",
    "sessions": "express-eu",
    "sessions/1": "Subscriptions by expression",
    "domains": "Apps with most that is undelivered",
    "domains/orders": "Queues in memory",
    "domains/orders/incoming": "kind == EXPRESS",
    "playground?queue=bmq://orders/incoming&app=shipping": "Looked up by",
    "playground?expression=kind %3D 1": "It cannot be read.",
    "playground/compare": "Subscriptions of which queue?",
    "playground/compare?queue=bmq://orders/incoming": "go where they went.",
    "channels": "ticks.AAPL",
    "queues": "Look up a queue",
    "journal": "facts sealed",
    "facts": "SessionOpened",
    "queues/orders%2Fincoming": "its apps and expressions",
    "playground?queue=bmq://orders/incoming&aside=shipping": "Messages that match nobody",
    "settings": "listen.resp.mailbox_hard",
}
"""What follows the # of an address, and what is to be read there."""


@pytest.fixture(
    scope="module",
    params=[(size, theme) for size in SIZES for theme in THEMES],
    ids="-".join,
)
def window(
    request: pytest.FixtureRequest,
    browser: Browser,
    router: PageRouter,
    shop: Shop,
    cookies: StorageState,
) -> Iterator[Look]:
    size, theme = request.param
    with looking(browser, router.url, size, theme, state=cookies) as look:
        yield look


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_in_order(window: Look, path: str) -> None:
    page = window.go(path)
    expect(page.locator("main").get_by_text(PAGES[path]).first).to_be_visible()
    expect(page.locator("#state")).to_have_text("live")
    window.fits()
    window.accessible()
    window.clean()


def test_what_is_gone_is_said_to_be(look: Look, shop: Shop) -> None:
    page = look.go("sessions/999999")
    expect(page.get_by_text("This session is not open, any more or yet.")).to_be_visible()
    page = look.go("queues/bmq%3A%2F%2Fnothing%2Fhere")
    expect(page.get_by_text("There is no such queue: no domain nothing has")).to_be_visible()
    look.fits()
    look.accessible()
    look.clean("status of 404")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_form_to_log_in_is_in_order(
    browser: Browser, router: PageRouter, size: Size, theme: Theme
) -> None:
    with looking(browser, router.url, size, theme) as look:
        for why in ("", "?wrong", "?used", "?expired"):
            look.page.goto(f"{look.url}/login{why}")
            expect(look.page.locator("#why")).to_be_visible(visible=bool(why))
            look.fits()
        look.accessible()
        look.clean()


def test_a_theme_that_was_chosen_is_kept(look: Look, shop: Shop) -> None:
    page = look.go("")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after
