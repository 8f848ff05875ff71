"""Routers that do what a test says, when it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.service import make_service
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.notify.notices import NoticeFate
from headgate.notify.subscriptions import NotifierSubscription, accept, refuse
from headgate.ntf_server.records import Records, routers, subscriptions, tokens
from headgate.ntf_server.records.routers import ServiceCredentials
from headgate.wire.ntf.statuses import SubscriptionStatus
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from tests.support.ntf_notifiers import (
    OWNER,
    QUICK,
    NotifierScene,
    add,
    notifying,
    subscription_to,
    until,
)
from tests.support.smp_peer import SERVICE_ID, Asked, Peer, Talk, event

KEY = Ed25519PrivateKey.generate()
ACTIVE = SubscriptionStatus.ACTIVE
OURS = ServiceId(SERVICE_ID)


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    peer = Peer(tmp_path / "peer")
    await peer.start()
    yield peer
    await peer.stop()


def notifier(n: int) -> bytes:
    return bytes([n]) * 24


async def stored(
    folder: Path, peer: Peer, count: int, *, ours: int = 0
) -> list[NotifierSubscription]:
    """Subscriptions of an earlier run, of which the first are associated."""
    made = [subscription_to(peer.address, notifier(n), KEY) for n in range(count)]
    async with await Records.open("sqlite:ntf.db", folder) as records:
        await records.write(tokens.put, OWNER)
        for each in made:
            number = await records.write(add, each)
        service = make_service(0)
        credentials = ServiceCredentials(
            service.certificate, service.private.private_bytes_raw(), service.fingerprint
        )
        if ours:
            await records.write(routers.put_credentials, number, credentials)
            await records.write(routers.put_service_id, number, OURS)
            decide = partial(accept, service=OURS, ours=OURS)
            notifiers = [each.notifier for each in made[:ours]]
            await records.write(subscriptions.change, number, notifiers, decide)
    return made


def answer_all(talk: Talk, asked: list[Asked], reply: r.Reply) -> None:
    talk.send(*(each.answer(reply) for each in asked))


async def accepted(talk: Talk, count: int, reply: r.Reply) -> list[Asked]:
    """The next so many requests, each answered as it comes: a page waits for the one before."""
    found: list[Asked] = []
    while len(found) < count:
        block = await talk.block()
        answer_all(talk, block, reply)
        found += block
    return found


async def asked_for(talk: Talk, count: int) -> list[Asked]:
    """The next so many requests."""
    found: list[Asked] = []
    while len(found) < count:
        found += await talk.block()
    return found


def expected(asked: Asked) -> Tally:
    """What an NSUBS says that we have."""
    assert isinstance(asked.command, c.NSubs)
    assert asked.command.expected is not None
    return asked.command.expected


async def test_the_service_goes_first_then_every_subscription(peer: Peer, tmp_path: Path) -> None:
    """S001-90: one NSUBS with the kept tally, then NSUB of all, those of the service included."""
    made = await stored(tmp_path, peer, 5, ours=3)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        assert talk.hello is not None
        assert talk.hello.service is not None
        first = await talk.one()
        tally = Tally.of([QueueId(each.notifier) for each in made[:3]])
        assert (first.command, first.entity) == (c.NSubs(tally), SERVICE_ID)
        talk.send(first.answer(r.Soks(tally)))
        rest = await accepted(talk, 5, r.Sok(SERVICE_ID))
        assert {each.command for each in rest} == {c.NSub()}
        assert {each.entity for each in rest} == {each.notifier for each in made}
        assert all(each.is_service_signed for each in rest)
        for each in made:
            await scene.reaches(each, ACTIVE)
        assert (await scene.router()).tally.count == 5
        assert scene.shell.drifts == {}


async def test_a_trusted_tally_leaves_its_subscriptions_alone(peer: Peer, tmp_path: Path) -> None:
    made = await stored(tmp_path, peer, 5, ours=3)
    async with notifying(tmp_path, trust_tally=True) as scene:
        talk = await peer.talk()
        first = await talk.one()
        talk.send(first.answer(r.Soks(expected(first))))
        rest = await asked_for(talk, 2)
        assert {each.entity for each in rest} == {each.notifier for each in made[3:]}
        answer_all(talk, rest, r.Sok(SERVICE_ID))
        await scene.reaches(made[4], ACTIVE)


async def test_a_drift_is_logged_and_work_goes_on(
    peer: Peer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S004-28: and every subscription is made once more, which repairs it."""
    made = await stored(tmp_path, peer, 3, ours=3)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        first = await talk.one()
        talk.send(first.answer(r.Soks(Tally.of([QueueId(made[0].notifier)]))))
        rest = await asked_for(talk, 3)
        assert {each.entity for each in rest} == {each.notifier for each in made}
        answer_all(talk, rest, r.Sok(SERVICE_ID))
        talk.send(event(made[1].notifier, r.NMsg(bytes(24), b"sealed")))

        async def pushed() -> bool:
            return bool(scene.pushed)

        await until(pushed)
        assert scene.shell.drifts == {"fewer": 1}
    assert "not those we expected" in caplog.text


