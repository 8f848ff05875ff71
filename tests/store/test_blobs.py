"""The parties of a queue and the properties of a message as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.ids import ServiceId
from headgate.core.model.message import Declared, Properties
from headgate.core.model.parties import Link, Notifier, Parties, Purpose
from headgate.store.blobs import (
    DAMAGED,
    decode_parties,
    decode_properties,
    encode_parties,
    encode_properties,
)

some = st.binary(max_size=4)
parties = st.builds(
    Parties,
    keys=st.lists(some, max_size=3).map(tuple),
    secret=some,
    sender=some,
    sender_key=st.none() | some,
    purpose=st.none() | st.sampled_from(Purpose),
    link=st.none() | st.builds(Link, some, some, some),
    notifier=st.none() | st.builds(Notifier, some, some, some, st.none() | some.map(ServiceId)),
    is_off=st.booleans(),
)


@given(parties)
def test_parties_come_back_as_they_were(its: Parties) -> None:
    encoded = encode_parties(its)
    assert encoded is not None
    back = decode_parties(encoded)
    assert back == its
    assert back is not None
    assert type(back.keys) is tuple
    assert type(back.is_off) is bool


def test_nobody_is_no_bytes() -> None:
    assert encode_parties(None) is None
    assert decode_parties(None) is None


def test_nothing_is_told_from_empty() -> None:
    empty = Parties((), b"", b"", b"", None, Link(b"", b"", b""), Notifier(b"", b"", b""))
    nothing = Parties((), b"", b"")
    assert encode_parties(empty) != encode_parties(nothing)
    assert decode_parties(encode_parties(empty)) == empty
    assert decode_parties(encode_parties(nothing)) == nothing


@pytest.mark.parametrize(
    ("purpose", "letter"), [(Purpose.MESSAGING, b"M"), (Purpose.CONTACT, b"C")]
)
def test_the_bytes_are_those_of_stores_that_exist(purpose: Purpose, letter: bytes) -> None:
    """Whoever changes them has to migrate what was written before."""
    its = Parties(
        keys=(b"k", b"l"),
        secret=b"s",
        sender=b"i",
        sender_key=b"j",
        purpose=purpose,
        link=Link(b"a", b"b", b"c"),
        notifier=Notifier(b"d", b"e", b"f", ServiceId(b"g")),
        is_off=True,
    )
    encoded = (
        b"\x98\x92\xc4\x01k\xc4\x01l\xc4\x01s\xc4\x01i\xc4\x01j\xa1%b"
        b"\x93\xc4\x01a\xc4\x01b\xc4\x01c\x94\xc4\x01d\xc4\x01e\xc4\x01f\xc4\x01g\xc3"
    ) % letter
    assert encode_parties(its) == encoded
    assert decode_parties(encoded) == its


values = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=4) | some


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), st.booleans())
def test_properties_come_back_with_the_types_that_were_declared(
    plain: dict[str, bool | int | str | bytes], has_types: bool
) -> None:
    types = bytes(range(len(plain)))
    its: Properties = Declared(plain, types) if has_types else plain
    back = decode_properties(encode_properties(its))
    assert back == plain
    assert [type(v) for v in back.values()] == [type(v) for v in plain.values()]
    assert getattr(back, "types", b"") == (types if has_types else b"")


def test_properties_with_a_type_too_few_are_damaged() -> None:
    damaged = encode_properties(Declared({"a": 1}, b"\x05")).replace(b"\xc4\x01\x05", b"\xc4\x00")
    with pytest.raises(DAMAGED):
        decode_properties(damaged)
