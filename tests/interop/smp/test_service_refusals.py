"""Services that are refused in the handshake, and why."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Request, spki
from headgate.client.smp.service import Service
from headgate.crypto import keys
from headgate.errors import Refused
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import pack, unpack
from headgate.wire.smp.codec.transmissions import Transmission, encode, parse_reply
from headgate.wire.smp.handshake import (
    ClientHello,
    Role,
    ServiceHello,
    ServiceRefused,
    TransportError,
    parse_service_reply,
)
from tests.support.smp_raw import HOUR, Raw, certificate, issued, session_key
from tests.support.smp_router import Rig
from tests.support.smp_scene import new_service

Cheat = Callable[[], tuple[Service | None, ServiceHello]]


def another_chain() -> tuple[Service, ServiceHello]:
    return new_service(), new_service().hello(Role.MESSAGING, session_key())


def no_certificate() -> tuple[None, ServiceHello]:
    return None, new_service().hello(Role.MESSAGING, session_key())


def a_longer_chain() -> tuple[Service, ServiceHello]:
    shown = new_service()
    signed_key = keys.sign_key(shown.private, session_key())
    return shown, ServiceHello(
        Role.MESSAGING, (*shown.chain, new_service().certificate), signed_key
    )


def signed_by_another() -> tuple[Service, ServiceHello]:
    shown = new_service()
    signed_key = keys.sign_key(Ed25519PrivateKey.generate(), session_key())
    return shown, ServiceHello(Role.MESSAGING, shown.chain, signed_key)


def signed_by_the_session_key() -> tuple[Service, ServiceHello]:
    shown, key = new_service(), Ed25519PrivateKey.generate()
    return shown, ServiceHello(
        Role.MESSAGING, shown.chain, keys.sign_key(key, keys.public_key(key))
    )


def a_key_of_x25519() -> tuple[Service, ServiceHello]:
    shown = new_service()
    return shown, shown.hello(Role.MESSAGING, spki(secrets.token_bytes(32)))


def a_key_of_ed448() -> tuple[Service, ServiceHello]:
    shown = new_service()
    return shown, shown.hello(Role.MESSAGING, keys.public_key(Ed448PrivateKey.generate()))


def no_key() -> tuple[Service, ServiceHello]:
    shown = new_service()
    return shown, ServiceHello(Role.MESSAGING, shown.chain, b"\x30\x00")


def an_expired_certificate() -> tuple[Service, ServiceHello]:
    key = Ed25519PrivateKey.generate()
    shown = Service(certificate(key, until=datetime.now(UTC) - HOUR), key)
    return shown, shown.hello(Role.MESSAGING, session_key())


def a_chain_of_strangers() -> tuple[Service, ServiceHello]:
    authority, root_key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    root = certificate(root_key, name="authority", is_authority=True)
    shown = issued(authority, root)
    return shown, shown.hello(Role.MESSAGING, session_key())


def a_certificate_that_cannot_be_read() -> tuple[Service, ServiceHello]:
    """Of a version that there is not: OpenSSL takes it, others do not."""
    good = new_service()
    der = bytearray(good.certificate)
    der[der.index(bytes.fromhex("a003020102")) + 4] = 7
    start = der.index(0x30, 1)
    end = len(der) - len(bytes.fromhex("300506032b6570034100")) - 64
    der[-64:] = good.private.sign(bytes(der[start:end]))
    shown = Service(bytes(der), good.private)
    return shown, shown.hello(Role.MESSAGING, session_key())


@pytest.mark.parametrize(
    "cheat",
    [
        another_chain,
        no_certificate,
        a_longer_chain,
        signed_by_another,
        signed_by_the_session_key,
        a_key_of_x25519,
        a_key_of_ed448,
        no_key,
        an_expired_certificate,
        a_chain_of_strangers,
        a_certificate_that_cannot_be_read,
    ],
)
async def test_a_service_that_is_not_what_it_says_is_refused_and_closed(
    router: Rig, cheat: Cheat
) -> None:
    """S001-13, S001-14, ACC-64: BAD_AUTH, for every way to be wrong; others go on."""
    bystander = await router.connect()
    shown, said = cheat()
    raw = await Raw.connect(router, shown)
    await raw.say(ClientHello(19, router.fingerprint, service=said))
    assert parse_service_reply(await raw.block()) == ServiceRefused(TransportError.BAD_AUTH)
    assert await raw.is_closed()
    assert await bystander.ask(Request(c.Ping())) == [r.Pong()]


@pytest.mark.parametrize(
    ("first", "then"),
    [(Role.MESSAGING, Role.NOTIFIER), (Role.NOTIFIER, Role.MESSAGING), (Role.PROXY, Role.NOTIFIER)],
)
async def test_a_service_keeps_the_role_of_its_first_handshake(
    router: Rig, first: Role, then: Role
) -> None:
    """ACC-64, S001-15: another role is BAD_SERVICE, also after a restart; the first still works."""
    identity = new_service()
    id = (await router.connect(service=identity, role=first)).service_id
    with pytest.raises(Refused, match="HANDSHAKE BAD_SERVICE"):
        await router.connect(service=identity, role=then)
    await router.restart()
    with pytest.raises(Refused, match="HANDSHAKE BAD_SERVICE"):
        await router.connect(service=identity, role=then)
    assert (await router.connect(service=identity, role=first)).service_id == id


async def test_a_plain_client_may_have_any_certificate(router: Rig) -> None:
    """S001-10: nobody looks at what it does not show itself as a service with, and nothing is
    left of its handshake."""
    shown, _ = a_certificate_that_cannot_be_read()
    limit = router.router.limits.handshakes_per_address
    for _ in range(limit + 1):
        raw = await Raw.connect(router, shown)
        await raw.say(ClientHello(19, router.fingerprint))
        ping = Transmission(b"", None, secrets.token_bytes(24), b"", b"PING")
        await raw.send(pack([encode(ping, 19)])[0])
        (answer,) = unpack(await raw.block())
        assert parse_reply(answer).command == b"PONG"
        raw.close()
