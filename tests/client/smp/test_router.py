"""Links with a router of ours: every request that there is."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.client.smp import requests
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Key, LinkData, Queue, make_key, spki
from headgate.client.smp.service import Service, make_service
from headgate.client.smp.timing import PERSON_WAITS
from headgate.core.model.ids import QueueId
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import NOTHING, Tally
from headgate.errors import NotThisRouter, RequestRefused
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.sealed import Body
from headgate.wire.smp.handshake import VERSIONS, Role, Versions
from tests.support.smp_peer import Notes, until
from tests.support.smp_router import Rig


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig("memory:", tmp_path)
    await rig.start()
    yield rig
    await rig.stop()


class Client:
    """A link, and what it was handed."""

    def __init__(self, link: Link, notes: Notes) -> None:
        self.link = link
        self.notes = notes

    async def new_queue(self, new: requests.NewQueue) -> Queue:
        return new.made(await self.link.ask(new.request))

    async def event(self) -> tuple[bytes, r.Reply]:
        await until(lambda: self.notes.events)
        return self.notes.events.pop(0)


@pytest.fixture
async def clients(router: Rig) -> AsyncIterator[list[Client]]:
    clients = [await connect(router) for _ in range(2)]
    yield clients
    for client in clients:
        client.link.close()
        await client.link.wait_closed()


def address_of(router: Rig) -> RouterAddress:
    return RouterAddress((router.host,), router.port, router.fingerprint)


async def connect(
    router: Rig,
    service: Service | None = None,
    role: Role = Role.MESSAGING,
    versions: Versions = VERSIONS,
) -> Client:
    notes = Notes()
    link = await Link.connect(
        address_of(router), notes, service=service, role=role, versions=versions,
        timing=PERSON_WAITS,
    )  # fmt: skip
    return Client(link, notes)


def body_of(queue: Queue, message: r.Reply) -> bytes:
    opened = queue.open(message)
    assert isinstance(opened, Body)
    return opened.body


OK = r.Ok()


async def test_the_life_of_a_queue(clients: list[Client]) -> None:
    """S000-64, S000-65: the recipient's requests, and the sender's."""
    bob, amy = clients
    queue = await bob.new_queue(requests.new_queue())
    id, key, sender = queue.id, queue.key, make_key("x25519")
    ask = bob.link.ask
    assert await amy.link.ask(requests.secure_as_sender(queue.sender, sender)) == OK
    assert await amy.link.ask(requests.secure_as_sender(queue.sender, sender)) == OK
    for text in (b"one", b"two", b"three"):
        assert await amy.link.ask(requests.send(queue.sender, text, sender)) == OK
    entity, first = await bob.event()
    assert (entity, body_of(queue, first)) == (id, b"one")
    assert isinstance(first, r.Msg)
    second = await ask(requests.acknowledge(id, key, first.message_id))
    assert body_of(queue, second) == b"two"
    assert isinstance(await ask(requests.describe(id, key)), r.Info)
    assert isinstance(await amy.link.ask(requests.subscribe(id, key)), r.Sok)
    assert await bob.event() == (id, r.SmpEnd())
    entity, again = await amy.event()
    assert body_of(queue, again) == b"two"
    assert await ask(requests.suspend(id, key)) == OK
    with pytest.raises(RequestRefused, match="AUTH"):
        await amy.link.ask(requests.send(queue.sender, b"four", sender))
    assert await ask(requests.delete(id, key)) == OK
    assert await amy.event() == (id, r.Deld())
    assert bob.notes.reports == amy.notes.reports == []


async def test_a_queue_without_a_subscription(clients: list[Client]) -> None:
    bob, amy = clients
    queue = await bob.new_queue(requests.new_queue(make_key("x25519"), subscribe=False))
    sender = make_key()
    assert await bob.link.ask(requests.get(queue.id, queue.key)) == OK
    assert await bob.link.ask(requests.secure(queue.id, queue.key, spki(sender))) == OK
    assert await amy.link.ask(requests.send(queue.sender, b"hello", sender)) == OK
    message = await bob.link.ask(requests.get(queue.id, queue.key))
    assert isinstance(message, r.Msg)
    assert body_of(queue, message) == b"hello"
    acknowledged = requests.acknowledge(queue.id, queue.key, message.message_id)
    assert await bob.link.ask(acknowledged) == OK


async def test_links_of_queues(clients: list[Client]) -> None:
    bob, amy = clients
    data = LinkData(b"fixed", b"user", secrets.token_bytes(24))
    contact = await bob.new_queue(requests.new_queue(purpose=Purpose.CONTACT, link=data))
    assert data.id is not None
    read = await amy.link.ask(requests.read_link(data.id))
    assert read == r.Lnk(contact.sender, b"fixed", b"user")
    changed = requests.set_link(contact.id, contact.key, data.id, b"fixed", b"changed")
    assert await bob.link.ask(changed) == OK
    read = await amy.link.ask(requests.read_link(data.id))
    assert read == r.Lnk(contact.sender, b"fixed", b"changed")
    key = make_key("ed448")
    assert await bob.link.ask(requests.replace_keys(contact.id, contact.key, spki(key))) == OK
    with pytest.raises(RequestRefused, match="AUTH"):
        await bob.link.ask(requests.describe(contact.id, contact.key))
    assert await bob.link.ask(requests.delete_link(contact.id, key)) == OK
    with pytest.raises(RequestRefused, match="AUTH"):
        await amy.link.ask(requests.read_link(data.id))
    once = await bob.new_queue(requests.new_queue(link=LinkData(b"fixed", b"user")))
    assert once.ids.link is not None
    secured = await amy.link.ask(requests.secure_by_link(once.ids.link, key))
    assert secured == r.Lnk(once.sender, b"fixed", b"user")
    assert await amy.link.ask(requests.send(once.sender, b"hello", key)) == OK


async def test_notifiers(clients: list[Client]) -> None:
    bob, watcher = clients
    key = make_key("x25519")
    queue = await bob.new_queue(requests.new_queue(notifier_key=key))
    assert isinstance(
        await watcher.link.ask(requests.subscribe_notifier(queue.notifier, key)), r.Sok
    )
    assert await bob.link.ask(requests.send(queue.sender, b"hello", notify=True)) == OK
    entity, notice = await watcher.event()
    assert entity == queue.notifier
    assert queue.open_notice(notice).message_id
    assert await bob.link.ask(requests.delete_notifier(queue.id, queue.key)) == OK
    dh = spki(make_key("x25519"))
    renewed = requests.set_notifier(queue.id, queue.key, spki(key), dh)
    assert isinstance(await bob.link.ask(renewed), r.Nid)


async def subscribe_twice(
    router: Rig, service: Service, role: Role, queues: list[tuple[bytes, Key]], all_of: Tally
) -> None:
    """One by one in the service's name, and then all at once."""
    subscribe = requests.subscribe if role is Role.MESSAGING else requests.subscribe_notifier
    everything = (
        requests.subscribe_service
        if role is Role.MESSAGING
        else requests.subscribe_notifier_service
    )
    first = await connect(router, service, role)
    assert first.link.service_id is not None
    outcomes = await first.link.ask_all([subscribe(id, key) for id, key in queues])
    assert outcomes == [r.Sok(first.link.service_id)] * len(queues)
    second = await connect(router, service, role)
    assert second.link.service_id == first.link.service_id
    soks = await second.link.ask(everything(second.link.service_id, all_of))
    assert soks == r.Soks(all_of)
    assert await first.event() == (first.link.service_id, r.Ends(all_of))
    for client in (first, second):
        client.link.close()
        await client.link.wait_closed()


