"""The client envelope: sealed as others seal it, of one size, and opened by nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.smp_envelopes import check
from headgate.crypto.box import box, public_of, shared_key, shared_secret
from headgate.crypto.hsalsa20 import hsalsa20
from headgate.crypto.padding import pad
from headgate.errors import Malformed, TooLong
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents, body_max
from tests.support.agent_examples import (
    NONCE,
    QUEUE_KEY,
    digest,
    ed25519_public,
    x25519,
    x25519_public,
)
from tests.support.repository import CORPORA
from tests.support.smp_examples import queue_keys

SIGNING_KEY = ed25519_public(1)
SENDER_DH = x25519_public(0x55)


def test_sender_and_recipient_agree_on_a_key() -> None:
    secret = shared_secret(x25519(0x55), public_of(x25519(0x33)))
    assert secret.hex() == "7b5c0ae9cc1e35635f73a4819f8f818b623d2584052f2b22a60221498c3bf548"
    assert QUEUE_KEY.hex() == "1d30dc1360f63e4fbc6ca4bb4a5b681310d161c5770391f6e58d559b70038cfd"
    assert QUEUE_KEY == hsalsa20(secret) == shared_key(x25519(0x33), public_of(x25519(0x55)))


def test_a_later_message() -> None:
    contents = EnvelopeContents(None, b"hello")
    data = ClientEnvelope.seal(4, QUEUE_KEY, NONCE, contents).encode()
    assert len(data) == 16043
    assert data[:32].hex() == "000430d0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e76a93967613"
    assert digest(data) == "1573ee83c7cbde9a1abb78a28c9189d42f13127fa2aa0faac0f0fdd6ed3bbd32"
    envelope = ClientEnvelope.parse(data)
    assert (envelope.version, envelope.exchange_key, envelope.nonce) == (4, None, NONCE)
    assert envelope.open(QUEUE_KEY) == contents


def test_a_first_message_with_the_key_of_its_sender() -> None:
    contents = EnvelopeContents(SIGNING_KEY, b"hello")
    data = ClientEnvelope.seal(4, QUEUE_KEY, NONCE, contents, SENDER_DH).encode()
    assert len(data) == 15992
    assert data[:32].hex() == "0004312c302a300506032b656e03210038ab664bd86f77d7e66bdd9ae0792913"
    assert digest(data) == "91aac23098e867526dbae5e29cc9bfa1ed2b0389d5695a18ef147d12b5a9308f"
    envelope = ClientEnvelope.parse(data)
    assert envelope.exchange_key == SENDER_DH
    assert envelope.open(QUEUE_KEY) == contents


@pytest.mark.parametrize(
    ("exchange_key", "sender_key", "room", "size"),
    [
        (None, None, 15_997, 16_043),
        (SENDER_DH, None, 15_901, 15_992),
        (SENDER_DH, SIGNING_KEY, 15_856, 15_992),
    ],
)
def test_a_body_fits_exactly_or_is_too_long(
    exchange_key: bytes | None, sender_key: bytes | None, room: int, size: int
) -> None:
    assert body_max(exchange_key, sender_key) == room
    longest = EnvelopeContents(sender_key, b"x" * room)
    sealed = ClientEnvelope.seal(4, QUEUE_KEY, NONCE, longest, exchange_key)
    assert len(sealed.encode()) == size
    assert sealed.open(QUEUE_KEY) == longest
    longer = EnvelopeContents(sender_key, b"x" * (room + 1))
    with pytest.raises(TooLong) as raised:
        ClientEnvelope.seal(4, QUEUE_KEY, NONCE, longer, exchange_key)
    assert (raised.value.size, raised.value.limit) == (room + 1, room)


@given(st.none() | queue_keys, st.binary(max_size=100), st.booleans(), st.integers(2, 4))
def test_what_was_sealed_is_opened(
    sender_key: bytes | None, body: bytes, is_first: bool, version: int
) -> None:
    contents = EnvelopeContents(sender_key, body)
    key = SENDER_DH if is_first else None
    sealed = ClientEnvelope.seal(version, QUEUE_KEY, NONCE, contents, key)
    assert ClientEnvelope.parse(sealed.encode()) == sealed
    assert sealed.open(QUEUE_KEY) == contents


@pytest.mark.parametrize("at", [1, 3, 30, 100, 16042])
def test_a_changed_byte_is_noticed(at: int) -> None:
    data = bytearray(ClientEnvelope.seal(4, QUEUE_KEY, NONCE, EnvelopeContents(None, b"")).encode())
    data[at] ^= 1
    if at == 1:  # the version is not proved, only read
        assert ClientEnvelope.parse(bytes(data[:1]) + b"\x03" + bytes(data[2:])).version == 3
        return
    with pytest.raises(Malformed):
        ClientEnvelope.parse(bytes(data)).open(QUEUE_KEY)


@pytest.mark.parametrize("version", [0, 1, 5, 65535])
def test_other_versions_are_malformed(version: int) -> None:
    with pytest.raises(Malformed, match="version"):
        ClientEnvelope.parse(version.to_bytes(2, "big") + b"0" + bytes(60))


@pytest.mark.parametrize("plaintext", [b"", b"x", b"K", b"K\x2c" + bytes(44)])
def test_contents_that_are_none_are_malformed(plaintext: bytes) -> None:
    sealed = ClientEnvelope(4, None, NONCE, box(QUEUE_KEY, NONCE, pad(plaintext, 16000)))
    with pytest.raises(Malformed):
        sealed.open(QUEUE_KEY)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_envelope_or_malformed(data: bytes) -> None:
    for whole in (data, b"\0\4" + data, b"\0\x040" + data):
        try:
            envelope = ClientEnvelope.parse(whole)
        except Malformed:
            continue
        assert envelope.encode() == whole
        with pytest.raises(Malformed):
            envelope.open(QUEUE_KEY)


def test_bodies_are_not_shown() -> None:
    contents = EnvelopeContents(None, b"sesame")
    sealed = ClientEnvelope.seal(4, QUEUE_KEY, NONCE, contents)
    assert "sesame" not in repr((contents, sealed))


CORPUS = CORPORA / "smp_envelopes"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
