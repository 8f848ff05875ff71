"""Who signs in a service's session, and which commands its role has."""

from __future__ import annotations

import secrets

import pytest

from headgate.client.smp.recipient import Key, Kind, LinkData, Request, make_key, spki
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import NOTHING
from headgate.crypto.box import shared_key
from headgate.crypto.keys import SigningKey
from headgate.crypto.proof import authenticator
from headgate.errors import Refused
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.transmissions import Transmission, encode, signed
from headgate.wire.smp.handshake import Role
from tests.support.smp_router import Rig
from tests.support.smp_scene import id_of, kept, message, new_service, nsub, nsubs, subs


async def forged(
    client: SmpClient,
    request: Request,
    *,
    fingerprint: bytes = b"",
    by: SigningKey | None = None,
    over_fingerprint: bool = False,
) -> r.Reply:
    """The answer to a request that is signed as told: by its key behind a fingerprint, and by
    somebody in the place of the service."""
    command = request.command
    assert not isinstance(command, bytes)
    bare = Transmission(
        b"",
        None,
        secrets.token_bytes(24),
        request.entity,
        c.encode_command(command, client.version),
    )
    over = signed(client.session_id, bare)
    key = request.key
    assert key is not None
    if isinstance(key, bytes):
        shared = shared_key(key, client.router_key)
        authorization = authenticator(shared, bare.correlation, fingerprint + over)
    else:
        authorization = key.sign(fingerprint + over)
    second = None
    if by is not None:
        second = by.sign(fingerprint + over if over_fingerprint else over)
    transmission = Transmission(
        authorization, second, bare.correlation, request.entity, bare.command
    )
    await client.send_block(pack([encode(transmission, client.version)])[0])
    _, reply = await client.event()
    return reply


def new(key: Key) -> c.New:
    return c.New(spki(key), spki(secrets.token_bytes(32)), None, True, Purpose.MESSAGING)


@pytest.mark.parametrize("kind", ["ed25519", "ed448", "x25519"])
async def test_making_and_subscribing_take_the_signatures_of_both(router: Rig, kind: Kind) -> None:
    """ACC-51, ACC-56, S001-19, S001-20, S001-21, S001-26: each of the two is missing once, and
    wrong in every way; a refused command leaves no trace."""
    identity, stranger = new_service(), new_service()
    client = await router.connect(service=identity)
    other = await router.connect(service=stranger)
    plain = await router.connect()
    queue = await plain.new_queue(kind, subscribe=False)
    key, mine = make_key(kind), client.service_key
    own, wrong = identity.fingerprint, make_key(kind)
    for request in (Request(new(key), b"", key), queue.asks(c.Sub())):
        bad = Request(request.command, request.entity, wrong)
        service, auth = r.Err("SERVICE"), r.Err("AUTH")
        assert await forged(client, request, fingerprint=own) == service
        assert await forged(client, request) == service
        assert await forged(client, request, fingerprint=own, by=identity.private) == service
        assert await forged(client, request, fingerprint=own, by=other.service_key) == service
        assert (
            await forged(client, request, fingerprint=own, by=mine, over_fingerprint=True)
            == service
        )
        assert await forged(client, request, by=mine) == auth
        assert await forged(client, request, fingerprint=stranger.fingerprint, by=mine) == auth
        assert await forged(client, bad, fingerprint=own, by=mine) == auth
        assert await forged(client, bad, fingerprint=own) == service
        assert await kept(router, id_of(client)) == NOTHING
    ids = await forged(client, Request(new(key), b"", key), fingerprint=own, by=mine)
    assert isinstance(ids, r.Ids)
    assert ids.service == client.service_id
    answer = await forged(client, queue.asks(c.Sub()), fingerprint=own, by=mine)
    assert answer == r.Sok(client.service_id)
    assert (await kept(router, id_of(client))).count == 2


