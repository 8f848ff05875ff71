"""Links: data for whoever knows the link, without knowing the queue."""

from __future__ import annotations

import secrets

import pytest

from headgate.client.smp.recipient import LinkData, Queue, Request, make_key, spki
from headgate.core.model.parties import Purpose
from headgate.crypto.proof import link_sender
from headgate.errors import Refused
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.handshake import Versions
from tests.support.smp_router import Rig

AUTH = r.Err("AUTH")
INVITATION = LinkData(b"fixed", b"user")


def contact(id: bytes | None = None) -> LinkData:
    """A link whose id the client chooses."""
    return LinkData(b"fixed", b"user", id or secrets.token_bytes(24))


def link_of(queue: Queue) -> bytes:
    assert queue.ids.link is not None
    return queue.ids.link


def lnk(queue: Queue, user: bytes = b"user", fixed: bytes = b"fixed") -> r.Lnk:
    return r.Lnk(queue.sender, fixed, user)


async def ask(client: SmpClient, request: Request) -> r.Reply:
    (reply,) = await client.ask(request)
    return reply


def lget(link: bytes) -> Request:
    return Request(c.LGet(), link)


# Invitations: read by the one who secures the queue.


async def test_an_invitation_is_read_by_who_secures_the_queue(router: Rig) -> None:
    """ACC-83: LGET is not for it; LKEY is signed by the key it brings, works again with that key
    and with no other."""
    client, joiner = await router.connect(), await router.connect()
    queue = await client.new_queue(link=INVITATION)
    link = link_of(queue)
    assert len(link) == 24
    assert len({link, queue.id, queue.sender}) == 3
    assert await ask(joiner, lget(link)) == AUTH
    key, other = make_key(), make_key()
    assert await ask(joiner, Request(c.LKey(spki(key)), link)) == r.Err("CMD NO_AUTH")
    assert await ask(joiner, Request(c.LKey(spki(key)), link, other)) == AUTH
    for wrong in (queue.id, queue.sender, secrets.token_bytes(24)):
        assert await ask(joiner, Request(c.LKey(spki(key)), wrong, key)) == AUTH
    for _ in range(2):
        assert await ask(joiner, Request(c.LKey(spki(key)), link, key)) == lnk(queue)
    assert await ask(joiner, Request(c.LKey(spki(other)), link, other)) == AUTH
    assert await joiner.send(queue, b"unsigned") == AUTH
    assert await joiner.send(queue, b"hello", key) == r.Ok()


@pytest.mark.parametrize("kind", ["ed25519", "ed448", "x25519"])
async def test_an_invitation_is_secured_with_a_key_of_any_kind(router: Rig, kind: str) -> None:
    """ACC-83, ACC-16"""
    client = await router.connect()
    queue = await client.new_queue(link=INVITATION)
    key = make_key(kind)  # type: ignore[arg-type]
    assert await ask(client, Request(c.LKey(spki(key)), link_of(queue), key)) == lnk(queue)
    assert await client.send(queue, b"hello", key) == r.Ok()


async def test_an_invitation_is_changed_until_it_is_taken(router: Rig) -> None:
    """ACC-83: LSET before the queue is secured, not after; its id and its fixed data never."""
    client = await router.connect()
    queue = await client.new_queue(link=INVITATION)
    link = link_of(queue)
    assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"more"))) == r.Ok()
    assert await ask(client, queue.asks(c.LSet(link, b"other", b"more"))) == AUTH
    elsewhere = secrets.token_bytes(24)
    assert await ask(client, queue.asks(c.LSet(elsewhere, b"fixed", b"more"))) == AUTH
    by_sender = Request(c.LSet(link, b"fixed", b"x"), queue.sender, queue.key)
    assert await ask(client, by_sender) == AUTH
    key = make_key()
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == lnk(queue, b"more")
    assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"late"))) == AUTH
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == lnk(queue, b"more")


async def test_an_invitation_is_over_with_the_first_message(router: Rig) -> None:
    """ACC-83: of the sender who took it; an unsigned one to a queue that is not secured changes
    nothing."""
    client = await router.connect()
    queue = await client.new_queue(link=INVITATION)
    link, key = link_of(queue), make_key()
    assert await client.send(queue, b"from nobody") == r.Ok()
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == lnk(queue)
    assert await client.send(queue, b"hello", key) == r.Ok()
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == AUTH


async def test_an_invitation_is_dropped(router: Rig) -> None:
    """ACC-83: LDEL is fine with and without a link, and leaves the queue as it is."""
    client = await router.connect()
    queue = await client.new_queue(link=INVITATION)
    link, key = link_of(queue), make_key()
    for _ in range(2):
        assert await ask(client, queue.asks(c.LDel())) == r.Ok()
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == AUTH
    assert await ask(client, Request(c.SKey(spki(key)), queue.sender, key)) == r.Ok()
    assert await client.send(queue, b"hello", key) == r.Ok()


