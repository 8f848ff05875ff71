"""Connecting: who the router is, who the client is, and what happens when either is not right."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from headgate.client.smp import requests
from headgate.client.smp.failures import FailureKind, kind_of_failure
from headgate.client.smp.link import Link
from headgate.client.smp.service import make_service
from headgate.client.smp.timing import Timing
from headgate.core.model.tally import Tally
from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, encode_key, sign_key
from headgate.errors import (
    HostNotFound,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    RequestRefused,
    TimedOut,
)
from headgate.server.identity import Identity
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.handshake import (
    LEGACY,
    Role,
    ServerHello,
    ServiceAccepted,
    ServiceRefused,
    TransportError,
    Versions,
)
from tests.client.smp.conftest import Connect
from tests.support.smp_peer import (
    SERVICE_ID,
    Notes,
    Peer,
    StillClock,
    is_cancelled_at,
    passes,
    until,
)


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.open(tmp_path_factory.mktemp("another") / "identity", "host", time.time())


def signed_by(identity: Identity) -> bytes:
    return sign_key(identity.private, encode_key(KeyKind.X25519, public_of(b"p" * 32)))


Change = Callable[[ServerHello, Identity], ServerHello]

WRONG: dict[str, Change] = {
    "fingerprint": lambda hello, other: replace(hello, chain=other.chain),
    "session id": lambda hello, other: replace(hello, session_id=b"s" * 32),
    "signature of the session key": lambda hello, other: replace(
        hello, signed_key=signed_by(other)
    ),
    "leaf": lambda hello, other: replace(hello, chain=(other.chain[0], hello.chain[1])),
    "chain of one": lambda hello, other: replace(hello, chain=hello.chain[1:]),
    "chain of five": lambda hello, other: replace(hello, chain=hello.chain + hello.chain[1:] * 3),
    "no signed key": lambda hello, other: replace(hello, signed_key=b""),
}


@pytest.mark.parametrize("flaw", WRONG)
async def test_a_router_that_is_not_the_one_meant_is_sent_nothing(
    peer: Peer, another: Identity, notes: Notes, flaw: str
) -> None:
    peer.change = lambda hello: WRONG[flaw](hello, another)
    with pytest.raises(NotThisRouter) as raised:
        await Link.connect(peer.address, notes)
    assert kind_of_failure(raised.value) is FailureKind.HOST
    (talk,) = peer.talks
    await talk.over.wait()
    assert talk.blocks_read == 0
    assert notes.order == []


async def test_the_leaf_of_the_chain_is_that_of_the_connection(
    peer: Peer, another: Identity, notes: Notes
) -> None:
    """A router whose hello is another router's, but for the session id."""
    peer.change = lambda hello: replace(hello, chain=another.chain, signed_key=signed_by(another))
    with pytest.raises(NotThisRouter, match="another certificate"):
        await Link.connect(replace(peer.address, key_hash=another.fingerprint), notes)


async def test_a_router_that_shows_the_identity_of_another_as_its_own(
    peer: Peer, another: Identity, notes: Notes
) -> None:
    """Anybody can show a certificate; the leaf has to be signed by it."""
    peer.change = lambda hello: replace(hello, chain=(hello.chain[0], another.chain[1]))
    with pytest.raises(NotThisRouter, match="not signed by the next"):
        await Link.connect(replace(peer.address, key_hash=another.fingerprint), notes)
    await peer.talks[0].over.wait()
    assert peer.talks[0].blocks_read == 0


async def test_another_fingerprint_in_the_address(peer: Peer, notes: Notes) -> None:
    with pytest.raises(NotThisRouter, match="another router"):
        await Link.connect(replace(peer.address, key_hash=b"k" * 32), notes)
    (talk,) = peer.talks
    await talk.over.wait()
    assert talk.blocks_read == 0


async def test_a_key_that_is_no_key_of_a_session(peer: Peer, notes: Notes) -> None:
    key = sign_key(peer.identity.private, encode_key(KeyKind.ED25519, b"e" * 32))
    peer.change = lambda hello: replace(hello, signed_key=key)
    with pytest.raises(NotThisRouter, match="wrong kind"):
        await Link.connect(peer.address, notes)


async def test_what_is_no_hello_is_no_router(peer: Peer, notes: Notes) -> None:
    peer.alter = lambda block: b"\xff" * len(block)
    with pytest.raises(NotThisRouter):
        await Link.connect(peer.address, notes)


@pytest.mark.parametrize("versions", [LEGACY, Versions(20, 21)])
async def test_no_common_version(peer: Peer, notes: Notes, versions: Versions) -> None:
    peer.versions = versions
    with pytest.raises(NoCommonVersion) as raised:
        await Link.connect(peer.address, notes)
    assert kind_of_failure(raised.value) is FailureKind.HOST
    await peer.talks[0].over.wait()
    assert peer.talks[0].blocks_read == 0


# Services.


@pytest.mark.parametrize(
    ("role", "highest", "is_shown"),
    [
        (Role.MESSAGING, 18, False),
        (Role.MESSAGING, 19, True),
        (Role.NOTIFIER, 15, False),
        (Role.NOTIFIER, 16, True),
    ],
)
async def test_a_service_is_shown_from_the_version_on_that_knows_it(
    peer: Peer, connect: Connect, role: Role, highest: int, is_shown: bool
) -> None:
    """S001-23, S001-24: to an older router the client is one like others."""
    peer.versions = Versions(7, highest)
    link, talk = await connect(service=make_service(time.time()), role=role)
    assert link.version == highest
    assert talk.hello is not None
    assert (talk.hello.service is not None) is is_shown
    assert link.service_id == (SERVICE_ID if is_shown else None)
    asking = asyncio.create_task(link.ask(requests.ping()))
    talk.send((await talk.one()).answer(r.Pong()))
    assert await asking == r.Pong()


