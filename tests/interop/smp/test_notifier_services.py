"""Services of notifiers: one session is told of all its queues."""

from __future__ import annotations

import pytest

from headgate.client.smp.recipient import make_key
from headgate.core.model.tally import NOTHING
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.handshake import Role
from tests.support.smp_router import Rig
from tests.support.smp_scene import (
    id_of,
    kept,
    message,
    new_service,
    noticed,
    notifier_tally,
    notify,
    nsub,
    nsubs,
    received,
    tally,
    until,
)


async def test_a_service_is_notified_of_all_its_queues(router: Rig) -> None:
    """ACC-80, ACC-81, S001-93, S001-94, S000-99, SMP-33: NSUB for each, again, by a second
    connection; then NSUBS for all; never ALLS, though notices wait."""
    identity = new_service()
    recipient = await router.connect()
    one, two = [await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(2)]
    ids = [one.notifier, two.notifier]
    first = await router.connect(service=identity, role=Role.NOTIFIER)
    for _ in range(2):
        assert await first.ask(nsub(one)) == [r.Sok(first.service_id)]
        assert await kept(router, id_of(first), ids) == notifier_tally(one)
    second = await router.connect(service=identity, role=Role.NOTIFIER)
    assert await second.ask(nsub(one), nsub(two)) == [r.Sok(second.service_id)] * 2
    assert await first.event() == (id_of(first), r.Ends(notifier_tally(one)))
    both = notifier_tally(one, two)
    assert await kept(router, id_of(first), ids) == both
    assert await first.ask(nsubs(first, both)) == [r.Soks(both)]
    assert await second.event() == (id_of(first), r.Ends(both))
    await notify(recipient, one, two)
    assert {(await first.event())[0] for _ in range(2)} == set(ids)
    first.close()
    await until(lambda: received(router) == 0)
    await notify(recipient, one, two)
    assert await second.ask(nsubs(second, NOTHING)) == [r.Soks(both)]
    assert {(await second.event())[0] for _ in range(2)} == set(ids)
    assert await second.ask(nsubs(second, both)) == [r.Soks(both)]
    await second.quiet(0.2)
    assert received(router) == 2


async def test_a_displaced_notifier_takes_its_service_back(router: Rig) -> None:
    """SMP-28, SMP-33, S001-63"""
    identity = new_service()
    recipient = await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    holder, displaced = [
        await router.connect(service=identity, role=Role.NOTIFIER) for _ in range(2)
    ]
    await holder.ask(nsub(queue))
    both = notifier_tally(queue)
    for _ in range(3):
        holder, displaced = displaced, holder
        assert await holder.ask(nsubs(holder, both)) == [r.Soks(both)]
        assert await displaced.event() == (id_of(holder), r.Ends(both))
        await notify(recipient, queue)
        await noticed(holder, queue)
        await displaced.quiet(0.1)
        assert received(router) == 1


async def test_a_service_takes_a_notifier_and_a_plain_session_takes_it_back(router: Rig) -> None:
    """SMP-40, SMP-25, SMP-26, S001-30..S001-32: END for who had it, SOK with the id or without, and
    the tally follows."""
    recipient, plain = await router.connect(), await router.connect()
    queue, other = [await recipient.new_queue(notifier=make_key()) for _ in range(2)]
    ids = [queue.notifier, other.notifier]
    loser = await router.connect(service=new_service(), role=Role.NOTIFIER)
    winner = await router.connect(service=new_service(), role=Role.NOTIFIER)
    await plain.ask(nsub(queue))
    assert await loser.ask(nsub(queue), nsub(other)) == [r.Sok(loser.service_id)] * 2
    assert await plain.event() == (queue.notifier, r.SmpEnd())
    assert await kept(router, id_of(loser), ids) == notifier_tally(queue, other)
    assert await winner.ask(nsub(queue)) == [r.Sok(winner.service_id)]
    assert await loser.event() == (queue.notifier, r.SmpEnd())
    assert await kept(router, id_of(loser), ids) == notifier_tally(other)
    assert await kept(router, id_of(winner), ids) == notifier_tally(queue)
    assert received(router) == 2
    await notify(recipient, queue)
    await noticed(winner, queue)
    assert await plain.ask(nsub(queue)) == [r.Sok()]
    assert await winner.event() == (queue.notifier, r.SmpEnd())
    assert await kept(router, id_of(winner), ids) == NOTHING
    assert received(router) == 1
    await notify(recipient, queue)
    await noticed(plain, queue)
    await winner.quiet(0.1)
    await loser.quiet(0.1)


