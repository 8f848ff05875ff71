"""The playground says what the router and the commands say: the tree, the caret, the warnings, what
would be taken from whom, and who would get the message."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from headgate.errors import ExpressionError
from headgate.expr.explain import caret, explain, hint
from tests.support.page_browser import Look
from tests.support.page_shop import QUEUE, PageRouter, Shop

MESSAGE = 'kind = "express"\nregion = "eu"\namount = 1250\nweight = 12'


def opened(look: Look, expression: str = 'kind == "express"', properties: str = MESSAGE) -> Page:
    said = {"queue": QUEUE, "app": "shipping", "expression": expression, "properties": properties}
    page = look.go(f"playground?{urlencode({**said, 'priority': '9'})}")
    card(page, "How it is read").get_by_text("Looked up by").or_(
        page.get_by_text("It cannot be read.")
    ).wait_for()
    return page


def card(page: Page, title: str) -> Locator:
    return page.locator("section.card", has=page.get_by_role("heading", name=title))


def headgate(
    router: PageRouter, command: str, *, fails: bool = False
) -> subprocess.CompletedProcess[str]:
    """A command that the page shows, as it is."""
    [name, *arguments] = shlex.split(command)
    assert name == "headgate"
    program = [sys.executable, "-c", "from headgate.cli import main; main()", *arguments]
    ran = subprocess.run(program, cwd=router.folder, capture_output=True, text=True, timeout=60)
    assert bool(ran.returncode) == fails, ran.stderr
    return ran


def copied(page: Page, beginning: str) -> str:
    """A command of the page that can be copied."""
    command = page.locator(".share .command", has_text=beginning).locator("code").text_content()
    assert command is not None
    return command


def test_an_expression_shows_its_tree_with_the_value_of_every_part(look: Look, shop: Shop) -> None:
    page = opened(look)
    page.fill("#expression", 'kind == "express" && (amount < 250 || missing > 1)')
    tree = card(page, "How it is read").locator(".tree")
    expect(tree).to_contain_text("||")
    expect(tree.locator("li").first).to_contain_text("&&NAME: not in the message")
    values = tree.locator("li", has_text="amount").last
    expect(values).to_contain_text("1250")
    page.fill("#expression", 'kind == "pickup" && amount < 250')
    expect(tree).to_contain_text("not reached")
    expect(card(page, "How it is read")).to_contain_text("does not match: it is false")


@pytest.mark.parametrize(
    "expression",
    ['kind = "express"', "amount > 250 and vip", "kind == 'a'", "(amount > 1", "", "größe = 1"],
)
def test_a_mistake_has_the_caret_and_the_hint_of_expr_check(
    look: Look, router: PageRouter, shop: Shop, expression: str
) -> None:
    page = opened(look)
    page.fill("#expression", expression)
    expect(page.get_by_text("It cannot be read.")).to_be_visible()
    with pytest.raises(ExpressionError) as wrong:
        explain(expression)
    text, under, *_ = caret(wrong.value).splitlines()
    expect(page.locator(".caret")).to_contain_text(wrong.value.message)
    if expression:
        expect(page.locator(".caret pre")).to_have_text(f"{text}\n{under}")
    advice = hint(wrong.value)
    if advice is not None:
        expect(page.locator(".caret")).to_contain_text(f"Hint: {advice}.")


def test_the_command_that_checks_says_the_same(look: Look, router: PageRouter, shop: Shop) -> None:
    page = opened(look, "kind == EXPRESS")
    command = copied(page, "headgate expr check")
    said = json.loads(headgate(router, f"{command} --json").stdout)
    assert said["warnings"]
    for warning in said["warnings"]:
        expect(page.locator(".caret")).to_contain_text(warning)
    page.fill("#expression", "kind = EXPRESS")
    expect(page.locator(".caret pre")).to_be_visible()
    wrong = headgate(router, copied(page, "headgate expr check"), fails=True)
    shown = page.locator(".caret pre").text_content()
    assert shown is not None
    assert wrong.stderr.startswith(shown)


def test_the_command_that_explains_says_the_same(
    look: Look, router: PageRouter, shop: Shop
) -> None:
    page = opened(look)
    apps = card(page, "Who would get the message now").locator(".app")
    expect(apps).to_have_count(3)
    said = json.loads(headgate(router, f"{copied(page, 'headgate explain')} --json").stdout)
    assert [app["app"] for app in said["apps"]] == ["shipping", "billing", "audit"]
    for app in said["apps"]:
        shown = apps.filter(has=page.get_by_role("heading", name=app["app"]))
        if app["app"] != "billing":  # which is at work all the time
            expect(shown).to_contain_text(app["reason"])
        for group in app["groups"]:
            row = shown.locator(".group", has_text=group["answer"]["expression"] or "(every").first
            expect(row).to_contain_text(group["answer"]["reason"])
    shipping = apps.filter(has=page.get_by_role("heading", name="shipping"))
    expect(shipping).to_contain_text("goes to express-eu")
    expect(shipping.locator(".member.gets")).to_contain_text("express-eu")


def test_what_a_subscription_would_take_is_what_the_router_says(
    look: Look, router: PageRouter, shop: Shop
) -> None:
    page = opened(look, 'kind == "express" && amount >= 250')
    fit = card(page, "If somebody subscribed with it")
    expect(fit).to_contain_text("of the last")
    expect(fit).to_contain_text("With priority 9 in shipping it would take")
    page.fill("#expression", 'kind == "express"')
    taken = fit.locator(".impact li", has_text='kind == "express" priority 8')
    expect(taken).to_contain_text("from")
    asked: dict[str, Any] = {
        "expression": 'kind == "express"', "domain": "orders", "queue": QUEUE, "app": "shipping",
        "priority": 9,
    }  # fmt: skip
    rows = router.ask("expression", asked)["impact"]
    assert [(row["expression"], row["priority"]) for row in rows] == [('kind == "express"', 8)]
    page.fill("#priority", "8")
    expect(fit.locator(".impact li", has_text="shared with")).to_be_visible()
    page.fill("#priority", "7")
    expect(fit).to_contain_text("nothing: a higher priority has them all")


def test_everything_typed_is_in_the_address(look: Look, shop: Shop) -> None:
    page = opened(look)
    page.fill("#expression", 'region == "täglich" || amount % 7 == 3')
    page.fill("#properties", 'region = "täglich"\nraw = 0x00ff')
    page.fill("#priority", "3")
    expect(card(page, "How it is read").locator(".tree")).to_contain_text("täglich")
    expect(page).to_have_url(re.compile(r"priority=3"))
    expect(page).to_have_url(re.compile(r"0x00ff"))
    page.reload()
    expect(page.locator("#expression")).to_have_value('region == "täglich" || amount % 7 == 3')
    expect(page.locator("#properties")).to_have_value('region = "täglich"\nraw = 0x00ff')
    expect(page.locator("#priority")).to_have_value("3")
    expect(card(page, "How it is read")).to_contain_text("matches this message")


def test_a_message_that_came_lately_can_be_taken(look: Look, shop: Shop) -> None:
    page = opened(look)
    page.locator(".ask > .chips button").nth(1).click()
    expect(page.locator("#properties")).not_to_have_value(MESSAGE)
    expect(page.locator("#properties")).to_have_value(re.compile("kind = "))


def test_lines_that_cannot_be_read_are_named(look: Look, shop: Shop) -> None:
    page = opened(look)
    page.fill("#properties", "amount = 1.5\nnonsense")
    expect(page.get_by_text("line 1: 1.5 is not a whole number")).to_be_visible()
    expect(page.get_by_text("line 2: write name = value")).to_be_visible()


def test_a_queue_of_no_domain_is_said_to_be(look: Look, shop: Shop) -> None:
    page = opened(look)
    page.fill("#queue", "bmq://nowhere/q")
    expect(card(page, "Who would get the message now").get_by_role("alert")).to_be_visible()
    look.clean("status of 400", "status of 404")


def test_to_compare_one_chooses_a_queue(look: Look, shop: Shop) -> None:
    page = look.go("playground/compare")
    page.get_by_role("link", name="orders/incoming", exact=True).click()
    expect(card(page, "What would change")).to_contain_text("go where they went.")


def test_two_sets_of_subscriptions_are_compared(look: Look, router: PageRouter, shop: Shop) -> None:
    page = opened(look)
    page.get_by_role("link", name="compare sets of subscriptions").click()
    changed = card(page, "What would change")
    expect(changed).to_contain_text("go where they went.")
    expect(page.get_by_label("Before")).to_have_value(re.compile('shipping 8 kind == "express"\n'))
    now = page.get_by_label("After").input_value()
    assert len(now.splitlines()) == 7
    page.get_by_label("After").fill(now.replace('shipping 8 kind == "express"\n', ""))
    row = changed.locator("tbody tr", has_text='kind == "express"').first
    expect(row).to_contain_text("shipping")
    expect(changed).to_contain_text("go elsewhere")
    page.reload()
    expect(row).to_contain_text("shipping")
    look.fits()
    look.accessible()
    page.get_by_label("After").fill("shipping first")
    expect(changed.get_by_role("alert")).to_contain_text("Write APP PRIORITY EXPRESSION")
