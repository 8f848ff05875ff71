"""A browser for tests of the page: Debian's Chromium, driven over playwright.

`Look` is one window. It keeps what the browser complains about: messages on the console, errors of
scripts, violations of the policy, requests to anybody else; a test ends with `clean`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    StorageState,
    expect,
    sync_playwright,
)

Theme = Literal["light", "dark"]
Size = Literal["wide", "narrow"]

SIZES: dict[Size, tuple[int, int]] = {"wide": (1440, 900), "narrow": (390, 844)}
THEMES: tuple[Theme, ...] = ("light", "dark")

PATIENCE_MS = 15_000
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
expect.set_options(timeout=PATIENCE_MS)

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of the machine; playwright brings none of its own."""
    path = shutil.which("chromium")
    assert path is not None, "make peers installs Debian's chromium"
    with sync_playwright() as playwright:
        # A container has no rights to make sandboxes of, and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Look:
    """A window on the page of a router."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self._requested(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"console {message.type}: {message.text}")

    def _requested(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"request to {url}")

    def log_in(self, token: str) -> None:
        self.page.goto(f"{self.url}/login")
        self.page.fill("#token", token)
        self.page.click("button")
        self.page.wait_for_url(f"{self.url}/**")
        self.page.get_by_text("live", exact=True).wait_for()

    def go(self, path: str) -> Page:
        """Open a page by its address, as a link would."""
        self.page.goto(f"{self.url}/#/{path}")
        return self.page

    def clean(self, *expected: str) -> None:
        """Nothing was complained about since this was last asked, but what a test brings about."""
        found, self.complaints = self.complaints, []
        left = [each for each in found if not any(text in each for text in expected)]
        assert not left, "\n".join(left)

    def fits(self) -> None:
        """Nothing has to be scrolled sideways."""
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.page.evaluate(wide) <= 0

    def accessible(self) -> None:
        """No rule of accessibility is broken."""
        if not self.page.evaluate("typeof axe !== 'undefined'"):
            self.page.evaluate(AXE.read_text())
        asked = "(tags) => axe.run(document, {runOnly: tags, resultTypes: ['violations']})"
        found: dict[str, Any] = self.page.evaluate(asked, RULES)
        broken = [_described(violation) for violation in found["violations"]]
        assert not broken, "\n".join(broken)


def _described(violation: dict[str, Any]) -> str:
    where = [node["target"] for node in violation["nodes"][:3]]
    why = violation["nodes"][0].get("failureSummary", "")
    return f"{violation['id']}: {violation['help']} at {where}: {why}"


@contextmanager
def looking(
    browser: Browser,
    url: str,
    size: Size = "wide",
    theme: Theme = "light",
    *,
    state: StorageState | None = None,
    scale: float = 1,
) -> Iterator[Look]:
    """A window of its own, with the cookies of `state` if given."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        storage_state=state,
        device_scale_factor=scale,
        reduced_motion="reduce",
        locale="en-GB",
    )
    try:
        yield Look(context, url)
    finally:
        context.close()
