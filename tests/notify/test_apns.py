"""Apple's push service: who we are, what is posted, and what answers mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.p256 import private_key
from headgate.notify.apns import (
    ProviderTokens,
    headers,
    outcome,
    path,
    reason_in,
)
from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import CheckPush, CodePush, MessagesPush, Push
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.statuses import InvalidReason
from tests.support.smp_examples import SECONDS


def provider_tokens() -> ProviderTokens:
    return ProviderTokens(private_key(bytes([9]) * 32), "ABC123DEFG", "TEAM123456")


def test_a_token_is_used_for_half_an_hour() -> None:
    tokens = provider_tokens()
    first = tokens.authorization(SECONDS)
    assert first.startswith("bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.")
    assert tokens.authorization(SECONDS + 1799) == first
    assert tokens.authorization(SECONDS + 1800) != first


def test_a_refused_token_is_renewed_once() -> None:
    tokens = provider_tokens()
    first = tokens.authorization(SECONDS)
    tokens.answered(403)
    second = tokens.authorization(SECONDS + 1)
    tokens.answered(403)
    assert tokens.authorization(SECONDS + 2) == second != first
    tokens.answered(200)
    tokens.answered(403)
    assert tokens.authorization(SECONDS + 3) != second


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"0a1b", "/3/device/0a1b"),
        (b"../x?y#z\r\n", "/3/device/..%2Fx%3Fy%23z%0D%0A"),
        (b"\xff", "/3/device/%FF"),
        (b"", "/3/device/"),
    ],
)
def test_nothing_in_a_device_ends_the_path(token: bytes, expected: str) -> None:
    assert path(ApnsDevice(Provider.APNS, token)) == expected


def test_a_message_is_an_alert() -> None:
    assert headers(MessagesPush(b"", b""), "chat.example", "bearer a") == {
        "apns-topic": "chat.example",
        "apns-push-type": "alert",
        "authorization": "bearer a",
    }


@pytest.mark.parametrize("push", [CheckPush(), CodePush(b"", b"")])
def test_what_shows_nothing_is_a_push_in_the_background(push: Push) -> None:
    assert headers(push, "chat.example", "bearer a") == {
        "apns-topic": "chat.example",
        "apns-push-type": "background",
        "apns-priority": "5",
        "authorization": "bearer a",
    }


@pytest.mark.parametrize(
    ("status", "reason", "meaning"),
    [
        (200, "", Delivered()),
        (400, "BadDeviceToken", Dead(InvalidReason.BAD)),
        (400, "DeviceTokenNotForTopic", Dead(InvalidReason.TOPIC)),
        (410, "ExpiredToken", Dead(InvalidReason.EXPIRED)),
        (410, "Unregistered", Dead(InvalidReason.UNREGISTERED)),
        (410, "", Failed("Apple answered 410")),
        (400, "BadTopic", Failed("Apple answered 400 BadTopic")),
        (403, "ExpiredProviderToken", Failed("Apple answered 403 ExpiredProviderToken")),
        (403, "BadDeviceToken", Failed("Apple answered 403 BadDeviceToken")),
        (413, "PayloadTooLarge", Failed("Apple answered 413 PayloadTooLarge")),
        (429, "TooManyRequests", Later(60)),
        (500, "InternalServerError", Failed("Apple answered 500 InternalServerError")),
        (503, "ServiceUnavailable", Later(60)),
    ],
)
def test_answers_have_their_meaning(status: int, reason: str, meaning: PushOutcome) -> None:
    assert outcome(status, f'{{"reason":"{reason}"}}'.encode(), None, SECONDS) == meaning


def test_apple_may_say_when_to_try_again() -> None:
    assert outcome(503, b"", "7", SECONDS) == Later(7)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b'{"reason":1}', b'{"reason":"a b"}', b"[" * 100_000, b"\xff"]
)
def test_a_body_without_a_reason_has_none(body: bytes) -> None:
    assert reason_in(body) == ""


def test_a_reason_is_not_longer_than_one_of_apples() -> None:
    assert reason_in(b'{"reason":"' + b"x" * 10_000 + b'"}') == "x" * 64


@given(st.binary(max_size=100))
def test_any_answer_means_something(body: bytes) -> None:
    assert isinstance(outcome(400, body, None, SECONDS), Failed)
