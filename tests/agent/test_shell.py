"""The shell of an agent with routers that do what a test says, when it says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.agent.events import (
    Down,
    Problem,
    ProblemKind,
    ServiceAll,
    ServiceDown,
    ServiceEnd,
    ServiceUp,
    Up,
)
from headgate.agent.model import SessionMode
from headgate.agent.records import receive_queues, services, users
from headgate.client.smp import requests
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import Tally
from headgate.errors import NotConnected, StoreError
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import ServiceAccepted, ServiceRefused, TransportError, Versions
from tests.support.agent_scene import (
    QUICK,
    Script,
    confirms,
    connection_id,
    keep,
    made_up,
    queue_id,
    shell_of,
    soon,
    store_made_up,
)
from tests.support.smp_peer import SERVICE_ID, Asked, Peer, StillClock, event, until

LONG = replace(QUICK, timing=replace(QUICK.timing, answer_seconds=30.0, connect_seconds=1e6))
OTHER_ID = b"another service id, 24.."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[list[Peer]]:
    """Two routers."""
    found = [Peer(tmp_path / name) for name in ("first", "second")]
    for peer in found:
        await peer.start()
    yield found
    for peer in found:
        await peer.stop()


def everybody(count: int) -> set[bytes]:
    return {connection_id(n) for n in range(count)}


def of_service(asked: Asked) -> r.Reply | None:
    """A router that takes every queue into the service, and has what is expected of it."""
    match asked.command:
        case c.Sub():
            return r.Sok(SERVICE_ID)
        case c.Subs(Tally() as tally):
            return r.Soks(tally)
        case _:
            return None


# Subscribing.


async def test_queues_are_pending_before_a_router_sees_them(peer: Peer, path: Path) -> None:
    """S000-58: and active when it has answered."""
    await store_made_up(path, peer.address, 5)
    seen = []
    async with shell_of(path) as scene:

        def answer(asked: Asked) -> r.Reply | None:
            seen.append(scene.status())
            return r.Sok()

        async with Script(peer, answer):
            await soon(lambda: scene.status() == (0, 5))
    assert seen == [(5, 0)] * 5


async def test_as_few_blocks_as_possible_and_one_up(peer: Peer, path: Path) -> None:
    """S000-60, S000-63, S000-72, S000-73, ACC-96: 300 queues are three blocks; each comes up
    once, however often it is asked for."""
    await store_made_up(path, peer.address, 300)
    async with shell_of(path) as scene, Script(peer, confirms) as script:
        await soon(lambda: scene.up == everybody(300))
        (talk,) = script.talks
        assert talk.blocks_read == 1 + 3
        await scene.subscribe_all()
        results = await scene.shell.subscribe(everybody(300))
        assert all(result.is_ok for result in results.values())
        assert len(script.asked(c.Sub)) == 300
        assert sum(len(up.connections) for up in scene.of(Up)) == 300


async def test_each_kind_of_success_and_an_error_of_one_queue_alone(peer: Peer, path: Path) -> None:
    """S000-61, S000-62, S001-66: OK, SOK of nobody or of another service, and MSG are success, and
    the message is taken; AUTH removes its own queue only."""
    await store_made_up(path, peer.address, 5)
    message = r.Msg(b"m" * 24, b"sealed")
    replies: dict[bytes, r.Reply] = {
        queue_id(0): r.Ok(),
        queue_id(1): r.Sok(),
        queue_id(2): r.Sok(OTHER_ID),
        queue_id(3): message,
        queue_id(4): r.Err("AUTH"),
    }
    async with shell_of(path) as scene, Script(peer, lambda asked: replies[asked.entity]):
        await soon(lambda: scene.up == everybody(4) and scene.of(Problem))
        assert scene.status() == (0, 4)
        (problem,) = scene.of(Problem)
        assert problem.kind is ProblemKind.REFUSED
        assert [refusal.connection for refusal in problem.refusals] == [connection_id(4)]
        ((session, queue, taken),) = scene.inbox.taken
        assert (session.slot.router, queue, taken) == (1, queue_id(3), message)
        results = await scene.shell.subscribe([connection_id(3)])
        assert results[connection_id(3)].is_ok


async def test_a_router_that_never_answers_does_not_delay_another(
    peers: list[Peer], path: Path
) -> None:
    """S000-59."""
    silent, quick = peers
    await store_made_up(path, silent.address, 1)
    await store_made_up(path, quick.address, 1, first=1)
    async with shell_of(path) as scene, Script(quick, confirms):
        await soon(lambda: scene.up == {connection_id(1)})
        assert scene.status() == (1, 1)


@pytest.mark.parametrize("mode", SessionMode)
async def test_sessions_of_users_and_of_connections(
    peer: Peer, path: Path, mode: SessionMode
) -> None:
    """S000-56, S000-57: two users never share one; in entity mode each connection has its own."""
    await store_made_up(path, peer.address, 2)
    async with shell_of(path, subscribes=False) as scene:
        other = await scene.records.write(users.add)
        await scene.records.write(
            keep, peer.address, lambda user, router: [made_up(user, router, 7)], False, other
        )
    async with shell_of(path, mode=mode) as scene, Script(peer, confirms) as script:
        await soon(lambda: len(scene.up) == 3)
        found = sorted(sorted(asked.entity for asked in talk.asked) for talk in script.talks)
    first, second, third = queue_id(0), queue_id(1), queue_id(7)
    if mode is SessionMode.SHARED:
        assert found == [[first, second], [third]]
    else:
        assert found == [[first], [second], [third]]


async def test_a_loss_makes_queues_pending_before_it_is_announced(peer: Peer, path: Path) -> None:
    """S000-81, S000-82: and DOWN names each connection once."""
    await store_made_up(path, peer.address, 3)
    seen = []
    async with shell_of(path) as scene, Script(peer, confirms) as script:
        await soon(lambda: scene.up == everybody(3))

        def announced(event: object) -> None:
            if isinstance(event, Down):
                seen.append(scene.status())

        scene.announced = announced
        script.talks[0].drop()
        await soon(lambda: len(scene.of(Up)) == 2)
        (down,) = scene.of(Down)
        assert sorted(down.connections) == sorted(everybody(3))
        assert seen == [(3, 0)]
        (forgotten,) = scene.inbox.forgotten
        assert forgotten.slot.router == 1
    assert len(scene.inbox.forgotten) == 2


async def test_a_session_that_never_answers_is_closed_and_tried_again(
    peer: Peer, path: Path, clock: StillClock
) -> None:
    """S000-86: otherwise a half-dead link is kept for ever."""
    await store_made_up(path, peer.address, 2)
    async with shell_of(path, settings=LONG) as scene, Script(peer, lambda _: None) as script:
        await until(lambda: script.asked(c.Sub))
        while len(script.talks) < 2:
            await clock.advance(31.0)
            await asyncio.sleep(0)
        script.answer = confirms
        while not scene.up:
            await clock.advance(31.0)
            await asyncio.sleep(0)
        assert scene.up == everybody(2)
        assert len(scene.of(Up)) == 1
        assert not scene.of(Down)


async def test_a_late_answer_counts(peer: Peer, path: Path, clock: StillClock) -> None:
    """S000-67, S000-70: it makes its queue active and is announced; a message in it is taken."""
    await store_made_up(path, peer.address, 3)
    held: list[Asked] = []

    def answer(asked: Asked) -> r.Reply | None:
        if asked.entity == queue_id(0):
            return r.Sok()
        held.append(asked)
        return None

    settings = replace(LONG, engine=replace(LONG.engine, delays=replace(
        LONG.engine.delays, first=1e6, longest=1e6)))  # fmt: skip
    async with shell_of(path, settings=settings) as scene, Script(peer, answer) as script:
        await until(lambda: len(held) == 2 and scene.status() == (2, 1))
        for _ in range(100):
            await clock.advance(1.0)
            await asyncio.sleep(0)
        message = r.Msg(b"m" * 24, b"sealed")
        late: dict[bytes, r.Reply] = {queue_id(1): r.Sok(), queue_id(2): message}
        script.talks[0].send(*(asked.answer(late[asked.entity]) for asked in held))
        await until(lambda: scene.up == everybody(3))
        assert [(queue, taken) for _, queue, taken in scene.inbox.taken] == [(queue_id(2), message)]


async def test_another_router_than_was_meant(peers: list[Peer], path: Path) -> None:
    """A wrong fingerprint: told once, nothing is sent to it, and other routers go on."""
    wrong, right = peers
    await store_made_up(path, replace(wrong.address, key_hash=bytes(32)), 1)
    await store_made_up(path, right.address, 1, first=1)
    async with shell_of(path) as scene, Script(right, confirms):
        await soon(lambda: scene.up == {connection_id(1)} and len(wrong.talks) >= 3)
        (problem,) = scene.of(Problem)
        assert problem.kind is ProblemKind.ROUTER
        assert problem.router.key_hash == bytes(32)
        assert [talk.blocks_read for talk in wrong.talks] == [0] * len(wrong.talks)
        result = (await scene.shell.subscribe([connection_id(0)]))[connection_id(0)]
        assert not result.is_ok
        assert "fingerprint" in result.text


# Asking for others.


async def test_whoever_asks_waits_for_the_connect_and_may_leave(peer: Peer, path: Path) -> None:
    """S004-26: the attempt goes on without whoever asked for it, and serves the next."""
    await store_made_up(path, peer.address, 1)
    peer.greets = False
    async with shell_of(path, subscribes=False) as scene:
        asking = [
            asyncio.create_task(scene.shell.ask(1, 1, None, [requests.ping()])) for _ in range(2)
        ]
        await soon(lambda: peer.talks)
        asking[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking[0]
        assert len(peer.talks) == 1
        peer.talks[0].drop()
        session, (outcome,) = await asking[1]
        assert session is None
        assert isinstance(outcome, NotConnected)
        peer.greets = True
        answers: dict[type, r.Reply] = {c.Ping: r.Pong(), c.SmpAck: r.Msg(b"n" * 24, b"next")}
        async with Script(peer, lambda asked: answers[type(asked.command)]):
            await asyncio.sleep(0.02)  # a failure is remembered for a moment
            session, outcomes = await scene.shell.ask(1, 1, None, [requests.ping()])
            assert session is not None
            assert outcomes == [r.Pong()]
            key = made_up(1, 1, 0)
            acknowledge = requests.acknowledge(queue_id(0), bytes(32), b"m" * 24)
            again, outcomes = await scene.shell.ask(1, 1, key.connection, [acknowledge])
            assert again == session
            # What answers an ACK is the next message.
            assert scene.inbox.taken == [(session, queue_id(0), outcomes[0])]


async def test_suspended_nothing_begins(peer: Peer, path: Path) -> None:
    """S000-71: what is under way finishes first; resumed, everything goes on."""
    await store_made_up(path, peer.address, 1)
    async with (
        shell_of(path, subscribes=False) as scene,
        Script(
            peer, lambda asked: r.Pong() if isinstance(asked.command, c.Ping) else None
        ) as script,
    ):
        await scene.subscribe_all()
        await soon(lambda: script.asked(c.Sub))
        suspending = asyncio.create_task(scene.shell.suspend(1e6))
        asking = asyncio.create_task(scene.shell.ask(1, 1, None, [requests.ping()]))
        await asyncio.sleep(0)
        assert not suspending.done()
        (asked,) = script.asked(c.Sub)
        script.talks[0].send(asked.answer(r.Sok()))
        await suspending
        assert scene.status() == (0, 1)
        script.talks[0].drop()
        await soon(lambda: scene.of(Down))
        assert not asking.done()
        script.answer = lambda asked: r.Sok() if isinstance(asked.command, c.Sub) else r.Pong()
        scene.shell.resume()
        assert (await asking)[1] == [r.Pong()]
        await soon(lambda: scene.up == everybody(1))


async def test_suspending_does_not_wait_for_ever(peer: Peer, path: Path) -> None:
    """S000-71."""
    await store_made_up(path, peer.address, 1)
    async with shell_of(path) as scene, Script(peer, lambda _: None) as script:
        await soon(lambda: script.asked(c.Sub))
        await scene.shell.suspend(0.01)
        assert scene.shell.is_suspended


# Services.


async def test_queues_associate_and_the_next_start_has_one_subscribe(
    peer: Peer, path: Path
) -> None:
    """S001-7, S001-64, S001-65, S001-68, S001-69, S001-70, S001-73, S001-75: the same certificate,
    one SUBS with the tally of all queues, no SUB, and nothing that names a connection."""
    place = await store_made_up(path, peer.address, 3, services=True)
    tally = Tally.of(QueueId(queue_id(n)) for n in range(3))
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(3))
        assert not script.asked(c.Subs)
        assert scene.status() == (0, 0)
        (status,) = scene.shell.status()
        assert status.tally == tally
        first_hello = script.talks[0].hello
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.of(ServiceUp))
        (asked,) = script.asked(c.Subs)
        assert (asked.entity, asked.command) == (SERVICE_ID, c.Subs(tally))
        script.talks[0].send(event(b"", r.Alls()))
        await soon(lambda: scene.of(ServiceAll))
        assert scene.events == [
            ServiceUp(place.user, peer.address, tally), ServiceAll(place.user, peer.address)
        ]  # fmt: skip
        assert not script.asked(c.Sub)
        second_hello = script.talks[0].hello
        kept = await scene.read(services.get, place.user, place.router)
        assert kept is not None
        assert (kept.service_id, kept.tally) == (SERVICE_ID, tally)
    assert first_hello is not None
    assert first_hello.service is not None
    assert second_hello is not None
    assert second_hello.service is not None
    assert first_hello.service.chain == second_hello.service.chain


async def test_after_a_loss_the_service_is_first(peer: Peer, path: Path) -> None:
    """S001-71, S001-74, S001-81."""
    await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(2))
        script.talks[0].drop()
        await soon(lambda: scene.of(ServiceUp))
        assert [type(event) for event in scene.events] == [Up, ServiceDown, ServiceUp]
        assert isinstance(script.talks[1].asked[0].command, c.Subs)
        assert not [asked for asked in script.talks[1].asked if isinstance(asked.command, c.Sub)]


@pytest.mark.parametrize("error", ["SERVICE", "NO_SERVICE", "PROXY BROKER NO_SERVICE"])
async def test_a_router_that_lost_the_service(peer: Peer, path: Path, error: str) -> None:
    """S001-83, S001-84, S001-85, S004-24: every queue for itself, told, and fresh credentials."""
    await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(2))
        script.answer = lambda asked: (
            r.Err(error) if isinstance(asked.command, c.Subs) else of_service(asked)
        )
        script.talks[0].drop()
        await soon(lambda: len(scene.of(Up)) == 2)
        assert [problem.kind for problem in scene.of(Problem)] == [ProblemKind.SERVICE]
        hellos = [talk.hello for talk in script.talks]
        chains = [hello.service.chain for hello in hellos if hello and hello.service]
        assert chains[0] == chains[1] != chains[2]


async def test_a_router_without_services_at_a_reconnect(peer: Peer, path: Path) -> None:
    """S001-23, S001-79: an older router is shown no service; the record goes."""
    place = await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(2))
        peer.versions = Versions(6, 18)
        script.answer = confirms
        script.talks[0].drop()
        await soon(lambda: len(scene.of(Up)) == 2)
        assert scene.status() == (0, 2)
        hello = script.talks[1].hello
        assert hello is not None
        assert hello.service is None
        assert await scene.read(services.get, place.user, place.router) is None
        found = await scene.read(receive_queues.page, place.user, place.router)
        assert [row.assoc for row in found] == [False, False]


async def test_another_service_id_clears_and_subscribes_anew(peer: Peer, path: Path) -> None:
    """S001-77, S001-78."""
    place = await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(2))
        peer.service_reply = ServiceAccepted(OTHER_ID)
        script.answer = lambda asked: (
            r.Sok(OTHER_ID) if isinstance(asked.command, c.Sub) else of_service(asked)
        )
        script.talks[0].drop()
        await soon(lambda: len(scene.of(Up)) == 2)
        kept = await scene.read(services.get, place.user, place.router)
        assert kept is not None
        assert (kept.service_id, kept.tally.count) == (OTHER_ID, 2)


async def test_a_service_that_cannot_be_looked_up_now(peer: Peer, path: Path) -> None:
    """S004-19: BAD_SERVICE in the handshake is tried again, and changes nothing."""
    place = await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True) as scene, Script(peer, of_service) as script:
        await soon(lambda: scene.up == everybody(2))
        kept = await scene.read(services.get, place.user, place.router)
        peer.service_reply = ServiceRefused(TransportError.BAD_SERVICE)
        script.talks[0].drop()
        await soon(lambda: len(script.talks) >= 3)
        peer.service_reply = ServiceAccepted(SERVICE_ID)
        await soon(lambda: scene.of(ServiceUp))
        assert await scene.read(services.get, place.user, place.router) == kept
        assert not scene.of(Problem)


async def test_the_end_of_a_service_names_the_service(peer: Peer, path: Path) -> None:
    """S001-72: told, and left alone until it is asked for."""
    await store_made_up(path, peer.address, 2, services=True)
    settings = replace(QUICK, engine=replace(QUICK.engine, end_seconds=1e6))
    async with (
        shell_of(path, services=True, settings=settings) as scene,
        Script(peer, of_service) as script,
    ):
        await soon(lambda: scene.up == everybody(2))
        script.talks[0].send(event(SERVICE_ID, r.Ends(Tally())))
        await soon(lambda: scene.of(ServiceEnd))
        assert not script.asked(c.Subs)
        await scene.subscribe_all()
        await soon(lambda: scene.of(ServiceUp))


async def test_two_routers_and_two_keys_of_one_address_see_different_services(
    peers: list[Peer], path: Path
) -> None:
    """S001-9, S004-16."""
    async with Script(peers[0], of_service) as one, Script(peers[1], of_service) as two:
        await store_made_up(path, peers[0].address, 1, services=True)
        await store_made_up(path, peers[1].address, 1, first=1, services=True)
        other_key = RouterAddress(("127.0.0.1",), peers[0].port, bytes(32))
        await store_made_up(path, other_key, 1, first=2, services=True)
        async with shell_of(path, services=True) as scene:
            await soon(lambda: len(scene.up) == 2)
            hellos = [one.talks[0].hello, two.talks[0].hello]
            chains = {hello.service.chain for hello in hellos if hello and hello.service}
            assert len(chains) == 2
            kept = [await scene.read(services.get, 1, router) for router in (1, 2, 3)]
            assert len({each.credentials.fingerprint for each in kept if each is not None}) == 3


# The records.


async def test_records_that_fail_are_tried_again(
    peer: Peer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a while costs nothing but time."""
    place = await store_made_up(path, peer.address, 2, services=True)
    async with shell_of(path, services=True, subscribes=False) as scene:
        left = {"write": 6, "read": 3}
        for verb in left:
            real = getattr(scene.records, verb)

            def fail(job: object, *args: object, verb: str = verb, real: object = real) -> object:
                if left[verb]:
                    left[verb] -= 1
                    waiting = asyncio.get_running_loop().create_future()
                    waiting.set_exception(StoreError("the disk is full"))
                    return waiting
                return real(job, *args)  # type: ignore[operator]

            monkeypatch.setattr(scene.records, verb, fail)
        async with Script(peer, of_service):
            scene.shell.subscribe_all(place.user, place.router)
            await soon(lambda: scene.up == everybody(2))
            kept = await scene.read(services.get, place.user, place.router)
            assert kept is not None
            assert kept.tally.count == 2
        assert all(isinstance(error, StoreError) for error in scene.errors)
        assert left == {"write": 0, "read": 0}


