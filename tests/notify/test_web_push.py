"""Web Push: the body that only the receiver opens, headers, and what answers mean."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.p256 import agree, point_of, private_key
from headgate.errors import Malformed
from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import CheckPush, CodePush, MessagesPush
from headgate.notify.web_push import (
    HEADER_BYTES,
    ORIGINS_MAX,
    PLAINTEXT_BYTES_MAX,
    RECORD_BYTES,
    TOKEN_SECONDS,
    SenderTokens,
    decrypt,
    encrypt,
    headers,
    outcome,
)
from headgate.wire.ntf.devices import WebPushDevice
from headgate.wire.ntf.statuses import InvalidReason
from headgate.wire.smp.codec.router_address import decode_base64
from tests.support.smp_examples import SECONDS

RECEIVER = private_key(decode_base64("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
SENDER = private_key(decode_base64("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
AUTH = decode_base64("BTBZMqHH6r4Tts7J_aSIgg")
SALT = decode_base64("DGv6ra1nlYgDCS1FRnbzlw")
DEVICE = WebPushDevice.of("https://push.example/up", AUTH, point_of(RECEIVER))
PLAINTEXT = b"When I grow up, I want to be a watermelon"
BODY = decode_base64(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6"
    "TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy"
    "4a-fN"
)


def test_a_body_is_that_of_rfc_8291() -> None:
    assert encrypt(PLAINTEXT, DEVICE, SENDER, SALT) == BODY
    assert decrypt(BODY, RECEIVER, AUTH) == PLAINTEXT


def sealed_with(record: bytes) -> bytes:
    """A body whose one record, before it is encrypted, is this."""
    keys = HKDF(SHA256(), 32, AUTH, b"WebPush: info\0" + DEVICE.key + point_of(SENDER))
    ikm = keys.derive(agree(SENDER, DEVICE.key))
    key = HKDF(SHA256(), 16, SALT, b"Content-Encoding: aes128gcm\0").derive(ikm)
    nonce = HKDF(SHA256(), 12, SALT, b"Content-Encoding: nonce\0").derive(ikm)
    return BODY[:HEADER_BYTES] + AESGCM(key).encrypt(nonce, record, None)


def test_the_derivation_is_hkdf() -> None:
    assert sealed_with(PLAINTEXT + b"\2") == BODY


def test_the_largest_body_has_4096_bytes() -> None:
    plaintext = b"x" * PLAINTEXT_BYTES_MAX
    body = encrypt(plaintext, DEVICE, SENDER, SALT)
    assert (PLAINTEXT_BYTES_MAX, len(body)) == (3993, RECORD_BYTES)
    assert decrypt(body, RECEIVER, AUTH) == plaintext
    with pytest.raises(AssertionError):
        encrypt(plaintext + b"x", DEVICE, SENDER, SALT)


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16))
def test_what_was_encrypted_is_decrypted(plaintext: bytes, salt: bytes) -> None:
    assert decrypt(encrypt(plaintext, DEVICE, SENDER, salt), RECEIVER, AUTH) == plaintext


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_a_spoilt_body_is_malformed(at: int, change: int) -> None:
    """But for the size of the record, of which only that it is large enough matters."""
    spoilt = bytearray(BODY)
    spoilt[at] ^= change
    if 16 <= at < 20:
        return
    with pytest.raises(Malformed):
        decrypt(bytes(spoilt), RECEIVER, AUTH)


@given(st.integers(0, len(BODY) - 1))
def test_a_body_that_is_cut_off_is_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        decrypt(BODY[:size], RECEIVER, AUTH)


def test_a_record_of_another_size_than_announced_is_malformed() -> None:
    def announced(size: int) -> bytes:
        return BODY[:16] + size.to_bytes(4, "big") + BODY[20:]

    size = len(BODY) - HEADER_BYTES
    assert decrypt(announced(size), RECEIVER, AUTH) == PLAINTEXT
    with pytest.raises(Malformed):
        decrypt(announced(size - 1), RECEIVER, AUTH)


@pytest.mark.parametrize("end", [b"", b"\1", b"\2\1", b"\0"])
def test_a_record_that_is_not_the_last_is_malformed(end: bytes) -> None:
    with pytest.raises(Malformed, match="last record"):
        decrypt(sealed_with(PLAINTEXT + end), RECEIVER, AUTH)


def test_zeros_may_follow_the_end() -> None:
    assert decrypt(sealed_with(PLAINTEXT + b"\2\0\0\0"), RECEIVER, AUTH) == PLAINTEXT


def test_a_body_for_somebody_else_is_malformed() -> None:
    for private, auth in ((SENDER, AUTH), (RECEIVER, bytes(16))):
        with pytest.raises(Malformed):
            decrypt(BODY, private, auth)


@given(st.binary(max_size=200).map(BODY[:HEADER_BYTES].__add__) | st.binary(max_size=200))
def test_any_bytes_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decrypt(data, RECEIVER, AUTH)


def claims(header: str) -> dict[str, object]:
    token = header.removeprefix("vapid t=").partition(",")[0]
    fields: dict[str, object] = json.loads(decode_base64(token.split(".")[1]))
    return fields


def test_every_push_service_gets_a_token_of_its_own_and_keeps_it() -> None:
    tokens = SenderTokens(SENDER, "mailto:ops@example.org")
    first = tokens.authorization("https://push.example", SECONDS)
    other = tokens.authorization("https://other.example", SECONDS)
    assert claims(first)["aud"] == "https://push.example"
    assert claims(other)["aud"] == "https://other.example"
    assert claims(first)["exp"] == SECONDS + TOKEN_SECONDS <= SECONDS + 24 * 3600
    assert tokens.authorization("https://push.example", SECONDS + TOKEN_SECONDS // 2) == first
    later = tokens.authorization("https://push.example", SECONDS + TOKEN_SECONDS // 2 + 1)
    assert claims(later)["exp"] == SECONDS + TOKEN_SECONDS // 2 + 1 + TOKEN_SECONDS


def test_strangers_cannot_make_us_keep_tokens_without_end() -> None:
    tokens = SenderTokens(SENDER, "mailto:ops@example.org")
    first = tokens.authorization("https://0.example", SECONDS)
    for number in range(1, ORIGINS_MAX):
        tokens.authorization(f"https://{number}.example", SECONDS)
    assert tokens.authorization("https://0.example", SECONDS + 1) == first
    tokens.authorization("https://one-more.example", SECONDS)
    assert tokens.authorization("https://0.example", SECONDS + 1) != first


@pytest.mark.parametrize("push", [CodePush(b"", b""), MessagesPush(b"", b"")])
def test_a_message_is_urgent(push: CodePush | MessagesPush) -> None:
    assert headers(push, "vapid t=a, k=b") == {
        "TTL": "2592000",
        "Urgency": "high",
        "Content-Encoding": "aes128gcm",
        "Authorization": "vapid t=a, k=b",
    }


def test_a_periodic_push_is_not_urgent_and_replaces_the_one_before() -> None:
    assert headers(CheckPush(), "vapid t=a, k=b") == {
        "TTL": "2592000",
        "Urgency": "low",
        "Topic": "check",
        "Content-Encoding": "aes128gcm",
        "Authorization": "vapid t=a, k=b",
    }


@pytest.mark.parametrize(
    ("status", "retry_after", "meaning"),
    [
        (200, None, Delivered()),
        (201, None, Delivered()),
        (202, None, Delivered()),
        (404, None, Dead(InvalidReason.UNREGISTERED)),
        (410, None, Dead(InvalidReason.UNREGISTERED)),
        (429, "120", Later(120)),
        (500, None, Later(60)),
        (503, "5", Later(5)),
        (599, None, Later(60)),
        *((status, None, Failed(f"the push service answered {status}")) for status in (204, 301)),
        *((status, "9", Failed(f"the push service answered {status}")) for status in (400, 401)),
        *((status, None, Failed(f"the push service answered {status}")) for status in (403, 413)),
    ],
)
def test_answers_have_their_meaning(
    status: int, retry_after: str | None, meaning: PushOutcome
) -> None:
    assert outcome(status, retry_after, SECONDS) == meaning
