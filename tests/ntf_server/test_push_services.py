"""The whole way over TLS: a sender, a router, a notification server, a push service that speaks
HTTP/2 and checks what it is sent, and the device that opens it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from headgate.notify.push_content import CodePush, MessagesPush, parse_entries
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.pushing.providers import open_providers, web_push_public_key
from headgate.ntf_server.pushing.sender_keys import KEY_NAME, kept_key
from headgate.ntf_server.pushing.settings import ApnsSettings, PushSettings, WebPushSettings
from headgate.ntf_server.pushing.turns import PushKind
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import Device, Provider
from headgate.wire.ntf.replies import TokenState
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from headgate.wire.smp.codec.replies import Msg, NMsg, Ok
from tests.support.http_services import Certificate, serving_app, serving_streams
from tests.support.ntf_app import App, AppKeys
from tests.support.ntf_examples import TEST_DEVICE
from tests.support.ntf_notifiers import QUICK, until
from tests.support.ntf_pushes import when
from tests.support.ntf_subscribed import subscribed
from tests.support.push_services import (
    AppleService,
    PushServiceBase,
    WebPushReceiver,
    WebPushService,
)
from tests.support.smp_router import Rig


@pytest.fixture
async def certificate(tmp_path: Path) -> Certificate:
    return await asyncio.to_thread(Certificate.make, tmp_path / "tls")


@asynccontextmanager
async def serving(
    folder: Path, pushing: PushSettings, store: str = "sqlite:ntf.db"
) -> AsyncIterator[NtfServer]:
    """As the command line puts it together."""
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    providers = open_providers(pushing)
    apps = AppSettings(providers=frozenset(providers))
    settings = NtfSettings(store=store, port=0, apps=apps, shell=QUICK)
    async with await NtfServer.open(NtfHost(), identity, folder, settings, providers) as server:
        yield server


def web_push_settings(folder: Path, certificate: Certificate, *hosts: str) -> WebPushSettings:
    return WebPushSettings(
        "https://push.example.org",
        folder / "state",
        allowed_private_hosts=frozenset(hosts or ["localhost"]),
        ca_file=certificate.certificate,
    )


async def registered(
    app: App, service: PushServiceBase, device: Device, keys: AppKeys | None = None
) -> AppKeys:
    """An app whose device is verified by the code that the push service brought."""
    keys = AppKeys() if keys is None else keys
    before = len(service.pushed)
    keys.take(await app.ask(keys.new_token(device), keys))
    await until(when(lambda: len(service.pushed) > before))
    push = service.pushed[-1]
    assert isinstance(push, CodePush)
    assert await app.ask(c.TVfy(keys.opened(push)), keys) == Ok()
    return keys


async def goes_all_the_way(
    server: NtfServer, rig: Rig, service: PushServiceBase, device: Device
) -> AppKeys:
    """Register, subscribe, send: the device opens one push, down to which message it was."""
    client = await rig.connect()
    async with await App.connect(server.address) as app:
        keys = await registered(app, service, device)
        queue = await subscribed(app, keys, rig, client)
        assert await client.send(queue, b"hello", notify=True) == Ok()
        _, message = await client.event()
        await until(when(lambda: len(service.pushed) == 2))
        assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)
    assert isinstance(message, Msg)
    _, push = service.pushed
    assert isinstance(push, MessagesPush)
    [entry] = parse_entries(keys.opened(push))
    assert (entry.router, entry.notifier) == (rig.address.text, queue.notifier)
    notice = queue.open_notice(NMsg(entry.nonce, entry.metadata))
    assert notice.message_id == message.message_id
    assert {request.scope["http_version"] for request in service.requests} == {"2"}
    assert service.refused == []
    return keys


async def is_pushed_once(server: NtfServer, service: PushServiceBase) -> None:
    """Nothing more comes than the code and one push of the message."""
    await until(when(lambda: not len(server.pusher)))
    assert len(service.requests) == 2


async def test_a_message_wakes_a_device_by_web_push(
    rig: Rig, tmp_path: Path, store: str, certificate: Certificate
) -> None:
    """ACC-111: with nothing configured but where the server is; its key is made."""
    settings = web_push_settings(tmp_path, certificate)
    service = WebPushService(sender_key=web_push_public_key(settings))
    async with (
        serving_app(service.app, certificate) as port,
        serving(tmp_path, PushSettings(settings), store) as server,
    ):
        service.origin = f"https://localhost:{port}"
        await goes_all_the_way(server, rig, service, service.subscribe().device)
        await is_pushed_once(server, service)


async def test_a_message_wakes_a_device_by_apple(
    rig: Rig, tmp_path: Path, store: str, certificate: Certificate
) -> None:
    """ACC-111: through a service that is spoken to like Apple's."""
    private = kept_key(tmp_path)
    service = AppleService(key=private.public_key(), devices=[TEST_DEVICE])
    async with serving_app(service.app, certificate) as port:
        settings = ApnsSettings(
            tmp_path / KEY_NAME,
            service.key_id,
            service.team,
            service.topic,
            test_url=f"https://localhost:{port}",
            ca_file=certificate.certificate,
        )
        async with serving(tmp_path, PushSettings(apns=settings), store) as server:
            await goes_all_the_way(server, rig, service, TEST_DEVICE)
            await is_pushed_once(server, service)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Response(status_code=410), InvalidReason.UNREGISTERED),
        (Response(status_code=404), InvalidReason.UNREGISTERED),
    ],
)
async def test_a_dead_endpoint_is_not_pushed_to_until_it_is_registered_again(
    tmp_path: Path, certificate: Certificate, answer: Response, reason: InvalidReason
) -> None:
    """ACC-108: the app sees why, in version 3, and that it is, in version 2; a new TNEW revives
    it."""
    settings = web_push_settings(tmp_path, certificate)
    service = WebPushService(sender_key=web_push_public_key(settings))
    async with (
        serving_app(service.app, certificate) as port,
        serving(tmp_path, PushSettings(settings)) as server,
        await App.connect(server.address) as app,
        await App.connect(server.address, version=2) as older,
    ):
        service.origin = f"https://localhost:{port}"
        receiver = service.subscribe()
        keys = await registered(app, service, receiver.device)
        service.answers = [answer]
        keys.take(await app.ask(keys.new_token(receiver.device), keys))
        invalid = TokenState(TokenStatus.INVALID, reason)

        async def is_invalid() -> bool:
            return await app.ask(c.TChk(), keys) == invalid

        await until(is_invalid)
        assert await older.ask(c.TChk(), keys) == TokenState(TokenStatus.INVALID)
        assert await registered(app, service, receiver.device, keys) is keys
        assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)


