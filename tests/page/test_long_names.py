"""Names as long as peers may choose them: they are wrapped or cut, and nothing has to be scrolled
sideways."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.support.page_browser import SIZES, Look, Size, looking
from tests.support.page_shop import OPERATOR_TOKEN, TOKEN, PageRouter, Shop

SUBSCRIBER = "subscriber-" + "s" * 150
PUBLISHER = "publisher-" + "p" * 150
READER = "reader-" + "r" * 80
CHANNEL = "channel." + "c" * 180
QUEUE = "queue" + "q" * 55
EXPRESSION = 'amount > 0 || kind == "{}" || region == "{}"'.format("k" * 60, "e" * 28)
TAKEN = urlencode(
    {
        "queue": "bmq://orders/incoming",
        "app": "shipping",
        "expression": EXPRESSION,
        "properties": 'kind = "standard"\nregion = "eu"\namount = 600\nweight = 1',
    }
)
"""A message that is only the long-named reader's."""
PROPERTIES = {"kind": "v" * 180, "property_of_" + "n" * 60: "w" * 100}

PAGES = {
    "": f"{SUBSCRIBER} does not keep up",
    "sessions": SUBSCRIBER,
    "sessions/{session}": PUBLISHER,
    "domains": QUEUE,
    "domains/jobs": QUEUE,
    f"domains/jobs/{QUEUE}": QUEUE,
    "domains/orders/incoming": EXPRESSION,
    f"playground?queue=bmq://jobs/{QUEUE}": "v" * 100,
    f"playground?{TAKEN}": f"goes to {READER}",
    f"playground/compare?queue=bmq://jobs/{QUEUE}": QUEUE,
    "channels": CHANNEL,
    f"queues/jobs%2F{QUEUE}": QUEUE,
    "facts": SUBSCRIBER[:60],
}
"""What follows the # of an address, and which of the names is to be read there."""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageRouter, Shop]]:
    with (
        PageRouter(tmp_path_factory.mktemp("long")) as router,
        Shop(router) as shop,
        shop.stuck_subscriber(SUBSCRIBER, PUBLISHER),
        shop.reader(READER, "shipping", EXPRESSION),
    ):
        shop.post(f"bmq://jobs/{QUEUE}", PROPERTIES)
        yield router, shop


@pytest.fixture(scope="module", params=SIZES)
def window(
    request: pytest.FixtureRequest, browser: Browser, named: tuple[PageRouter, Shop]
) -> Iterator[Look]:
    size: Size = request.param
    with looking(browser, named[0].url, size) as look:
        look.log_in(TOKEN)
        yield look


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path[:24])
def test_a_page_is_as_wide_as_its_window(
    window: Look, named: tuple[PageRouter, Shop], path: str
) -> None:
    router, shop = named
    shop.publish(CHANNEL)  # only what was published lately is listed
    [row] = router.ask(f"sessions?q={SUBSCRIBER}")["rows"]
    page = window.go(path.format(session=row["session"]))
    expect(page.locator("main").get_by_text(PAGES[path]).first).to_be_visible()
    window.fits()
    window.accessible()
    window.clean()


def test_a_question_is_as_wide_as_its_window(
    browser: Browser, named: tuple[PageRouter, Shop]
) -> None:
    router, _ = named
    [row] = router.ask(f"sessions?q={SUBSCRIBER}")["rows"]
    with looking(browser, router.url, "narrow") as look:
        look.log_in(OPERATOR_TOKEN)
        page = look.go(f"sessions/{row['session']}")
        page.get_by_role("button", name="Close…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"Type {SUBSCRIBER} to confirm")
        assert dialog.evaluate("dialog => dialog.scrollWidth - dialog.clientWidth") <= 0
        look.fits()
        look.accessible()
        look.clean()
