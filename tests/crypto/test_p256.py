"""P-256: points, secrets and signatures as push services want them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.p256 import (
    POINT_BYTES,
    SIGNATURE_BYTES,
    agree,
    decode_point,
    is_signature,
    point_of,
    private_key,
    sign,
)
from headgate.errors import Malformed

ALICE = private_key(
    bytes.fromhex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
)
"""The key of RFC 6979, A.2.5."""
BOB = private_key(bytes(31) + b"\5")


def test_a_signature_is_that_of_rfc_6979() -> None:
    assert sign(ALICE, b"sample").hex() == (
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    )


@given(st.binary(max_size=100))
def test_a_signature_has_64_bytes_and_is_the_same_every_time(message: bytes) -> None:
    signature = sign(BOB, message)
    assert len(signature) == SIGNATURE_BYTES
    assert signature == sign(BOB, message)
    assert is_signature(point_of(BOB), message, signature)
    assert not is_signature(point_of(ALICE), message, signature)
    assert not is_signature(point_of(BOB), message + b"x", signature)
    assert not is_signature(point_of(BOB), message, signature[:-1])


def test_both_agree_on_one_secret() -> None:
    assert agree(ALICE, point_of(BOB)) == agree(BOB, point_of(ALICE))
    assert len(agree(ALICE, point_of(BOB))) == 32


@given(st.binary(max_size=70) | st.binary(min_size=64, max_size=64).map(b"\4".__add__))
def test_any_bytes_are_a_point_or_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_point(data)


def test_a_point_is_written_in_full() -> None:
    point = point_of(ALICE)
    assert (len(point), point[0]) == (POINT_BYTES, 4)
    with pytest.raises(Malformed):
        decode_point(b"\2" + point[1:33])


@pytest.mark.parametrize("raw", [b"", bytes(32), b"\xff" * 32, bytes(31), b"\1" * 33])
def test_what_is_no_private_key_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        private_key(raw)
