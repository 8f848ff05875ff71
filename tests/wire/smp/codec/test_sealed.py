"""What is inside sealed messages and notices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.padding import pad
from headgate.errors import Malformed
from headgate.wire.smp.codec.sealed import (
    BODY,
    MESSAGE_PADDED,
    MESSAGE_SEALED,
    NOTICE_PADDED,
    NOTICE_SEALED,
    Body,
    QuotaMarker,
    SealedNotice,
    body_max,
    message_plaintext,
    notice_plaintext,
    parse_message,
    parse_notice,
    quota_plaintext,
)
from tests.support.smp_examples import MESSAGE, SECONDS, int64s, strings

seconds = st.integers(0, 2**53)


def test_plaintexts_have_their_bytes() -> None:
    """WIRE-41, WIRE-42."""
    assert message_plaintext(SECONDS, False, b"hello").hex() == "000000006553f100462068656c6c6f"
    assert quota_plaintext(SECONDS).hex() == "51554f544120000000006553f100"
    assert notice_plaintext(MESSAGE, SECONDS).hex() == (
        "18808182838485868788898a8b8c8d8e8f9091929394959697000000006553f100"
    )


def test_sizes_are_those_of_the_wire() -> None:
    assert (MESSAGE_PADDED, MESSAGE_SEALED) == (16106, 16122)
    assert (NOTICE_PADDED, NOTICE_SEALED) == (128, 144)


def test_older_versions_may_send_more() -> None:
    limits = {version: body_max(version) for version in (7, 8, 10, 11, 19)}
    assert limits == {7: 16088, 8: 16064, 10: 16064, 11: 16048, 19: 16048}


def test_the_longest_body_fits_what_is_sealed() -> None:
    assert body_max(7) == BODY
    assert len(pad(message_plaintext(SECONDS, True, bytes(BODY)), MESSAGE_PADDED)) == MESSAGE_PADDED


@given(seconds, st.booleans(), st.binary())
def test_a_message_is_read_as_it_was_written(time: int, notify: bool, body: bytes) -> None:
    assert parse_message(message_plaintext(time, notify, body)) == Body(time, notify, body)


@given(int64s)
def test_a_marker_is_told_apart_from_a_message(time: int) -> None:
    assert parse_message(quota_plaintext(time)) == QuotaMarker(time)


@given(strings, int64s, st.binary())
def test_what_follows_a_notice_is_ignored(message_id: bytes, time: int, more: bytes) -> None:
    plaintext = notice_plaintext(message_id, time) + more
    assert parse_notice(plaintext) == SealedNotice(message_id, time)


def test_flags_of_later_versions_are_ignored() -> None:
    assert parse_message(bytes(8) + b"Tabc body of words") == Body(0, True, b"body of words")


@pytest.mark.parametrize(
    "plaintext",
    [b"", bytes(8), bytes(8) + b"T", bytes(8) + b"x ", b"QUOTA ", quota_plaintext(1) + b"\0"],
)
def test_what_is_no_message_is_malformed(plaintext: bytes) -> None:
    with pytest.raises(Malformed):
        parse_message(plaintext)


@pytest.mark.parametrize("plaintext", [b"", b"\1", notice_plaintext(MESSAGE, 1)[:-1]])
def test_what_is_no_notice_is_malformed(plaintext: bytes) -> None:
    with pytest.raises(Malformed):
        parse_notice(plaintext)
