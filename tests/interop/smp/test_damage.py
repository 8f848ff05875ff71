"""A queue that the store cannot read costs nobody else anything."""

from __future__ import annotations

import contextlib
import sqlite3

import psycopg

from headgate.client.smp.recipient import Queue, Request
from headgate.core.facts import QueueDamaged
from headgate.core.model.limits import Limits
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.interop.smp.conftest import StartRig
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    make_queues,
    new_service,
    received,
    send_to,
    subs,
    tally,
    until,
)


def damage(rig: Rig, queue: Queue, *, record: bool = False) -> None:
    """Write nonsense over the messages of a queue, or over its record."""
    source = rig.store.source
    assert source is not None
    if source.startswith("postgresql:"):
        text = (
            "UPDATE headgate.queues SET parties = '\\xc1' WHERE id = %s"
            if record
            else "UPDATE headgate.messages SET properties = '\\xc1' WHERE queue ="
            " (SELECT number FROM headgate.queues WHERE id = %s)"
        )
        with psycopg.connect(source, autocommit=True) as db:
            db.execute(text, (queue.id,))
        return
    text = (
        "UPDATE queues SET parties = x'c1' WHERE id = ?"
        if record
        else "UPDATE messages SET properties = x'c1' WHERE queue ="
        " (SELECT number FROM queues WHERE id = ?)"
    )
    with contextlib.closing(sqlite3.connect(source.removeprefix("sqlite:"))) as sqlite:
        sqlite.execute(text, (queue.id,))
        sqlite.commit()


async def test_a_sweep_goes_on_behind_a_queue_that_cannot_be_read(start_rig: StartRig) -> None:
    """S001-49, S001-50, S004-7, SMP-30: its error comes after the messages and before ALLS, and
    whoever has nothing to do with it does not notice."""
    rig = await start_rig(limits=Limits(sweep_queues=5))
    service = new_service()
    client = await rig.connect(service=service)
    queues = await make_queues(client, 12)
    client.close()
    await until(lambda: received(rig) == 0)
    sender = await rig.connect()
    await send_to(sender, queues)
    await rig.restart()
    damage(rig, queues[3])
    damage(rig, queues[8], record=True)
    client, sender = await rig.connect(service=service), await rig.connect()
    assert await client.ask(subs(client, tally(*queues))) == [r.Soks(tally(*queues))]
    told = [await client.event() for _ in range(13)]
    readable = [queue.id for n, queue in enumerate(queues) if n not in (3, 8)]
    assert [entity for entity, _ in told[:10]] == sorted(readable)
    assert sorted(told[10:12]) == sorted((queues[n].id, r.Err("STORE unreadable")) for n in (3, 8))
    assert told[12] == (b"", r.Alls())
    other = await sender.new_queue()
    assert await sender.send(other, b"goes on") == r.Ok()
    assert {fact.queue for fact in rig.facts if isinstance(fact, QueueDamaged)} == {
        queues[3].id,
        queues[8].id,
    }


async def test_commands_to_a_queue_that_cannot_be_read_fail_alone(start_rig: StartRig) -> None:
    rig = await start_rig()
    client = await rig.connect()
    damaged, well = await client.new_queue(), await client.new_queue()
    for queue in (damaged, well):
        await client.send(queue, b"hello")
        await client.event()
    await rig.restart()
    damage(rig, damaged, record=True)
    client = await rig.connect()
    answers = await client.ask(
        damaged.asks(c.Sub()),
        well.asks(c.Sub()),
        Request(c.SmpSend(False, b"more"), damaged.sender),
        Request(c.SmpSend(False, b"more"), well.sender),
    )
    assert answers == [r.Err("STORE unavailable"), r.Sok(), r.Err("STORE unavailable"), r.Ok()]