async def test_a_damaged_key_costs_its_own_queue_only(peer: Peer, path: Path) -> None:
    """S000-61."""
    await store_made_up(path, peer.address, 2)
    async with shell_of(path, subscribes=False) as scene:
        await scene.records.write(
            lambda tables: tables.change(
                "UPDATE receive_queues SET private_key = x'00' WHERE recipient_id = ?", queue_id(0)
            )
        )
    async with shell_of(path) as scene, Script(peer, confirms):
        await soon(lambda: scene.up == {connection_id(1)} and scene.of(Problem))
        assert [problem.kind for problem in scene.of(Problem)] == [ProblemKind.REFUSED]


async def test_what_belongs_to_nothing_is_logged(
    peer: Peer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S000-66: and the session goes on."""
    await store_made_up(path, peer.address, 1)
    async with shell_of(path) as scene, Script(peer, confirms) as script:
        await soon(lambda: scene.up)
        script.talks[0].send((b"unknown", b"", r.Pong()), event(b"", r.Err("INTERNAL")))
        await soon(lambda: len(caplog.records) == 2)
        assert scene.status() == (0, 1)


async def test_a_message_in_an_answer_that_is_forgotten_is_received(peer: Peer, path: Path) -> None:
    """S000-62, S000-66: the router gives nothing else of the queue before it is acknowledged."""
    await store_made_up(path, peer.address, 1)
    message = r.Msg(b"m" * 24, b"sealed")
    async with shell_of(path) as scene, Script(peer, confirms) as script:
        await soon(lambda: scene.up)
        script.talks[0].send((b"forgotten", queue_id(0), message))
        await soon(lambda: scene.inbox.taken)
        assert [taken[1:] for taken in scene.inbox.taken] == [(queue_id(0), message)]
