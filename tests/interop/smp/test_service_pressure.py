"""A service whose session does not read: its messages wait, and nobody else does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from headgate.client.smp.recipient import Queue, Request
from headgate.core.facts import SweepEnded
from headgate.core.model.limits import KiB, Limits
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.interop.smp.conftest import StartRig
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    id_of,
    make_queues,
    message,
    new_service,
    received,
    send_to,
    subs,
    sweep,
    tally,
    until,
)

TIGHT = Limits(mailbox_bytes_soft=64 * KiB, mailbox_bytes_hard=256 * KiB, sweep_queues=20)
"""A mailbox that is full soon, once the sockets are."""


def waits(rig: Rig) -> int:
    """Queues whose message waits for room."""
    return sum(
        len(session_state.waiting)
        for _, session_state in rig.router.broker.shard.session_states.items()
    )


async def fill(rig: Rig, sender: SmpClient, queues: Sequence[Queue]) -> int:
    """Send to one queue after another until some message has to wait; how many were used."""
    for at in range(0, len(queues), 20):
        await send_to(sender, queues[at : at + 20])
        if waits(rig):
            await asyncio.sleep(0.3)  # the socket may still take some
        if waits(rig):
            return at + 20
    raise AssertionError("the sockets took everything")


async def test_a_full_outbox_of_a_service_is_delivered_to_later(start_rig: StartRig) -> None:
    """S000-48, S000-42, S000-43, SMP-16: the sender is answered meanwhile, and each message comes
    once."""
    router = await start_rig(limits=TIGHT)
    client, sender = await router.connect(service=new_service()), await router.connect()
    queues = await make_queues(client, 1500)
    client.hold()
    used = await fill(router, sender, queues)
    assert await sender.ask(Request(c.Ping())) == [r.Pong()]
    client.go_on()
    found = [await client.event() for _ in range(used)]
    assert Counter(entity for entity, _ in found) == Counter(q.id for q in queues[:used])
    assert not waits(router)
    entity, told = found[-1]
    assert isinstance(told, r.Msg)
    queue = next(queue for queue in queues if queue.id == entity)
    assert await client.ack(queue, told.message_id) == r.Ok()
    await send_to(sender, [queue], b"again")
    await message(client, queue, b"again")


async def test_a_sweep_waits_for_a_session_that_does_not_read(start_rig: StartRig) -> None:
    """SMP-37, S001-51: the mailbox stays bounded, ALLS comes after every message."""
    router = await start_rig(limits=TIGHT)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 1500)
    client.close()
    await until(lambda: received(router) == 0)
    sender, client = await router.connect(), await router.connect(service=identity)
    for at in range(0, len(queues), 100):
        await send_to(sender, queues[at : at + 100])
    assert await client.ask(subs(client, tally(*queues))) == [r.Soks(tally(*queues))]
    client.hold()
    await until(lambda: waits(router) > 0)
    # One page of 20 blocks may go beyond the soft limit.
    assert router.router.gauges()["mailbox_bytes"] < 64 * KiB + 21 * 16 * KiB
    assert not any(isinstance(fact, SweepEnded) for fact in router.facts)
    client.go_on()
    found = []
    while (event := await client.event()) != (b"", r.Alls()):
        found.append(event[0])
    assert found == [queue.id for queue in queues]
    await client.quiet(0.1)


async def test_a_displaced_session_that_does_not_read_holds_up_nobody(
    start_rig: StartRig,
) -> None:
    """S001-60, S000-20, S000-47: its ENDS comes behind what was under way, and nothing after it;
    the queues that waited for it are the other's."""
    router = await start_rig(limits=TIGHT)
    identity = new_service()
    stuck, sender = await router.connect(service=identity), await router.connect()
    queues = await make_queues(stuck, 1500)
    single = await sender.new_queue()
    stuck.hold()
    used = await fill(router, sender, queues)
    taker = await router.connect(service=identity)
    found = await sweep(taker, tally(*queues))
    assert [entity for entity, _ in found] == [queue.id for queue in queues[:used]]
    other = await router.connect()
    await other.subscribe(single)
    assert await sender.event() == (single.id, r.SmpEnd())
    stuck.go_on()
    before = set()
    while isinstance((event := await stuck.event())[1], r.Msg):
        assert event[0] not in before
        before.add(event[0])
    assert event == (id_of(stuck), r.Ends(tally(*queues)))
    assert len(before) < used
    await stuck.quiet()
    assert before <= {queue.id for queue in queues}
