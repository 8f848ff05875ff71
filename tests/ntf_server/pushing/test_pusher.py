"""Pushes through providers that take them, refuse them, are slow or fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headgate.errors import StoreError
from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import (
    CheckPush,
    CodePush,
    MessagesPush,
    NoticeEntry,
    Push,
    open_push,
    parse_entries,
)
from headgate.notify.tokens import Token, mark_checked, set_interval
from headgate.ntf_server.pushing import pusher as pushing
from headgate.ntf_server.pushing.periodic import push_due
from headgate.ntf_server.pushing.provider import NullProvider
from headgate.ntf_server.pushing.pusher import Pusher
from headgate.ntf_server.pushing.turns import PushKind
from headgate.ntf_server.records import Records, Tables, notices, tokens
from headgate.ntf_server.records.routers import RouterNumber
from headgate.wire.ntf.devices import ApnsDevice, Device, Provider, WebPushDevice
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from tests.conformance.ntf_records import ACTIVE, add, notice, subscription
from tests.support.ntf_examples import WEB_DEVICE
from tests.support.ntf_notifiers import until
from tests.support.ntf_pushes import KeepingProvider, when
from tests.support.ntf_tokens import token_in

ROUTER = RouterNumber(1)
TEST, NULL = Provider.APNS_TEST, Provider.NULL


@dataclass
class PushScene:
    records: Records
    provider: KeepingProvider
    pusher: Pusher

    async def token(self) -> Token:
        found = await self.records.read(tokens.get, ACTIVE.id)
        assert found is not None
        return found

    async def done(self, count: int = 1) -> None:
        """So many pushes were brought, and nothing is under way."""
        await until(when(lambda: len(self.provider.pushed) >= count and not len(self.pusher)))

    def outcomes(self, kind: PushKind) -> dict[str, int]:
        found = self.pusher.outcomes
        return {label: found[key] for key in found for label in key[2:] if key[1] is kind}


class HangingProvider(KeepingProvider):
    """Does not answer for one host, until it may."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host
        self.go.clear()

    async def push(self, device: Device, push: Push) -> PushOutcome:
        self.pushed.append((device, push))
        if isinstance(device, WebPushDevice) and device.host == self.host:
            await self.go.wait()
        return Delivered()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PushScene]:
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        await records.write(tokens.put, ACTIVE)
        await records.write(add, *(subscription(n) for n in range(8)))
        provider = KeepingProvider()
        pusher = Pusher(records, {TEST: provider, NULL: NullProvider()})
        yield PushScene(records, provider, pusher)
        provider.go.set()
        await pusher.close()
        assert provider.is_closed


async def test_a_code_is_pushed_and_confirmed(scene: PushScene) -> None:
    token = token_in(TokenStatus.REGISTERED)
    await scene.records.write(tokens.put, token)
    scene.pusher.push_code(token)
    await scene.done()
    [(device, push)] = scene.provider.pushed
    assert device == token.device
    assert isinstance(push, CodePush)
    assert open_push(token.key, push) == token.code
    assert (await scene.token()).status is TokenStatus.CONFIRMED


async def test_a_code_that_was_replaced_confirms_nothing(scene: PushScene) -> None:
    token = token_in(TokenStatus.REGISTERED)
    await scene.records.write(tokens.put, token)
    scene.provider.go.clear()
    scene.pusher.push_code(token)
    await until(when(lambda: scene.provider.pushed))
    await scene.records.write(tokens.put, replace(token, device=WEB_DEVICE))
    scene.provider.go.set()
    await scene.done()
    assert (await scene.token()).status is TokenStatus.REGISTERED


async def test_the_newest_notices_are_pushed(scene: PushScene) -> None:
    """The push is made when its turn comes, so that a burst is one push."""
    for n in range(8):
        await scene.records.write(notices.keep, ROUTER, [notice(n, n)])
        scene.pusher.push_notices(ACTIVE)
    await scene.done()
    last = scene.provider.pushed[-1][1]
    assert isinstance(last, MessagesPush)
    entries = parse_entries(open_push(ACTIVE.key, last))
    assert [entry.seconds for entry in entries] == [2, 3, 4, 5, 6, 7]
    assert len(scene.provider.pushed) <= 2


