"""Ids of entries, as clients write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.stream_id import StreamId, stream_id
from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.streams.ids import HALF_MAX, LARGEST, read_bound, read_id, write_id


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (b"5", (5, 0)),
        (b"5-7", (5, 7)),
        (b"0-0", (0, 0)),
        (b"%d-%d" % (HALF_MAX, HALF_MAX), LARGEST),
    ],
)
def test_ids_are_read(text: bytes, id: tuple[int, int]) -> None:
    assert read_id(text) == id


@pytest.mark.parametrize(
    "text", [b"", b"-", b"x", b"1-", b"-1", b"1-x", b"1-1-1", b" 1", b"%d" % (HALF_MAX + 1)]
)
def test_what_is_no_id_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match="Invalid stream ID"):
        read_id(text)


def test_ends_of_intervals() -> None:
    assert read_bound(b"-", is_end=False) == (0, 0)
    assert read_bound(b"+", is_end=True) == LARGEST
    assert read_bound(b"5", is_end=True) == (5, HALF_MAX)
    assert read_bound(b"(5-3", is_end=False) == (5, 4)
    assert read_bound(b"(5-%d" % HALF_MAX, is_end=False) == (6, 0)
    assert read_bound(b"(5-0", is_end=True) == (4, HALF_MAX)
    with pytest.raises(CommandError, match="invalid end ID for the interval"):
        read_bound(b"(0-0", is_end=True)
    with pytest.raises(CommandError, match="invalid start ID for the interval"):
        read_bound(b"(%d-%d" % LARGEST, is_end=False)


@given(st.binary(max_size=50))
def test_nothing_but_an_id_or_an_error(text: bytes) -> None:
    """Check 77."""
    for is_end in (False, True):
        try:
            found = read_bound(text, is_end=is_end)
        except CommandError:
            continue
        assert 0 <= found.milliseconds <= HALF_MAX


def test_an_id_is_when_it_arrived_and_its_number() -> None:
    assert stream_id(1.2345, 7) == StreamId(1234, 7)
    assert write_id(StreamId(1234, 7)) == b"1234-7"