async def test_who_makes_a_queue_with_a_link_cannot_choose_its_sender_id(router: Rig) -> None:
    """ACC-83: it is derived from the correlation, in both purposes; the same again is taken."""
    client = await router.connect()
    key, dh, correlation = make_key(), spki(secrets.token_bytes(32)), secrets.token_bytes(24)
    for purpose, id in ((Purpose.MESSAGING, None), (Purpose.CONTACT, secrets.token_bytes(24))):
        link = c.NewLink(secrets.token_bytes(24), b"fixed", b"user", id)
        new = c.New(spki(key), dh, None, True, purpose, link)
        assert await ask(client, Request(new, key=key)) == r.Err("CMD PROHIBITED")
    link = c.NewLink(link_sender(correlation), b"fixed", b"user")
    new = c.New(spki(key), dh, None, True, Purpose.MESSAGING, link)
    ids = await ask(client, Request(new, key=key, correlation=correlation))
    assert isinstance(ids, r.Ids)
    assert ids.sender == link.sender
    assert await ask(client, Request(new, key=key, correlation=correlation)) == AUTH


# Contacts: read by everybody.


async def test_a_contact_is_read_by_everybody(router: Rig) -> None:
    """ACC-84: unsigned, by its link id and no other; LKEY is not for it."""
    client = await router.connect()
    data = contact()
    queue = await client.new_queue(purpose=Purpose.CONTACT, link=data)
    link, key = link_of(queue), make_key()
    assert link == data.id
    assert await ask(client, Request(c.LKey(spki(key)), link, key)) == AUTH
    assert await ask(client, Request(c.LGet(), link, key)) == r.Err("CMD HAS_AUTH")
    assert await ask(client, Request(c.LGet())) == r.Err("CMD NO_ENTITY")
    for wrong in (queue.id, queue.sender, secrets.token_bytes(24)):
        assert await ask(client, lget(wrong)) == AUTH
    for _ in range(3):
        reader = await router.connect()
        assert await ask(reader, lget(link)) == lnk(queue)
        assert await reader.send(queue, b"hello") == r.Ok()


async def test_of_a_contact_only_the_user_data_changes(router: Rig) -> None:
    """ACC-84: also when the queue is secured, which does not hide it."""
    client = await router.connect()
    queue = await client.new_queue(purpose=Purpose.CONTACT, link=contact())
    link = link_of(queue)
    assert await client.ask(
        queue.asks(c.LSet(link, b"fixed", b"more")), lget(link), queue.asks(c.LDel()), lget(link)
    ) == [r.Ok(), lnk(queue, b"more"), r.Ok(), AUTH]
    assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"anew"))) == r.Ok()
    assert await ask(client, queue.asks(c.LSet(link, b"other", b"more"))) == AUTH
    elsewhere = secrets.token_bytes(24)
    assert await ask(client, queue.asks(c.LSet(elsewhere, b"fixed", b"more"))) == AUTH
    unsigned = Request(c.LSet(link, b"fixed", b"more"), queue.id)
    assert await ask(client, unsigned) == r.Err("CMD NO_AUTH")
    forged = Request(c.LSet(link, b"fixed", b"more"), queue.id, make_key())
    assert await ask(client, forged) == AUTH
    assert await ask(client, queue.asks(c.Key(spki(make_key())))) == r.Ok()
    assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"last"))) == r.Ok()
    assert await ask(client, lget(link)) == lnk(queue, b"last")


async def test_a_contact_is_dropped(router: Rig) -> None:
    """ACC-84: twice, and with its queue."""
    client = await router.connect()
    one, two = [await client.new_queue(purpose=Purpose.CONTACT, link=contact()) for _ in range(2)]
    for _ in range(2):
        assert await ask(client, one.asks(c.LDel())) == r.Ok()
    assert await ask(client, lget(link_of(one))) == AUTH
    assert await ask(client, two.asks(c.Del())) == r.Ok()
    assert await ask(client, lget(link_of(two))) == AUTH


async def test_a_queue_gets_a_link_later(router: Rig) -> None:
    """ACC-84, ACC-83: of each purpose, and of none, which is read like a contact until it is
    secured."""
    client = await router.connect()
    for purpose in (Purpose.MESSAGING, Purpose.CONTACT, None):
        queue = await client.new_queue(purpose=purpose)
        assert queue.ids.link is None
        link, key = secrets.token_bytes(24), make_key()
        assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"user"))) == r.Ok()
        read = await ask(client, lget(link))
        assert read == (AUTH if purpose is Purpose.MESSAGING else lnk(queue))
        taken = await ask(client, Request(c.LKey(spki(key)), link, key))
        assert taken == (lnk(queue) if purpose is Purpose.MESSAGING else AUTH)
        if purpose is None:
            assert await ask(client, queue.asks(c.Key(spki(key)))) == r.Ok()
            assert await ask(client, lget(link)) == AUTH
            assert await ask(client, queue.asks(c.LSet(link, b"fixed", b"more"))) == AUTH


