"""Addresses of queues, as text and as bytes, in the forms of every version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.parties import Purpose
from headgate.errors import Malformed
from headgate.wire.smp.agent.queue_address import QueueAddress, QueueInfo
from headgate.wire.smp.agent.versions import (
    AGENT_VERSIONS,
    CLIENT_VERSIONS,
    RATCHET_VERSIONS,
    format_versions,
    parse_versions,
)
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import (
    QUEUE,
    QUEUE_BYTES,
    QUEUE_INFO,
    QUEUE_INFO_BYTES,
    QUEUE_TEXT,
    ROUTER,
    base64,
    queue_addresses,
    x25519_public,
)

KEY_TEXT = "MCowBQYDK2VuAyEAew1H2TQn-DERYHgcfHM_2J-IlwrvSQ2KoO4ZpMuKGxQ"
WHERE = QUEUE_TEXT.partition("#")[0]
M, C = Purpose.MESSAGING, Purpose.CONTACT


def test_an_address_as_text() -> None:
    assert (QUEUE.text, str(QUEUE)) == (QUEUE_TEXT, QUEUE_TEXT)
    assert QueueAddress.parse(QUEUE_TEXT) == QUEUE


def test_an_address_as_bytes() -> None:
    assert QUEUE.encode() == QUEUE_BYTES
    reader = FieldReader(QUEUE_BYTES + b"\0more")
    assert QueueAddress.read(reader) == QUEUE
    assert reader.rest() == b"\0more"


def test_a_queue_in_a_confirmation() -> None:
    assert QUEUE_INFO.encode() == QUEUE_INFO_BYTES
    assert len(QUEUE_INFO_BYTES) == 126
    assert QueueInfo.read(FieldReader(QUEUE_INFO_BYTES)) == QUEUE_INFO == QUEUE.at(4)


@pytest.mark.parametrize(
    "fragment",
    [
        f"/?dh={KEY_TEXT}%3D&k=s&v=2-4",
        f"/?k=s&v=2-4&dh={KEY_TEXT}",
        f"?v=2-4&q=m&dh={KEY_TEXT}=",
        f"/?v=2-4&extra=1&&dh={KEY_TEXT}%3D&q=m&k=x&more&v=9",
        f"{KEY_TEXT}=/?v=2-4&k=s",
        f"{KEY_TEXT}?v=2-4&q=m",
    ],
)
def test_parameters_come_in_any_order_and_unknown_ones_are_left_alone(fragment: str) -> None:
    assert QueueAddress.parse(f"{WHERE}#{fragment}") == QUEUE
    assert QueueAddress.parse(f"{WHERE}/#{fragment}") == QUEUE


def test_the_oldest_form_has_only_a_key() -> None:
    address = QueueAddress.parse(f"{WHERE}#{KEY_TEXT}=")
    assert (address.versions, address.key) == (Versions(1, 1), QUEUE.key)
    assert (address.purpose, address.sender_can_secure) == (None, False)


def test_more_hosts_may_stand_apart() -> None:
    address = QueueAddress.parse(QUEUE_TEXT + "&srv=one.onion,two.example")
    assert address.router.hosts == ("relay.example", "one.onion", "two.example")
    assert "one.onion,two.example:5223/" in address.text
    assert QueueAddress.parse(address.text) == address


def test_the_longest_id() -> None:
    text = QUEUE_TEXT.replace("YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3", base64(bytes(255)))
    assert QueueAddress.parse(text).encode().count(bytes(255)) == 1


def test_a_password_is_not_handed_on() -> None:
    address = QueueAddress.parse(QUEUE_TEXT.replace("=@", "=:sesame@"))
    assert address == QUEUE
    assert "sesame" not in repr(address)


@pytest.mark.parametrize(
    ("purpose", "versions", "text", "encoded"),
    [
        (M, (4, 4), "&q=m", b"M"),
        (C, (4, 5), "&q=c", b"C"),
        (None, (4, 4), "", b""),
        (M, (3, 4), "&q=m&k=s", b"T"),
        (C, (3, 4), "&q=c", b"F"),
        (None, (3, 4), "", b"F"),
        (M, (2, 3), "&q=m&k=s", b"T"),
        (C, (2, 3), "&q=c", b""),
        (M, (2, 2), "&q=m&k=s", b""),
        (None, (1, 2), "", b""),
    ],
)
def test_how_the_purpose_is_written(
    purpose: Purpose | None, versions: tuple[int, int], text: str, encoded: bytes
) -> None:
    address = QueueAddress(Versions(*versions), ROUTER, b"id", QUEUE.key, purpose)
    assert address.text.endswith("%3D" + text)
    assert QueueAddress.parse(address.text) == address
    assert address.encode().partition(QUEUE.key)[2] == encoded
    again = QueueAddress.read(FieldReader(address.encode()))
    if versions != (2, 2):  # which has no place for it
        assert again.sender_can_secure == address.sender_can_secure


@pytest.mark.parametrize(
    ("letter", "purpose"),
    [(b"M", M), (b"T", M), (b"C", C), (b"F", C), (b"", None), (b"x", None), (b"\0", None)],
)
def test_how_the_purpose_is_read(letter: bytes, purpose: Purpose | None) -> None:
    reader = FieldReader(QUEUE_INFO_BYTES[:-1] + letter + b"{}")
    assert QueueInfo.read(reader).purpose is purpose
    assert reader.rest() == (b"{}" if purpose else letter + b"{}")


@pytest.mark.parametrize(
    ("version", "purpose", "letter"), [(3, M, b"T"), (3, C, b"F"), (4, M, b"M"), (4, C, b"C")]
)
def test_a_queue_in_a_confirmation_always_has_its_purpose(
    version: int, purpose: Purpose, letter: bytes
) -> None:
    """Without it what follows, which may be anything, would be read as one."""
    info = QueueInfo(version, ROUTER, b"id", QUEUE.key, purpose)
    assert info.encode().endswith(letter)
    reader = FieldReader(info.encode() + b"Title")
    assert QueueInfo.read(reader) == info
    assert reader.rest() == b"Title"
    with pytest.raises(AssertionError):
        QueueInfo(version, ROUTER, b"id", QUEUE.key, None).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "smp://",
        WHERE,
        ROUTER.text,
        QUEUE_TEXT.replace("smp://", "https://"),
        QUEUE_TEXT.replace("v=2-4", "v=4-2"),
        QUEUE_TEXT.replace("v=2-4", "v=0-4"),
        QUEUE_TEXT.replace("v=2-4", "v=2-65536"),
        QUEUE_TEXT.replace("v=2-4", "v=2-4-5"),
        QUEUE_TEXT.replace("v=2-4", "v=two"),
        QUEUE_TEXT.replace("v=2-4&", ""),
        QUEUE_TEXT.replace("dh=", "key="),
        QUEUE_TEXT.replace("dh=MCow", "dh=MCox"),
        QUEUE_TEXT.replace("/YGFi", "/!"),
        QUEUE_TEXT.replace("YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3", ""),
        QUEUE_TEXT.replace("YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3", base64(bytes(256))),
        QUEUE_TEXT + "&srv=not a host",
    ],
)
def test_what_is_no_address_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        QueueAddress.parse(text)


@given(queue_addresses)
def test_an_address_is_read_as_it_was_written(address: QueueAddress) -> None:
    assert QueueAddress.parse(address.text) == address
    reader = FieldReader(address.encode())
    again = QueueAddress.read(reader)
    assert reader.is_done
    assert again.encode() == address.encode()


@given(st.binary(max_size=60), st.integers(0, len(QUEUE_BYTES)))
def test_any_bytes_are_an_address_or_malformed(data: bytes, cut: int) -> None:
    for whole in (data, QUEUE_BYTES[:cut] + data):
        try:
            address = QueueAddress.read(FieldReader(whole))
        except Malformed:
            continue
        assert QueueAddress.parse(address.text).router == address.router


@given(st.text(max_size=60), st.integers(0, len(QUEUE_TEXT)))
def test_any_text_is_an_address_or_malformed(text: str, cut: int) -> None:
    for whole in (text, QUEUE_TEXT[:cut] + text, QUEUE_TEXT[:cut] + text + QUEUE_TEXT[cut:]):
        try:
            address = QueueAddress.parse(whole)
        except Malformed:
            continue
        assert QueueAddress.parse(address.text) == address
        address.encode()


def test_versions_that_we_publish() -> None:
    assert [format_versions(v) for v in (AGENT_VERSIONS, CLIENT_VERSIONS, RATCHET_VERSIONS)] == [
        "6-7",
        "3-4",
        "2-3",
    ]
    assert AGENT_VERSIONS.common(parse_versions("2-7")) == 7
    assert AGENT_VERSIONS.common(parse_versions("2-6")) == 6
    assert AGENT_VERSIONS.common(parse_versions("6-12")) == 7
    assert AGENT_VERSIONS.common(parse_versions("2-5")) is None
    assert AGENT_VERSIONS.common(parse_versions("8")) is None


def test_bytes_without_an_id_of_senders_are_malformed() -> None:
    nameless = QueueAddress(Versions(4, 4), ROUTER, b"", QUEUE.key, M)
    with pytest.raises(Malformed, match="senders"):
        QueueAddress.read(FieldReader(nameless.encode()))


def test_a_key_of_another_kind_is_malformed() -> None:
    assert QUEUE.key == x25519_public(0x33)
    signing = QUEUE_BYTES.replace(bytes.fromhex("2b656e"), bytes.fromhex("2b6570"))
    with pytest.raises(Malformed):
        QueueAddress.read(FieldReader(signing))
