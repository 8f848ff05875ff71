"""A program that has its queues watched: over a real router, a real notification server, and a
provider that keeps what it is given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headgate.agent.agent import Agent
from headgate.agent.events import NamedQueue
from headgate.agent.push_token import PushToken
from headgate.agent.web_push_receiver import WebPushReceiver
from headgate.errors import Closed, Malformed, NotConnected, RequestRefused, StoreError
from headgate.notify.outcomes import Dead
from headgate.notify.push_content import CodePush, MessagesPush, Push, web_push_json
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from headgate.wire.ntf.devices import Device, Provider
from headgate.wire.ntf.replies import TokenState
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from tests.support.agent_scene import QUICK
from tests.support.ntf_examples import WEB_DEVICE
from tests.support.ntf_notifiers import QUICK as QUICK_SERVER
from tests.support.ntf_notifiers import until
from tests.support.ntf_pushes import KeepingProvider, when
from tests.support.smp_router import Rig


@dataclass
class NotifyScene:
    server: NtfServer
    provider: KeepingProvider

    @property
    def pushes(self) -> list[Push]:
        return [push for _, push in self.provider.pushed]

    async def pushed(self, kind: type[Push], count: int = 1) -> bytes:
        """The push that is the n-th of its kind, as the device gets it."""
        await until(when(lambda: len(self._of(kind)) >= count))
        return web_push_json(self._of(kind)[count - 1])

    def _of(self, kind: type[Push]) -> list[Push]:
        return [push for push in self.pushes if isinstance(push, kind)]

    async def verified(self, agent: Agent, device: Device = WEB_DEVICE) -> PushToken:
        codes = len(self._of(CodePush))
        token = await agent.push_token(self.server.address, device)
        return await agent.verify(token, await self.pushed(CodePush, codes + 1))


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[NotifyScene]:
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    provider = KeepingProvider()
    apps = AppSettings(providers=frozenset({Provider.WEB_PUSH}))
    settings = NtfSettings(port=0, apps=apps, shell=QUICK_SERVER)
    providers = {Provider.WEB_PUSH: provider}
    async with await NtfServer.open(NtfHost(), identity, folder, settings, providers) as server:
        yield NotifyScene(server, provider)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[NotifyScene]:
    async with serving(tmp_path) as scene:
        yield scene


async def test_a_program_that_sleeps_is_woken(rig: Rig, scene: NotifyScene, tmp_path: Path) -> None:
    """ACC-111: a push names the queue and the message, and the program fetches it."""
    path = tmp_path / "sleeper.db"
    async with Agent.open(path, routers=[rig.address], settings=QUICK) as agent:
        meters = await agent.queue("meters")
        token = await scene.verified(agent)
        assert token.is_verified
        assert await agent.notify(token) == {meters.connection: None}
    async with (
        Agent.open(path, subscribe=False, settings=QUICK) as sleeper,
        Agent.memory(settings=QUICK) as sender,
    ):
        queue = await sender.open_queue(meters.address)
        await queue.send(b"42", notify=True)
        push = await scene.pushed(MessagesPush)
        found = await sleeper.push_token(scene.server.address, WEB_DEVICE)
        assert found == token
        [notice] = await sleeper.open_push(found, push)
        assert notice.queue == NamedQueue(meters.connection, "meters")
        message = await sleeper.fetch(meters)
        assert message is not None
        assert message.body == b"42"
        await message.ack()
    assert sum(isinstance(push, CodePush) for push in scene.pushes) == 1


async def test_connections_are_watched_too(rig: Rig, scene: NotifyScene) -> None:
    """And what is made later, when it is asked for again."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as agent,
        Agent.memory(routers=[rig.address], settings=QUICK) as peer,
    ):
        token = await scene.verified(agent)
        assert await agent.notify(token) == {}
        queue = await agent.queue("meters")
        invitation = await agent.invite("anna", auto_accept=True)
        joined = await peer.join(invitation.link)
        expected = {queue.connection: None, invitation.connection.id: None}
        for _ in range(2):
            assert await agent.notify(token) == expected

        async def is_ready() -> bool:
            return (await joined.state()).is_ready

        await until(is_ready)
        await joined.send(b"hello", notify=True)
        push = await scene.pushed(MessagesPush)
        notices = await agent.open_push(token, push)
        assert notices[-1].queue == NamedQueue(invitation.connection.id, "anna")


