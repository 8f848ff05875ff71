"""What tests of services say again and again, and the recount that every tally is held against."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from headgate.client.smp.recipient import Queue, Request
from headgate.client.smp.service import Service, make_service
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.parties import Address, Party
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Load, Page
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.sealed import Body
from tests.support.smp_router import Rig

ALL = 1_000_000
"""More queues than a test has."""


def new_service() -> Service:
    return make_service(time.time())


def id_of(client: SmpClient) -> ServiceId:
    assert client.service_id, "a service's session"
    return ServiceId(client.service_id)


def tally(*queues: Queue) -> Tally:
    return Tally.of(QueueId(queue.id) for queue in queues)


def notifier_tally(*queues: Queue) -> Tally:
    return Tally.of(QueueId(queue.notifier) for queue in queues)


def nsub(queue: Queue) -> Request:
    return Request(c.NSub(), queue.notifier, queue.notifier_key)


def subs(client: SmpClient, expected: Tally = NOTHING) -> Request:
    return Request(c.Subs(expected), id_of(client))


def nsubs(client: SmpClient, expected: Tally = NOTHING) -> Request:
    return Request(c.NSubs(expected), id_of(client))


async def make_queues(client: SmpClient, number: int) -> list[Queue]:
    """In the order of a sweep."""
    queues: list[Queue] = []
    while len(queues) < number:
        some = min(50, number - len(queues))
        queues += await asyncio.gather(*(client.new_queue() for _ in range(some)))
    return sorted(queues, key=lambda queue: queue.id)


async def send_to(client: SmpClient, queues: Sequence[Queue], body: bytes = b"hello") -> None:
    requests = [Request(c.SmpSend(False, body), queue.sender) for queue in queues]
    assert await client.ask(*requests) == [r.Ok()] * len(queues)


async def sweep(client: SmpClient, expected: Tally) -> list[tuple[bytes, r.Msg]]:
    """SUBS, which is answered with the expected tally; the messages up to its ALLS."""
    assert await client.ask(subs(client, expected)) == [r.Soks(expected)]
    found: list[tuple[bytes, r.Msg]] = []
    while True:
        entity, told = await client.event()
        if told == r.Alls():
            return found
        assert isinstance(told, r.Msg)
        found.append((entity, told))


async def message(client: SmpClient, queue: Queue, body: bytes) -> bytes:
    """The next that the client is told is a message of the queue; its id."""
    entity, told = await client.event()
    assert entity == queue.id
    assert isinstance(told, r.Msg)
    opened = queue.open(told)
    assert isinstance(opened, Body)
    assert opened.body == body
    return told.message_id


async def noticed(client: SmpClient, queue: Queue) -> bytes:
    """The next that the client is told is a notice of the queue; the id of the message, which
    only the recipient can find in it."""
    entity, told = await client.event()
    assert entity == queue.notifier
    return queue.open_notice(told).message_id


async def notify(client: SmpClient, *queues: Queue) -> None:
    for queue in queues:
        assert await client.send(queue, b"hello", notify=True) == r.Ok()


async def kept(rig: Rig, service: ServiceId, notifiers: Iterable[bytes] = ()) -> Tally:
    """The tally that the store keeps of a service, which is what a recount of its queues gives,
    or, of a service that is notified, of these notifiers."""
    page = Page(service, QueueId(b""), ALL)
    addresses = {Address(Party.NOTIFIER, id): 0 for id in notifiers}
    loaded = await rig.store.load(Load(services={service}, pages={page}, addresses=addresses))
    counted = set(loaded.pages[page].queues)
    for address, queue in loaded.addresses.items():
        parties = loaded.heads[queue].record.parties
        if parties is not None and parties.notifier is not None:
            assert parties.notifier.id == address.id
            if parties.notifier.service == service:
                counted.add(QueueId(address.id))
    tally = loaded.services.get(service, NOTHING)
    assert tally == Tally.of(counted)
    return tally


def received(rig: Rig) -> int:
    """Queues that are subscribed through their services, as the router counts them."""
    return int(rig.router.gauges()["service_queues_subscribed"])


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what happens without an answer: a session's clean-up, a full mailbox."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  there is no event
            await asyncio.sleep(0.01)
