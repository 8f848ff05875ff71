"""Sending: stored first, in order, and given up only after days."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headgate.agent.events import Failed, Sent, StoreFailed, Warned
from headgate.agent.queues import OpenedQueue
from headgate.agent.records import Records, commands, connections, outgoing, users
from headgate.agent.records.connections import ConnectionKind
from headgate.agent.records.database import Database
from headgate.client.smp.recipient import Request
from headgate.errors import (
    HeadgateError,
    HostNotFound,
    NotConnected,
    NotThisRouter,
    RequestRefused,
    StoreError,
    TimedOut,
)
from headgate.wire.smp.codec import commands as c
from tests.agent.conftest import MakeParty
from tests.support.agent_delivery import LinkPort, ModelPort, ModelRouter, Party, address_of, quiet
from tests.support.agent_records import DAY
from tests.support.smp_router import Rig

AWAY = NotConnected("away")
FULL = RequestRefused("QUOTA")
HOUR = 3600.0


def port_of(party: Party) -> ModelPort:
    assert isinstance(party.port, ModelPort)
    return party.port


def sends(party: Party) -> list[Request]:
    return [each for each in port_of(party).asked if isinstance(each.command, c.SmpSend)]


async def opened(parties: MakeParty) -> tuple[Party, Party, OpenedQueue]:
    """A recipient, a sender, and the queue between them, which the recipient knows."""
    anna, bob = await parties(), await parties()
    to = await bob.open(await anna.make("meters"))
    await bob.sending.send(to.connection, b"hello")
    assert await bob.application.read() == Sent(to.connection, 1)
    assert await anna.application.messages(1) == [b"hello"]
    return anna, bob, to


async def test_a_message_is_stored_before_send_returns(parties: MakeParty) -> None:
    _, bob, to = await opened(parties)
    await bob.operations.suspend()
    id = await bob.sending.send(to.connection, b"body", notify=True)
    stored = await bob.records.read(outgoing.get, (to.connection, id))
    assert stored is not None
    assert (stored.body, stored.flags) == (b"body", 1)
    await quiet(bob)
    assert len(sends(bob)) == 1  # S000-71: nothing begins while suspended
    bob.operations.resume()
    assert await bob.application.read() == Sent(to.connection, id)
    assert await bob.records.read(outgoing.get, (to.connection, id)) is None
    assert sends(bob)[-1].command.notify  # type: ignore[union-attr]


async def test_messages_are_sent_in_the_order_of_send(parties: MakeParty) -> None:
    """Also those of tasks that send at the same time: ids and order agree."""
    anna, bob, to = await opened(parties)
    bodies = [b"%d" % n for n in range(50)]
    ids = await asyncio.gather(*(bob.sending.send(to.connection, body) for body in bodies))
    assert ids == list(range(2, 52))
    assert await anna.application.messages(50) == bodies


async def test_a_send_whose_caller_is_cancelled_is_sent_or_was_never_made(
    parties: MakeParty,
) -> None:
    """S004-26: never half of it."""
    anna, bob, to = await opened(parties)
    sending = asyncio.ensure_future(bob.sending.send(to.connection, b"body"))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await anna.application.messages(1) == [b"body"]


@pytest.mark.parametrize(
    "error",
    [
        AWAY,
        TimedOut("SEND", 30),
        HostNotFound("nobody knows it"),
        NotThisRouter("another key"),
        RequestRefused("STORE full"),
        RequestRefused("INTERNAL"),
    ],
    ids=lambda error: type(error).__name__ + str(error),
)
async def test_an_error_that_may_pass_is_tried_again_with_the_same_bytes(
    parties: MakeParty, error: HeadgateError
) -> None:
    """After 2 seconds, then half as long again each time, up to 120."""
    anna, bob, to = await opened(parties)
    port_of(bob).script.extend([error] * 14)
    id = await bob.sending.send(to.connection, b"body")
    assert await bob.application.read() == Sent(to.connection, id)
    assert await anna.application.messages(1) == [b"body"]
    assert bob.clock.pauses[:5] == [2.0, 3.0, 4.5, 6.75, 10.125]
    assert bob.clock.pauses[-2:] == [120.0, 120.0]
    assert len(bob.clock.pauses) == 14
    bodies = {request.command.body for request in sends(bob)[1:]}  # type: ignore[union-attr]
    assert len(bodies) == 1


async def test_messages_are_given_up_together_after_two_days(parties: MakeParty) -> None:
    """Those that are as old as the first; younger ones go on."""
    anna, bob, to = await opened(parties)
    port_of(bob).script.extend([AWAY] * 10_000)
    bob.clock.is_held = True
    old = [await bob.sending.send(to.connection, b"old %d" % n) for n in range(3)]
    bob.clock.time += 1.5 * DAY
    young = await bob.sending.send(to.connection, b"young")
    bob.clock.let_go()
    event = await bob.application.read()
    assert event == Failed(to.connection, tuple(old), "away")
    port_of(bob).script.clear()
    assert await bob.application.read() == Sent(to.connection, young)
    assert await anna.application.messages(1) == [b"young"]


async def test_a_message_is_tried_for_two_days(parties: MakeParty) -> None:
    _, bob, to = await opened(parties)
    since = bob.clock.time
    port_of(bob).script.extend([AWAY] * 2000)
    id = await bob.sending.send(to.connection, b"body")
    assert await bob.application.read() == Failed(to.connection, (id,), "away")
    assert 2 * DAY < bob.clock.time - since < 2 * DAY + 121


async def test_a_full_queue_is_waited_for_for_a_week_with_a_warning_at_first(
    parties: MakeParty,
) -> None:
    _, bob, to = await opened(parties)
    since = bob.clock.time
    port_of(bob).script.extend([FULL] * 200)
    id = await bob.sending.send(to.connection, b"body")
    event = await bob.application.read()
    assert isinstance(event, Warned)
    assert (event.connection, event.id) == (to.connection, id)
    assert await bob.application.read() == Failed(to.connection, (id,), "QUOTA")
    assert bob.clock.pauses[:3] == [300.0, 450.0, 675.0]
    assert max(bob.clock.pauses) == 6 * HOUR
    assert 7 * DAY < bob.clock.time - since < 7 * DAY + 6 * HOUR + 1


async def test_a_full_queue_is_tried_at_once_when_there_is_room(parties: MakeParty) -> None:
    """The order is kept."""
    anna, bob, to = await opened(parties)
    port_of(bob).script.extend([FULL])
    bob.clock.is_held = True
    ids = [await bob.sending.send(to.connection, b"%d" % n) for n in range(3)]
    assert isinstance(await bob.application.read(), Warned)
    await quiet(bob)
    assert len(sends(bob)) == 2
    sender_id = sends(bob)[0].entity
    bob.sending.continue_with((99, b"unknown"))
    bob.sending.continue_with((to.router, sender_id))
    assert [await bob.application.read() for _ in ids] == [Sent(to.connection, id) for id in ids]
    assert await anna.application.messages(3) == [b"0", b"1", b"2"]


async def test_room_does_not_shorten_the_pause_after_another_error(parties: MakeParty) -> None:
    _, bob, to = await opened(parties)
    port_of(bob).script.extend([AWAY])
    bob.clock.is_held = True
    await bob.sending.send(to.connection, b"body")
    await quiet(bob)
    bob.sending.continue_with((to.router, sends(bob)[0].entity))
    await quiet(bob)
    assert len(sends(bob)) == 2


@pytest.mark.parametrize("error", ["AUTH", "LARGE_MSG", "CMD SYNTAX", "BLOCKED reason=spam"])
async def test_what_is_refused_for_good_fails_alone(parties: MakeParty, error: str) -> None:
    anna, bob, to = await opened(parties)
    port_of(bob).script.extend([None, RequestRefused(error)])
    ids = [await bob.sending.send(to.connection, b"%d" % n) for n in range(3)]
    assert [await bob.application.read() for _ in ids] == [
        Sent(to.connection, ids[0]),
        Failed(to.connection, (ids[1],), error),
        Sent(to.connection, ids[2]),
    ]
    assert await anna.application.messages(2) == [b"0", b"2"]


async def test_a_message_that_is_damaged_in_the_records_fails_alone(parties: MakeParty) -> None:
    """A worker that stumbles over an item goes on with the next."""
    anna, bob, to = await opened(parties)
    await bob.operations.suspend()
    ids = [await bob.sending.send(to.connection, b"%d" % n) for n in range(3)]

    def damage(tables: Database) -> None:
        tables.change("DELETE FROM outgoing WHERE id = ?", ids[0])
        tables.change("UPDATE outgoing SET body = ? WHERE id = ?", bytes(20_000), ids[1])

    await bob.records.write(damage)
    bob.operations.resume()
    events = [await bob.application.read() for _ in range(3)]
    assert [type(event) for event in events] == [Failed, Failed, Sent]
    assert [event.ids for event in events[:2]] == [(ids[0],), (ids[1],)]  # type: ignore[union-attr]
    assert await anna.application.messages(1) == [b"2"]
    assert await bob.records.read(outgoing.waiting, (to.router, sends(bob)[0].entity)) == []


async def test_delays_outlive_a_restart(tmp_path: Path, model: ModelRouter) -> None:
    """S000-54: and what waits goes on."""
    anna = Party(await Records.memory(), ModelPort(model))
    await anna.records.write(users.add)
    queue = await anna.make("meters")
    records = await Records.open(tmp_path / "agent.db")
    await records.write(users.add)
    bob = Party(records, ModelPort(model))
    to = await bob.open(queue)
    await bob.operations.suspend()
    ids = [await bob.sending.send(to.connection, b"%d" % n) for n in range(2)]
    port_of(bob).script.extend([AWAY, AWAY, FULL, FULL] + [AWAY] * 100)
    bob.operations.resume()
    while len(bob.clock.pauses) < 5:
        await bob.records.read(lambda _: None)
    await bob.close()
    assert bob.clock.pauses[:5] == [2.0, 3.0, 300.0, 450.0, 4.5]
    tried = len(bob.clock.pauses)
    again = Party(await Records.open(tmp_path / "agent.db"), ModelPort(model))
    port_of(again).script.extend([FULL, AWAY])
    await again.sending.wake([to.connection, b"unknown"])
    # The warning was given before.
    assert [await again.application.read() for _ in ids] == [Sent(to.connection, id) for id in ids]
    assert again.clock.pauses == [675.0, min(2.0 * 1.5 ** (tried - 2), 120.0)]
    assert await anna.application.messages(2) == [b"0", b"1"]
    await again.close()
    await anna.close()


async def test_everything_that_waits_goes_on_after_a_start(
    tmp_path: Path, model: ModelRouter
) -> None:
    """S000-54: messages, and the command that secures a queue."""
    anna = Party(await Records.memory(), ModelPort(model))
    await anna.records.write(users.add)
    queues = [await anna.make(f"queue {n}") for n in range(3)]
    records = await Records.open(tmp_path / "agent.db")
    await records.write(users.add)
    bob = Party(records, ModelPort(model))
    bob.clock.is_held = True
    port_of(bob).script.extend([AWAY] * 6)
    to = [await bob.open(queue) for queue in queues]
    await quiet(bob)
    for each in to[:2]:
        await bob.sending.send(each.connection, b"waits")
    await bob.close()
    again = Party(await Records.open(tmp_path / "agent.db"), ModelPort(model))
    await again.sending.wake_all()
    await again.sending.wake([each.connection for each in to])
    assert await anna.application.messages(2) == [b"waits", b"waits"]
    await quiet(again)
    left = await again.records.read(commands.of_connections, [each.connection for each in to])
    assert not any(left.values())
    assert all(model.queues[queue.recipient_id].sender_key for queue in queues)
    await again.close()
    await anna.close()


async def test_a_full_disk_does_not_lose_what_is_sent(
    parties: MakeParty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router has it; that is kept when the disk has room, and the recipient sees it once."""
    anna, bob, to = await opened(parties)
    await bob.operations.suspend()
    id = await bob.sending.send(to.connection, b"body")
    write, left = bob.records.write, 2

    def refuse(job: object, *args: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            return write(job, *args, **named)  # type: ignore[arg-type]
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused

    monkeypatch.setattr(bob.records, "write", refuse)
    bob.operations.resume()
    assert await bob.application.read() == StoreFailed("the disk is full")
    assert await bob.application.read() == Sent(to.connection, id)
    await bob.sending.send(to.connection, b"next")
    assert await anna.application.messages(2) == [b"body", b"next"]


async def test_a_send_that_cannot_be_stored_raises(parties: MakeParty) -> None:
    anna, bob, to = await opened(parties)
    with pytest.raises(StoreError, match="no such connection"):
        await bob.sending.send(b"unknown", b"body")
    own = await anna.queues.find(1, "meters")
    assert own is not None
    with pytest.raises(StoreError, match="only receives"):
        await anna.sending.send(own.connection, b"body")
    await bob.records.write(connections.amend, to.connection, kind=ConnectionKind.CONTACT)
    with pytest.raises(StoreError):
        await bob.sending.send(to.connection, b"body")


async def test_messages_are_sent_once_over_sessions_that_end(
    linked: MakeParty, router: Rig
) -> None:
    """With a real router: sessions are cut while messages are on their way."""
    anna, bob = await linked(), await linked()
    to = await bob.open(await anna.make("meters", address_of(router)))
    assert isinstance(bob.port, LinkPort)
    for n in range(30):
        await bob.sending.send(to.connection, b"%d" % n)
        if n % 5 == 4:
            for link in list(bob.port.sessions.values()):
                link.close()
    assert await anna.application.messages(30) == [b"%d" % n for n in range(30)]
    for n in range(1, 31):
        assert await bob.application.read() == Sent(to.connection, n)
