"""Sessions that were replaced, slow routers, and pages: the shell with a scripted router."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.agent.engine.services import ServiceState
from headgate.agent.events import Down, ServiceUp, Up
from headgate.agent.model import SessionMode
from headgate.agent.records import services
from headgate.agent.router_session import RouterSession
from headgate.agent.subscribe_calls import SubscribeState
from headgate.client.smp.recipient import Request
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import Tally
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.support.agent_scene import (
    QUICK,
    Script,
    ShellScene,
    confirms,
    connection_id,
    queue_id,
    shell_of,
    soon,
    store_made_up,
)
from tests.support.smp_peer import SERVICE_ID, Asked, Peer, StillClock, until

BLOCK = 135
"""SUBs of one block."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def only_session(scene: ShellScene) -> RouterSession:
    (session,) = scene.shell._sessions._sessions.values()
    return session


async def test_what_a_replaced_session_reports_changes_nothing(peer: Peer, path: Path) -> None:
    """S000-80, S000-90, ACC-94, ACC-95: neither its loss nor its answers, which are late."""
    await store_made_up(path, peer.address, 2)
    async with shell_of(path) as scene, Script(peer, confirms) as script:
        await soon(lambda: scene.status() == (0, 2))
        first = only_session(scene)
        # One of the two is not answered in the next session.
        script.answer = lambda asked: r.Sok() if asked.entity == queue_id(0) else None
        script.talks[0].drop()
        await soon(lambda: len(script.asked(c.Sub)) == 4 and scene.status() == (1, 1))
        before = list(scene.events)
        first.answered_late(first.link, Request(c.Sub(), queue_id(1)), r.Sok())
        first.received(first.link, queue_id(0), r.SmpEnd())
        first.lost(first.link, "once more")
        # What has to be read first is read when this is.
        found = await scene.shell.subscribe([connection_id(0)])
        assert found[connection_id(0)].state is SubscribeState.SUBSCRIBED
        assert (scene.status(), scene.events) == ((1, 1), before)
        # That of the session which is here demotes.
        script.answer = confirms
        script.talks[1].drop()
        await soon(lambda: scene.status() == (0, 2))
        assert [type(event) for event in scene.events[len(before) :]] == [Down, Up]


async def test_a_queue_that_ends_twice_in_a_row(peer: Peer, path: Path) -> None:
    """S000-69: what comes while its row is read is reported with it."""
    await store_made_up(path, peer.address, 2)
    async with shell_of(path) as scene, Script(peer, confirms):
        await soon(lambda: scene.status() == (0, 2))
        session = only_session(scene)
        for n in (0, 0, 1):
            session.received(session.link, queue_id(n), r.SmpEnd())
        await soon(lambda: scene.status() == (0, 0))
        assert scene.errors == []


async def test_the_tally_of_a_replaced_session_leaves_the_service_pending(
    peer: Peer, path: Path
) -> None:
    """S001-67: it is up when the session that is here has answered."""
    await store_made_up(path, peer.address, 2, services=True)
    tally = Tally.of(QueueId(queue_id(n)) for n in range(2))
    asked: list[Asked] = []

    def answer(each: Asked) -> r.Reply | None:
        if isinstance(each.command, c.Subs):
            asked.append(each)
            return None
        return r.Sok(SERVICE_ID)

    async with shell_of(path, services=True) as scene, Script(peer, answer) as script:
        await soon(lambda: len(scene.up) == 2)
        script.talks[0].drop()
        await soon(lambda: len(asked) == 1)
        replaced = only_session(scene)
        script.talks[1].drop()
        await soon(lambda: len(asked) == 2)
        request = Request(c.Subs(tally), SERVICE_ID)
        replaced.answered_late(replaced.link, request, r.Soks(tally))
        (status,) = scene.shell.status()
        assert (status.service, scene.of(ServiceUp)) == (ServiceState.ASKED, [])
        script.talks[2].send(asked[1].answer(r.Soks(tally)))
        await soon(lambda: scene.of(ServiceUp))