async def test_a_service_subscribes_to_all_its_queues(connect: Connect) -> None:
    link, talk = await connect(service=make_service(time.time()))
    assert link.service_id is not None
    tally = Tally(3)
    asking = asyncio.create_task(link.ask(requests.subscribe_service(link.service_id, tally)))
    asked = await talk.one()
    assert (asked.entity, asked.authorization_bytes) == (SERVICE_ID, 64)
    assert not asked.is_service_signed
    talk.send(asked.answer(r.Soks(tally)))
    assert await asking == r.Soks(tally)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TransportError.BAD_SERVICE, FailureKind.TEMPORARY),
        (TransportError.BAD_AUTH, FailureKind.PERMANENT),
    ],
)
async def test_a_service_that_is_not_taken(
    peer: Peer, notes: Notes, error: TransportError, kind: FailureKind
) -> None:
    """S004-19: a router that cannot look it up now may do so later."""
    peer.service_reply = ServiceRefused(error)
    with pytest.raises(RequestRefused) as raised:
        await Link.connect(peer.address, notes, service=make_service(time.time()))
    assert raised.value.error == error.value.decode()
    assert kind_of_failure(raised.value) is kind


class BadReply(ServiceAccepted):
    def encode(self) -> bytes:
        return b"?"


@pytest.mark.parametrize("reply", [None, BadReply(b"")])
async def test_a_router_that_leaves_or_stammers_in_the_greetings(
    peer: Peer, notes: Notes, reply: ServiceAccepted | None
) -> None:
    peer.service_reply = reply
    if reply is None:
        connecting = asyncio.create_task(
            Link.connect(peer.address, notes, service=make_service(time.time()))
        )
        await until(lambda: peer.talks and peer.talks[0].hello)
        peer.talks[0].drop()
        with pytest.raises(NotConnected):
            await connecting
    else:
        with pytest.raises(NotConnected, match="broke the protocol"):
            await Link.connect(peer.address, notes, service=make_service(time.time()))


# Hosts.


async def test_hosts_are_tried_in_turn(peer: Peer, notes: Notes) -> None:
    hosts = ("no-such-name.invalid", "[::1]", "127.0.0.1")
    async with await Link.connect(replace(peer.address, hosts=hosts), notes) as link:
        assert link.is_open
        assert len(peer.talks) == 1


async def test_the_name_of_the_host_is_not_sent(peer: Peer, notes: Notes) -> None:
    """Routers that also serve HTTPS take whoever names it for a browser."""
    async with await Link.connect(replace(peer.address, hosts=("localhost",)), notes):
        assert peer.names == [None]


async def test_the_host_that_may_come_back_is_the_one_to_act_on(notes: Notes, peer: Peer) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        port = unused.getsockname()[1]
    address = replace(peer.address, hosts=("no-such-name.invalid",), written_port=port)
    with pytest.raises(HostNotFound) as raised:
        await Link.connect(address, notes)
    assert kind_of_failure(raised.value) is FailureKind.HOST
    for hosts in (("no-such-name.invalid", "127.0.0.1"), ("127.0.0.1", "no-such-name.invalid")):
        with pytest.raises(NotConnected) as refused:
            await Link.connect(replace(address, hosts=hosts), notes)
        assert kind_of_failure(refused.value) is FailureKind.TEMPORARY


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
async def test_a_host_that_no_name_can_be(peer: Peer, notes: Notes, host: str) -> None:
    with pytest.raises(HostNotFound):
        await Link.connect(replace(peer.address, hosts=(host,)), notes)


async def test_what_is_no_tls_is_no_connection(notes: Notes, peer: Peer) -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NotConnected) as raised:
        await Link.connect(replace(peer.address, written_port=port), notes)
    assert kind_of_failure(raised.value) is FailureKind.TEMPORARY
    server.close()
    await server.wait_closed()


async def test_a_router_that_does_not_greet_is_not_waited_for(
    peer: Peer, notes: Notes, clock: StillClock
) -> None:
    """T7: neither is one that leaves TLS open."""
    peer.greets = False
    timing = Timing(connect_seconds=7.0)
    connecting = asyncio.create_task(Link.connect(peer.address, notes, timing=timing))
    await until(lambda: peer.talks)
    await clock.advance(6.9)
    assert not connecting.done()
    await clock.advance(0.2)
    with pytest.raises(TimedOut, match="7 seconds") as raised:
        await connecting
    assert kind_of_failure(raised.value) is FailureKind.TEMPORARY
    await peer.talks[0].over.wait()


# Cancelling.


async def test_connecting_may_be_cancelled_wherever_it_waits(peer: Peer, notes: Notes) -> None:
    """S004-26: each time the connection is closed, and the next attempt works."""
    service = make_service(time.time())
    number = 0
    links: list[Link] = []

    async def connect() -> None:
        links.append(await Link.connect(peer.address, notes, service=service))

    while await is_cancelled_at(connect(), number):
        assert links == []
        await passes()
        number += 1
    assert number >= 3
    (link,) = links
    while (talk := await peer.talk()) is not peer.talks[-1]:
        pass  # of somebody who left at last
    asking = asyncio.create_task(link.ask(requests.ping()))
    talk.send((await talk.one()).answer(r.Pong()))
    assert await asking == r.Pong()
    for left in peer.talks:
        if left is not talk:
            await left.over.wait()
            assert left.asked == []
    assert notes.order == []
    link.close()
    await link.wait_closed()