async def test_notices_that_wait_follow_the_notifier_to_its_new_owner(router: Rig) -> None:
    """SMP-39, S001-93, S001-34"""
    recipient = await router.connect()
    queue = await recipient.new_queue(notifier=make_key(), subscribe=False)
    await notify(recipient, queue)
    service = await router.connect(service=new_service(), role=Role.NOTIFIER)
    await service.ask(nsub(queue))
    await noticed(service, queue)
    service.close()
    await until(lambda: received(router) == 0)
    await notify(recipient, queue)
    plain = await router.connect()
    assert await plain.ask(nsub(queue)) == [r.Sok()]
    await noticed(plain, queue)
    await plain.quiet(0.2)


@pytest.mark.parametrize("how", [c.NDel(), c.Del(), "NKEY"])
async def test_a_dropped_notifier_leaves_its_service(
    router: Rig, how: c.NDel | c.Del | str
) -> None:
    """SMP-34, SMP-40: DELD for the service's session, and the tally without it, after NSUBS as
    well."""
    recipient = await router.connect()
    stays, goes = [await recipient.new_queue(notifier=make_key()) for _ in range(2)]
    before = goes.notifier
    ids = [stays.notifier, before]
    service = await router.connect(service=new_service(), role=Role.NOTIFIER)
    await service.ask(nsub(stays), nsub(goes))
    await service.ask(nsubs(service, notifier_tally(stays, goes)))
    if isinstance(how, str):
        await recipient.set_notifier(goes, make_key())
    else:
        assert await recipient.ask(goes.asks(how)) == [r.Ok()]
    assert await service.event() == (before, r.Deld())
    assert await kept(router, id_of(service), ids) == notifier_tally(stays)
    assert received(router) == 1


async def test_a_queue_may_be_read_by_one_service_and_told_of_by_another(router: Rig) -> None:
    """SMP-38, S000-7, S001-27: each has a tally of its own, of other ids."""
    reader = await router.connect(service=new_service())
    notifier = await router.connect(service=new_service(), role=Role.NOTIFIER)
    queue = await reader.new_queue(notifier=make_key())
    assert queue.ids.service == reader.service_id
    assert await notifier.ask(nsub(queue)) == [r.Sok(notifier.service_id)]
    assert await kept(router, id_of(reader)) == tally(queue)
    assert await kept(router, id_of(notifier), [queue.notifier]) == notifier_tally(queue)
    assert received(router) == 2
    sender = await router.connect()
    await notify(sender, queue)
    delivered = await message(reader, queue, b"hello")
    assert await noticed(notifier, queue) == delivered
    await reader.quiet(0.1)
    await notifier.quiet(0.1)


async def test_associations_of_notifiers_survive_a_restart(router: Rig) -> None:
    """SMP-34, ACC-63, S001-36"""
    identity = new_service()
    recipient = await router.connect()
    queues = [await recipient.new_queue(notifier=make_key(), subscribe=False) for _ in range(3)]
    service = await router.connect(service=identity, role=Role.NOTIFIER)
    await service.ask(*map(nsub, queues))
    await router.restart()
    sender = await router.connect()
    service = await router.connect(service=identity, role=Role.NOTIFIER)
    all_of_them = notifier_tally(*queues)
    assert await service.ask(nsubs(service, all_of_them)) == [r.Soks(all_of_them)]
    await notify(sender, *queues)
    assert {(await service.event())[0] for _ in range(3)} == {q.notifier for q in queues}
    assert await kept(router, id_of(service), [q.notifier for q in queues]) == all_of_them
