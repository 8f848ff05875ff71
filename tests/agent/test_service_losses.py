"""Services that a router lost, all of them or some queues, and what the agent makes of it."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.agent.agent import Agent
from headgate.agent.events import (
    Down,
    Message,
    Mismatch,
    Problem,
    ProblemKind,
    ServiceDown,
    ServiceUp,
    Up,
)
from headgate.agent.records import Records, receive_queues, services
from headgate.agent.records.services import Service
from headgate.client.smp import requests
from headgate.client.smp.recipient import Queue
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.handshake import VERSIONS, Versions
from tests.support.agent_scene import (
    QUICK,
    EventLog,
    Place,
    Script,
    confirms,
    connection_id,
    opened,
    shell_of,
    soon,
    store_made_up,
    store_queues,
)
from tests.support.smp_peer import SERVICE_ID, Asked, Peer
from tests.support.smp_router import Rig

COUNT = 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def everybody(count: int = COUNT) -> set[bytes]:
    return {connection_id(n) for n in range(count)}


def tally_of(*queues: Queue) -> Tally:
    return Tally.of(QueueId(queue.id) for queue in queues)


async def associated(path: Path, rig: Rig) -> tuple[Place, list[Queue]]:
    """Queues that belong to the service of an agent, which is closed."""
    place, queues = await store_queues(path, rig, COUNT, services=True)
    async with opened(path, services=True) as (_, log):
        await all_up(log)
    return place, queues


async def all_up(log: EventLog, count: int = COUNT) -> None:
    await log.until(lambda: sum(len(up.connections) for up in log.of(Up)) == count)


async def at_rest(agent: Agent) -> None:
    """Nothing is being read or asked: a repair is over."""
    engine = agent._shell._engine
    await soon(lambda: not engine.is_busy() and not any(s.is_reading for s in agent.status()))


async def kept(place: Place) -> Service:
    async with await Records.open(place.path) as records:
        found = await records.read(services.get, place.user, place.router)
    assert found is not None
    return found


# The whole service.


async def test_messages_come_through_a_service_before_and_after_a_reconnect(
    rig: Rig, path: Path
) -> None:
    """ACC-101: and both sides have the same tally each time."""
    async with opened(path, services=True) as (agent, log), Agent.memory(settings=QUICK) as sender:
        own = [await agent.queue(name, router=rig.address) for name in ("north", "south")]
        to = [await sender.open_queue(each.address) for each in own]
        tally = Tally.of(QueueId(each.recipient_id) for each in own)
        for round in range(3):
            for each in to:
                await each.send(b"%d" % round)
            for _ in to:
                message = await log.next_of(Message)
                assert message.body == b"%d" % round
                await message.ack()
            await rig.restart()
            assert (await log.next_of(ServiceDown)).tally == tally
            up = await log.next_of(ServiceUp)
            assert (up.tally, up.drift) == (tally, None)


async def test_a_router_that_stops_is_down_for_services_and_for_connections(
    rig: Rig, path: Path, tmp_path: Path
) -> None:
    """ACC-102: each agent gets to know in its own way, and both come back."""
    _, queues = await associated(path, rig)
    alone = tmp_path / "alone.db"
    await store_queues(alone, rig, 1, first=COUNT)
    async with opened(path, services=True) as (_, log), opened(alone) as (_, other):
        assert (await log.next_of(ServiceUp)).tally == tally_of(*queues)
        await other.next_of(Up)
        await rig.stop()
        assert (await log.next_of(ServiceDown)).tally == tally_of(*queues)
        assert (await other.next_of(Down)).connections == (connection_id(COUNT),)
        await rig.start()
        await log.next_of(ServiceUp)
        await other.next_of(Up)
    assert not log.of(Up, Down)


async def test_a_router_that_forgot_the_service_gives_it_a_new_id(
    rig: Rig, path: Path, tmp_path: Path
) -> None:
    """S001-78, ACC-103: every queue is associated anew, and messages come."""
    place, queues = await associated(path, rig)
    before = await kept(place)
    async with opened(path, services=True) as (_, log):
        await log.next_of(ServiceUp)
        await rig.stop()
        with sqlite3.connect(tmp_path / "router" / "router.db") as file:
            file.execute("UPDATE queues SET service = NULL")
            file.execute("DELETE FROM services")
            file.execute("DELETE FROM identities")
        file.close()
        await rig.start()
        await all_up(log)
        sender = await rig.connect()
        assert await sender.send(queues[0], b"not sealed for anybody") == r.Ok()
        problem = await log.next_of(Problem)
        assert (problem.kind, problem.connection) == (ProblemKind.UNREADABLE, connection_id(0))
    after = await kept(place)
    assert after.credentials == before.credentials
    assert after.service_id not in (None, before.service_id)
    assert after.tally == tally_of(*queues)


@pytest.mark.parametrize("error", ["SERVICE", "NO_SERVICE", "no services"])
@pytest.mark.parametrize("at_start", [False, True])
async def test_a_service_that_fails_is_replaced_by_single_subscriptions(
    peer: Peer, path: Path, error: str, at_start: bool
) -> None:
    """S001-79, S001-83, S001-84, S001-85, S004-24, ACC-104, ACC-105: on a reconnect and at the
    start; each queue is pending until its own answer; the next connect has fresh credentials."""
    place = await store_made_up(path, peer.address, COUNT, services=True)
    seen: list[tuple[int, int]] = []

    def with_service(asked: Asked) -> r.Reply | None:
        match asked.command:
            case c.Subs(Tally() as tally):
                return r.Soks(tally)
            case _:
                return r.Sok(SERVICE_ID)

    def without(asked: Asked) -> r.Reply | None:
        if isinstance(asked.command, c.Subs):
            return r.Err(error)
        seen.append(scene.status())
        return confirms(asked)

    def fail() -> None:
        script.answer = without
        if error == "no services":
            peer.versions = Versions(6, 18)

    async with shell_of(path, services=True) as scene, Script(peer, with_service) as script:
        await soon(lambda: scene.up == everybody())
        first = await scene.read(services.get, place.user, place.router)
        assert first is not None
        if not at_start:
            fail()
            script.talks[0].drop()
            await soon(lambda: scene.status() == (0, COUNT))
            problems = scene.of(Problem)
    if at_start:
        async with (
            shell_of(path, services=True, subscribes=False) as scene,
            Script(peer, without) as script,
        ):
            fail()
            await scene.subscribe_all()
            await soon(lambda: scene.status() == (0, COUNT))
            problems = scene.of(Problem)
    assert [problem.kind for problem in problems] == [ProblemKind.SERVICE]
    assert seen == [(COUNT, 0)] * COUNT
    # The service is there again.
    peer.versions = VERSIONS
    async with shell_of(path, services=True) as scene, Script(peer, with_service) as script:
        await soon(lambda: scene.up == everybody())
        hello = script.talks[0].hello
        assert hello is not None
        assert hello.service is not None
        assert hello.service.chain[0] != first.credentials.certificate
        again = await scene.read(services.get, place.user, place.router)
        assert again is not None
        assert again.tally.count == COUNT


# Some of its queues.


async def test_queues_that_others_took_are_associated_again(rig: Rig, path: Path) -> None:
    """S001-73, S004-23: the router has fewer; each queue is subscribed once more, and the next
    start has no drift."""
    _, queues = await associated(path, rig)
    other = await rig.connect()
    await other.subscribe(queues[1])
    other.close()
    await other.closed()
    async with opened(path, services=True) as (agent, log):
        up = await log.next_of(ServiceUp)
        assert (up.drift, up.tally) == (Mismatch.FEWER, tally_of(queues[0], queues[2]))
        await at_rest(agent)
    async with opened(path, services=True) as (_, log):
        up = await log.next_of(ServiceUp)
        assert (up.drift, up.tally) == (None, tally_of(*queues))


async def test_without_repair_a_drift_is_only_shown(rig: Rig, path: Path) -> None:
    """S001-73."""
    _, queues = await associated(path, rig)
    other = await rig.connect()
    await other.subscribe(queues[1])
    other.close()
    await other.closed()
    settings = replace(QUICK, engine=replace(QUICK.engine, repair=False))
    for _ in range(2):
        async with opened(path, services=True, settings=settings) as (agent, log):
            assert (await log.next_of(ServiceUp)).drift is Mismatch.FEWER
            await at_rest(agent)


async def test_a_queue_that_the_router_deleted_leaves_the_service(rig: Rig, path: Path) -> None:
    """S001-86: found by the repair, with the tally in the same transaction; its row stays."""
    place, queues = await associated(path, rig)
    other = await rig.connect()
    await other.ask(requests.delete(queues[1].id, queues[1].key))
    async with opened(path, services=True) as (agent, log):
        assert (await log.next_of(ServiceUp)).drift is Mismatch.FEWER
        problem = await log.next_of(Problem)
        assert problem.kind is ProblemKind.REFUSED
        assert [refusal.connection for refusal in problem.refusals] == [connection_id(1)]
        await at_rest(agent)
    assert (await kept(place)).tally == tally_of(queues[0], queues[2])
    async with await Records.open(path) as records:
        row = await records.read(receive_queues.get, (place.router, queues[1].id))
        assert row is not None
        assert (row.assoc, row.deleted) == (False, False)
    async with opened(path, services=True) as (_, log):
        assert (await log.next_of(ServiceUp)).drift is None


async def test_a_router_that_has_none_of_them_gets_all_anew(rig: Rig, path: Path) -> None:
    """S001-82, S004-23: flags are cleared, and each queue is up by its own answer."""
    place, queues = await associated(path, rig)
    other = await rig.connect()
    await other.subscribe(*queues)
    other.close()
    await other.closed()
    async with opened(path, services=True) as (_, log):
        up = await log.next_of(ServiceUp)
        assert (up.drift, up.tally) == (Mismatch.FEWER, NOTHING)
        await all_up(log)
    assert (await kept(place)).tally == tally_of(*queues)
    async with opened(path, services=True) as (_, log):
        up = await log.next_of(ServiceUp)
        assert (up.drift, up.tally) == (None, tally_of(*queues))


async def test_records_that_come_from_a_backup(rig: Rig, path: Path, tmp_path: Path) -> None:
    """S001-73: a router that has as many queues and others is repaired as far as can be; one that
    has more is shown, each time."""
    _, queues = await associated(path, rig)
    backup = tmp_path / "backup.db"
    shutil.copy(path, backup)
    async with opened(path, services=True) as (agent, _):
        made = await agent.queue("late", router=rig.address)
    other = await rig.connect()
    await other.subscribe(queues[1])
    other.close()
    await other.closed()
    async with opened(backup, services=True) as (agent, log):
        assert (await log.next_of(ServiceUp)).drift is Mismatch.DIFFERENT
        await at_rest(agent)
    async with opened(backup, services=True) as (agent, log):
        up = await log.next_of(ServiceUp)
        everything = tally_of(*queues).plus(QueueId(made.recipient_id))
        assert (up.drift, up.tally) == (Mismatch.MORE, everything)
        await at_rest(agent)
