"""Queues that are deleted: at once in the records, and at their routers until it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.agent.agent import Agent
from headgate.agent.events import Failed, Message, Sent, ServiceUp, Up
from headgate.agent.records import Records, commands, connections, receive_queues, received, users
from headgate.agent.records.database import Database
from headgate.errors import NotConnected, RequestRefused, StoreError, TimedOut
from headgate.wire.smp.codec import commands as c
from tests.agent.conftest import MakeParty
from tests.support.agent_delivery import ModelPort, ModelRouter, Party, quiet
from tests.support.agent_scene import QUICK, EventLog, opened, soon
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def port_of(party: Party) -> ModelPort:
    assert isinstance(party.port, ModelPort)
    return party.port


def deletions(party: Party) -> int:
    return sum(isinstance(each.command, c.Del) for each in port_of(party).asked)


def left(tables: Database) -> list[int]:
    """Rows that a queue has anywhere."""
    names = ("connections", "receive_queues", "received", "commands")
    return [tables.one(f"SELECT count(*) FROM {name}")[0] for name in names]  # type: ignore[index]


async def test_nothing_is_left_of_a_queue_that_was_deleted(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna = await parties()
    queue, other = await anna.make("north"), await anna.make("south")
    model.put(model.queues[queue.recipient_id], b"not sealed")
    await quiet(anna)
    await queue.delete()
    assert await anna.queues.find(1, "north") is None
    assert port_of(anna).gone == [queue.recipient_id]
    await quiet(anna)
    assert list(model.queues) == [other.recipient_id]
    assert await anna.records.read(left) == [1, 1, 0, 0]
    # Once more is nothing, and the name can be taken.
    await queue.delete()
    again = await anna.make("north")
    assert again.connection != queue.connection
    await quiet(anna)
    assert deletions(anna) == 1


async def test_a_message_that_waits_for_the_application_goes_with_its_queue(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna, bob = await parties(), await parties()
    queue = await anna.make("north")
    to = await bob.open(queue)
    await bob.sending.send(to.connection, b"hello")
    await soon(lambda: anna.application.waiting)
    await queue.delete()
    await quiet(anna)
    assert await anna.records.read(left) == [0, 0, 0, 0]
    [ticket] = anna.application.waiting
    assert await ticket.load() is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "failure",
    [NotConnected("no network"), TimedOut("an answer", 30), RequestRefused("STORE full"),
     ModelPort.LOST],
)  # fmt: skip
async def test_a_router_is_asked_until_it_has_answered(
    parties: MakeParty, model: ModelRouter, failure: object
) -> None:
    """AUTH is an answer: it does not have the queue, perhaps since the time before."""
    anna = await parties()
    queue = await anna.make("north")
    port_of(anna).script.extend([failure, failure])
    await queue.delete()
    await soon(lambda: deletions(anna) == 3)
    await quiet(anna)
    assert anna.clock.pauses == [2.0, 3.0]
    assert not model.queues
    assert await anna.records.read(left) == [0, 0, 0, 0]


async def test_a_disk_that_fails_is_tried_again(
    parties: MakeParty, model: ModelRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = await parties()
    queue = await anna.make("north")
    failures = [StoreError("the disk is full")] * 2
    real = connections.remove

    def remove(tables: Database, connection: bytes, limit: int = 1000) -> bool:
        if failures:
            raise failures.pop()
        return real(tables, connection, limit)

    monkeypatch.setattr(connections, "remove", remove)
    await queue.delete()
    await soon(lambda: not failures)
    await quiet(anna)
    assert await anna.records.read(left) == [0, 0, 0, 0]


async def test_what_was_not_done_is_taken_up_again(model: ModelRouter, tmp_path: Path) -> None:
    """Also if the agent ended between the answer and the last of what it removes."""
    records = await Records.open(tmp_path / "agent.db")
    await records.write(users.add)
    party = Party(records, ModelPort(model))
    queue = await party.make("north")
    party.clock.is_held = True
    port_of(party).script.append(NotConnected("no network"))
    await queue.delete()
    await soon(lambda: party.clock.pauses)
    await party.close()
    records = await Records.open(tmp_path / "agent.db")
    party = Party(records, ModelPort(model))
    found = await records.read(commands.of_router, 1)
    assert [(each.kind, each.arguments) for each in found] == [("DEL", queue.recipient_id)]
    await party.queues.wake_all()
    await soon(lambda: not model.queues)
    await quiet(party)
    assert await records.read(left) == [0, 0, 0, 0]
    await party.close()


async def test_a_damaged_key_deletes_its_queue_here_only(
    parties: MakeParty, model: ModelRouter
) -> None:
    anna = await parties()
    queue = await anna.make("north")
    text = "UPDATE receive_queues SET private_key = x'00'"
    await anna.records.write(lambda tables: tables.change(text))
    await queue.delete()
    await quiet(anna)
    assert await anna.records.read(left) == [0, 0, 0, 0]
    assert len(model.queues) == 1


async def test_deleting_may_be_cancelled(parties: MakeParty, model: ModelRouter) -> None:
    """S004-26: it is deleted all the same."""
    anna = await parties()
    number = 0
    while await is_cancelled_at((await anna.make("north")).delete(), number):
        await quiet(anna)
        assert not model.queues
        number += 1
    assert number > 0


# With a router of ours.


@pytest.mark.parametrize("services", [False, True])
async def test_a_router_has_no_queue_that_was_deleted(rig: Rig, path: Path, services: bool) -> None:
    """S001-86: and the service has no drift afterwards."""
    async with (
        opened(path, routers=[rig.address], services=services) as (agent, log),
        Agent.memory(settings=QUICK) as sender,
    ):
        north, south = await agent.queue("north"), await agent.queue("south")
        to = [await sender.open_queue(each.address) for each in (north, south)]
        await to[0].send(b"waits")
        assert (await log.next_of(Message)).body == b"waits"
        await north.delete()
        status = agent.status()[0]
        assert (status.tally.count if services else status.active) == 1
        sent = EventLog(sender)
        await sent.next_of(Sent)
        await soon(lambda: not agent._queues._deleting._workers)
        failing = await to[0].send(b"to nobody")
        assert (await sent.next_of(Failed)).ids == (failing,)
        await to[1].send(b"hello")
        message = await log.next_of(Message)
        assert message.body == b"hello"
        await message.ack()
        assert (await agent.queue("north")).connection != north.connection
        await rig.restart()
        if services:
            assert (await log.next_of(ServiceUp)).drift is None
        else:
            await log.until(lambda: sum(len(up.connections) for up in log.of(Up)) == 2)


async def test_a_router_that_is_absent_deletes_when_it_is_there(rig: Rig, path: Path) -> None:
    async with opened(path, routers=[rig.address]) as (agent, _):
        queue = await agent.queue("north")
        await rig.stop()
        await queue.delete()
        assert agent.status() == [] or agent.status()[0].active == 0
    await rig.start()
    async with opened(path) as (agent, _):
        await soon(lambda: not agent._queues._deleting._workers)
        records = agent._records
        assert await records.read(left) == [0, 0, 0, 0]
        assert await records.read(receive_queues.get, (1, queue.recipient_id)) is None
        assert await records.read(received.get, 1) is None
