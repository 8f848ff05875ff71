"""What blocks, services, events and metrics owe to the rules, where no other story has it."""

from __future__ import annotations

import asyncio

import pytest

from headgate.client.smp.recipient import Queue, Request, make_key, spki
from headgate.core.facts import TurnFailed
from headgate.core.model.limits import Limits
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Batch, Load, Loaded, ServiceRecord
from headgate.errors import StoreError
from headgate.server.admin.app import make_app
from headgate.server.admin.http_server import serving
from headgate.server.admin.metrics import Metrics
from headgate.server.net.listener import bind
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.interop.smp.conftest import StartRig
from tests.support.smp_asking import AUTH, OK, SOK
from tests.support.smp_router import NEVER, Rig
from tests.support.smp_scene import (
    id_of,
    kept,
    make_queues,
    message,
    new_service,
    nsub,
    received,
    send_to,
    subs,
    sweep,
    tally,
    until,
)

FULL = 87
"""As many SUBs of a service fit into one block."""


async def plain_queues(client: SmpClient, number: int) -> list[Queue]:
    """Queues that nobody subscribes to."""
    return [await client.new_queue(subscribe=False) for _ in range(number)]


# Blocks.


async def test_each_command_of_a_block_is_verified_in_its_place(router: Rig) -> None:
    """S004-31: not before the first is carried out, so a key that one sets counts for the next."""
    client = await router.connect()
    contact, queue = await client.new_queue(purpose=Purpose.CONTACT), await client.new_queue()
    sender, owner = make_key(), make_key()
    assert await client.ask(
        Request(c.SmpSend(False, b"signed too early"), queue.sender, sender),
        queue.asks(c.Key(spki(sender))),
        Request(c.SmpSend(False, b"signed"), queue.sender, sender),
        Request(c.SmpSend(False, b"unsigned"), queue.sender),
        contact.asks(c.RKey((spki(owner),))),
        contact.asks(c.Off()),
        Request(c.Off(), contact.id, owner),
    ) == [AUTH, OK, OK, AUTH, OK, AUTH, OK]
    await message(client, queue, b"signed")


async def test_a_refused_subscribe_has_no_part_in_its_block(router: Rig) -> None:
    """S004-40, S004-49: it displaces nobody, is given nothing, and costs no statement."""
    holder = await router.connect()
    held, mine, other = await plain_queues(holder, 3)
    await send_to(holder, [held, mine])
    await router.restart()
    holder, client = await router.connect(), await router.connect()
    assert await holder.subscribe(held) == [SOK]
    message_id = await message(holder, held, b"hello")
    before = router.statements
    assert await client.ask(
        Request(c.Sub(), held.id, make_key()),
        mine.asks(c.Sub()),
        Request(c.Sub(), held.sender, held.key),
        other.asks(c.Sub()),
    ) == [AUTH, SOK, AUTH, SOK]
    assert router.statements - before == 1
    await message(client, mine, b"hello")
    assert await holder.ack(held, message_id) == OK
    await send_to(client, [held], b"next")
    await message(holder, held, b"next")
    await client.quiet(0.15)


