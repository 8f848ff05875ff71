"""A plugin of pytest for `make laws`: every law draws new examples, and more of them.

`make test` plays the examples that follow from a law itself, so that a change is judged by what it
changes; this is where what nobody thought of is looked for.
"""

from __future__ import annotations

import pytest
from hypothesis import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=1, help="so many times the examples of each law")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times: int = config.getoption("--times")
    for item in items:
        law = getattr(item, "function", None)
        own: settings | None = getattr(law, "_hypothesis_internal_use_settings", None)
        if own is not None:
            more = settings(own, max_examples=own.max_examples * times)
            law._hypothesis_internal_use_settings = more  # type: ignore[union-attr]
