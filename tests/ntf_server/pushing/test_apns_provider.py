"""Apple's push service, as far as its documentation goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from headgate.notify.outcomes import Dead, Delivered, Failed, Later
from headgate.notify.push_content import CheckPush, CodePush, MessagesPush, Push
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.ntf_server.pushing.providers import open_providers
from headgate.ntf_server.pushing.sender_keys import kept_key
from headgate.ntf_server.pushing.settings import ApnsSettings, PushSettings
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.statuses import InvalidReason
from tests.support.http_services import Certificate, serving_app
from tests.support.ntf_examples import TEST_DEVICE
from tests.support.push_services import AppleService


@dataclass
class AppleScene:
    service: AppleService
    provider: PushProvider


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AppleScene]:
    certificate = await asyncio.to_thread(Certificate.make, tmp_path / "tls")
    private = kept_key(tmp_path)
    service = AppleService(key=private.public_key(), devices=[TEST_DEVICE])
    async with serving_app(service.app, certificate) as port:
        settings = ApnsSettings(
            tmp_path / "web_push.key",
            service.key_id,
            service.team,
            service.topic,
            test_url=f"https://localhost:{port}",
            ca_file=certificate.certificate,
        )
        providers = open_providers(PushSettings(apns=settings))
        yield AppleScene(service, providers[Provider.APNS_TEST])
        for provider in providers.values():
            await provider.close()
        assert service.refused == []


async def test_each_push_is_taken(scene: AppleScene) -> None:
    pushes: list[Push] = [
        CodePush(bytes(24), bytes(2896)),
        MessagesPush(bytes(24), bytes(2896)),
        CheckPush(),
    ]
    for push in pushes:
        assert await scene.provider.push(TEST_DEVICE, push) == Delivered()
    assert scene.service.pushed == pushes
    assert len(set(scene.service.tokens)) == 1
    assert len({request.client for request in scene.service.requests}) == 1


async def test_a_device_that_apple_does_not_know_is_dead(scene: AppleScene) -> None:
    """Any bytes are one device, and none of them leads elsewhere."""
    for token in (b"other", b"../../abcd", b"abcd?x", b"\0\xff"):
        device = ApnsDevice(Provider.APNS_TEST, token)
        assert await scene.provider.push(device, CheckPush()) == Dead(InvalidReason.BAD)
    assert {request.url.path.count("/") for request in scene.service.requests} <= {3, 5}
    assert scene.service.pushed == []


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        (400, "DeviceTokenNotForTopic", Dead(InvalidReason.TOPIC)),
        (410, "ExpiredToken", Dead(InvalidReason.EXPIRED)),
        (410, "Unregistered", Dead(InvalidReason.UNREGISTERED)),
        (429, "TooManyRequests", Later(60)),
        (503, "ServiceUnavailable", Later(60)),
        (413, "PayloadTooLarge", Failed("Apple answered 413 PayloadTooLarge")),
    ],
)
async def test_what_answers_mean(
    scene: AppleScene, status: int, reason: str, outcome: object
) -> None:
    scene.service.answers = [JSONResponse({"reason": reason}, status)]
    assert await scene.provider.push(TEST_DEVICE, CheckPush()) == outcome


async def test_a_redirect_or_an_answer_without_end_is_a_failure(scene: AppleScene) -> None:
    scene.service.answers = [
        Response(status_code=301, headers={"Location": "https://localhost/"}),
        Response(bytes(100_000)),
    ]
    outcomes = [await scene.provider.push(TEST_DEVICE, CheckPush()) for _ in range(2)]
    assert outcomes == [
        Failed("Apple answered 301"),
        Failed("an answer of more than 65536 bytes"),
    ]
    assert await scene.provider.push(TEST_DEVICE, CheckPush()) == Delivered()
