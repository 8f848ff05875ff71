"""Agents that end at every transaction of a handshake, before it and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from headgate.agent.connections.connection import Connection
from headgate.agent.events import Confirmation, Message, Request
from headgate.agent.model import ConnectionId
from headgate.agent.records import Records, connections, receive_queues, users
from headgate.errors import StoreError
from tests.support.agent_crash import CrashingRecords
from tests.support.agent_delivery import ROUTER_ADDRESS, ModelPort, ModelRouter, Party, quiet

POINTS = 60
"""More than there are transactions in a run."""


class Peer:
    """The other side, whose process does not end: it accepts whoever comes, writes one message to
    each, and keeps the bodies that it reads."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.bodies: list[bytes] = []
        self.link = ""
        self._greeted: set[ConnectionId] = set()

    async def go_on(self) -> None:
        """Do all that there is to do now."""
        application = self.party.application
        while application.waiting:
            match await application.read():
                case Confirmation() as event:
                    await event.accept(b"the peer")
                case Request() as event:
                    await event.accept(b"the peer")
                case Message() as event:
                    self.bodies.append(event.body)
                    await event.ack()
        for connection in await self.party.connections.everything(1):
            if connection.id not in self._greeted and (await connection.state()).is_ready:
                self._greeted.add(connection.id)
                await connection.send(b"from the peer")


Script: TypeAlias = Callable[[Party, Peer], Awaitable[Connection]]
"""What the application of the process that ends does to be connected; it begins anew after each
crash."""


async def invite(party: Party, peer: Peer) -> Connection:
    if not peer.link:
        # One that was made and not handed out is found again.
        invitation = await party.connections.invite(1, ROUTER_ADDRESS, "peer")
        peer.link = str(invitation.link)
        await peer.party.connections.join(1, peer.link, ROUTER_ADDRESS, b"the peer")
    found = await party.connections.find(1, "peer")
    assert found is not None
    return found


async def join(party: Party, peer: Peer) -> Connection:
    if not peer.link:
        peer.link = str((await peer.party.connections.invite(1, ROUTER_ADDRESS)).link)
    found = await party.connections.find(1, "peer")
    return found or await party.connections.join(1, peer.link, ROUTER_ADDRESS, b"", "peer")


async def join_short(party: Party, peer: Peer) -> Connection:
    if not peer.link:
        peer.link = str((await peer.party.connections.invite(1, ROUTER_ADDRESS, shown=b"")).link)
    found = await party.connections.find(1, "peer")
    return found or await party.connections.join(1, peer.link, ROUTER_ADDRESS, b"", "peer")


async def ask(party: Party, peer: Peer) -> Connection:
    address = await peer.party.connections.address(1, ROUTER_ADDRESS, "shop")
    found = await party.connections.find(1, "peer")
    return found or await party.connections.join(1, address.link, ROUTER_ADDRESS, b"", "peer")


async def be_asked(party: Party, peer: Peer) -> Connection:
    address = await party.connections.address(1, ROUTER_ADDRESS, "shop")
    if not peer.link:
        peer.link = str(address.link)
        await peer.party.connections.join(1, peer.link, ROUTER_ADDRESS, b"the peer")
    while not (found := await party.connections.everything(1)):
        await look(party, peer, [])
    return found[0]


async def look(party: Party, peer: Peer, read: list[bytes]) -> None:
    """Both do what there is to do."""
    await peer.go_on()
    await quiet(peer.party)
    await quiet(party)
    while party.application.waiting:
        match await party.application.read():
            case Confirmation() as event:
                # It may have been accepted, and the process ended before it was known.
                with suppress(StoreError):
                    await event.accept(b"it")
            case Request() as event:
                with suppress(StoreError):
                    await event.accept(b"it")
            case Message() as event:
                read.append(event.body)
                await event.ack()


async def converse(party: Party, peer: Peer, script: Script, read: list[bytes]) -> None:
    """Be connected, write once, and read what the peer writes."""
    connection = await script(party, peer)
    while not (await connection.state()).is_ready:
        await look(party, peer, read)
    if b"hello" not in peer.bodies:
        await connection.send(b"hello")
    while b"hello" not in peer.bodies or b"from the peer" not in read:
        await look(party, peer, read)