async def test_another_service_id_makes_all_single_and_associates_them_again(
    peer: Peer, tmp_path: Path
) -> None:
    made = await stored(tmp_path, peer, 2, ours=2)
    other = b"another id of 24 bytes.."
    peer.service_reply = replace(peer.service_reply, service_id=other)  # type: ignore[type-var]
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        rest = await asked_for(talk, 2)
        assert {each.command for each in rest} == {c.NSub()}, "nothing is left to ask NSUBS for"
        answer_all(talk, rest, r.Sok(other))

        async def is_back() -> bool:
            return (await scene.router()).tally.count == 2

        await until(is_back)
        assert (await scene.router()).service_id == other
        assert await scene.is_associated(made[0])


async def test_a_service_that_is_refused_leads_to_single_subscriptions(
    peer: Peer, tmp_path: Path
) -> None:
    """S001-91: everything of that router, in a session of its own; credentials are forgotten."""
    made = await stored(tmp_path, peer, 2, ours=2)
    async with notifying(tmp_path) as scene:
        before = (await scene.router()).credentials
        talk = await peer.talk()
        first = await talk.one()
        assert isinstance(first.command, c.NSubs)
        talk.send(first.answer(r.Err("SERVICE")))
        talk = await peer.talk()
        rest = await accepted(talk, 2, r.Sok(SERVICE_ID))
        assert {each.command for each in rest} == {c.NSub()}
        for each in made:
            await scene.reaches(each, ACTIVE)

        async def has_new_credentials() -> bool:
            found = (await scene.router()).credentials
            return found is not None and found != before

        await until(has_new_credentials)