async def test_services(router: Rig, clients: list[Client]) -> None:
    """S001-23, S001-24: queues of a service are subscribed one by one, and later all at once."""
    bob, _ = clients
    key = make_key()
    queues = [await bob.new_queue(requests.new_queue(notifier_key=key)) for _ in range(3)]
    tally = Tally.of(QueueId(queue.id) for queue in queues)
    owned = [(queue.id, queue.key) for queue in queues]
    await subscribe_twice(router, make_service(time.time()), Role.MESSAGING, owned, tally)
    tally = Tally.of(QueueId(queue.notifier) for queue in queues)
    watched: list[tuple[bytes, Key]] = [(queue.notifier, key) for queue in queues]
    await subscribe_twice(router, make_service(time.time()), Role.NOTIFIER, watched, tally)


async def test_an_old_version_has_no_messaging_services(router: Rig) -> None:
    """S001-23"""
    client = await connect(router, make_service(time.time()), versions=Versions(7, 18))
    assert client.link.service_id is None
    queue = await client.new_queue(requests.new_queue())
    (outcome,) = await client.link.ask_all([requests.subscribe_service(queue.id, NOTHING)])
    assert isinstance(outcome, Exception)
    client.link.close()
    await client.link.wait_closed()


async def test_many_subscriptions_and_a_router_that_restarts(
    router: Rig, clients: list[Client]
) -> None:
    """S000-60, S000-64: the link is lost once, and another one takes its place."""
    bob, _ = clients
    made = await asyncio.gather(*(bob.new_queue(requests.new_queue()) for _ in range(300)))
    asked = [requests.subscribe(queue.id, queue.key) for queue in made]
    assert await bob.link.ask_all(asked) == [r.Sok()] * 300
    await router.restart()
    await bob.link.wait_closed()
    assert len(bob.notes.losses) == 1
    again = await connect(router)
    outcomes = await again.link.ask_all(asked)
    assert all(isinstance(outcome, RequestRefused) for outcome in outcomes)  # it was in memory
    again.link.close()
    await again.link.wait_closed()


async def test_a_router_of_another_name(router: Rig) -> None:
    address = RouterAddress((router.host,), router.port, secrets.token_bytes(32))
    with pytest.raises(NotThisRouter):
        await Link.connect(address, Notes())
