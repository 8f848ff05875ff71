"""Fields are read as they were written, and what is no field is malformed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.padding import pad, unpad
from headgate.errors import Malformed
from headgate.wire.smp.codec import encoding
from headgate.wire.smp.codec.encoding import FieldReader
from tests.support.smp_examples import (
    LONG_KEY,
    RECIPIENT_DH,
    RECIPIENT_KEY,
    X448_KEY,
    dh_keys,
    int64s,
    larges,
    queue_keys,
    strings,
)


def test_a_payload_is_padded_to_its_size() -> None:
    """WIRE-6."""
    assert pad(b"abc", 16) == bytes.fromhex("00036162632323232323232323232323")


@given(st.binary(max_size=300), st.integers(0, 50))
def test_padding_is_taken_off_again(payload: bytes, more: int) -> None:
    padded = pad(payload, len(payload) + 2 + more)
    assert len(padded) == len(payload) + 2 + more
    assert unpad(padded) == payload


def test_what_a_payload_is_padded_with_does_not_matter() -> None:
    assert unpad(b"\0\3abc\0\1\2") == b"abc"


@pytest.mark.parametrize("padded", [b"", b"\0", b"\0\1", b"\0\4abc", b"\xff\xff###"])
def test_a_length_beyond_the_end_is_malformed(padded: bytes) -> None:
    with pytest.raises(Malformed):
        unpad(padded)


def test_a_payload_that_does_not_fit_is_a_mistake_of_ours() -> None:
    assert pad(b"abc", 5) == b"\0\3abc"
    with pytest.raises(AssertionError):
        pad(b"abcd", 5)


@given(
    strings,
    larges,
    st.booleans(),
    st.integers(0, 2**16 - 1),
    int64s,
    st.none() | strings,
    st.lists(strings, max_size=255),
)
def test_fields_are_read_as_they_were_written(
    short: bytes,
    long: bytes,
    flag: bool,
    word: int,
    number: int,
    optional: bytes | None,
    several: list[bytes],
) -> None:
    data = b"".join(
        (
            encoding.string(short),
            encoding.large(long),
            encoding.boolean(flag),
            encoding.word16(word),
            encoding.int64(number),
            encoding.maybe_string(optional),
            encoding.maybe(None if optional is None else encoding.large(optional)),
            encoding.items([encoding.string(one) for one in several]),
            b"tail",
        )
    )
    reader = FieldReader(data)
    assert reader.string() == short
    assert reader.large() == long
    assert reader.boolean() is flag
    assert reader.word16() == word
    assert reader.int64() == number
    assert reader.maybe(FieldReader.string) == optional
    assert reader.maybe(FieldReader.large) == optional
    assert reader.items(FieldReader.string) == several
    assert not reader.is_done
    assert reader.rest() == b"tail"
    assert reader.is_done
    reader.finish()


def test_numbers_have_their_most_significant_byte_first() -> None:
    reader = FieldReader(b"\x01\x02\x01\x02\x03\x04\xff\xff\xff\xff\xff\xff\xff\xfe")
    assert (reader.word16(), reader.word32(), reader.int64()) == (0x0102, 0x01020304, -2)
    assert encoding.word32(0x01020304) == b"\x01\x02\x03\x04"


def test_letters_stand_for_what_they_say() -> None:
    assert FieldReader(b"R").char() == b"R"
    assert FieldReader(b"\x07").byte() == 7
    assert FieldReader(b"M").purpose() is Purpose.MESSAGING
    assert FieldReader(b"C").purpose() is Purpose.CONTACT


def test_bytes_that_are_left_over_are_malformed() -> None:
    reader = FieldReader(b"\1ab")
    assert reader.string() == b"a"
    with pytest.raises(Malformed):
        reader.finish()


READS: dict[str, Callable[[FieldReader], object]] = {
    "take": lambda reader: reader.take(4),
    "byte": FieldReader.byte,
    "char": FieldReader.char,
    "boolean": FieldReader.boolean,
    "word16": FieldReader.word16,
    "word32": FieldReader.word32,
    "int64": FieldReader.int64,
    "string": FieldReader.string,
    "large": FieldReader.large,
    "queue_key": FieldReader.queue_key,
    "dh_key": FieldReader.dh_key,
    "ratchet_key": FieldReader.ratchet_key,
    "purpose": FieldReader.purpose,
    "tally": FieldReader.tally,
    "maybe": lambda reader: reader.maybe(FieldReader.string),
    "items": lambda reader: reader.items(FieldReader.large),
    "some": lambda reader: reader.some(FieldReader.string),
    "skip_past": lambda reader: reader.skip_past(b" "),
}


@pytest.mark.parametrize("name", READS)
def test_where_nothing_is_left_nothing_can_be_read(name: str) -> None:
    with pytest.raises(Malformed):
        READS[name](FieldReader(b""))


@given(st.sampled_from(sorted(READS)), st.binary(max_size=80))
def test_no_field_reaches_beyond_the_end(name: str, data: bytes) -> None:
    reader = FieldReader(data)
    try:
        READS[name](reader)
    except Malformed:
        return
    place = reader.mark()
    assert place <= len(data)
    assert reader.rest() == data[place:]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("boolean", b"t"),
        ("maybe", b"2\0"),
        ("some", b"\0"),
        ("items", b"\2\0\1a\0"),
        ("string", b"\2a"),
        ("large", b"\0\2a"),
        ("purpose", b"S"),
        ("tally", b"\0\0\0\0\0\0\0\1\x0f" + bytes(15)),
        ("skip_past", b"abc"),
    ],
)
def test_what_is_no_such_field_is_malformed(name: str, data: bytes) -> None:
    with pytest.raises(Malformed):
        READS[name](FieldReader(data))


def test_a_reader_can_go_back() -> None:
    reader = FieldReader(b"\2abc")
    mark = reader.mark()
    assert reader.string() == b"ab"
    reader.rewind(mark)
    assert reader.byte() == 2
    reader.skip_past(b"b")
    assert reader.rest() == b"c"


@given(queue_keys)
def test_a_queue_may_have_keys_of_three_kinds(key: bytes) -> None:
    assert FieldReader(encoding.string(key)).queue_key() == key


@given(dh_keys)
def test_an_exchange_needs_a_key_of_x25519(key: bytes) -> None:
    assert FieldReader(encoding.string(key)).dh_key() == key


@pytest.mark.parametrize(
    "key", [b"", X448_KEY, RECIPIENT_KEY[:-1], RECIPIENT_KEY + b"\0", LONG_KEY[:44], bytes(44)]
)
def test_other_keys_are_malformed(key: bytes) -> None:
    with pytest.raises(Malformed):
        FieldReader(encoding.string(key)).queue_key()


@pytest.mark.parametrize("key", [RECIPIENT_KEY, LONG_KEY, RECIPIENT_DH[:-1], RECIPIENT_DH + b"\0"])
def test_a_key_that_signs_exchanges_nothing(key: bytes) -> None:
    with pytest.raises(Malformed):
        FieldReader(encoding.string(key)).dh_key()


@given(st.binary(min_size=56, max_size=56))
def test_a_ratchet_needs_a_key_of_x448(raw: bytes) -> None:
    reader = FieldReader(encoding.ratchet_key(raw))
    assert reader.ratchet_key() == raw
    assert reader.is_done


@pytest.mark.parametrize("key", [b"", LONG_KEY, RECIPIENT_DH, X448_KEY[:-1], X448_KEY + b"\0"])
def test_a_key_of_another_kind_is_none_of_a_ratchet(key: bytes) -> None:
    with pytest.raises(Malformed):
        FieldReader(encoding.string(key)).ratchet_key()


def test_a_byte_may_be_looked_at_before_it_is_taken() -> None:
    reader = FieldReader(b"ab")
    assert (reader.peek(), reader.byte(), reader.peek()) == (b"a", ord("a"), b"b")
    reader.byte()
    assert reader.peek() == b""


def test_a_tally_is_a_count_and_a_hash() -> None:
    data = encoding.int64(2) + encoding.string(bytes(15) + b"\1")
    assert FieldReader(data).tally() == Tally(2, 1)


def test_what_is_too_long_to_be_written_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        encoding.string(bytes(256))
    with pytest.raises(AssertionError):
        encoding.items([b""] * 256)
    with pytest.raises(OverflowError):
        encoding.large(bytes(65536))