async def test_a_service_that_another_took_is_left_alone(
    peer: Peer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no fight: NSUBS is not repeated for some minutes."""
    made = await stored(tmp_path, peer, 1, ours=1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        first = await talk.one()
        tally = expected(first)
        talk.send(first.answer(r.Soks(tally)))
        answer_all(talk, [await talk.one()], r.Sok(SERVICE_ID))
        number = (await scene.router()).number

        async def is_active() -> bool:
            return scene.shell.is_service_active(number)

        await until(is_active)
        talk.send(event(SERVICE_ID, r.Ends(tally)))

        async def is_ended() -> bool:
            return not scene.shell.is_service_active(number)

        await until(is_ended)
        assert len(talk.asked) == 2
        assert await scene.is_associated(made[0]), "it is still ours, when we have it back"
    assert "left alone" in caplog.text


async def test_a_subscription_that_another_took_has_ended(peer: Peer, tmp_path: Path) -> None:
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        answer_all(talk, [await talk.one()], r.Sok(SERVICE_ID))
        await scene.reaches(made, ACTIVE)
        talk.send(event(made.notifier, r.SmpEnd()))
        await scene.reaches(made, SubscriptionStatus.END)
        assert (await scene.router()).tally == NOTHING


async def test_a_subscription_that_ends_twice_in_a_row(peer: Peer, tmp_path: Path) -> None:
    """What comes while its row is read is reported with it, and others after it."""
    made, other = await stored(tmp_path, peer, 2)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        await accepted(talk, 2, r.Sok(SERVICE_ID))
        for each in (made, other):
            await scene.reaches(each, ACTIVE)
        talk.send(
            event(made.notifier, r.SmpEnd()),
            event(made.notifier, r.Deld()),
            event(other.notifier, r.SmpEnd()),
        )
        await scene.reaches(made, SubscriptionStatus.DELETED)
        await scene.reaches(other, SubscriptionStatus.END)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("AUTH", SubscriptionStatus.AUTH),
        ("QUOTA", SubscriptionStatus.ERR),
        ("BLOCKED reason=spam", SubscriptionStatus.ERR),
    ],
)
async def test_what_a_router_refuses_is_kept(
    peer: Peer, tmp_path: Path, error: str, status: SubscriptionStatus
) -> None:
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        answer_all(talk, [await talk.one()], r.Err(error))
        await scene.reaches(made, status)


async def test_what_may_pass_is_asked_again(peer: Peer, tmp_path: Path) -> None:
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        answer_all(talk, [await talk.one()], r.Err("STORE unavailable"))
        again = await talk.one()
        assert await scene.status(made) is SubscriptionStatus.PENDING
        answer_all(talk, [again], r.Sok(SERVICE_ID))
        await scene.reaches(made, ACTIVE)


async def test_refused_as_a_service_is_tried_again_in_the_next_session(
    peer: Peer, tmp_path: Path
) -> None:
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path, services=False) as scene:
        talk = await peer.talk()
        answer_all(talk, [await talk.one()], r.Err("SERVICE"))
        await scene.reaches(made, SubscriptionStatus.SERVICE)
        other = await scene.subscribe(peer.address, notifier(9), KEY)
        answer_all(talk, [await talk.one()], r.Sok())
        await scene.reaches(other, ACTIVE)
        talk.drop()
        talk = await peer.talk()
        await accepted(talk, 2, r.Sok())
        await scene.reaches(made, ACTIVE)


async def test_what_was_refused_as_a_service_is_tried_after_a_restart(
    peer: Peer, tmp_path: Path
) -> None:
    """Also where its router has nothing else that is wanted."""
    [made] = await stored(tmp_path, peer, 1)
    refused = partial(refuse, error="SERVICE")
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        await records.write(subscriptions.change_one, made.id, refused)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        await accepted(talk, 1, r.Sok(SERVICE_ID))
        await scene.reaches(made, ACTIVE)


async def test_what_was_removed_is_not_subscribed_again(peer: Peer, tmp_path: Path) -> None:
    made = await stored(tmp_path, peer, 2)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        answer_all(talk, await asked_for(talk, 2), r.Sok(SERVICE_ID))
        for each in made:
            await scene.reaches(each, ACTIVE)
        await scene.records.write(subscriptions.remove, made[0].id)
        talk.drop()
        talk = await peer.talk()
        first = await talk.one()
        assert expected(first).count == 1
        talk.send(first.answer(r.Soks(expected(first))))

        async def is_up() -> bool:
            return scene.shell.is_service_active((await scene.router()).number)

        await until(is_up)
        assert made[0].notifier not in {each.entity for each in talk.asked}


async def test_who_subscribes_to_what_was_removed_is_judged_by_the_router(
    peer: Peer, tmp_path: Path
) -> None:
    """The session has the notifier already. Another subscription to it, which anybody may ask for
    who knows its id, is not active before the router has seen its key."""
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        await accepted(talk, 1, r.Sok(SERVICE_ID))
        await scene.reaches(made, ACTIVE)
        await scene.unsubscribe(made)
        again = await scene.subscribe(peer.address, made.notifier, Ed25519PrivateKey.generate())
        asked = await talk.one()
        assert asked.entity == made.notifier
        assert await scene.status(again) is not ACTIVE
        talk.send(asked.answer(r.Err("AUTH")))
        await scene.reaches(again, SubscriptionStatus.AUTH)


async def test_what_is_removed_and_wanted_again_belongs_to_the_service(
    peer: Peer, tmp_path: Path
) -> None:
    """S001-92: as it does for the router."""
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        await accepted(talk, 1, r.Sok(SERVICE_ID))
        await scene.reaches(made, ACTIVE)
        await scene.unsubscribe(made)
        again = await scene.subscribe(peer.address, made.notifier, KEY)
        await accepted(talk, 1, r.Sok(SERVICE_ID))
        await scene.reaches(again, ACTIVE)
        assert await scene.is_associated(again)


async def test_what_is_removed_before_it_is_sent_refuses_nothing(
    peer: Peer, tmp_path: Path
) -> None:
    """A subscription that takes the place of one that was removed while its NSUB was about to be
    sent is subscribed, and not refused with the other."""
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        # Both are in the records before the shell has looked for the first.
        removing = scene.records.write(subscriptions.remove, made.id)
        removed = await removing
        assert removed is not None
        scene.shell.forget([removed])
        again = await scene.subscribe(peer.address, made.notifier, KEY)
        talk = await peer.talk()
        await accepted(talk, 1, r.Sok(SERVICE_ID))
        await scene.reaches(again, ACTIVE)


async def test_notices_for_nobody_are_counted(peer: Peer, tmp_path: Path) -> None:
    """A router that sends what nobody wants costs others nothing."""
    [made] = await stored(tmp_path, peer, 1)
    async with notifying(tmp_path) as scene:
        talk = await peer.talk()
        answer_all(talk, [await talk.one()], r.Sok(SERVICE_ID))
        for n in range(100, 110):
            talk.send(event(notifier(n), r.NMsg(bytes(24), b"sealed")))
        talk.send(event(made.notifier, r.NMsg(bytes(24), b"sealed")))
        await until(partial(_is_pushed, scene))
        assert scene.intake.fates == {NoticeFate.NO_TOKEN: 10, NoticeFate.PUSHED: 1}


async def _is_pushed(scene: NotifierScene) -> bool:
    return bool(scene.pushed)


async def test_a_page_is_bounded(peer: Peer, tmp_path: Path) -> None:
    """S001-90: pages of so many; the next one when it is answered."""
    await stored(tmp_path, peer, 5)
    small = replace(QUICK, engine=replace(QUICK.engine, page=2))
    async with notifying(tmp_path, settings=small):
        talk = await peer.talk()
        for count in (2, 2, 1):
            page = await asked_for(talk, count)
            assert len(page) == count
            answer_all(talk, page, r.Sok(SERVICE_ID))
