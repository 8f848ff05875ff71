"""The overview: what needs attention, by name, and numbers that live."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, expect

from headgate.server.desk.series import NAMES
from tests.page.conftest import Open
from tests.support.page_browser import Look
from tests.support.page_shop import PageRouter, Shop

EVENTS = "text/event-stream"
QUIET_POINT = {name: 1.0 if name in ("sessions", "memory") else 0.0 for name in NAMES}
EMPTY_SERIES = {"at": [1.0, 2.0], **{name: [value] * 2 for name, value in QUIET_POINT.items()}}
QUIET = "event: tick\ndata: {}\n\n".format(
    json.dumps(
        {
            "at": 3.0, "point": QUIET_POINT, "attention": [], "slow": [], "apps": [], "top": [],
            "closed": [], "uptime": 1, "version": "1", "store": "memory", "stage": "",
            "journal": False, "viewers": 1,
        }
    )
)  # fmt: skip
"""The news of a router in which nothing happens."""


def ticks(page: Page, count: int) -> None:
    """Wait for so many ticks: each says for how long the router is up, or how many publish."""
    for _ in range(count):
        tile = page.locator(".tile", has_text="Published").locator(".spark path").last
        expect(tile).not_to_have_attribute("d", tile.get_attribute("d") or "")


def test_values_change_by_themselves(look: Look, shop: Shop) -> None:
    page = look.go("")
    expect(page.locator(".tile", has_text="Queued").locator(".value")).not_to_have_text("0 /s")
    ticks(page, 2)
    expect(page.locator("#about")).to_contain_text("sessions")


def test_focus_stays_where_it_is_over_ticks(look: Look, shop: Shop) -> None:
    page = look.go("")
    link = page.get_by_role("link", name="Busiest channels: all")
    link.focus()
    ticks(page, 3)
    expect(link).to_be_focused()


def test_a_subscriber_that_does_not_read_is_shown_by_its_name(look: Look, shop: Shop) -> None:
    page = look.go("")
    pressed = page.locator("section.card", has_text="Sessions under pressure")
    with shop.stuck_subscriber("report-builder", "etl-nightly"):
        expect(pressed).to_contain_text("holds up 1")
        expect(pressed.get_by_role("link", name="report-builder", exact=True)).to_be_visible()
        expect(pressed).to_contain_text("waits for report-builder")
        sentence = page.locator(".attention li", has_text="report-builder does not keep up")
        expect(sentence).to_contain_text("1 publisher waits for it")
        expect(sentence.get_by_role("button", name="Copy: headgate session show")).to_be_visible()
        sentence.get_by_role("link", name="Show").click()
        expect(page.get_by_role("heading", name="report-builder")).to_be_visible()
        chain = page.locator(".chain")
        expect(chain.locator("li .who")).to_contain_text("etl-nightly")
        expect(chain.locator(".here")).to_contain_text("report-builder")
        chain.locator("li .who").click()
        expect(page.get_by_role("heading", name="etl-nightly")).to_be_visible()
        expect(page.locator(".chain .who.error")).to_contain_text("report-builder")
        look.accessible()
    page = look.go("")
    over = page.locator(".attention li.over", has_text="report-builder did not keep up")
    expect(over).to_contain_text("over now; it lasted")
    expect(over.get_by_role("img", name="over")).to_be_visible()
    held = page.locator(".attention li:not(.over)")
    expect(page.locator("nav .badge")).to_have_text(str(held.count()))
    look.accessible()


def test_messages_that_match_nobody_lead_to_one_of_them(
    look: Look, router: PageRouter, shop: Shop
) -> None:
    """With what the queue holds, and what its consumers subscribed with; nothing is made up."""
    page = look.go("")
    page.locator(".attention li", has_text="match nobody").get_by_role("link", name="Show").click()
    expect(page.get_by_text("Messages that match nobody, the newest first:")).to_be_visible()
    expect(page.locator(".app", has_text="shipping").first).to_contain_text("put aside")
    expect(page.locator("#expression")).to_have_value('kind == "express" && region == "eu"')
    expect(page.locator("#priority")).to_have_value("10")
    known = page.locator(".known .chips button")
    expect(known).to_have_count(5)
    rows = router.ask("domains/orders/queues/incoming/aside?app=shipping&limit=100")["rows"]
    held = {row["properties"]["amount"] for row in rows}
    amount = re.search(r"amount = (\d+)", page.locator("#properties").input_value())
    assert amount is not None
    assert int(amount[1]) in held or len(rows) == 100
    known.filter(has_text="kind == EXPRESS").click()
    expect(page.locator("#expression")).to_have_value("kind == EXPRESS")
    expect(page.locator("section.card", has_text="How it is read")).to_contain_text(
        "NAME: the message lacks EXPRESS"
    )
    page.fill("#app", "billing")
    expect(page.get_by_text("Or one that came lately:")).to_be_visible()


def test_who_reads_an_app_that_is_not_there_is_told_of(look: Look, shop: Shop) -> None:
    with shop.reader("packer", "packing"):
        page = look.go("")
        sentence = page.locator(".attention li", has_text="packer reads an app that is not there")
        expect(sentence).to_contain_text("orders has no app packing, so nothing comes")
        expect(sentence).to_contain_text("its apps are shipping, billing, audit")
        sentence.get_by_role("link", name="Show").click()
        card = page.locator("section.card", has_text="orders/incoming · packing")
        expect(card).to_contain_text("unknown app")
        expect(card).to_contain_text("add packing to domains.orders.apps and reload")
        look.accessible()


def test_what_nothing_measured_is_a_dash(open_look: Open, shop: Shop) -> None:
    page = open_look().go("")
    tile = page.locator(".tile", has_text="Confirm p99")
    expect(tile.locator(".value")).to_contain_text("s")
    page.route("**/api/v1/series*", lambda route: route.fulfill(json=EMPTY_SERIES))
    page.route("**/api/v1/live", lambda route: route.fulfill(content_type=EVENTS, body=QUIET))
    page.reload()
    expect(tile.get_by_role("img", name="nothing confirmed in 15 minutes")).to_have_text("–")
    lag = page.locator(".tile", has_text="Journal lag")
    expect(lag.get_by_role("img", name="no journal is kept")).to_be_visible()
    expect(page.locator(".legend", has_text="confirm p99")).to_contain_text("confirm p99 –")


def test_keys_go_to_pages_and_tell_what_they_do(look: Look, shop: Shop) -> None:
    page = look.go("")
    expect(page.locator("#state")).to_have_text("live")
    for key, title in (("s", "Sessions"), ("f", "Facts"), ("d", "Domains & apps")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        expect(page.locator("nav [aria-current]")).to_have_text(title)
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.locator("main").get_by_role("searchbox").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("g o ?")  # typed, and not obeyed
    expect(page.get_by_role("searchbox")).to_have_value("g o ?")
    page.get_by_role("searchbox").blur()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    look.accessible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_content_can_be_skipped_to(look: Look, shop: Shop) -> None:
    page = look.go("sessions")
    expect(page.locator("#state")).to_have_text("live")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/sessions")


def test_names_of_peers_are_text(open_look: Open, router: PageRouter, shop: Shop) -> None:
    name = "<img/src=x/onerror=alert(1)>"
    with shop.named(name.encode()):
        page = open_look().go("sessions")
        page.get_by_role("searchbox").fill("<img")
        row = page.locator("tbody tr", has_text=name).first
        expect(row).to_be_visible()
        row.get_by_role("link").click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        assert page.locator("main img").count() == 0


def test_what_peers_send_is_text(look: Look, shop: Shop) -> None:
    markup = "<img src=x onerror=alert(1)>"
    shop.post("bmq://jobs/strange", {"kind": markup, "img": "</script>"})
    page = look.go("channels")
    expect(page.get_by_text("ticks.AAPL").first).to_be_visible()
    shop.publish(markup)
    expect(page.locator("main").get_by_text(markup).first).to_be_visible()
    page = look.go(f"playground?queue=bmq://jobs/strange&expression={markup}")
    expect(page.locator(".chips button", has_text="<img").first).to_be_visible()
    expect(page.locator(".caret pre")).to_contain_text("<img")
    page.locator(".chips button", has_text="<img").first.click()
    expect(page.locator("#properties")).to_have_value(re.compile("onerror"))
    assert page.locator("main img, main script").count() == 0