async def test_apple_says_that_a_device_is_dead(tmp_path: Path, certificate: Certificate) -> None:
    private = kept_key(tmp_path)
    service = AppleService(key=private.public_key())
    async with serving_app(service.app, certificate) as port:
        settings = ApnsSettings(
            tmp_path / KEY_NAME,
            service.key_id,
            service.team,
            service.topic,
            test_url=f"https://localhost:{port}",
            ca_file=certificate.certificate,
        )
        async with (
            serving(tmp_path, PushSettings(apns=settings)) as server,
            await App.connect(server.address) as app,
        ):
            for reason in (InvalidReason.BAD, InvalidReason.UNREGISTERED):
                keys = AppKeys()
                keys.take(await app.ask(keys.new_token(TEST_DEVICE), keys))
                invalid = TokenState(TokenStatus.INVALID, reason)

                async def is_invalid(keys: AppKeys = keys, invalid: TokenState = invalid) -> bool:
                    return await app.ask(c.TChk(), keys) == invalid

                await until(is_invalid)
                service.answers = [JSONResponse({"reason": "Unregistered"}, 410)]


async def test_endpoints_that_do_anything_cost_nobody_else_a_push(
    rig: Rig, tmp_path: Path, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    """S004-29: they hang, reset, redirect, fail, answer without end or are not public; each is
    counted, and others are pushed to meanwhile."""
    hosts = ("localhost", "127.0.0.1", "127.0.0.2", "127.0.0.3")
    settings = web_push_settings(tmp_path, certificate, *hosts)
    service = WebPushService(sender_key=web_push_public_key(settings))
    bad, stop = WebPushService(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stop.wait()

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async with (
        serving_app(service.app, certificate) as port,
        serving_app(bad.app, certificate) as bad_port,
        serving_streams(hang, host="127.0.0.2") as hanging,
        serving_streams(reset, host="127.0.0.3") as resetting,
        serving(tmp_path, PushSettings(settings)) as server,
        await App.connect(server.address) as app,
    ):
        service.origin = f"https://localhost:{port}"
        outcomes = server.pusher.outcomes
        code = Provider.WEB_PUSH, PushKind.CODE

        async def register(host: str, port: int) -> None:
            device, keys = WebPushReceiver(f"https://{host}:{port}/secret").device, AppKeys()
            keys.take(await app.ask(keys.new_token(device), keys))

        await register("127.0.0.2", hanging)
        bad.answers = [
            Response(status_code=302, headers={"Location": service.origin}),
            Response(status_code=500, headers={"Retry-After": "600"}),
            Response(bytes(1_000_000)),
        ]
        for _ in range(3):
            counted = outcomes.total() + 1
            await register("127.0.0.1", bad_port)
            await until(when(partial(_is_counted, server, counted)))
        await register("127.0.0.3", resetting)
        await register("127.0.0.4", port)
        await goes_all_the_way(server, rig, service, service.subscribe().device)
        stop.set()
        await until(when(lambda: outcomes[*code, "failed"] == 5))
        assert (outcomes[*code, "later"], outcomes[*code, "delivered"]) == (1, 1)
        assert len(bad.requests) == 3
    assert "secret" not in caplog.text


def _is_counted(server: NtfServer, count: int) -> bool:
    return server.pusher.outcomes.total() >= count


async def test_a_flood_of_registrations_is_bounded(
    tmp_path: Path, certificate: Certificate
) -> None:
    """Each is a push to somebody: of one address so many a minute, and the rest is refused."""
    settings = web_push_settings(tmp_path, certificate)
    service = WebPushService(sender_key=web_push_public_key(settings))
    async with (
        serving_app(service.app, certificate) as port,
        serving(tmp_path, PushSettings(settings)) as server,
        await App.connect(server.address) as app,
    ):
        service.origin = f"https://localhost:{port}"
        replies = []
        for _ in range(25):
            keys = AppKeys()
            replies.append(await app.ask(keys.new_token(service.subscribe().device), keys))
        refused = [str(reply) for reply in replies if "QUOTA" in str(reply)]
        assert len(refused) == 5
        await until(when(lambda: len(service.pushed) == 20 and not len(server.pusher)))
        assert service.refused == []
