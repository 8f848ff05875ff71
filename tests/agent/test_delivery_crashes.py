"""Agents that end at every transaction of receiving and of sending, before it and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from headgate.agent.events import Message, Sent
from headgate.agent.queues import OwnQueue
from headgate.agent.records import Records, users
from tests.support.agent_crash import CrashingRecords
from tests.support.agent_delivery import ModelPort, ModelRouter, Party, quiet

COUNT = 3
BODIES = [b"body %d" % n for n in range(COUNT)]
POINTS = 40
"""More than there are transactions in a run."""


async def start(path: Path, model: ModelRouter) -> Party:
    records = await CrashingRecords.open(path)
    return Party(records, ModelPort(model))


async def die(party: Party, task: asyncio.Task[None]) -> None:
    """The process is gone: no goodbye, and its session ends at the router."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await party.receiving._tasks.close()
    await party.sending._tasks.close()
    port = party.port
    assert isinstance(port, ModelPort)
    port.messages = None
    port.disconnect()
    await party.records.close()


async def run_until_crash(party: Party, work: Coroutine[Any, Any, None]) -> bool:
    """Whether it crashed before the work was done."""
    records = party.records
    assert isinstance(records, CrashingRecords)
    task = asyncio.ensure_future(work)
    crashed = asyncio.ensure_future(records.crashed.wait())
    await asyncio.wait([task, crashed], return_when=asyncio.FIRST_COMPLETED)
    has_crashed = records.crashed.is_set()
    crashed.cancel()
    if not has_crashed:
        await task
    await die(party, task)
    return has_crashed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_recipient_that_ends_loses_nothing_and_sees_nothing_after_its_mark(
    tmp_path: Path, after: bool
) -> None:
    """ACC-99, S000-68: at every transaction; what is shown again was not acknowledged."""
    crashes = 0
    for at in range(1, POINTS):
        model = ModelRouter()
        bob = Party(await Records.memory(), ModelPort(model))
        await bob.records.write(users.add)
        path = tmp_path / f"{at}.db"
        anna = await start(path, model)
        await anna.records.write(users.add)
        queue = await anna.make("meters")
        assert isinstance(anna.records, CrashingRecords)
        anna.records.crash_at(at, after=after)
        opened = await bob.open(queue)
        for body in BODIES:
            await bob.sending.send(opened.connection, body)
        log: list[tuple[str, bytes]] = []
        has_crashed = await run_until_crash(anna, read_all(anna, bob, log))
        if has_crashed:
            crashes += 1
            anna = await start(path, model)
            assert isinstance(anna.port, ModelPort)
            anna.port.subscribe(queue.recipient_id)
            await run_until_crash(anna, read_all(anna, bob, log))
        check(log)
        assert not model.queues[queue.recipient_id].messages
        await bob.close()
        if not has_crashed:
            break
    assert crashes == 2 * COUNT  # storing each message, and marking it


async def read_all(party: Party, sender: Party, log: list[tuple[str, bytes]]) -> None:
    """Read and acknowledge until the last; nobody knows how many were read before."""
    while ("acked", BODIES[-1]) not in log:
        event = await read_unless_done(party, sender)
        if event is None:
            return
        log.append(("shown", event.body))
        await event.ack()
        log.append(("acked", event.body))
    await quiet(party)


async def read_unless_done(party: Party, sender: Party) -> Message | None:
    """The next message; none if the router has none for us any more, and nobody sends one."""
    assert isinstance(party.port, ModelPort)
    while not party.application.waiting:
        await asyncio.sleep(0)
        queues = party.port.router.queues.values()
        is_idle = not any(queue.messages or not queue.accepted for queue in queues)
        if is_idle and not sender.sending._workers:
            return None
    return await party.application.message()


def check(log: list[tuple[str, bytes]]) -> None:
    shown = [body for what, body in log if what == "shown"]
    assert list(dict.fromkeys(shown)) == BODIES, "all of them, in order"
    for place, (what, body) in enumerate(log):
        assert what == "shown" or ("shown", body) not in log[place:], "shown after its mark"
    # One message at most was shown twice: the one whose mark was not made.
    assert len(shown) <= COUNT + 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sender_that_ends_sends_what_it_stored_once_and_in_order(
    tmp_path: Path, after: bool
) -> None:
    """At every transaction, from opening the address to the last answer of the router."""
    crashes = 0
    for at in range(1, POINTS):
        model = ModelRouter()
        anna = Party(await Records.memory(), ModelPort(model))
        await anna.records.write(users.add)
        queue = await anna.make("meters")
        path = tmp_path / f"{at}.db"
        bob = await start(path, model)
        await bob.records.write(users.add)
        stored: list[bytes] = []
        assert isinstance(bob.records, CrashingRecords)
        bob.records.crash_at(at, after=after)
        has_crashed = await run_until_crash(bob, send_all(bob, queue, stored))
        if has_crashed:
            crashes += 1
            bob = await start(path, model)
            await bob.sending.wake_all()
            await run_until_crash(bob, send_all(bob, queue, stored))
        assert stored == BODIES
        found: list[bytes] = []
        while await waits(anna):
            found += await anna.application.messages(1)
        # A send that did not return may have been stored, and was made again.
        repeated = len(found) - COUNT
        assert repeated <= 1
        assert list(dict.fromkeys(found)) == BODIES
        assert found == sorted(found)
        await anna.close()
        if not has_crashed:
            break
    # The router's row, the queue with its key, its status, and two for each message.
    assert crashes == 3 + 2 * COUNT


async def waits(party: Party) -> bool:
    """Whether something is shown, when nothing else happens."""
    await quiet(party)
    return bool(party.application.waiting)


async def send_all(party: Party, queue: OwnQueue, stored: list[bytes]) -> None:
    opened = await party.open(queue)
    for body in BODIES[len(stored) :]:
        await party.sending.send(opened.connection, body)
        stored.append(body)
    await quiet(party)
    while party.sending._workers:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_what_was_sent_is_reported_unless_the_process_ended(tmp_path: Path) -> None:
    model = ModelRouter()
    anna = Party(await Records.memory(), ModelPort(model))
    await anna.records.write(users.add)
    queue = await anna.make("meters")
    bob = await start(tmp_path / "agent.db", model)
    await bob.records.write(users.add)
    await send_all(bob, queue, [])
    assert [type(event) for event in bob.application.waiting] == [Sent] * COUNT
    await bob.close()
    await anna.close()
