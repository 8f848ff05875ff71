"""What an operator may do, once a name was typed; and that nobody else is offered it."""

from __future__ import annotations

import re

from playwright.sync_api import StorageState, expect

from tests.page.conftest import Open
from tests.support.page_browser import Look
from tests.support.page_shop import OPERATOR_TOKEN, PageRouter, Shop


def test_who_may_only_look_is_offered_nothing(look: Look, shop: Shop) -> None:
    for path, title in (("sessions/1", "What happened to it"), ("settings", "Configuration")):
        page = look.go(path)
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        assert page.locator("main button", has_text="…").count() == 0


def test_a_session_is_closed_once_its_name_was_typed(
    open_look: Open,
    operator_cookies: StorageState,
    router: PageRouter,
    shop: Shop,
) -> None:
    look = open_look(state=operator_cookies)
    with shop.named(b"runaway"):
        page = look.go("sessions")
        page.get_by_role("searchbox").fill("runaway")
        page.get_by_role("link", name="runaway", exact=True).click()
        page.get_by_role("button", name="Close…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        look.accessible()
        go = dialog.get_by_role("button", name="Close it")
        dialog.get_by_label("Type runaway to confirm").fill("runawa")
        expect(go).to_be_disabled()
        dialog.get_by_label("Type runaway to confirm").fill("runaway")
        dialog.get_by_label("Why, for the journal").fill("it ran away")
        go.click()
        expect(dialog.get_by_role("status")).to_contain_text("closed")
        dialog.get_by_role("button", name="Close", exact=True).click()
        expect(page.get_by_text("This session is not open")).to_be_visible()
        look.go("sessions")
        gone = page.locator("section.card", has_text="Closed lately").locator(
            "tr", has_text="runaway"
        )
        expect(gone.first).to_contain_text("closed by an operator: it ran away")
        look.go("facts")
        expect(page.locator(".facts li", has_text="AdminActed").first).to_contain_text("runaway")
        look.clean("status of 404")


def test_an_audit_is_begun_once_its_name_was_typed(
    open_look: Open, operator_cookies: StorageState, router: PageRouter, shop: Shop
) -> None:
    look = open_look(state=operator_cookies)
    page = look.go("journal")
    card = page.locator("section.card", has_text="do the tallies of services add up?")
    expect(card).to_contain_text("None was asked for since the router started.")
    card.get_by_role("button", name="Audit…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type audit to confirm").fill("audit")
    dialog.get_by_role("button", name="Audit", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("started")
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(card.get_by_text(re.compile("^(running|✓ done|✕ failed)$"))).to_be_visible()
    look.accessible()


def test_a_queue_is_removed_once_its_name_was_typed(
    open_look: Open, operator_cookies: StorageState, router: PageRouter, shop: Shop
) -> None:
    look = open_look(state=operator_cookies)
    shop.post("bmq://jobs/outdated", {"kind": "old"})
    page = look.go("domains/jobs/outdated")
    holds = page.locator(".numbers div", has_text="messages").first
    expect(holds).to_contain_text("1 of")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    look.accessible()
    dialog.get_by_label("Type bmq://jobs/outdated to confirm").fill("bmq://jobs/outdated")
    dialog.get_by_role("button", name="Delete it").click()
    expect(dialog.get_by_role("status")).to_contain_text("removed (1)")
    dialog.get_by_role("button", name="Close", exact=True).click()
    left = [row["name"] for row in router.ask("domains/jobs")["rows"]]
    assert "outdated" not in left
    expect(holds.get_by_role("img", name="nobody has opened it")).to_be_visible()
    look.accessible()


def test_a_queue_that_changed_meanwhile_is_emptied_by_whoever_presses_again(
    open_look: Open, operator_cookies: StorageState, shop: Shop
) -> None:
    look = open_look(state=operator_cookies)
    shop.post("bmq://jobs/growing", {"kind": "new"})
    page = look.go("domains/jobs/growing")
    holds = page.locator(".numbers div", has_text="messages").first
    expect(holds).to_contain_text("1 of")
    page.get_by_role("button", name="Purge…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("to confirm").fill("bmq://jobs/growing")
    shop.post("bmq://jobs/growing", {"kind": "new"})
    dialog.get_by_role("button", name="Empty it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("2 messages are there now")
    expect(dialog.get_by_role("alert")).to_contain_text("Press again to remove what it has by then")
    dialog.get_by_role("button", name="Empty it").click()
    expect(dialog.get_by_role("status")).to_contain_text("messages removed (2)")
    look.clean("status of 409")


def test_a_queue_that_is_open_stays(
    open_look: Open, operator_cookies: StorageState, shop: Shop
) -> None:
    look = open_look(state=operator_cookies)
    page = look.go("domains/orders/incoming")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("to confirm").fill("bmq://orders/incoming")
    dialog.get_by_role("button", name="Delete it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the queue is open")
    look.clean("status of 409")


def test_more_is_logged_for_a_while(
    open_look: Open, operator_cookies: StorageState, router: PageRouter, shop: Shop
) -> None:
    look = open_look(state=operator_cookies)
    page = look.go("settings")
    page.get_by_role("button", name="Log more…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type debug to confirm").fill("debug")
    dialog.get_by_role("button", name="Log it").click()
    expect(dialog.get_by_role("status")).to_contain_text("debug for 10 min")
    back = {"confirm": "warning", "level": "warning"}
    assert router.ask("log-level", back, OPERATOR_TOKEN)["outcome"] == "warning for 10 min"


def test_what_cannot_be_done_is_said_and_nothing_is_closed(
    open_look: Open,
    operator_cookies: StorageState,
    router: PageRouter,
    shop: Shop,
) -> None:
    look = open_look(state=operator_cookies)
    page = look.go("settings")
    page.get_by_role("button", name="Reload…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type reload to confirm").fill("reload")
    config = router.folder / "headgate.toml"
    before = config.read_text()
    config.write_text("nonsense")
    try:
        dialog.get_by_role("button", name="Reload").click()
        expect(dialog.get_by_role("alert")).to_contain_text("headgate.toml")
    finally:
        config.write_text(before)
    dialog.get_by_role("button", name="Reload").click()
    expect(dialog.get_by_role("status")).to_contain_text("reloaded")
    look.clean("status of 409")
