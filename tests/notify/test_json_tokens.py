"""Tokens by which push services know who sends."""

from __future__ import annotations

from headgate.crypto.p256 import is_signature, point_of, private_key
from headgate.notify.apns import provider_token
from headgate.notify.json_tokens import signing_input
from headgate.notify.web_push import authorization
from headgate.wire.smp.codec.router_address import decode_base64
from tests.support.smp_examples import SECONDS

PRIVATE = private_key(bytes([9]) * 32)

APNS = (
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ."
    "eyJpc3MiOiJURUFNMTIzNDU2IiwiaWF0IjoxNzAwMDAwMDAwfQ"
)
VAPID = (
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZSIsImV4cCI6MTcwMDAw"
    "MzYwMCwic3ViIjoibWFpbHRvOm9wc0BleGFtcGxlLm9yZyJ9"
)


def check(token: str, signed: str) -> None:
    head, _, signature = token.rpartition(".")
    assert head == signed
    assert is_signature(point_of(PRIVATE), signed.encode(), decode_base64(signature))
    assert len(decode_base64(signature)) == 64
    assert "=" not in token


def test_apples_token_is_that_of_the_examples() -> None:
    check(provider_token(PRIVATE, "ABC123DEFG", "TEAM123456", SECONDS), APNS)


def test_the_token_of_web_push_is_that_of_the_examples() -> None:
    header = authorization(
        PRIVATE, "https://push.example", SECONDS + 3600, "mailto:ops@example.org"
    )
    scheme, _, fields = header.partition(" ")
    token, _, key = fields.partition(", ")
    assert (scheme, token[:2], key[:2]) == ("vapid", "t=", "k=")
    assert decode_base64(key[2:]) == point_of(PRIVATE)
    assert "=" not in key[2:]
    check(token[2:], VAPID)


def test_fields_are_signed_in_their_order() -> None:
    assert signing_input({"b": 1, "a": 2}, {}) != signing_input({"a": 2, "b": 1}, {})
