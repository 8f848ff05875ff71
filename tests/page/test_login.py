"""Who gets in, who is sent away, and back to where they were."""

from __future__ import annotations

from playwright.sync_api import Browser, StorageState, expect

from tests.support.page_browser import Look, looking
from tests.support.page_shop import OPERATOR_TOKEN, TOKEN, PageRouter, Shop


def test_whoever_is_not_known_is_asked_for_the_token(browser: Browser, router: PageRouter) -> None:
    with looking(browser, router.url) as look:
        page = look.go("sessions")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("a guess")
        page.keyboard.press("Enter")
        expect(page.get_by_text("That is not a token of this router.")).to_be_visible()
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#state")).to_have_text("live")
        expect(page.locator("#rights")).to_have_text("read-only")
        look.clean()


def test_the_operators_token_lets_somebody_act(browser: Browser, router: PageRouter) -> None:
    with looking(browser, router.url) as look:
        look.log_in(OPERATOR_TOKEN)
        expect(look.page.locator("#rights")).to_have_text("operator")
        look.clean()


def test_an_expired_cookie_leads_to_the_form_and_back(look: Look, shop: Shop) -> None:
    page = look.go("sessions")
    expect(page.get_by_text("express-eu")).to_be_visible()
    look.context.clear_cookies()
    expect(page.get_by_text("You were logged out")).to_be_visible()
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()
    expect(page.get_by_text("express-eu")).to_be_visible()
    look.clean("status of 401")


def test_whoever_logs_out_is_asked_for_the_token_again(
    browser: Browser, router: PageRouter
) -> None:
    with looking(browser, router.url) as look:
        look.log_in(TOKEN)
        look.page.get_by_role("button", name="Log out").click()
        expect(look.page.locator("#token")).to_be_visible()
        look.page.goto(look.url)
        expect(look.page.locator("#token")).to_be_visible()
        look.clean()


def test_scripts_cannot_read_the_cookie(look: Look, cookies: StorageState) -> None:
    page = look.go("")
    assert page.evaluate("document.cookie") == ""
    [cookie] = cookies["cookies"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