async def start(path: Path, model: ModelRouter) -> Party:
    party = Party(await CrashingRecords.open(path), ModelPort(model))
    if not await party.records.read(users.everyone):
        await party.records.write(users.add)
        return party
    # As an agent does.
    await party.connections.resume()
    queues = await party.records.read(receive_queues.page, 1, 1)
    if queues:
        assert isinstance(party.port, ModelPort)
        party.port.subscribe(*[queue.recipient_id for queue in queues])
    await party.sending.wake_all()
    return party


async def end(party: Party) -> None:
    """The process is gone: no goodbye, and its session ends at the router."""
    await party.connections.close()
    await party.receiving._tasks.close()
    await party.sending._tasks.close()
    await party.queues.close()
    assert isinstance(party.port, ModelPort)
    party.port.messages = None
    party.port.disconnect()
    await party.records.close()


async def runs_to_its_end(party: Party, work: Awaitable[None]) -> bool:
    """Whether the process did not end before the work was done."""
    records = party.records
    assert isinstance(records, CrashingRecords)
    task = asyncio.ensure_future(work)
    crashed = asyncio.ensure_future(records.crashed.wait())
    await asyncio.wait([task, crashed], return_when=asyncio.FIRST_COMPLETED)
    is_done = not records.crashed.is_set()
    if is_done:
        await task
    for each in (task, crashed):
        each.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await end(party)
    return is_done


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("script", [invite, join, join_short, ask, be_asked])
async def test_a_handshake_goes_on_after_a_crash_at_every_transaction(
    tmp_path: Path, script: Script, after: bool
) -> None:
    """One connection comes of it, and messages go both ways. What was written and not known to be
    written may be written again; nothing is lost."""
    crashes = 0
    for at in range(1, POINTS):
        model = ModelRouter()
        peer = Peer(Party(await Records.memory(), ModelPort(model)))
        await peer.party.records.write(users.add)
        path = tmp_path / f"{at}.db"
        party = await start(path, model)
        assert isinstance(party.records, CrashingRecords)
        party.records.crash_at(at, after=after)
        read: list[bytes] = []
        is_done = await runs_to_its_end(party, converse(party, peer, script, read))
        if not is_done:
            crashes += 1
            party = await start(path, model)
            assert await runs_to_its_end(party, converse(party, peer, script, read))
        assert set(peer.bodies) == {b"hello"}
        assert set(read) == {b"from the peer"}
        # A message that was shown and not marked is shown again, and no other.
        assert len(read) <= 2
        async with await Records.open(path) as records:
            everything = await records.read(connections.page, 1)
        assert len([each for each in everything if each.name != "shop"]) == 1
        await peer.party.close()
        if is_done:
            break
    assert crashes > 10


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_deleting_goes_on_after_a_crash_at_every_transaction(
    tmp_path: Path, after: bool
) -> None:
    """What waited is sent, the router has deleted the queue, and nothing is left in the records."""
    crashes = 0
    for at in range(1, POINTS):
        model = ModelRouter()
        peer = Peer(Party(await Records.memory(), ModelPort(model)))
        await peer.party.records.write(users.add)
        path = tmp_path / f"{at}.db"
        party = await start(path, model)
        await converse(party, peer, join, [])
        connection = await join(party, peer)
        [queue] = (await party.records.read(receive_queues.of_connections, [connection.id]))[
            connection.id
        ]
        await connection.send(b"the last")
        assert isinstance(party.records, CrashingRecords)
        party.records.crash_at(at, after=after)
        is_done = await runs_to_its_end(party, leave(party, peer, connection.id))
        if not is_done:
            crashes += 1
            party = await start(path, model)
            assert await runs_to_its_end(party, leave(party, peer, connection.id))
        assert set(peer.bodies) == {b"hello", b"the last"}
        assert queue.recipient_id not in model.queues
        await peer.party.close()
        if is_done:
            break
    # That it was sent, that it is deleted, each of the router's queues, and all that is left.
    assert crashes == 4


async def leave(party: Party, peer: Peer, connection: ConnectionId) -> None:
    await party.connections.delete(connection)
    while await party.records.read(connections.get, connection):
        await look(party, peer, [])
    await peer.go_on()
