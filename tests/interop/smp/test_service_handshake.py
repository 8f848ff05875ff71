"""How a client shows itself as a service: the third message, and the versions it needs."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Request, make_key, spki
from headgate.core.model.tally import NOTHING, Tally
from headgate.crypto import keys
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BLOCK, pack, unpack
from headgate.wire.smp.codec.transmissions import Transmission, encode, parse_reply, signed
from headgate.wire.smp.handshake import (
    ClientHello,
    Role,
    Versions,
)
from tests.support.smp_raw import PLAIN, Raw, certificate, issued, session_key
from tests.support.smp_router import Rig
from tests.support.smp_scene import new_service

# Who the service is.


async def test_a_service_is_told_its_id_in_a_third_message(router: Rig) -> None:
    """S001-11, S001-12, S000-92"""
    client = await router.connect(service=new_service())
    assert client.service_id is not None
    assert len(client.service_id) == 24
    assert await client.ask(Request(c.Ping())) == [r.Pong()]


async def test_without_a_service_there_is_no_third_message(router: Rig) -> None:
    """S001-10: a certificate alone makes no service, and the next block is the client's answer."""
    raw = await Raw.connect(router, new_service())
    await raw.say(ClientHello(19, router.fingerprint))
    correlation = secrets.token_bytes(24)
    await raw.send(pack([encode(Transmission(b"", None, correlation, b"", b"PING"), 19)])[0])
    (answer,) = unpack(await raw.block())
    assert parse_reply(answer).command == b"PONG"
    raw.close()
    plain = await router.connect()
    assert plain.service_id is None
    assert await plain.ask(Request(c.Ping())) == [r.Pong()]


async def test_a_certificate_is_the_same_service_for_ever(router: Rig) -> None:
    """S001-1, S001-15, ACC-63, S001-36: over reconnects and two restarts, other services
    between."""
    one, two = new_service(), new_service()
    first = await router.connect(service=one)
    other = await router.connect(service=two)
    assert first.service_id != other.service_id
    ids = {first.service_id}
    first.close()
    ids.add((await router.connect(service=one)).service_id)
    for _ in range(2):
        await router.restart()
        ids.add((await router.connect(service=one)).service_id)
        assert (await router.connect(service=two)).service_id == other.service_id
    assert ids == {first.service_id}


async def test_first_handshakes_at_once_are_the_same_service(router: Rig) -> None:
    """S001-16"""
    new = new_service()
    clients = await asyncio.gather(*(router.connect(service=new) for _ in range(8)))
    assert len({client.service_id for client in clients}) == 1
    assert all(client.service_id for client in clients)


async def test_the_identity_of_a_chain_is_its_second_certificate(router: Rig) -> None:
    """S001-15, S001-20: another leaf of the same identity is the same service, and its queues
    are signed for with the identity's fingerprint."""
    authority = Ed25519PrivateKey.generate()
    root = certificate(authority, name="authority", is_authority=True)
    one, two = issued(authority, root), issued(authority, root)
    assert one.certificate != two.certificate
    first = await router.connect(service=one)
    queue = await first.new_queue()
    assert queue.ids.service == first.service_id
    second = await router.connect(service=two)
    assert second.service_id == first.service_id
    assert await second.subscribe(queue) == [r.Sok(second.service_id)]


async def test_all_three_roles_are_taken(router: Rig) -> None:
    """S001-12: who forwards for others is a service too, if one that has no queues here."""
    for role in Role:
        client = await router.connect(service=new_service(), role=role)
        assert client.service_id
        assert await client.ask(Request(c.Ping())) == [r.Pong()]


# Versions.


async def test_below_version_16_nothing_is_a_service(router: Rig) -> None:
    """S001-4: no service in the handshake, OK in place of SOK, no place for a second signature."""
    client = await router.connect(
        service=new_service(), role=Role.NOTIFIER, versions=Versions(7, 15)
    )
    assert client.version == 15
    assert client.service_id is None
    queue = await client.new_queue()
    assert queue.ids.service is None
    assert await client.subscribe(queue) == [r.Ok()]
    (answer,) = await client.ask(queue.asks(b"SUBS"))
    assert answer == r.Err("CMD UNKNOWN")


