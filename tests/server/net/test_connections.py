"""Connections of all wires share one budget: who waits is woken by any of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.core.facts import PublisherWaited
from headgate.core.model.limits import KiB
from headgate.server import router as router_module
from headgate.server.config.sections import ListenResp
from headgate.server.wires.resp import RespServer
from tests.server.wires.test_resp import Peer, Scene, publish_until_waiting
from tests.support.bmq_raw import RawClient, Wants
from tests.support.bmq_raw_router import Rig, StartRig
from tests.support.bmq_raw_router import start_rig as start_rig
from tests.support.socket_buffers import NARROW_BYTES, narrow_door

QUEUE = "bmq://work/q"
SOFT, HARD, LIMIT = 256 * KiB, 2048 * KiB, 384 * KiB
BODY = b"x" * 30 * KiB


class Both:
    """A router with two wires, the budget of which two clients spend that do not read."""

    def __init__(self, rig: Rig, scene: Scene, consumer: RawClient, listener: Peer) -> None:
        self.rig = rig
        self.scene = scene
        self.consumer = consumer
        self.listener = listener
        self.posted = 0

    async def fill(self, writer: RawClient, publisher: Peer) -> None:
        """Until the publisher has to wait for the listener, for what the consumer holds."""
        budget = self.rig.router.broker.budget
        while budget.bytes < SOFT - 2 * len(BODY):
            await writer.post_all(BODY)
            self.posted += 1
            assert self.posted < 100
        assert len(budget.stuck) == 1
        await publish_until_waiting(self.scene, publisher)
        assert self.scene.server.hub.budget.is_spent
        assert all(mailbox.bytes < HARD for mailbox in budget.stuck.values())


@pytest.fixture
async def both(
    start_rig: StartRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Both]:
    # Nothing here may need the net that catches who was forgotten.
    monkeypatch.setattr(router_module, "TICK_SECONDS", 3600.0)
    rig = await start_rig()
    server = RespServer(
        rig.router,
        ListenResp(port=0, mailbox_soft=SOFT, mailbox_hard=HARD, publish_buffer_limit=LIMIT),
        tmp_path,
    )
    narrow_door(server)
    narrow_door(rig.server)
    scene = Scene(rig.router, server)
    consumer = await rig.connect(receive_bytes=NARROW_BYTES)
    await consumer.open(QUEUE)
    await consumer.configure(Wants())
    listener = scene.pair()
    await listener.ask("SUBSCRIBE", "c")
    consumer.hold()
    yield Both(rig, scene, consumer, listener)
    await scene.hang_up()


@pytest.mark.parametrize("end", ["reads", "leaves"])
async def test_a_publisher_goes_on_when_a_session_of_another_wire_gives_the_budget_back(
    both: Both, end: str
) -> None:
    """S002-62, S002-63: the one that it waits for reads nothing meanwhile."""
    writer, publisher = await both.rig.connect(), await both.scene.dial()
    await writer.open(QUEUE)
    await both.fill(writer, publisher)
    budget = both.rig.router.broker.budget
    [waiting] = both.rig.facts_of(PublisherWaited)
    held = budget.stuck[waiting.by].bytes
    if end == "reads":
        both.consumer.go_on()
        await both.consumer.take(both.posted)
    else:
        both.consumer.vanish()
    assert await publisher.read() == b":1\r\n"
    assert len(both.rig.router.broker.waiting) == 0
    assert budget.stuck[waiting.by].bytes >= held
