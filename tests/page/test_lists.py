"""Sessions, domains, channels, queues, the journal, facts and settings: what is asked for is shown,
and changes."""

from __future__ import annotations

import time

from playwright.sync_api import expect

from tests.support.page_browser import Look
from tests.support.page_shop import CONSUMERS, PageRouter, Shop


def test_sessions_are_searched_sorted_and_filtered(look: Look, shop: Shop) -> None:
    page = look.go("sessions")
    rows = page.get_by_label("Sessions").locator("tbody tr")
    expect(rows.first).to_be_visible()
    page.get_by_role("searchbox").fill("express")
    expect(rows).to_have_count(3)
    page.get_by_role("searchbox").fill("nobody at all")
    expect(page.get_by_text("No session fits.")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Wire").select_option("bmq")
    expect(rows).to_have_count(len(CONSUMERS) + 2)
    page.get_by_label("Order").select_option("newest")
    expect(rows.first).to_contain_text("shop-us")


def test_a_session_shows_its_expressions_and_windows(look: Look, shop: Shop) -> None:
    page = look.go("sessions")
    page.get_by_role("link", name="express-eu", exact=True).click()
    subscribed = page.locator("section.card", has_text="Subscriptions by expression")
    expect(subscribed).to_contain_text('kind == "express" && region == "eu"')
    expect(subscribed).to_contain_text("of 20")
    page.get_by_role("link", name="orders/incoming · shipping").click()
    expect(page.get_by_role("heading", name="orders/incoming", exact=True)).to_be_visible()


def test_an_expression_that_never_decides_is_marked(look: Look, shop: Shop) -> None:
    page = look.go("domains/orders/incoming")
    row = page.locator("tr", has_text="kind == EXPRESS")
    expect(row).to_contain_text("NAME in 100 %")
    expect(row).to_contain_text("NAME: the message lacks EXPRESS")
    expect(row).to_contain_text('quotes make a text: kind == "EXPRESS"')


def test_why_messages_match_nobody_is_told_when_asked(look: Look, shop: Shop) -> None:
    page = look.go("domains/orders/incoming")
    page.get_by_role("button", name="match nobody?").click()
    app = page.locator("section.card", has_text="orders/incoming · shipping")
    expect(app).to_contain_text("that match nobody")
    why = app.locator("table", has_text="because").locator("tr", has_text="kind == EXPRESS")
    expect(why).to_contain_text("NAME: the message lacks EXPRESS")
    app.get_by_role("link", name="explain").last.click()
    expect(page.get_by_role("heading", name="Playground")).to_be_visible()
    expect(page.locator(".app", has_text="shipping").first).to_contain_text("put aside")


def test_a_tail_shows_some_messages_and_says_how_many_it_left_out(look: Look, shop: Shop) -> None:
    page = look.go("channels")
    row = page.locator("tr", has_text="ticks.SAP")
    expect(row).to_contain_text("ticks.*")
    row.get_by_role("button").click()
    lines = page.locator(".lines li")
    expect(lines.filter(has_text="ticks.SAP").first).to_be_visible()
    expect(page.get_by_text("listening to ticks.SAP")).to_be_visible()
    assert lines.filter(has_text="ticks.BMW").count() == 0
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("textbox", name="Pattern").fill("*")
    page.get_by_role("button", name="Tail", exact=True).click()
    expect(page.locator(".lines .skipped").first).to_contain_text("were not shown")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Clear").click()
    expect(lines).to_have_count(1)
    expect(page.get_by_text("Bodies are not shown")).to_be_visible()


def test_a_tail_says_what_is_wrong_with_its_expression(look: Look, shop: Shop) -> None:
    page = look.go("channels")
    page.get_by_label("Where, an expression").fill("kind = 1")
    page.get_by_role("button", name="Tail", exact=True).click()
    expect(page.locator(".tail [role=status]")).to_contain_text("syntax error")
    page.get_by_label("Where, an expression").fill('kind == "express"')
    page.get_by_role("button", name="Tail", exact=True).click()
    expect(page.locator(".lines li", has_text="express").first).to_be_visible()
    look.clean("status of 400")


def test_a_queue_is_found_by_its_name(look: Look, shop: Shop) -> None:
    page = look.go("queues")
    page.get_by_role("searchbox").fill("bmq://orders/incoming")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="its apps")).to_be_visible()
    assert page.url.endswith("#/queues/bmq%3A%2F%2Forders%2Fincoming")
    page.get_by_role("searchbox").fill("orders/incoming")
    page.keyboard.press("Enter")
    found = page.locator("section.card", has_text="Look up a queue")
    expect(found).to_contain_text("shipping, billing, audit")
    for name in ("consumers", "producers", "undelivered", "size"):
        expect(found).to_contain_text(name)
    for name in ("subscriber", "notifier"):
        expect(found).not_to_contain_text(name)
    page.get_by_role("searchbox").fill("")
    found.get_by_role("button", name="orders/incoming").click()
    expect(page.get_by_role("searchbox")).to_have_value("orders/incoming")
    page.get_by_role("searchbox").fill("orders/nothing")
    page.keyboard.press("Enter")
    expect(found).to_contain_text("There is no such queue: orders has no queue nothing.")
    look.clean("status of 404")