@pytest.mark.parametrize("version", [16, 18])
async def test_notifiers_are_services_from_version_16_on(router: Rig, version: int) -> None:
    """S001-25, S001-5, S004-10, SMP-33: neither NSUBS nor SOKS nor ENDS say which queues they
    mean."""
    versions, identity = Versions(version, version), new_service()
    client = await router.connect(service=identity, role=Role.NOTIFIER, versions=versions)
    assert client.version == version
    assert client.service_id
    assert await client.ask(Request(c.NSubs(), client.service_id)) == [r.Soks(NOTHING)]
    notified = await router.connect()
    queue = await notified.new_queue(notifier=make_key())
    nsub = Request(c.NSub(), queue.notifier, queue.notifier_key)
    assert await client.ask(nsub) == [r.Sok(client.service_id)]
    other = await router.connect(service=identity, role=Role.NOTIFIER, versions=versions)
    assert await other.ask(Request(c.NSubs(), other.service_id or b"")) == [r.Soks(Tally(1))]
    assert await client.event() == (client.service_id, r.Ends(Tally(1)))
    (with_parameters,) = await other.ask(
        Request(b"NSUBS " + bytes(8) + b"\x10" + bytes(16), other.service_id or b"", make_key())
    )
    assert with_parameters == r.Err("CMD SYNTAX")


async def test_from_version_19_a_service_says_which_queues_it_means(router: Rig) -> None:
    """S001-6, S004-10"""
    client = await router.connect(service=new_service())
    assert client.version == 19
    queue = await client.new_queue()
    tally = Tally.of([queue.ids.recipient])  # type: ignore[list-item]
    assert client.service_id
    assert await client.ask(Request(c.Subs(tally), client.service_id)) == [r.Soks(tally)]
    assert await client.event() == (b"", r.Alls())
    (without,) = await client.ask(Request(b"SUBS", client.service_id, client.service_key))
    assert without == r.Err("CMD SYNTAX")


@pytest.mark.parametrize("version", [16, 18])
async def test_a_messaging_service_below_version_19_is_a_client_like_others(
    router: Rig, version: int
) -> None:
    """S001-6, S001-10: it is sent no third message, and its queues are nobody else's."""
    identity = new_service()
    raw = await Raw.connect(router, identity)
    said = identity.hello(Role.MESSAGING, session_key())
    await raw.say(ClientHello(version, router.fingerprint, service=said))
    key = Ed25519PrivateKey.generate()
    public = keys.public_key(key)
    new = c.New(public, spki(secrets.token_bytes(32)), None, subscribe=True)
    unsigned = Transmission(b"", None, secrets.token_bytes(24), b"", c.encode_command(new, version))
    over = signed(raw.hello.session_id, unsigned)
    transmission = Transmission(key.sign(over), None, unsigned.correlation, b"", unsigned.command)
    await raw.send(pack([encode(transmission, version)])[0])
    (answer,) = unpack(await raw.block())
    ids = r.parse_reply_command(parse_reply(answer).command, version)
    assert isinstance(ids, r.Ids)
    assert ids.service is None
    raw.close()


async def test_a_service_that_does_not_wait_for_its_id_is_closed(router: Rig) -> None:
    """S001-11: it cannot know yet what it may say."""
    identity = new_service()
    raw = await Raw.connect(router, identity)
    said = identity.hello(Role.MESSAGING, session_key())
    ping = pack([encode(Transmission(b"", None, secrets.token_bytes(24), b"", b"PING"), 19)])[0]
    raw.writer.write(
        PLAIN.seal(ClientHello(19, router.fingerprint, service=said).encode()) + PLAIN.seal(ping)
    )
    async with asyncio.timeout(20):
        assert len(await raw.reader.read()) <= BLOCK  # its id, perhaps, and no PONG
    assert isinstance(await router.connect(service=identity), SmpClient)
