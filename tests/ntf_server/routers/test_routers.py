"""Subscriptions at a real router: made, resumed, moved to a service and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Queue, make_key
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally
from headgate.ntf_server.records import notices, subscriptions
from headgate.testing.smp_client import SmpClient
from headgate.wire.ntf.statuses import SubscriptionStatus
from headgate.wire.smp.codec import replies as r
from tests.support.ntf_notifiers import OWNER, NotifierScene, notifying, until
from tests.support.smp_router import Rig

ACTIVE = SubscriptionStatus.ACTIVE


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig("sqlite:q.db", tmp_path / "router", keeps_port=True)
    await rig.start()
    yield rig
    if rig.is_running:
        await rig.stop()


async def notified_queue(client: SmpClient) -> tuple[Queue, Ed25519PrivateKey]:
    key = make_key()
    assert isinstance(key, Ed25519PrivateKey)
    return await client.new_queue(notifier=key), key


async def is_pushed(scene: NotifierScene, client: SmpClient, queue: Queue) -> None:
    """A message whose sender wants it leads to a push."""
    scene.pushed.clear()
    assert await client.send(queue, b"hello", notify=True) == r.Ok()

    async def pushed() -> bool:
        return bool(scene.pushed)

    await until(pushed)
    assert {token.id for token in scene.pushed} == {OWNER.id}
    entry = (await scene.records.read(notices.latest, OWNER.id))[-1]
    assert entry.notifier == queue.notifier


async def test_a_message_leads_to_a_push(rig: Rig, tmp_path: Path) -> None:
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        await is_pushed(scene, client, queue)
        assert await scene.is_associated(made)
        record = await scene.router()
        assert record.tally == Tally.of([QueueId(queue.notifier)])
        assert record.credentials is not None
        assert scene.shell.is_service_active(record.number)


async def test_subscriptions_resume_after_a_restart_of_the_router(rig: Rig, tmp_path: Path) -> None:
    """ACC-113: and none is lost meanwhile."""
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        await rig.stop()

        async def is_down() -> bool:
            return not scene.shell.is_service_active((await scene.router()).number)

        await until(is_down)
        assert await scene.status(made) is ACTIVE, "an associated row is as active as its service"
        await rig.start()

        async def is_up() -> bool:
            return scene.shell.is_service_active((await scene.router()).number)

        await until(is_up)
        await is_pushed(scene, await rig.connect(), queue)


async def test_single_subscriptions_are_inactive_without_a_session(
    rig: Rig, tmp_path: Path
) -> None:
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path, services=False) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        assert not await scene.is_associated(made)
        await rig.stop()
        await scene.reaches(made, SubscriptionStatus.INACTIVE)
        await rig.start()
        await scene.reaches(made, ACTIVE)


async def test_subscriptions_resume_after_a_restart_of_the_server(rig: Rig, tmp_path: Path) -> None:
    """S001-89: the router is shown the same certificate, and knows the service by it."""
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        before = await scene.router()
    assert await client.send(queue, b"while it was away", notify=True) == r.Ok()
    async with notifying(tmp_path) as scene:

        async def came() -> bool:
            return bool(scene.pushed)

        await until(came)
        assert await scene.router() == before
        assert scene.shell.drifts == {}


async def test_subscriptions_move_to_a_service_and_back(rig: Rig, tmp_path: Path) -> None:
    """S001-88, ACC-114: a setting switches it, and no notice is lost by it."""
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path, services=False) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        await is_pushed(scene, client, queue)
    async with notifying(tmp_path) as scene:

        async def is_ours() -> bool:
            return await scene.is_associated(made)

        await until(is_ours)
        await is_pushed(scene, client, queue)
    async with notifying(tmp_path, services=False) as scene:

        async def is_single() -> bool:
            found = await scene.records.read(subscriptions.get, made.id)
            return found is not None and found.status is ACTIVE and not found.is_associated

        await until(is_single)
        await is_pushed(scene, client, queue)
        record = await scene.router()
        assert (record.tally, record.credentials) == (NOTHING, None)


async def test_each_router_is_shown_a_certificate_of_its_own(tmp_path: Path) -> None:
    """S004-27: so that two routers cannot find out that they have one client."""
    rigs = [Rig("memory:", tmp_path / name) for name in ("one", "two")]
    for rig in rigs:
        await rig.start()
    async with notifying(tmp_path) as scene:
        for rig in rigs:
            queue, key = await notified_queue(await rig.connect())
            made = await scene.subscribe(rig.address, queue.notifier, key)
            await scene.reaches(made, ACTIVE)
        shown = [(await scene.router(number)).credentials for number in (1, 2)]
    assert None not in shown
    assert len({each.fingerprint for each in shown if each is not None}) == 2
    for rig in rigs:
        await rig.stop()


async def test_a_queue_that_is_deleted_ends_its_subscription(rig: Rig, tmp_path: Path) -> None:
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        assert isinstance(await client.set_notifier(queue, make_key()), r.Nid)
        await scene.reaches(made, SubscriptionStatus.DELETED)
        assert (await scene.router()).tally == NOTHING


async def test_a_wrong_key_is_refused(rig: Rig, tmp_path: Path) -> None:
    client = await rig.connect()
    queue, _ = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        made = await scene.subscribe(rig.address, queue.notifier, Ed25519PrivateKey.generate())
        await scene.reaches(made, SubscriptionStatus.AUTH)


async def test_a_router_that_is_not_there_holds_up_no_other(rig: Rig, tmp_path: Path) -> None:
    other = Rig("memory:", tmp_path / "other")
    await other.start()
    absent = other.address
    await other.stop()
    client = await rig.connect()
    queue, key = await notified_queue(client)
    async with notifying(tmp_path) as scene:
        waits = await scene.subscribe(absent, b"n" * 24, key)
        made = await scene.subscribe(rig.address, queue.notifier, key)
        await scene.reaches(made, ACTIVE)
        assert await scene.status(waits) is SubscriptionStatus.NEW