async def test_being_notified_as_a_service_takes_the_signatures_of_both(router: Rig) -> None:
    """S001-19..S001-21"""
    identity, stranger = new_service(), new_service()
    client = await router.connect(service=identity, role=Role.NOTIFIER)
    plain = await router.connect()
    queue = await plain.new_queue(notifier=make_key())
    request, own, mine = nsub(queue), identity.fingerprint, client.service_key
    assert await forged(client, request, fingerprint=own) == r.Err("SERVICE")
    assert await forged(client, request) == r.Err("SERVICE")
    assert await forged(client, request, fingerprint=own, by=identity.private) == r.Err("SERVICE")
    assert await forged(client, request, by=mine) == r.Err("AUTH")
    assert await forged(client, request, fingerprint=stranger.fingerprint, by=mine) == r.Err("AUTH")
    assert await kept(router, id_of(client), [queue.notifier]) == NOTHING
    assert await forged(client, request, fingerprint=own, by=mine) == r.Sok(client.service_id)
    assert (await kept(router, id_of(client), [queue.notifier])).count == 1


async def test_a_plain_session_has_no_service_that_could_sign(router: Rig) -> None:
    """ACC-75, S001-19, S001-22: a second signature is refused, for whatever command."""
    plain = await router.connect()
    key, stranger = make_key(), new_service()
    queue = await plain.new_queue(notifier=make_key())
    requests = [
        Request(new(key), b"", key),
        queue.asks(c.Sub()),
        queue.asks(c.Que()),
        nsub(queue),
        Request(c.SKey(spki(key)), queue.sender, key),
    ]
    for request in requests:
        assert await forged(plain, request, by=stranger.private) == r.Err("SERVICE")
        assert not isinstance((await plain.ask(request))[0], r.Err)


async def test_no_other_command_takes_a_signature_of_the_service(router: Rig) -> None:
    """S001-22, ACC-52, SMP-36: they are signed as ever, on the service's session too."""
    client = await router.connect(service=new_service())
    link = LinkData(b"fixed", b"user", secrets.token_bytes(24))
    queue = await client.new_queue(purpose=Purpose.CONTACT, link=link)
    messaging = await client.new_queue(link=LinkData(b"fixed", b"user"))
    assert link.id is not None
    assert messaging.ids.link is not None
    key, sender = make_key(), make_key()
    assert await client.ask(queue.asks(c.Key(spki(sender)))) == [r.Ok()]
    assert await client.send(queue, b"one", sender) == r.Ok()
    message_id = await message(client, queue, b"one")
    requests: list[tuple[Request, r.Reply | type[r.Reply]]] = [
        (queue.asks(c.Que()), r.Info),
        (queue.asks(c.SmpAck(message_id)), r.Ok()),
        (Request(c.SmpSend(False, b"two"), queue.sender, sender), r.Ok()),
        (queue.asks(c.Key(spki(sender))), r.Ok()),
        (queue.asks(c.LSet(link.id, b"fixed", b"more")), r.Ok()),
        (queue.asks(c.LDel()), r.Ok()),
        (queue.asks(c.NKey(spki(key), spki(secrets.token_bytes(32)))), r.Nid),
        (queue.asks(c.NDel()), r.Ok()),
        (queue.asks(c.RKey((spki(queue.key),))), r.Ok()),
        (Request(c.LKey(spki(key)), messaging.ids.link, key), r.Lnk),
        (Request(c.SKey(spki(key)), messaging.sender, key), r.Ok()),
        (messaging.asks(c.SmpGet()), r.Err("CMD PROHIBITED")),
        (queue.asks(c.Off()), r.Ok()),
        (queue.asks(c.Del()), r.Ok()),
    ]
    for request, expected in requests:
        signed_twice = Request(request.command, request.entity, request.key, True)
        assert await client.ask(signed_twice) == [r.Err("SERVICE")]
        (reply,) = await client.ask(request)
        assert isinstance(reply, expected) if isinstance(expected, type) else reply == expected


