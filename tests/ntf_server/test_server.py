"""A whole server: an app registers and subscribes, a sender sends, and the device is pushed to."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.client.smp.recipient import Queue
from headgate.crypto.box import unbox
from headgate.notify.push_content import CheckPush, CodePush, MessagesPush, parse_entries
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from headgate.testing.smp_client import SmpClient
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.replies import TokenState
from headgate.wire.ntf.statuses import TokenStatus
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Ok, Pong
from tests.support.ntf_app import App, AppKeys
from tests.support.ntf_examples import TEST_DEVICE
from tests.support.ntf_notifiers import QUICK, until
from tests.support.ntf_pushes import KeepingProvider, when
from tests.support.ntf_subscribed import subscribed
from tests.support.smp_router import Rig

SETTINGS = NtfSettings(
    port=0,
    apps=AppSettings(providers=frozenset({Provider.APNS_TEST})),
    shell=QUICK,
    open_seconds=0.01,
)


@asynccontextmanager
async def serving(
    folder: Path, provider: KeepingProvider, settings: NtfSettings = SETTINGS
) -> AsyncIterator[NtfServer]:
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    providers = {Provider.APNS_TEST: provider}
    async with await NtfServer.open(NtfHost(), identity, folder, settings, providers) as server:
        yield server
        assert await server.records.read(audit) == []


async def registered(app: App, provider: KeepingProvider) -> AppKeys:
    """An app whose device is verified by the code that was pushed to it."""
    keys = AppKeys()
    keys.take(await app.ask(keys.new_token(TEST_DEVICE), keys))
    await until(when(lambda: provider.pushed))
    push = provider.pushed[-1][1]
    assert isinstance(push, CodePush)
    assert await app.ask(c.TVfy(keys.opened(push)), keys) == Ok()
    return keys


async def is_pushed(
    provider: KeepingProvider, keys: AppKeys, client: SmpClient, queue: Queue, rig: Rig
) -> None:
    """A message leads to a push that the device opens, down to what the router sealed for it."""
    before = len(provider.pushed)
    assert await client.send(queue, b"hello", notify=True) == Ok()
    await until(when(lambda: len(provider.pushed) > before))
    device, push = provider.pushed[-1]
    assert device == TEST_DEVICE
    assert isinstance(push, MessagesPush)
    entry = parse_entries(keys.opened(push))[-1]
    assert (entry.router, entry.notifier) == (rig.address.text, queue.notifier)
    assert queue.notice_secret is not None
    assert unbox(queue.notice_secret, entry.nonce, entry.metadata)


async def test_a_message_reaches_the_device(rig: Rig, tmp_path: Path, store: str) -> None:
    """ACC-111: the push opens with the key of the token, and the notice in it with that of the
    recipient; after a restart of the server, too."""
    provider, settings = KeepingProvider(), replace(SETTINGS, store=store)
    client = await rig.connect()
    async with (
        serving(tmp_path, provider, settings) as server,
        await App.connect(server.address) as app,
    ):
        keys = await registered(app, provider)
        assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)
        queue = await subscribed(app, keys, rig, client)
        await is_pushed(provider, keys, client, queue, rig)
    async with serving(tmp_path, provider, settings) as server:
        await until(
            when(lambda: any(s.service.value == "active" for s in server.notifiers.status()))
        )
        await is_pushed(provider, keys, client, queue, rig)


async def test_the_first_periodic_push_comes_at_once(tmp_path: Path) -> None:
    provider, settings = KeepingProvider(), replace(SETTINGS, look_seconds=0.01)
    async with (
        serving(tmp_path, provider, settings) as server,
        await App.connect(server.address) as app,
    ):
        keys = await registered(app, provider)
        assert await app.ask(c.TCrn(20), keys) == Ok()
        await until(when(lambda: provider.pushed[-1][1] == CheckPush()))


async def test_a_store_that_cannot_be_opened_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that is down when the server starts does not end it."""
    os.mkdir(tmp_path / "ntf.db")
    opening = asyncio.create_task(_opened(tmp_path))
    await until(when(lambda: "cannot be opened" in caplog.text))
    os.rmdir(tmp_path / "ntf.db")
    async with await opening as server, await App.connect(server.address) as app:
        assert await app.ask(Ping()) == Pong()


async def _opened(folder: Path) -> NtfServer:
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    return await NtfServer.open(NtfHost(), identity, folder, SETTINGS, {})