@pytest.mark.parametrize("reason", list(InvalidReason))
async def test_a_dead_device_gets_no_more_pushes(scene: PushScene, reason: InvalidReason) -> None:
    await scene.records.write(notices.keep, ROUTER, [notice(1)])
    scene.provider.answers = [Dead(reason)]
    scene.pusher.push_notices(ACTIVE)
    await scene.done()
    token = await scene.token()
    assert (token.status, token.reason) == (TokenStatus.INVALID, reason)
    for push in (scene.pusher.push_notices, scene.pusher.push_check, scene.pusher.push_code):
        push(token)
    await scene.done()
    assert len(scene.provider.pushed) == 1


async def test_a_provider_that_fails_does_not_end_the_server(
    scene: PushScene, caplog: pytest.LogCaptureFixture
) -> None:
    """S004-29: it costs the push, and nothing that names the device is logged."""
    scene.provider.answers = [OSError("device abcd"), Failed("the push service answered 400")]
    for _ in range(3):
        scene.pusher.push_check(ACTIVE)
        await scene.done()
    assert scene.outcomes(PushKind.CHECK) == {"failed": 2, "delivered": 1}
    assert (await scene.token()).status is TokenStatus.ACTIVE
    assert "abcd" not in caplog.text


async def test_what_comes_later_is_tried_once_more(scene: PushScene) -> None:
    scene.provider.answers = [Later(0), Later(0)]
    scene.pusher.push_check(ACTIVE)
    await scene.done(2)
    assert scene.outcomes(PushKind.CHECK) == {"later": 1, "failed": 1}
    scene.provider.answers = [Later(0)]
    scene.pusher.push_check(ACTIVE)
    await scene.done(4)
    assert scene.outcomes(PushKind.CHECK)["delivered"] == 1


async def test_a_token_waits_once(scene: PushScene) -> None:
    """What comes while the provider has the push of a token, or wants it later, is in the next
    push, and there is one."""
    await scene.records.write(notices.keep, ROUTER, [notice(1)])
    scene.provider.go.clear()
    scene.provider.answers = [Later(3600)]
    scene.pusher.push_notices(ACTIVE)
    await until(when(lambda: scene.provider.pushed))
    scene.pusher.push_notices(ACTIVE)
    scene.provider.go.set()
    await until(when(lambda: scene.outcomes(PushKind.NOTICES) == {"later": 1}))
    scene.pusher.push_notices(ACTIVE)
    assert len(scene.pusher) == 1
    assert len(scene.provider.pushed) == 1


async def test_notices_that_come_while_a_push_is_under_way_are_pushed_after_it(
    scene: PushScene,
) -> None:
    await scene.records.write(notices.keep, ROUTER, [notice(1)])
    scene.provider.go.clear()
    scene.pusher.push_notices(ACTIVE)
    await until(when(lambda: scene.provider.pushed))
    await scene.records.write(notices.keep, ROUTER, [notice(2)])
    scene.pusher.push_notices(ACTIVE)
    scene.provider.go.set()
    await scene.done(2)
    push = scene.provider.pushed[-1][1]
    assert isinstance(push, MessagesPush)
    assert len(parse_entries(open_push(ACTIVE.key, push))) == 2


async def test_what_was_kept_and_not_pushed_is_pushed_after_a_restart(tmp_path: Path) -> None:
    """Also if the provider had it and did not answer. What it has answered is not pushed again."""
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        other = replace(ACTIVE, id=b"o" * 24, verify_key=b"o")
        for token in (ACTIVE, other):
            await records.write(tokens.put, token)
        await records.write(add, subscription(1), subscription(2, other.id))
        await records.write(notices.keep, ROUTER, [notice(1), notice(2)])
        first = KeepingProvider()
        pusher = Pusher(records, {TEST: first})
        pusher.push_notices(ACTIVE)
        await until(when(lambda: first.pushed and not len(pusher)))
        first.go.clear()
        pusher.push_notices(other)
        await until(when(lambda: len(first.pushed) == 2))
        await pusher.close()
        second = KeepingProvider()
        pusher = Pusher(records, {TEST: second})
        pusher.start()
        await until(when(lambda: second.pushed and not len(pusher)))
        await pusher.close()
        [(_, push)] = second.pushed
        assert isinstance(push, MessagesPush)
        [entry] = parse_entries(open_push(other.key, push))
        assert entry.notifier == subscription(2).notifier
        assert await records.read(notices.owners_waiting, b"", 10) == []


