from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.codec.router_address import RouterAddress

KEY_HASH = bytes.fromhex("9abd9a86ef280e0e61be68c2f82ea9fd873862c142f89262e480d9394edfa808")
TEXT = "smp://mr2ahu8oDg5hvmjC-C6p_Yc4YsFC-JJi5IDZOU7fqAg=@relay.example:5223"
BYTES = b"\x01\x0drelay.example\x045223\x20" + KEY_HASH


def test_an_address_is_read_and_written_as_text() -> None:
    address = RouterAddress.parse(TEXT)
    assert (address.hosts, address.port, address.key_hash) == (("relay.example",), 5223, KEY_HASH)
    assert (address.text, str(address)) == (TEXT, TEXT)


def test_an_address_is_read_and_written_as_bytes() -> None:
    reader = FieldReader(BYTES + b"more")
    address = RouterAddress.read(reader)
    assert address == RouterAddress.parse(TEXT)
    assert (address.encode(), reader.rest()) == (BYTES, b"more")


def test_a_port_is_written_only_if_it_was() -> None:
    address = RouterAddress.parse(TEXT.removesuffix(":5223"))
    assert (address.port, address.text) == (5223, TEXT.removesuffix(":5223"))
    assert RouterAddress.read(FieldReader(address.encode())) == address


def test_several_hosts_and_an_address_in_brackets() -> None:
    address = RouterAddress.parse(TEXT.replace("relay.example", "relay.example,[::1]"))
    assert address.hosts == ("relay.example", "[::1]")
    assert RouterAddress.parse(address.text) == address
    assert RouterAddress.parse(TEXT.replace("relay.example:5223", "[::1]")).hosts == ("[::1]",)
    first = RouterAddress.parse(TEXT.replace("relay.example:5223", "[::1],relay.example"))
    assert (first.hosts, first.written_port) == (("[::1]", "relay.example"), None)


def test_padding_may_be_left_out() -> None:
    assert RouterAddress.parse(TEXT.replace("=@", "@")) == RouterAddress.parse(TEXT)


def test_a_password_is_read_and_not_shown() -> None:
    address = RouterAddress.parse(TEXT.replace("@", ":let me%3Ain@"))
    assert address.password == "let me:in"
    for shown in (str(address), repr(address), address.text, str(address.encode())):
        assert "let" not in shown
    assert RouterAddress.parse(address.text_with_password) == address
    assert RouterAddress.parse(TEXT).text_with_password == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "relay.example",
        "smp://relay.example",
        "smp://abcd@relay.example",
        "smp://!!!@relay.example",
        TEXT.replace("relay.example", ""),
        TEXT.replace("relay.example", "relay.example,"),
        TEXT.replace("5223", "0"),
        TEXT.replace("5223", "65536"),
        TEXT.replace("5223", "http"),
        TEXT.replace("5223", ""),
        TEXT.replace("5223", "9" * 5000),
        TEXT.replace("relay.example", "r" * 256),
        TEXT.replace("relay.example", "relay example"),
        TEXT.replace("relay.example", "reläy.example"),
        TEXT.replace("relay.example", ",".join(["relay.example"] * 256)),
    ],
)
def test_what_is_no_address_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        RouterAddress.parse(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_address_or_malformed(data: bytes) -> None:
    reader = FieldReader(data)
    try:
        address = RouterAddress.read(reader)
    except Malformed:
        return
    assert RouterAddress.read(FieldReader(address.encode())) == address


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_malformed(text: str) -> None:
    for whole in (text, "smp://" + text, TEXT + text):
        try:
            address = RouterAddress.parse(whole)
        except Malformed:
            continue
        assert RouterAddress.parse(address.text_with_password) == address
