"""Take the pictures of the page that the docs show: a busy router, in Debian's Chromium.

``make screenshots`` runs this. What is on the pictures is what the tests of the page play.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from tests.support.page_browser import Look, Size, Theme, chromium, looking
from tests.support.page_shop import QUEUE, TOKEN, PageRouter, Shop
from tests.support.repository import DOCS

FOLDER = DOCS / "page"
PLAYED_SECONDS = 100
"""So much history is on the charts."""

MISTAKE = 'kind = "express" && amount > 250'
TRIED = f"playground?queue={QUEUE}&app=shipping&priority=9"
EXPRESS = 'kind = "express"\nregion = "eu"\namount = 1250\nweight = 12'


def overview(page: Page) -> None:
    page.locator(".attention li").nth(1).wait_for()


def stuck(page: Page) -> None:
    page.get_by_role("link", name="report-builder", exact=True).first.click()
    page.locator(".chain").wait_for()


def tried(page: Page) -> None:
    page.fill("#properties", EXPRESS)
    page.get_by_text("goes to express-eu").wait_for()


def mistaken(page: Page) -> None:
    tried(page)
    page.fill("#expression", MISTAKE)
    page.locator(".caret pre").wait_for()


def tailed(page: Page) -> None:
    page.get_by_role("button", name="Tail", exact=True).click()
    page.locator(".lines time").nth(12).wait_for()


def waited(page: Page) -> None:
    page.locator("main .card").first.wait_for()


PICTURES: tuple[tuple[str, str, Size, Theme, Callable[[Page], None]], ...] = (
    ("overview", "", "wide", "light", overview),
    ("overview-dark", "", "wide", "dark", overview),
    ("overview-phone", "", "narrow", "light", overview),
    ("session", "sessions", "wide", "light", stuck),
    ("domains", "domains/orders/incoming", "wide", "light", waited),
    ("playground", TRIED, "wide", "light", tried),
    ("playground-mistake", TRIED, "wide", "dark", mistaken),
    ("channels", "channels", "wide", "light", tailed),
)
"""Name, what is behind the # of the address, size, theme, and what to do before."""


def take(look: Look, name: str, path: str, prepare: Callable[[Page], None]) -> None:
    page = look.go(path)
    page.locator("#state", has_text="live").wait_for()
    prepare(page)
    page.mouse.move(0, 0)
    time.sleep(2)  # for charts and lists to have come
    FOLDER.mkdir(exist_ok=True)
    page.screenshot(path=FOLDER / f"{name}.png")
    print(FOLDER / f"{name}.png")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        PageRouter(Path(folder)) as router,
        Shop(router) as shop,
        shop.stuck_subscriber("report-builder", "etl-nightly"),
        chromium() as browser,
    ):
        time.sleep(PLAYED_SECONDS)
        for name, path, size, theme, prepare in PICTURES:
            with looking(browser, router.url, size, theme) as look:
                look.log_in(TOKEN)
                take(look, name, path, prepare)


if __name__ == "__main__":
    main()