async def test_a_push_that_the_records_refused_is_made_later(
    scene: PushScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "RETRY_SECONDS", 0.01)
    await scene.records.write(notices.keep, ROUTER, [notice(1)])
    latest = notices.latest
    failures = [StoreError("the disk is full")] * 2

    def fail(tables: Tables, token: bytes) -> list[NoticeEntry]:
        if failures:
            raise failures.pop()
        return latest(tables, token)

    monkeypatch.setattr(notices, "latest", fail)
    scene.pusher.push_notices(ACTIVE)
    await scene.done()
    assert scene.outcomes(PushKind.NOTICES) == {"store": 2, "delivered": 1}


async def test_a_provider_that_never_answers_costs_its_push(
    scene: PushScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "PUSH_SECONDS", 0.01)
    scene.provider.go.clear()
    scene.pusher.push_check(ACTIVE)
    await scene.done()
    assert scene.outcomes(PushKind.CHECK) == {"failed": 1}


async def test_a_slow_provider_holds_up_no_other(tmp_path: Path) -> None:
    """Its queue is bounded, and so is what it has not answered."""
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        slow = KeepingProvider()
        slow.go.clear()
        pusher = Pusher(records, {TEST: slow, NULL: NullProvider()}, size_max=3, under_way_max=2)
        for n in range(10):
            token = replace(ACTIVE, id=bytes([n]) * 24, verify_key=bytes([n]))
            await records.write(tokens.put, token)
            pusher.push_check(token)
        await until(when(lambda: len(slow.pushed) == 2))
        assert pusher.outcomes[TEST, PushKind.CHECK, "no_room"] == 5
        quick = replace(ACTIVE, id=b"q" * 24, device=ApnsDevice(NULL, b"d"))
        await records.write(tokens.put, quick)
        pusher.push_check(quick)
        await until(when(lambda: pusher.outcomes[NULL, PushKind.CHECK, "delivered"]))
        slow.go.set()
        await until(when(lambda: not len(pusher)))
        assert len(slow.pushed) == 5
        await pusher.close()


async def test_an_endpoint_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """A host has a part of the places of its provider; its turns wait without one."""
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        web, hanging = Provider.WEB_PUSH, HangingProvider("push.example")
        pusher = Pusher(records, {web: hanging}, under_way_max=4, lane_max=2)
        for n in range(20):
            token = replace(ACTIVE, id=bytes([n]) * 24, verify_key=bytes([n]), device=WEB_DEVICE)
            await records.write(tokens.put, token)
            pusher.push_check(token)
        await until(when(lambda: len(pusher) == 20 and len(hanging.pushed) == 2))
        other = replace(WEB_DEVICE, host="other.example")
        quick = replace(ACTIVE, id=b"q" * 24, device=other)
        await records.write(tokens.put, quick)
        pusher.push_check(quick)
        await until(when(lambda: pusher.outcomes[web, PushKind.CHECK, "delivered"]))
        assert [device for device, _ in hanging.pushed] == [WEB_DEVICE, WEB_DEVICE, other]
        hanging.go.set()
        await until(when(lambda: not len(pusher)))
        assert pusher.outcomes == {(web, PushKind.CHECK, "delivered"): 21}
        await pusher.close()


async def test_a_provider_that_was_switched_off_is_counted(scene: PushScene) -> None:
    scene.pusher.push_check(replace(ACTIVE, device=WEB_DEVICE))
    assert scene.pusher.outcomes == {(Provider.WEB_PUSH, PushKind.CHECK, "no_provider"): 1}


async def test_periodic_pushes_come_when_they_are_due(scene: PushScene) -> None:
    """The first one comes at once, also after a restart; the next one when its time is over."""
    await scene.records.write(tokens.put, set_interval(ACTIVE, 20))
    for now, expected in ((1000, 1), (1000 + 1199, 1), (1000 + 1200, 2)):
        await push_due(scene.records, scene.pusher.push_check, now)
        await scene.done(expected)
        assert len(scene.provider.pushed) == expected
    assert {push for _, push in scene.provider.pushed} == {CheckPush()}
    assert (await scene.token()) == mark_checked(set_interval(ACTIVE, 20), 2200)