async def test_a_token_has_to_be_verified(rig: Rig, scene: NotifyScene) -> None:
    """The code comes again as often as it is asked for, and is always the same."""
    async with Agent.memory(routers=[rig.address], settings=QUICK) as agent:
        queue = await agent.queue("meters")
        token = await agent.push_token(str(scene.server.address), WEB_DEVICE)
        assert not token.is_verified
        refused = await agent.notify(token)
        assert str(refused[queue.connection]) == str(RequestRefused("AUTH"))
        first = await scene.pushed(CodePush)
        again = await agent.push_token(scene.server.address, WEB_DEVICE)
        assert again == token
        await scene.pushed(CodePush, 2)
        with pytest.raises(Malformed):
            await agent.verify(token, b"{}")
        with pytest.raises(Malformed, match="to be verified"):
            await agent.open_push(token, first)
        token = await agent.verify(token, first)
        assert await agent.push_status(token) == TokenState(TokenStatus.ACTIVE)
        assert await agent.notify(token) == {queue.connection: None}


async def test_a_device_that_was_taken_for_dead_is_registered_again(
    rig: Rig, scene: NotifyScene
) -> None:
    async with Agent.memory(routers=[rig.address], settings=QUICK) as agent:
        token = await scene.verified(agent)
        scene.provider.answers = [Dead(InvalidReason.UNREGISTERED)]
        queue = await agent.queue("meters")
        await agent.notify(token)
        async with Agent.memory(settings=QUICK) as sender:
            opened = await sender.open_queue(queue.address)
            await opened.send(b"42", notify=True)
            await scene.pushed(MessagesPush)
            dead = TokenState(TokenStatus.INVALID, InvalidReason.UNREGISTERED)

            async def is_dead() -> bool:
                return await agent.push_status(token) == dead

            await until(is_dead)
            revived = await scene.verified(agent)
            assert revived == token
            await opened.send(b"43", notify=True)
            assert await agent.open_push(revived, await scene.pushed(MessagesPush, 2))


async def test_two_calls_at_once_make_one_notifier(rig: Rig, scene: NotifyScene) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as agent,
        Agent.memory(settings=QUICK) as sender,
    ):
        queue = await agent.queue("meters")
        token = await scene.verified(agent)
        found = await asyncio.gather(*(agent.notify(token) for _ in range(5)))
        assert found == [{queue.connection: None}] * 5
        await (await sender.open_queue(queue.address)).send(b"42", notify=True)
        assert await agent.open_push(token, await scene.pushed(MessagesPush))


async def test_a_token_is_removed(rig: Rig, scene: NotifyScene) -> None:
    async with Agent.memory(routers=[rig.address], settings=QUICK) as agent:
        token = await scene.verified(agent)
        await agent.remove_push_token(token)
        with pytest.raises(StoreError, match="register it again"):
            await agent.notify(token)
        other = await scene.verified(agent)
        assert other.id != token.id


async def test_pushes_of_others_are_not_opened(rig: Rig, scene: NotifyScene) -> None:
    """Neither what is not for the token, nor notices of queues that are gone."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as agent,
        Agent.memory(settings=QUICK) as sender,
    ):
        queue = await agent.queue("meters")
        token = await scene.verified(agent)
        await agent.notify(token)
        await (await sender.open_queue(queue.address)).send(b"42", notify=True)
        push = await scene.pushed(MessagesPush)
        with pytest.raises(Malformed):
            await agent.open_push(replace(token, push_key=bytes(32)), push)
        with pytest.raises(Malformed):
            await agent.open_push(token, b"no json")
        assert await agent.open_push(token, b'{"checkMessages":true}') == []
        await queue.delete()
        assert await agent.open_push(token, push) == []


async def test_nobody_answers(rig: Rig, scene: NotifyScene, tmp_path: Path) -> None:
    """A router that is away costs its own queues; a server that is away, the call."""
    async with Agent.memory(routers=[rig.address], settings=QUICK) as agent:
        queue = await agent.queue("meters")
        token = await scene.verified(agent)
        await rig.stop()
        found = await agent.notify(token)
        assert isinstance(found[queue.connection], NotConnected)
        gone = replace(scene.server.address, hosts=("127.0.0.2",))
        with pytest.raises(NotConnected, match="no notification server answers"):
            await agent.push_token(gone, WEB_DEVICE)
        await rig.start()

        async def is_notified() -> bool:
            return await agent.notify(token) == {queue.connection: None}

        await until(is_notified)
    with pytest.raises(Closed):
        await agent.notify(token)


def test_a_receiver_is_kept_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "receiver.key"
    first = WebPushReceiver.open(path).device("https://app.example/push")
    assert path.stat().st_mode & 0o777 == 0o600
    assert WebPushReceiver.open(str(path)).device("https://app.example/push") == first
    assert WebPushReceiver.make().device("https://app.example/push") != first
    path.write_bytes(b"short")
    with pytest.raises(StoreError, match="no file of a receiver"):
        WebPushReceiver.open(path)
    with pytest.raises(StoreError, match="cannot be used"):
        WebPushReceiver.open(tmp_path / "none" / "receiver.key")
