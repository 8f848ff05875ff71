"""Web Push at a service that checks who sends and opens what it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.responses import Response

from headgate.notify.outcomes import Dead, Delivered, Failed, Later
from headgate.notify.push_content import CheckPush, CodePush, MessagesPush, Push
from headgate.ntf_server.pushing.providers import open_web_push
from headgate.ntf_server.pushing.settings import WebPushSettings
from headgate.ntf_server.pushing.web_push_provider import WebPushProvider, target_of
from headgate.wire.ntf.devices import WebPushDevice
from headgate.wire.ntf.statuses import InvalidReason
from tests.support.http_services import Certificate, serving_app, serving_streams
from tests.support.ntf_examples import WEB_DEVICE
from tests.support.push_services import WebPushService

PUSHES: list[Push] = [
    CodePush(bytes(24), bytes(2896)),
    MessagesPush(bytes(24), bytes(2896)),
    CheckPush(),
]


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class WebPushScene:
    service: WebPushService
    provider: WebPushProvider
    clock: HandClock
    settings: WebPushSettings
    stack: AsyncExitStack

    def opened(self, settings: WebPushSettings) -> WebPushProvider:
        provider = open_web_push(settings, clock=self.clock)
        self.stack.push_async_callback(provider.close)
        return provider


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[WebPushScene]:
    certificate = await asyncio.to_thread(Certificate.make, tmp_path / "tls")
    service, clock = WebPushService(), HandClock()
    settings = WebPushSettings(
        "mailto:ops@example.org",
        tmp_path / "state",
        allowed_private_hosts=frozenset({"LocalHost"}),
        ca_file=certificate.certificate,
    )
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving_app(service.app, certificate))
        provider = open_web_push(settings, clock=clock)
        stack.push_async_callback(provider.close)
        service.origin, service.sender_key = f"https://localhost:{port}", provider.public_key
        yield WebPushScene(service, provider, clock, settings, stack)
        assert service.refused == []


async def test_each_push_is_opened_by_its_receiver(scene: WebPushScene) -> None:
    """RFC 8030, 8291 and 8292: the service takes the sender, the receiver opens the push."""
    receiver = scene.service.subscribe()
    for push in PUSHES:
        assert await scene.provider.push(receiver.device, push) == Delivered()
    assert scene.service.pushed == PUSHES
    headers = [request.headers for request in scene.service.requests]
    assert {request.scope["http_version"] for request in scene.service.requests} == {"2"}
    assert [each["urgency"] for each in headers] == ["high", "high", "low"]
    assert [each.get("topic") for each in headers] == [None, None, "check"]
    assert len({each["authorization"] for each in headers}) == 1


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (200, {}, Delivered()),
        (202, {}, Delivered()),
        (302, {"Location": "https://localhost/"}, Failed("the push service answered 302")),
        (400, {}, Failed("the push service answered 400")),
        (403, {}, Failed("the push service answered 403")),
        (404, {}, Dead(InvalidReason.UNREGISTERED)),
        (410, {}, Dead(InvalidReason.UNREGISTERED)),
        (413, {}, Failed("the push service answered 413")),
        (429, {"Retry-After": "120"}, Later(120)),
        (500, {}, Later(60)),
        (503, {"Retry-After": "1000000"}, Later(3600)),
    ],
)
async def test_what_answers_mean(
    scene: WebPushScene, status: int, headers: dict[str, str], outcome: object
) -> None:
    scene.service.answers = [Response(status_code=status, headers=headers)]
    assert await scene.provider.push(scene.service.subscribe().device, CheckPush()) == outcome


async def test_a_host_that_gives_no_answer_rests(
    scene: WebPushScene, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not asked again for a while, and nobody else waits for it. Nothing that names the
    device is logged."""
    caplog.set_level(logging.DEBUG, "headgate")
    asked = 0

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1

    port = await scene.stack.enter_async_context(serving_streams(reset))
    settings = replace(scene.settings, allowed_private_hosts=frozenset({"localhost", "127.0.0.1"}))
    provider = scene.opened(settings)
    broken = WebPushDevice.of(f"https://127.0.0.1:{port}/secret", WEB_DEVICE.auth, WEB_DEVICE.key)
    working = scene.service.subscribe().device
    assert await provider.push(broken, CheckPush()) == Failed("no connection: ConnectError")
    assert asked == 2, "once more on a fresh connection"
    assert await provider.push(broken, CheckPush()) == Later(10)
    assert await provider.push(working, CheckPush()) == Delivered()
    assert asked == 2
    scene.clock.now += 10
    assert await provider.push(broken, CheckPush()) == Failed("no connection: ConnectError")
    assert await provider.push(broken, CheckPush()) == Later(20)
    assert asked == 4
    assert "secret" not in caplog.text


async def test_a_private_host_has_to_be_allowed(scene: WebPushScene) -> None:
    """By default there is none."""
    device = scene.service.subscribe().device
    provider = scene.opened(replace(scene.settings, allowed_private_hosts=frozenset()))
    refused = Failed("an endpoint in a network that is not public")
    assert await provider.push(device, CheckPush()) == refused
    assert scene.service.requests == []


async def test_another_key_is_refused_by_the_service(scene: WebPushScene, tmp_path: Path) -> None:
    """Endpoints belong to the key that they were made for, so it stays."""
    other = scene.opened(replace(scene.settings, folder=tmp_path / "other"))
    same = scene.opened(scene.settings)
    assert other.public_key != scene.provider.public_key == same.public_key
    device = scene.service.subscribe().device
    assert await other.push(device, CheckPush()) == Failed("the push service answered 400")
    assert await same.push(device, CheckPush()) == Delivered()
    assert scene.service.refused.pop().startswith("AssertionError: another sender")


def test_a_host_is_written_in_one_way() -> None:
    for url, host, authority in (
        ("https://Push.Example/a", "push.example", "push.example"),
        ("https://push.example:8443/a", "push.example", "push.example:8443"),
        ("https://[2001:DB8::1]/a", "2001:db8::1", "[2001:db8::1]"),
    ):
        target = target_of(WebPushDevice.of(url, WEB_DEVICE.auth, WEB_DEVICE.key))
        assert (target.host, target.authority) == (host, authority)