async def test_another_queue_cannot_take_a_link(router: Rig) -> None:
    """ACC-85: neither when it is made nor later, also when the first is long out of memory."""
    client = await router.connect()
    owner = await client.new_queue(purpose=Purpose.CONTACT, link=contact())
    thief = await client.new_queue(purpose=Purpose.CONTACT)
    link = link_of(owner)
    for _ in range(2):
        assert await ask(client, thief.asks(c.LSet(link, b"fixed", b"mine"))) == AUTH
        with pytest.raises(Refused, match="AUTH"):
            await client.new_queue(purpose=Purpose.CONTACT, link=contact(link))
        await router.restart()
        client = await router.connect()
        assert await ask(client, lget(link)) == lnk(owner)


# Both.


async def test_links_survive_restarts(router: Rig) -> None:
    """ACC-83, ACC-84: as they were last set; what was dropped stays so."""
    client = await router.connect()
    invitation = await client.new_queue(link=INVITATION)
    address = await client.new_queue(purpose=Purpose.CONTACT, link=contact())
    dropped = await client.new_queue(purpose=Purpose.CONTACT, link=contact())
    await ask(client, address.asks(c.LSet(link_of(address), b"fixed", b"more")))
    await ask(client, dropped.asks(c.LDel()))
    await router.restart()
    client, key = await router.connect(), make_key()
    assert await client.ask(
        lget(link_of(address)),
        lget(link_of(dropped)),
        Request(c.LKey(spki(key)), link_of(invitation), key),
    ) == [lnk(address, b"more"), AUTH, lnk(invitation)]
    await router.restart()
    client = await router.connect()
    assert await client.send(invitation, b"hello", key) == r.Ok()
    assert await ask(client, Request(c.LKey(spki(key)), link_of(invitation), key)) == AUTH


async def test_the_data_of_a_link_may_fill_a_block(router: Rig) -> None:
    """ACC-84: as much as fits into the answer, and any bytes at all."""
    client = await router.connect()
    fixed, user = secrets.token_bytes(2_000), secrets.token_bytes(13_700)
    data = LinkData(fixed, user, secrets.token_bytes(24))
    queue = await client.new_queue(purpose=Purpose.CONTACT, link=data)
    assert await ask(client, lget(link_of(queue))) == lnk(queue, user, fixed)
    assert await ask(client, queue.asks(c.LSet(link_of(queue), fixed, b""))) == r.Ok()
    assert await ask(client, lget(link_of(queue))) == lnk(queue, b"", fixed)


async def test_there_are_no_links_before_version_15(router: Rig) -> None:
    """ACC-83, ACC-84"""
    client = await router.connect(versions=Versions(14, 14))
    queue = await client.new_queue(purpose=Purpose.CONTACT)
    id = secrets.token_bytes(24)
    unknown = r.Err("CMD UNKNOWN")
    assert (
        await client.ask(queue.asks(c.LSet(id, b"fixed", b"user")), queue.asks(c.LDel()), lget(id))
        == [unknown] * 3
    )


async def test_an_answer_that_leaves_no_room_for_its_correlation_is_an_error(router: Rig) -> None:
    """ACC-93: a link or a message asked for with a very long correlation does not fit into a block;
    asked for again with a short one it does, and nobody else notices."""
    client, bystander = await router.connect(), await router.connect()
    queue = await client.new_queue(purpose=Purpose.CONTACT, subscribe=False)
    link, user = secrets.token_bytes(24), secrets.token_bytes(16_150)
    assert await ask(client, queue.asks(c.LSet(link, b"fixed", user))) == r.Ok()
    long, too_large = b"x" * 255, r.Err("LARGE_MSG")
    assert await ask(bystander, Request(c.LGet(), link, correlation=long)) == too_large
    assert await ask(bystander, lget(link)) == lnk(queue, user)
    assert await bystander.send(queue, b"hello") == r.Ok()
    assert (
        await ask(client, Request(c.SmpGet(), queue.id, queue.key, correlation=long)) == too_large
    )
    msg = await ask(client, queue.asks(c.SmpGet()))
    assert isinstance(msg, r.Msg)
    assert await ask(client, queue.asks(c.SmpAck(msg.message_id))) == r.Ok()