async def test_a_block_without_subscribes_asks_for_no_message(
    router: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-39, S004-41, SMP-22: though there are messages; the records are one statement."""
    maker = await router.connect()
    queues = await plain_queues(maker, 30)
    await send_to(maker, queues)
    await router.restart()
    client, load, asked = await router.connect(), router.store.load, []

    async def note(wanted: Load) -> Loaded:
        asked.append(wanted)
        return await load(wanted)

    monkeypatch.setattr(router.store, "load", note)
    key = make_key()
    assert await client.ask(*(queue.asks(c.Key(spki(key))) for queue in queues)) == [OK] * 30
    (wanted,) = asked
    assert len(wanted.heads) == 30
    assert {*wanted.heads.values(), *wanted.addresses.values()} == {0}
    assert not wanted.bodies
    assert not wanted.backlogs


async def test_blocks_say_what_single_commands_say(router: Rig) -> None:
    """S004-33: the same replies, and messages with the same sealed bytes."""
    maker = await router.connect()
    queues = await plain_queues(maker, 12)
    await send_to(maker, queues[::3])
    told = []
    for in_a_block in (False, True):
        client = await router.connect()
        if in_a_block:
            replies = await client.subscribe(*queues)
        else:
            replies = [reply for queue in queues for reply in await client.subscribe(queue)]
        told.append((replies, sorted([await client.event() for _ in queues[::3]], key=first)))
        await client.quiet(0.1)
    assert told[0] == told[1]
    assert all(isinstance(reply, r.Msg) for _, reply in told[0][1])


def first(event: tuple[bytes, r.Reply]) -> bytes:
    return event[0]


# Services.


async def test_a_block_of_a_services_subscribes_costs_as_much_as_one(router: Rig) -> None:
    """S004-14, S004-48, SMP-22: associations and messages included."""
    maker = await router.connect()
    queues = await plain_queues(maker, FULL + 1)
    await send_to(maker, queues[:10])
    await router.restart()
    client = await router.connect(service=new_service())
    costs = []
    for block in (queues[-1:], queues[:-1]):
        before = router.statements
        assert await client.subscribe(*block) == [r.Sok(client.service_id)] * len(block)
        costs.append(router.statements - before)
    assert costs[0] == costs[1]
    assert {(await client.event())[0] for _ in range(10)} == {queue.id for queue in queues[:10]}
    await client.quiet(0.1)
    assert await kept(router, id_of(client)) == tally(*queues)


async def test_a_certificate_is_stored_once_however_many_show_it_at_once(
    router: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-12, S001-16: no handshake fails, and there is one record."""
    apply = router.store.apply
    records: list[tuple[bytes, ServiceRecord]] = []

    async def slow(batch: Batch) -> None:
        records.extend(batch.identities.items())
        await asyncio.sleep(0.05)
        await apply(batch)

    monkeypatch.setattr(router.store, "apply", slow)
    identity = new_service()
    clients = await asyncio.gather(*(router.connect(service=identity) for _ in range(6)))
    (id,) = {id_of(client) for client in clients}
    assert records == [(identity.fingerprint, ServiceRecord(id, "M"))]
    loaded = await router.store.load(Load(identities={identity.fingerprint}))
    assert loaded.identities == dict(records)


async def test_a_queue_comes_back_to_its_service_after_restarts_and_plain_times(
    router: Rig,
) -> None:
    """S004-11, S001-34: and no message is lost on the way."""
    identity = new_service()
    client = await router.connect(service=identity)
    queue = await client.new_queue()
    for body in (b"one", b"two"):
        await router.restart()
        plain = await router.connect()
        assert await plain.subscribe(queue) == [r.Sok()]
        await send_to(plain, [queue], body)
        await message(plain, queue, body)
        await router.restart()
        client = await router.connect(service=identity)
        assert await kept(router, id_of(client)) == tally()
        assert await client.subscribe(queue) == [r.Sok(client.service_id)]
        message_id = await message(client, queue, body)
        assert await client.ack(queue, message_id) == OK
        assert await kept(router, id_of(client)) == tally(queue)


async def test_a_page_that_cannot_be_read_is_read_again_and_the_operator_is_told(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-49, S001-50, S004-7: the sweep goes on behind it, and ALLS is the last of it."""
    router = await start_rig(limits=Limits(sweep_queues=5))
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 15)
    client.close()
    await until(lambda: received(router) == 0)
    sender, client = await router.connect(), await router.connect(service=identity)
    await send_to(sender, queues)
    load, failures = router.store.load, 2

    async def fail(wanted: Load) -> Loaded:
        nonlocal failures
        if failures and any(page.after for page in wanted.pages):
            failures -= 1
            raise StoreError("a bad sector")
        return await load(wanted)

    monkeypatch.setattr(router.store, "load", fail)
    found = await sweep(client, tally(*queues))
    assert [entity for entity, _ in found] == [queue.id for queue in queues]
    await client.quiet(0.1)
    told = [fact.reason for fact in router.facts if isinstance(fact, TurnFailed)]
    assert len(told) == 2
    assert await sender.ask(Request(c.Ping())) == [r.Pong()]


# Events and notices.


async def test_events_of_who_left_keep_nobody_from_theirs(start_rig: StartRig) -> None:
    """S000-21: of one flush, and of the next."""
    router = await start_rig(end_flush=NEVER)
    leaves, stays, taker = [await router.connect() for _ in range(3)]
    lost, taken, later = [await client.new_queue() for client in (leaves, stays, stays)]
    assert await taker.subscribe(lost, taken) == [SOK, SOK]
    leaves.close()
    await leaves.closed()
    router.write_losses()
    assert await stays.event() == (taken.id, r.SmpEnd())
    assert await taker.subscribe(later) == [SOK]
    router.write_losses()
    assert await stays.event() == (later.id, r.SmpEnd())


async def test_eighty_notices_are_one_block(start_rig: StartRig) -> None:
    """ACC-92, SMP-39"""
    router = await start_rig(notification_flush=NEVER)
    recipient, notifier = await router.connect(), await router.connect()
    queues = [await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(80)]
    assert await notifier.ask(*map(nsub, queues)) == [SOK] * 80
    before = notifier.blocks
    sends = [Request(c.SmpSend(True, b"hello"), queue.sender) for queue in queues]
    assert await recipient.ask(*sends) == [OK] * 80
    router.write_notices()
    told = [await notifier.event() for _ in queues]
    assert [entity for entity, _ in told] == [queue.notifier for queue in queues]
    assert all(isinstance(reply, r.NMsg) for _, reply in told)
    assert notifier.blocks - before == 1


# What operators see.


async def test_metrics_have_what_services_did(router: Rig) -> None:
    """ACC-71, S004-9, S004-13: served when they are asked for; each kind of drift has its
    number."""
    metrics = Metrics(router.router.gauges)
    router.router.watch(metrics.observe)
    identity = new_service()
    client = await router.connect(service=identity)
    queues = await make_queues(client, 3)
    true = tally(*queues)
    for expected in (true, tally(*queues[:2]), Tally(4, true.xor), Tally(3, true.xor ^ 1)):
        client = await router.connect(service=identity)
        assert await client.ask(subs(client, expected)) == [r.Soks(true)]
    app = make_app(problems=list, status=dict, metrics=metrics.exposition, rows=10, token="sesame")
    listening = bind("admin", "127.0.0.1", 0)
    async with serving(app, listening):
        seen = await scrape(listening.getsockname()[1])
        assert seen["headgate_services_subscribed"] == 1
        assert seen["headgate_service_queues_subscribed"] == 3
        for kind in ("more", "fewer", "different"):
            assert seen[f'headgate_service_drift_total{{kind="{kind}"}}'] == 1
        await client.ask(queues[0].asks(c.Del()))
        seen = await scrape(listening.getsockname()[1])
        assert seen["headgate_service_queues_subscribed"] == 2
        assert seen["headgate_queues_deleted_total"] == 1


async def scrape(port: int) -> dict[str, float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        b"authorization: Bearer sesame\r\n\r\n"
    )
    async with asyncio.timeout(20):
        answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, text = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200")
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("headgate_")]
    return {name: float(value) for name, value in lines}