LARGE = {
    "service": "a41f00112233", "role": "rcv", "session": 1, "queues_counted": 1_000_000,
    "queues_said": 999_999, "drift": "count", "swept": 771_000, "sweep_total": 1_000_000,
    "sweep_started": 0.0, "sweep_ended": None,
}  # fmt: skip


def test_a_service_with_a_million_queues_is_one_row(look: Look, shop: Shop) -> None:
    """However many there are, they are counted and not listed."""
    row = LARGE | {"sweep_started": time.time() - 60}
    services = {
        "rows": [row], "total": 1, "queues_in_memory": 1_000_000, "notices_waiting": 12_345,
    }  # fmt: skip
    page = look.page
    page.route("**/api/v1/services", lambda route: route.fulfill(json=services))
    look.go("queues")
    expect(page.get_by_label("In all")).to_contain_text("exclusive queues in memory1,000,000")
    expect(page.get_by_label("In all")).to_contain_text("12,345")
    shown = page.locator("tbody tr")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("771,000 of 1,000,000")
    expect(shown).to_contain_text("999,999")
    expect(shown.locator(".pill.warning")).to_contain_text("count")
    look.fits()
    look.accessible()


def test_channels_say_how_many_they_are(look: Look, shop: Shop) -> None:
    page = look.go("channels")
    channels = page.locator("section.card[data-key=Channels]")
    expect(channels).to_contain_text("6 channels published to in the last ten seconds.")
    expect(channels).to_contain_text("0 channels are subscribed to by name, besides patterns.")
    expect(channels.locator("h2 .pill")).to_have_text("6")
    page.get_by_role("searchbox").fill("ticks.S")
    expect(channels).to_contain_text("With this in the name: 1 channel published to")
    patterns = page.locator("section.card[data-key=Patterns]")
    expect(patterns.locator("h2 .pill")).to_have_text("1")


def test_the_journal_seals(look: Look, shop: Shop) -> None:
    page = look.go("journal")
    sealed = page.locator("dd").first
    expect(sealed).to_be_visible()
    expect(page.get_by_role("button", name="Copy: headgate pipeline run")).to_be_visible()


def test_facts_say_which_kinds_are_left_out(look: Look, shop: Shop) -> None:
    page = look.go("facts?kind=SessionOpened&level=")
    expect(page.get_by_role("searchbox")).to_have_value("SessionOpened")
    expect(page.locator(".facts li").first).to_contain_text("SessionOpened")
    left_out = page.locator("details")
    left_out.locator("summary").click()
    expect(left_out).to_contain_text("Delivered")
    expect(left_out).to_contain_text("The journal has them all")
    page.wait_for_timeout(2000)  # the list is shown anew meanwhile
    expect(left_out.get_by_text("Delivered")).to_be_visible()
    page.get_by_role("searchbox").fill("delivered")
    expect(page.get_by_text("Delivered is not kept here.")).to_be_visible()
    look.accessible()


def test_facts_are_filtered_and_can_be_held_still(look: Look, shop: Shop) -> None:
    page = look.go("facts")
    expect(page.locator(".facts li").first).to_be_visible()
    with shop.stuck_subscriber("sleepy", "talker"):
        page.get_by_role("searchbox").fill("slowed")
        line = page.locator(".facts li", has_text="SessionSlowed").filter(has_text="sleepy")
        expect(line).to_be_visible()
        page.get_by_label("Level").select_option("warning")
        expect(line).to_be_visible()
        page.get_by_role("button", name="pause").click()
        page.get_by_role("searchbox").fill("nothing like that")
        page.wait_for_timeout(500)
        expect(line).to_be_visible()
        page.get_by_role("button", name="go on").click()
        expect(page.get_by_text("Nothing of that kind has happened.")).to_be_visible()


def test_settings_say_where_a_value_comes_from_and_hide_secrets(
    look: Look, router: PageRouter, shop: Shop
) -> None:
    page = look.go("settings")
    rows = page.locator(".settings tbody tr")
    expect(rows.first).to_have_class("changed")
    page.get_by_role("searchbox").fill("mailbox_hard")
    expect(rows.filter(has_text="listen.resp.mailbox_hard")).to_contain_text("1 MiB")
    expect(rows.filter(has_text="listen.resp.mailbox_hard")).to_contain_text("file")
    page.get_by_role("searchbox").fill("token")
    expect(rows.filter(has_text="admin.operator_token")).to_contain_text("(hidden)")
    assert "a token to" not in page.content()
