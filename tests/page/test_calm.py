"""A router that nobody uses: every page says what to do, and nothing is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.page_browser import Look, looking
from tests.support.page_shop import TOKEN, PageRouter

EMPTY = {
    "": ("Nothing needs attention.", "Nobody is connected", "headgate sub news --config"),
    "sessions": ("Nobody is connected.", "Nobody has left since the router started."),
    "domains": ("Every shared queue has delivered what came.", "orders"),
    "domains/orders/incoming": ("nobody has opened it since the router started",),
    "playground": ("none is remembered", "Say a queue, like bmq://orders/incoming."),
    "playground/compare": ("Subscriptions of which queue?", "Nobody has opened a queue yet."),
    "channels": ("Nothing was published yet.", "Nobody subscribed to a pattern."),
    "queues": ("No service is subscribed.",),
    "journal": ("No journal is kept",),
    "facts": ("Nothing has happened yet.",),
    "settings": ("listen.resp.mailbox_hard",),
}


@pytest.fixture(scope="module")
def calm(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    folder: Path = tmp_path_factory.mktemp("calm")
    with PageRouter(folder, store="memory:") as router, looking(browser, router.url) as look:
        look.log_in(TOKEN)
        yield look


@pytest.mark.parametrize("path", EMPTY)
def test_an_empty_page_says_what_to_do(calm: Look, path: str) -> None:
    page = calm.go(path)
    for text in EMPTY[path]:
        expect(page.locator("main").get_by_text(text).first).to_be_visible()
    calm.fits()
    calm.accessible()
    calm.clean()
