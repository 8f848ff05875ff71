"""The tests that docs/design/findings.md names are there."""

from __future__ import annotations

import re

from tests.support.repository import DOCS, ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_is_named_is_there() -> None:
    named = NAMED.findall((DOCS / "design" / "findings.md").read_text())
    assert len(named) > 30
    for file, test in named:
        text = (ROOT / file).read_text()
        assert f"def {test}(" in text if test else text, f"{file}::{test}"
