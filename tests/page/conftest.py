"""One browser, one busy router and one login for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, StorageState

from tests.support.page_browser import Look, Size, Theme, chromium, looking
from tests.support.page_shop import OPERATOR_TOKEN, TOKEN, PageRouter, Shop

ALONE = "a browser's event loop is in the way of others': pytest -m page"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests of the page, and leave them out where others are run by the same process."""
    here = [item for item in items if "tests/page/" in item.path.as_posix()]
    for item in here:
        item.add_marker(pytest.mark.page)
    yield
    if any(item.get_closest_marker("page") is None for item in items):
        for item in here:
            item.add_marker(pytest.mark.skip(ALONE))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRouter]:
    with PageRouter(tmp_path_factory.mktemp("router")) as router:
        yield router


@pytest.fixture(scope="session")
def shop(router: PageRouter) -> Iterator[Shop]:
    with Shop(router) as shop:
        yield shop


def _logged_in(browser: Browser, router: PageRouter, token: str) -> StorageState:
    with looking(browser, router.url) as look:
        look.log_in(token)
        look.clean()
        return look.context.storage_state()


@pytest.fixture(scope="session")
def cookies(browser: Browser, router: PageRouter) -> StorageState:
    """Of somebody who may look."""
    return _logged_in(browser, router, TOKEN)


@pytest.fixture(scope="session")
def operator_cookies(browser: Browser, router: PageRouter) -> StorageState:
    """Of somebody who may act."""
    return _logged_in(browser, router, OPERATOR_TOKEN)


Open = Callable[..., Look]


@pytest.fixture
def open_look(browser: Browser, router: PageRouter, cookies: StorageState) -> Iterator[Open]:
    """Opens windows of somebody who may look. At the end nothing was complained about in any."""
    with ExitStack() as stack:
        looks: list[Look] = []

        def opened(
            size: Size = "wide", theme: Theme = "light", state: StorageState | None = None
        ) -> Look:
            entered = looking(browser, router.url, size, theme, state=state or cookies)
            look = stack.enter_context(entered)
            looks.append(look)
            return look

        yield opened
        for look in looks:
            look.clean()


@pytest.fixture
def look(open_look: Open) -> Look:
    return open_look()