async def test_a_slow_router_is_asked_once_for_each_queue(
    peer: Peer, path: Path, clock: StillClock
) -> None:
    """S000-60: it answers a block every two seconds, and each block has waited for many others; it
    is silence that runs out."""
    blocks = 40
    await store_made_up(path, peer.address, blocks * BLOCK)
    timing = replace(QUICK.timing, answer_seconds=5.0, connect_seconds=1e6)
    async with shell_of(path, settings=replace(QUICK, timing=timing)) as scene:
        talk = await peer.talk()
        for number in range(1, blocks + 1):
            block = await talk.block()
            await clock.advance(2.0)
            talk.send(*(asked.answer(r.Sok()) for asked in block))
            await until(lambda n=number: scene.status()[1] == n * BLOCK)  # type: ignore[misc]
        assert scene.status() == (0, blocks * BLOCK)
        assert len({asked.entity for asked in talk.asked}) == len(talk.asked) == blocks * BLOCK
        assert (talk.blocks_read, len(peer.talks)) == (1 + blocks, 1)


@pytest.mark.parametrize("count", [0, 1, 10, 95, 100])
async def test_two_pages_of_queues_are_in_memory_at_most(
    peer: Peer, path: Path, count: int
) -> None:
    """ACC-100: queues are read and subscribed in pages, however many there are."""
    page = 10
    await store_made_up(path, peer.address, count)
    settings = replace(QUICK, engine=replace(QUICK.engine, page=page))
    pending: list[int] = []

    def counted(answer: Callable[[Asked], r.Reply | None]) -> Callable[[Asked], r.Reply | None]:
        def counting(asked: Asked) -> r.Reply | None:
            pending.append(scene.status()[0])
            return answer(asked)

        return counting

    async with shell_of(path, settings=settings) as scene, Script(peer, counted(confirms)):
        await soon(lambda: scene.status() == (0, count) and not scene.shell._engine.is_busy())
        assert len(scene.up) == count
    assert max(pending, default=0) <= 2 * page


async def test_a_certificate_is_kept_before_a_router_sees_it(peer: Peer, path: Path) -> None:
    """S001-8: with its key and fingerprint; the service has no id before the handshake."""
    place = await store_made_up(path, peer.address, 1, services=True)
    peer.greets = False
    async with shell_of(path, services=True) as scene:
        await soon(lambda: peer.talks)
        kept = await scene.read(services.get, place.user, place.router)
        assert kept is not None
        assert kept.service_id is None
        peer.greets = True
        async with Script(peer, lambda asked: r.Sok(SERVICE_ID)) as script:
            peer.talks[0].drop()
            await soon(lambda: scene.up)
            hello = script.talks[0].hello
            assert hello is not None
            assert hello.service is not None
            assert hello.service.chain[0] == kept.credentials.certificate
            after = await scene.read(services.get, place.user, place.router)
            assert after is not None
            assert (after.credentials, after.service_id) == (kept.credentials, SERVICE_ID)


async def test_a_session_for_each_connection_is_not_made_for_all_at_once(
    peer: Peer, path: Path, tmp_path: Path
) -> None:
    """S000-57, S000-59: so many attempts with a router at a time, and one that is silent holds up
    no other."""
    count, at_once = 30, 4
    other = Peer(tmp_path / "other")
    await other.start()
    await store_made_up(path, peer.address, count)
    await store_made_up(path, other.address, 1, first=count)
    peer.greets = False
    settings = replace(QUICK, connecting_max=at_once)
    async with (
        shell_of(path, mode=SessionMode.ENTITY, settings=settings) as scene,
        Script(other, confirms),
    ):
        await soon(lambda: len(peer.talks) >= at_once)
        await soon(lambda: scene.up == {connection_id(count)})
        assert len(peer.talks) == at_once
        peer.greets = True
        async with Script(peer, confirms):
            for talk in list(peer.talks):
                talk.drop()
            await soon(lambda: len(scene.up) == count + 1)
    await other.stop()