async def test_subscribing_a_service_takes_its_own_session_and_nothing_more(router: Rig) -> None:
    """ACC-53, ACC-59, S001-17: no entity, another service's, a plain session, a second signature,
    and an authenticator in place of the signature."""
    client = await router.connect(service=new_service())
    other = await router.connect(service=new_service())
    plain = await router.connect()
    key, everything = client.service_key, c.Subs(NOTHING)
    assert await client.ask(Request(everything, b"", key)) == [r.Err("CMD NO_AUTH")]
    unsigned = c.encode_command(everything, 19)
    assert await client.ask(Request(unsigned, id_of(client))) == [r.Err("CMD NO_AUTH")]
    for wrong in (
        Request(everything, id_of(other), key),
        Request(everything, id_of(client), secrets.token_bytes(32)),
        Request(everything, id_of(client), make_key("ed448")),
        Request(everything, id_of(client), key, True),
    ):
        assert await client.ask(wrong) == [r.Err("SERVICE")]
    assert await plain.ask(Request(everything, id_of(client), make_key())) == [r.Err("SERVICE")]
    assert await plain.ask(Request(c.NSubs(NOTHING), id_of(client), make_key())) == [
        r.Err("SERVICE")
    ]
    await client.quiet(0.1)


async def test_each_role_has_its_commands(router: Rig) -> None:
    """ACC-64: those of another are prohibited; of a queue that does not exist nobody learns even
    that."""
    plain = await router.connect()
    queue = await plain.new_queue(notifier=make_key())
    nowhere = secrets.token_bytes(24)
    prohibited = r.Err("CMD PROHIBITED")
    messaging = await router.connect(service=new_service())
    assert await messaging.ask(nsub(queue), nsubs(messaging)) == [prohibited, prohibited]
    assert await messaging.ask(Request(c.NSub(), nowhere, queue.notifier_key)) == [r.Err("AUTH")]
    for role in (Role.NOTIFIER, Role.PROXY):
        client = await router.connect(service=new_service(), role=role)
        with pytest.raises(Refused, match="CMD PROHIBITED"):
            await client.new_queue()
        answers = await client.ask(
            queue.asks(c.Sub()),
            queue.asks(c.SmpAck(b"")),
            queue.asks(c.Del()),
            Request(c.SmpSend(False, b"hello"), queue.sender),
            subs(client),
        )
        assert answers == [prohibited] * 5
        assert await client.ask(Request(c.Sub(), nowhere, queue.key)) == [r.Err("AUTH")]
        assert await client.ask(Request(c.Ping())) == [r.Pong()]


async def test_a_service_has_no_queues_that_it_does_not_subscribe_to(router: Rig) -> None:
    """S001-26: to create only is prohibited in a service's session."""
    client = await router.connect(service=new_service())
    with pytest.raises(Refused, match="CMD PROHIBITED"):
        await client.new_queue(subscribe=False)
    assert await kept(router, id_of(client)) == NOTHING


# What the key of a session is good for.


async def test_only_the_key_of_this_session_signs_for_the_service(router: Rig) -> None:
    """S001-17, S001-18: neither the certificate's own key does, nor that of a connection before,
    nor a key of X25519."""
    identity = new_service()
    earlier = await router.connect(service=identity)
    client = await router.connect(service=identity)
    assert client.service_id
    assert earlier.service_key is not None
    subs = c.Subs(NOTHING)
    for wrong in (identity.private, earlier.service_key, secrets.token_bytes(32)):
        assert await client.ask(Request(subs, client.service_id, wrong)) == [r.Err("SERVICE")]
    queue = await client.new_queue()
    fresh, client.service_key = client.service_key, earlier.service_key
    assert await client.subscribe(queue) == [r.Err("SERVICE")]
    client.service_key = fresh
    assert await client.subscribe(queue) == [r.Sok(client.service_id)]


async def test_what_one_session_signed_is_worth_nothing_in_another(router: Rig) -> None:
    """S001-18, S001-21: the session is part of what is signed."""
    identity = new_service()
    first = await router.connect(service=identity)
    second = await router.connect(service=identity)
    assert first.service_id
    replayed = first.encode(Request(c.Subs(NOTHING), first.service_id))
    await second.send_block(pack([replayed])[0])
    assert await second.event() == (first.service_id, r.Err("SERVICE"))
