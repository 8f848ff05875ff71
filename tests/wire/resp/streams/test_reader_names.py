"""What the name of a consumer says."""

from __future__ import annotations

import pytest

from headgate.core.model.interest import Interest
from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.streams.reader_names import read_name


@pytest.mark.parametrize(
    ("text", "name", "expression", "priority"),
    [
        (b"w1", b"w1", None, 0),
        (b'w1?where=a == "b" && c > 1', b"w1", 'a == "b" && c > 1', 0),
        (b"w1?priority=10", b"w1", None, 10),
        (b"w1?priority=-1&where=x == 1", b"w1", "x == 1", -1),
        (b"?where=x == 1", b"", "x == 1", 0),
    ],
)
def test_a_name_says_what_is_wanted(
    text: bytes, name: bytes, expression: str | None, priority: int
) -> None:
    assert read_name(text) == (name, Interest(expression, priority))


@pytest.mark.parametrize(
    "text",
    [
        b"w?wher=x",
        b"host?x=1",
        b"w?",
        b"w?priority=x",
        b"w?priority=1&x=2",
        b"w?where=\xff",
        b"w?priority=9999999999",
    ],
)
def test_what_it_cannot_say_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError):
        read_name(text)
    with pytest.raises(CommandError):
        read_name(b"x" * 1025)
