"""What apps are answered, over real TLS."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.notify.subscriptions import accept
from headgate.notify.tokens import Token, confirm, invalidate
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.records import subscriptions, tokens
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.replies import IdSub, IdTkn, SubscriptionState, TokenState
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Ok, Pong
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.ntf_app import App, AppKeys, refused
from tests.support.ntf_examples import (
    KEY_HASH,
    NOTIFIER_PRIVATE,
    ROUTER,
    TEST_DEVICE,
    WEB_DEVICE,
)
from tests.support.ntf_scene import AppScene, serving_apps

OTHER_PRIVATE = encode_private(KeyKind.ED25519, bytes([7]) * 32)


async def registered(scene: AppScene, app: App, keys: AppKeys) -> Token:
    """A token that is not verified; its code was pushed."""
    keys.take(await app.ask(keys.new_token(TEST_DEVICE), keys))
    return scene.others.codes[-1]


async def verified(scene: AppScene, app: App, keys: AppKeys | None = None) -> AppKeys:
    keys = keys or AppKeys()
    token = await registered(scene, app, keys)
    assert await app.ask(c.TVfy(token.code), keys) == Ok()
    return keys


def snew(keys: AppKeys, notifier: bytes = b"n" * 24, router: RouterAddress = ROUTER) -> c.SNew:
    return c.SNew(keys.token, router, notifier, NOTIFIER_PRIVATE)


async def subscribed(app: App, keys: AppKeys) -> bytes:
    reply = await app.ask(snew(keys), keys)
    assert isinstance(reply, IdSub)
    return reply.subscription


# Tokens.


async def test_ping(app: App) -> None:
    assert await app.ask(Ping()) == Pong()


@pytest.mark.parametrize("kind", [KeyKind.ED25519, KeyKind.X25519])
async def test_a_token_is_registered_and_verified(scene: AppScene, app: App, kind: KeyKind) -> None:
    """ACC-108: and registered again: the same id, key and code."""
    keys = AppKeys(kind)
    token = await registered(scene, app, keys)
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.REGISTERED)
    assert refused(await app.ask(c.TVfy(bytes(32)), keys)) == "AUTH"
    assert await app.ask(c.TVfy(token.code), keys) == Ok()
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)
    assert await app.ask(c.TVfy(token.code), keys) == Ok(), "it may be repeated"
    again = await app.ask(keys.new_token(TEST_DEVICE), keys)
    assert again == IdTkn(token.id, token.public_key)
    assert scene.others.codes[-1].code == token.code
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)


async def test_a_token_with_another_key_to_seal_with_is_refused(scene: AppScene, app: App) -> None:
    """ACC-108: who cannot open the pushes of a token does not register it."""
    keys = await verified(scene, app)
    other = replace(keys.new_token(TEST_DEVICE), dh=AppKeys().new_token(TEST_DEVICE).dh)
    assert refused(await app.ask(other, keys)) == "AUTH"


async def test_whoever_is_verified_has_the_device(scene: AppScene, app: App) -> None:
    """ACC-109: the token of another app, and what it subscribed to, is gone then."""
    first, second = await verified(scene, app), AppKeys()
    subscription = await subscribed(app, first)
    token = await registered(scene, app, second)
    assert await app.ask(c.TChk(), first) == TokenState(TokenStatus.ACTIVE)
    assert await app.ask(c.TVfy(token.code), second) == Ok()
    assert refused(await app.ask(c.TChk(), first)) == "AUTH"
    assert refused(await app.ask(c.SChk(), first, subscription)) == "AUTH"
    assert await scene.records.read(subscriptions.counts) == {}
    assert [gone.id for gone in scene.others.removed] == [subscription]


async def test_tokens_outlive_a_restart(tmp_path: Path) -> None:
    """ACC-110: between TNEW and TVFY, and between TVFY and SNEW."""
    keys = AppKeys()
    async with serving_apps(tmp_path) as scene, await App.connect(scene.address) as app:
        token = await registered(scene, app, keys)
    async with serving_apps(tmp_path) as scene, await App.connect(scene.address) as app:
        assert await app.ask(c.TVfy(token.code), keys) == Ok()
    async with serving_apps(tmp_path) as scene, await App.connect(scene.address) as app:
        subscription = await subscribed(app, keys)
    async with serving_apps(tmp_path) as scene, await App.connect(scene.address) as app:
        found = await app.ask(c.SChk(), keys, subscription)
        assert found == SubscriptionState(SubscriptionStatus.NEW)


async def test_a_device_is_replaced(scene: AppScene, app: App) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    before = scene.others.codes[-1]
    assert await app.ask(c.TRpl(WEB_DEVICE), keys) == Ok()
    pushed = scene.others.codes[-1]
    assert (pushed.id, pushed.device) == (keys.token, WEB_DEVICE)
    assert pushed.code != before.code
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.REGISTERED)
    assert refused(await app.ask(c.SChk(), keys, subscription)) == "AUTH"
    assert await app.ask(c.TVfy(pushed.code), keys) == Ok()
    found = await app.ask(c.SChk(), keys, subscription)
    assert found == SubscriptionState(SubscriptionStatus.NEW)


async def test_a_device_that_the_app_has_already_does_not_replace_another(
    scene: AppScene, app: App
) -> None:
    keys = await verified(scene, app)
    first = keys.token
    keys.take(await app.ask(keys.new_token(WEB_DEVICE), keys))
    assert keys.token != first
    assert refused(await app.ask(c.TRpl(TEST_DEVICE), keys)) == "AUTH"


async def test_a_token_is_removed_with_what_it_subscribed_to(scene: AppScene, app: App) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    assert await app.ask(c.TDel(), keys) == Ok()
    assert refused(await app.ask(c.TDel(), keys)) == "AUTH"
    assert await scene.records.read(subscriptions.counts) == {}
    assert [gone.id for gone in scene.others.removed] == [subscription]


@pytest.mark.parametrize(("minutes", "answer"), [(19, "QUOTA"), (1, "QUOTA"), (20, ""), (0, "")])
async def test_periodic_pushes_are_bounded(
    scene: AppScene, app: App, minutes: int, answer: str
) -> None:
    keys = await verified(scene, app)
    reply = await app.ask(c.TCrn(minutes), keys)
    assert refused(reply) == answer if answer else reply == Ok()
    token = await scene.records.read(tokens.get, keys.token)
    assert token is not None
    assert token.interval_minutes == (0 if answer else minutes)


async def test_a_dead_device_is_shown_with_its_reason(scene: AppScene, app: App) -> None:
    """The reason is for version 3, and TNEW revives the token."""
    keys = await verified(scene, app)
    token = await scene.records.read(tokens.get, keys.token)
    assert token is not None
    dead = invalidate(token, token.device, InvalidReason.BAD)
    await scene.records.write(tokens.put, dead)
    shown = TokenState(TokenStatus.INVALID, InvalidReason.BAD)
    assert await app.ask(c.TChk(), keys) == shown
    async with await App.connect(scene.address, version=2) as older:
        assert await older.ask(c.TChk(), keys) == TokenState(TokenStatus.INVALID)
    assert isinstance(await app.ask(snew(keys), keys), IdSub), "subscriptions are looked after"
    await registered(scene, app, keys)
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.REGISTERED)


async def test_a_provider_has_to_be_enabled(tmp_path: Path) -> None:
    """ACC-115: test devices are taken where a setting says so."""
    async with (
        serving_apps(tmp_path, settings=AppSettings()) as scene,
        await App.connect(scene.address) as app,
    ):
        keys = AppKeys()
        assert refused(await app.ask(keys.new_token(TEST_DEVICE), keys)) == "CMD PROHIBITED"
        null = ApnsDevice(Provider.NULL, b"d")
        keys.take(await app.ask(keys.new_token(null), keys))
        assert refused(await app.ask(c.TRpl(TEST_DEVICE), keys)) == "CMD PROHIBITED"
    assert [token.device for token in scene.others.codes] == [null]


async def test_registrations_from_one_address_are_bounded(tmp_path: Path) -> None:
    now = 1_000_000.0
    settings = AppSettings(registrations_per_minute=3)
    async with (
        serving_apps(tmp_path, settings=settings, clock=lambda: now) as scene,
        await App.connect(scene.address) as app,
    ):
        keys = AppKeys()
        new = keys.new_token(ApnsDevice(Provider.NULL, b"d"))
        for _ in range(3):
            assert isinstance(await app.ask(new, keys), IdTkn)
        assert refused(await app.ask(new, keys)) == "QUOTA"
        async with await App.connect(scene.address) as other:
            assert refused(await other.ask(new, keys)) == "QUOTA"
        now += 60
        assert isinstance(await app.ask(new, keys), IdTkn)


async def test_the_day_of_the_last_use_is_kept(tmp_path: Path) -> None:
    now = 1_000_000.0
    async with (
        serving_apps(tmp_path, clock=lambda: now) as scene,
        await App.connect(scene.address) as app,
    ):
        keys = await verified(scene, app)
        before = scene.records.commits
        await app.ask(c.TChk(), keys)
        assert scene.records.commits == before, "once a day is enough"
        now += 24 * 3600
        await app.ask(c.TChk(), keys)
        token = await scene.records.read(tokens.get, keys.token)
    assert token is not None
    assert token.used_day == now // (24 * 3600)


# Who asks.


@pytest.mark.parametrize(
    "command", [c.TVfy(bytes(32)), c.TChk(), c.TRpl(WEB_DEVICE), c.TDel(), c.TCrn(20)]
)
async def test_another_key_has_no_right_to_a_token(
    scene: AppScene, app: App, command: c.NtfCommand
) -> None:
    keys = await verified(scene, app)
    stranger = AppKeys()
    assert refused(await app.ask(command, stranger, keys.token)) == "AUTH"
    assert refused(await app.ask(command, stranger, bytes(24))) == "AUTH"
    assert await app.ask(c.TChk(), keys) == TokenState(TokenStatus.ACTIVE)


@pytest.mark.parametrize("command", [c.SChk(), c.SDel()])
async def test_another_key_has_no_right_to_a_subscription(
    scene: AppScene, app: App, command: c.NtfCommand
) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    stranger = AppKeys()
    assert refused(await app.ask(command, stranger, subscription)) == "AUTH"
    assert refused(await app.ask(command, keys, bytes(24))) == "AUTH"
    found = await app.ask(c.SChk(), keys, subscription)
    assert found == SubscriptionState(SubscriptionStatus.NEW)


async def test_a_token_is_registered_by_who_has_its_key(scene: AppScene, app: App) -> None:
    keys, stranger = AppKeys(), AppKeys()
    assert refused(await app.ask(keys.new_token(TEST_DEVICE), stranger)) == "AUTH"
    assert await scene.records.read(tokens.counts) == {}


# Subscriptions.


async def test_subscribing_needs_a_verified_device(scene: AppScene, app: App) -> None:
    keys = AppKeys()
    token = await registered(scene, app, keys)
    assert refused(await app.ask(snew(keys), keys)) == "AUTH"
    await scene.records.write(tokens.put, confirm(token, token.code))
    assert refused(await app.ask(snew(keys), keys)) == "AUTH"
    assert scene.others.wanted == []


async def test_the_same_subscription_has_the_same_id(scene: AppScene, app: App) -> None:
    """ACC-112: with another key, or of another token, it is refused."""
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    assert await subscribed(app, keys) == subscription
    assert len(scene.others.wanted) == 1, "it is made at the router once"
    other_key = replace(snew(keys), notifier_key=OTHER_PRIVATE)
    assert refused(await app.ask(other_key, keys)) == "AUTH"
    second = AppKeys()
    second.take(await app.ask(second.new_token(WEB_DEVICE), second))
    await app.ask(c.TVfy(scene.others.codes[-1].code), second)
    assert refused(await app.ask(snew(second), second)) == "AUTH"


async def test_a_subscription_is_stored_and_wanted(scene: AppScene, app: App) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    [(router, wanted)] = scene.others.wanted
    stored = await scene.records.read(subscriptions.get, subscription)
    assert wanted == stored
    elsewhere = RouterAddress(("other.example",), None, KEY_HASH)
    await app.ask(snew(keys, router=elsewhere), keys)
    assert scene.others.wanted[-1][0] != router


async def test_an_associated_subscription_is_as_active_as_its_service(
    scene: AppScene, app: App
) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    [(router, wanted)] = scene.others.wanted
    await scene.records.write(
        subscriptions.change, router, [wanted.notifier], lambda each: accept(each, b"s", b"s")
    )
    inactive = SubscriptionState(SubscriptionStatus.INACTIVE)
    assert await app.ask(c.SChk(), keys, subscription) == inactive
    scene.others.active.add(router)
    active = SubscriptionState(SubscriptionStatus.ACTIVE)
    assert await app.ask(c.SChk(), keys, subscription) == active


async def test_a_subscription_is_removed(scene: AppScene, app: App) -> None:
    keys = await verified(scene, app)
    subscription = await subscribed(app, keys)
    assert await app.ask(c.SDel(), keys, subscription) == Ok()
    assert refused(await app.ask(c.SChk(), keys, subscription)) == "AUTH"
    assert [gone.id for gone in scene.others.removed] == [subscription]
    assert await subscribed(app, keys) != subscription


# Bad luck.


async def test_a_store_that_fails_is_answered(scene: AppScene, app: App, tmp_path: Path) -> None:
    """What is not stored is not answered as if it were, and work goes on when the disk does."""
    keys = AppKeys()
    os.rename(tmp_path / "ntf.db", tmp_path / "away")
    answer = await app.ask(keys.new_token(TEST_DEVICE), keys)
    assert refused(answer) == "STORE unavailable"
    assert scene.others.codes == []
    os.rename(tmp_path / "away", tmp_path / "ntf.db")
    await verified(scene, app, keys)
