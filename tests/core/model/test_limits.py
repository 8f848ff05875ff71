"""Every bound has a test at the limit and one above."""

from __future__ import annotations

import re
from dataclasses import fields

from headgate.core.model.limits import Limits
from headgate.server.config import attribute_docs
from tests.support.repository import TESTS


def test_every_limit_is_set_by_a_test() -> None:
    """To a small number, so that it is reached; the test is elsewhere, with what it bounds."""
    text = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    names = [field.name for field in fields(Limits)]
    unset = [name for name in names if not re.search(rf"\b{name}\b ?[=:,)\".]", text)]
    assert unset == []


def test_every_limit_has_a_reason() -> None:
    docs = attribute_docs(Limits)
    assert [name for name, text in docs.items() if len(text) < 20] == []
    assert set(docs) == {field.name for field in fields(Limits)}
