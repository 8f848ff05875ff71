"""What holds for the records of a notification server, wherever they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import strategies as st

from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.errors import StoreError, Unauthorised
from headgate.notify import subscriptions as decisions
from headgate.notify.notices import NoticeFate
from headgate.notify.subscriptions import NotifierSubscription, router_key
from headgate.notify.tokens import Token, invalidate, mark_checked, set_interval
from headgate.ntf_server.records import Records, Tables, notices, routers, subscriptions, tokens
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.records.routers import RouterNumber, ServiceCredentials
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.ntf_examples import KEY_HASH, ROUTER, TEST_DEVICE, TOKEN, WEB_DEVICE
from tests.support.ntf_tokens import token_in

OpenRecords: TypeAlias = Callable[[], Awaitable[Records]]
"""Opens the records of one place, each time as they were left."""

NTF_CREDENTIALS = ServiceCredentials(b"certificate", b"private", b"fingerprint")
OUR_SERVICE = ServiceId(b"s" * 24)
OTHER_ROUTER = RouterAddress(("other.example",), None, KEY_HASH)

ACTIVE = token_in(TokenStatus.ACTIVE)
SECOND = replace(ACTIVE, id=bytes(24), device=WEB_DEVICE)


def subscription(
    n: int, token: bytes = TOKEN, router: RouterAddress = ROUTER
) -> NotifierSubscription:
    return NotifierSubscription(bytes([n]) * 24, token, router, bytes([n, n]) * 12, b"key")


def add(tables: Tables, *added: NotifierSubscription) -> RouterNumber:
    """Make these subscriptions, all of one router."""
    number = routers.number_of(tables, added[0].router)
    for each in added:
        subscriptions.put(tables, number, each)
    return number


def accept(tables: Tables, router: RouterNumber, *accepted: NotifierSubscription) -> None:
    """The router has them as ours."""
    notifiers = [each.notifier for each in accepted]
    decide = partial(decisions.accept, service=OUR_SERVICE, ours=OUR_SERVICE)
    subscriptions.change(tables, router, notifiers, decide)


def notice(n: int, seconds: int = 1) -> RouterNotice:
    return RouterNotice(subscription(n).notifier, seconds, bytes([n]) * 24, b"sealed %d" % n)


class NtfRecordsConformance:
    """Subclasses have the fixture `open_records`."""

    @pytest.fixture
    async def records(self, open_records: OpenRecords) -> AsyncIterator[Records]:
        async with await open_records() as records:
            await records.write(tokens.put, ACTIVE)
            yield records

    # Tokens.

    @pytest.mark.parametrize(
        "token",
        [
            ACTIVE,
            SECOND,
            token_in(TokenStatus.INVALID),
            replace(ACTIVE, device=ApnsDevice(Provider.NULL, b"\x00\xff"), interval_minutes=65535),
            replace(ACTIVE, interval_minutes=20, checked_at=1_800_000_000),
        ],
    )
    async def test_a_token_comes_back_as_it_was(self, records: Records, token: Token) -> None:
        """Nothing of a token is lost between two runs."""
        await records.write(tokens.put, token)
        assert await records.read(tokens.get, token.id) == token
        found = await records.read(tokens.of_device, token.device, token.verify_key)
        assert found == token

    async def test_what_was_written_outlives_the_server(self, open_records: OpenRecords) -> None:
        """Whatever a write returned from is there for the next run."""
        async with await open_records() as records:
            await records.write(tokens.put, ACTIVE)
            await records.write(add, subscription(1))
            await records.write(notices.keep, RouterNumber(1), [notice(1)])
        async with await open_records() as records:
            assert await records.read(tokens.get, TOKEN) == ACTIVE
            assert await records.read(subscriptions.get, subscription(1).id) == subscription(1)
            assert len(await records.read(notices.latest, TOKEN)) == 1

    async def test_a_token_is_found_by_device_and_key(self, records: Records) -> None:
        of_device = tokens.of_device
        assert await records.read(of_device, TEST_DEVICE, b"other") is None
        assert await records.read(of_device, WEB_DEVICE, ACTIVE.verify_key) is None
        other = replace(ACTIVE, id=b"o" * 24, verify_key=b"other")
        await records.write(tokens.put, other)
        assert await records.read(of_device, TEST_DEVICE, b"other") == other
        found = await records.read(tokens.all_of_device, TEST_DEVICE)
        assert {each.id for each in found} == {TOKEN, other.id}

    async def test_changes_of_a_token_are_kept(self, records: Records) -> None:
        dead = invalidate(ACTIVE, TEST_DEVICE, InvalidReason.TOPIC)
        await records.write(tokens.put, dead)
        assert await records.read(tokens.get, TOKEN) == dead
        moved = replace(ACTIVE, device=WEB_DEVICE, code=b"c" * 32)
        await records.write(tokens.put, moved)
        assert await records.read(tokens.get, TOKEN) == moved
        assert await records.read(tokens.of_device, TEST_DEVICE, ACTIVE.verify_key) is None

    async def test_one_device_and_key_is_one_token(self, records: Records) -> None:
        with pytest.raises(StoreError):
            await records.write(tokens.put, replace(ACTIVE, id=b"o" * 24))
        assert await records.read(tokens.counts) == {TokenStatus.ACTIVE: 1}

    async def test_tokens_with_an_interval_come_page_by_page(self, records: Records) -> None:
        every = [
            set_interval(replace(ACTIVE, id=bytes([n]) * 24, verify_key=bytes([n])), 20)
            for n in range(5)
        ]
        for token in every:
            await records.write(tokens.put, token)
        first = await records.read(tokens.with_interval, b"", 3)
        rest = await records.read(tokens.with_interval, first[-1].id, 3)
        assert [*first, *rest] == every
        checked = mark_checked(every[0], 7)
        await records.write(tokens.put, checked)
        assert (await records.read(tokens.with_interval, b"", 1)) == [checked]

    # Subscriptions.

    async def test_a_subscription_comes_back_as_it_was(self, records: Records) -> None:
        error = replace(
            subscription(1), status=SubscriptionStatus.ERR, error="\x00 \udcff of a router"
        )
        number = await records.write(add, error)
        assert await records.read(subscriptions.get, error.id) == error
        assert await records.read(subscriptions.of_notifier, number, error.notifier) == error
        assert await records.read(subscriptions.of_notifier, number, b"other") is None
        assert await records.read(subscriptions.held_by, TOKEN) == 1

    async def test_a_subscription_that_is_put_again_is_counted_once(self, records: Records) -> None:
        """There is one of a router and a notifier."""
        await records.write(add, subscription(1))
        moved = RouterAddress((*ROUTER.hosts, "onion.example"), 5223, KEY_HASH)
        await records.write(add, replace(subscription(1), router=moved))
        found = await records.read(subscriptions.get, subscription(1).id)
        assert found is not None
        assert found.router == moved
        assert await records.read(subscriptions.held_by, TOKEN) == 1
        with pytest.raises(StoreError):
            await records.write(add, replace(subscription(1), id=b"o" * 24))

    async def test_two_addresses_of_a_router_are_one(self, records: Records) -> None:
        first = await records.write(routers.number_of, ROUTER)
        capital = RouterAddress(("RELAY.example", "onion.example"), 5223, KEY_HASH)
        assert router_key(capital) == router_key(ROUTER)
        assert await records.write(routers.number_of, capital) == first
        other = await records.write(routers.number_of, OTHER_ROUTER)
        assert other != first
        assert await records.read(routers.find, ROUTER) == first
        assert await records.read(routers.find, RouterAddress(("x",), 1, KEY_HASH)) is None
        record = await records.read(routers.get, first)
        assert record is not None
        assert record.address == capital

    async def test_a_page_has_what_is_wanted(self, records: Records) -> None:
        made = [subscription(n) for n in range(9)]
        number = await records.write(add, *made)
        ended = [made[n].notifier for n in (2, 5)]
        await records.write(subscriptions.change, number, ended, decisions.end)
        await records.write(subscriptions.change, number, [made[3].notifier], decisions.mark_sent)
        left = [each.notifier for n, each in enumerate(made) if n not in (2, 5)]
        page = await records.read(subscriptions.wanted, number, b"", 4)
        rest = await records.read(subscriptions.wanted, number, page[-1].notifier, 4)
        assert [each.notifier for each in (*page, *rest)] == left
        await records.write(accept, number, made[0], made[8])
        page = await records.read(subscriptions.wanted, number, associated=True)
        assert [each.notifier for each in page] == [left[0], left[-1]]
        page = await records.read(subscriptions.wanted, number, associated=False)
        assert [each.notifier for each in page] == left[1:-1]
        assert await records.read(subscriptions.routers_wanted) == [number]
        assert (await records.read(subscriptions.counts))[SubscriptionStatus.END] == 2

    async def test_what_is_being_sent_is_pending(self, records: Records) -> None:
        made = [subscription(n) for n in range(3)]
        number = await records.write(add, *made)
        await records.write(subscriptions.change, number, [made[2].notifier], decisions.end)
        notifiers = [*(each.notifier for each in made), b"nobody's"]
        sent = await records.write(subscriptions.send, number, notifiers)
        assert set(sent) == {made[0].notifier, made[1].notifier}
        assert {each.status for each in sent.values()} == {SubscriptionStatus.PENDING}

    async def test_a_router_of_which_nothing_is_wanted_is_left_alone(
        self, records: Records
    ) -> None:
        number = await records.write(add, subscription(1))
        notifiers = [subscription(1).notifier]
        await records.write(subscriptions.change, number, notifiers, decisions.delete)
        assert await records.read(subscriptions.routers_wanted) == []

    async def test_a_lost_session_makes_single_subscriptions_inactive(
        self, records: Records
    ) -> None:
        """S001-92: neither tally nor service id changes with it."""
        ours, single, new = map(subscription, range(3))
        number = await records.write(add, ours, single, new)
        await records.write(routers.put_credentials, number, NTF_CREDENTIALS)
        await records.write(routers.put_service_id, number, OUR_SERVICE)
        await records.write(accept, number, ours)
        alone = partial(decisions.accept, service=None, ours=OUR_SERVICE)
        await records.write(subscriptions.change, number, [single.notifier], alone)
        before = await records.read(routers.get, number)
        assert await records.write(subscriptions.lose, number) == 1
        assert await records.read(routers.get, number) == before
        found = await records.read(
            subscriptions.of_notifiers, number, [each.notifier for each in (ours, single, new)]
        )
        assert [found[each.notifier].status for each in (ours, single, new)] == [
            SubscriptionStatus.ACTIVE,
            SubscriptionStatus.INACTIVE,
            SubscriptionStatus.NEW,
        ]

    async def test_refused_as_a_service_is_tried_again(self, records: Records) -> None:
        number = await records.write(add, subscription(1), subscription(2))
        notifiers = [subscription(1).notifier]
        refuse = partial(decisions.refuse, error="SERVICE")
        await records.write(subscriptions.change, number, notifiers, refuse)
        [again] = await records.write(subscriptions.retry_services, number)
        assert again.notifier == notifiers[0]
        assert await records.read(subscriptions.counts) == {
            SubscriptionStatus.NEW: 1,
            SubscriptionStatus.PENDING: 1,
        }

    async def test_many_are_changed_in_few_statements(self, records: Records) -> None:
        """The number of statements does not grow with the number of subscriptions."""
        made = [replace(subscription(1), id=b"%024d" % n, notifier=b"%d" % n) for n in range(2000)]
        number = await records.write(add, *made)
        before = records.statements
        await records.write(accept, number, *made)
        assert records.statements - before < 20
        record = await records.read(routers.get, number)
        assert record is not None
        assert record.tally.count == 2000
        assert await records.read(audit) == []

    async def test_a_service_that_is_forgotten_leaves_no_flag(self, records: Records) -> None:
        """Credentials, id, tally and flags of that router go together."""
        made = [subscription(n) for n in range(3)]
        number = await records.write(add, *made)
        elsewhere = subscription(7, router=OTHER_ROUTER)
        other = await records.write(add, elsewhere)
        for each in (number, other):
            await records.write(routers.put_credentials, each, NTF_CREDENTIALS)
            await records.write(routers.put_service_id, each, OUR_SERVICE)
        await records.write(accept, number, *made)
        await records.write(accept, other, elsewhere)
        await records.write(routers.forget_service, number)
        record = await records.read(routers.get, number)
        assert record is not None
        assert (record.credentials, record.service_id, record.tally) == (None, None, NOTHING)
        kept = await records.read(routers.get, other)
        assert kept is not None
        assert (kept.credentials, kept.service_id) == (NTF_CREDENTIALS, OUR_SERVICE)
        assert kept.tally == Tally.of([QueueId(elsewhere.notifier)])
        assert await records.read(audit) == []

    async def test_a_token_goes_with_all_that_it_owns(self, records: Records) -> None:
        """What a removed token subscribed to is not subscribed to any more."""
        await records.write(tokens.put, SECOND)
        stays = subscription(9, SECOND.id)
        made = [subscription(n) for n in range(3)]
        number = await records.write(add, *made, stays)
        await records.write(accept, number, *made, stays)
        await records.write(notices.keep, number, [notice(1), notice(9)])
        await records.write(tokens.remove, TOKEN)
        assert await records.read(tokens.get, TOKEN) is None
        assert await records.read(subscriptions.counts) == {SubscriptionStatus.ACTIVE: 1}
        record = await records.read(routers.get, number)
        assert record is not None
        assert record.tally == Tally.of([QueueId(stays.notifier)])
        assert len(await records.read(notices.latest, SECOND.id)) == 1
        assert await records.read(audit) == []

    async def test_a_subscription_goes_with_its_notice(self, records: Records) -> None:
        number = await records.write(add, subscription(1), subscription(2))
        await records.write(accept, number, subscription(1))
        await records.write(notices.keep, number, [notice(1), notice(2)])
        assert await records.write(subscriptions.remove, subscription(1).id)
        assert not await records.write(subscriptions.remove, subscription(1).id)
        [left] = await records.read(notices.latest, TOKEN)
        assert left.notifier == subscription(2).notifier
        assert await records.read(subscriptions.held_by, TOKEN) == 1
        assert await records.read(audit) == []

    # Notices.

    async def test_the_newest_six_of_a_token_are_kept(self, records: Records) -> None:
        """Of eight queues the six newest are pushed, the newest last."""
        number = await records.write(add, *(subscription(n) for n in range(8)))
        for n in (0, 1, 2, 3, 4, 5, 6, 7, 3):
            [kept] = await records.write(notices.keep, number, [notice(n)])
            assert kept.fate is NoticeFate.PUSHED
            assert kept.token == ACTIVE
        found = await records.read(notices.latest, TOKEN)
        assert [entry.nonce[0] for entry in found] == [2, 4, 5, 6, 7, 3]
        assert found[-1].router == ROUTER.text
        assert found[-1].metadata == b"sealed 3"

    async def test_a_batch_of_notices_is_as_good_as_one_after_another(
        self, records: Records
    ) -> None:
        number = await records.write(add, *(subscription(n) for n in range(8)))
        batch = [notice(n, 7) for n in (3, 0, 1, 2, 3, 4, 5, 6, 7, 3)]
        fates = await records.write(notices.keep, number, batch)
        assert {kept.fate for kept in fates} == {NoticeFate.PUSHED}
        found = await records.read(notices.latest, TOKEN)
        assert [entry.nonce[0] for entry in found] == [2, 4, 5, 6, 7, 3]

    async def test_notices_wait_until_their_push_was_answered(self, records: Records) -> None:
        """What came after the push was made waits on, also in the place of one that was in it."""
        number = await records.write(add, subscription(1), subscription(2))
        await records.write(notices.keep, number, [notice(1), notice(2)])
        newest = await records.read(notices.newest, TOKEN)
        await records.write(notices.keep, number, [notice(2)])
        await records.write(notices.settle, [(TOKEN, newest)])
        waiting = await records.read(notices.owners_waiting, b"", 10)
        assert [token.id for token in waiting] == [TOKEN]
        assert await records.read(notices.owners_waiting, TOKEN, 10) == []
        newest = await records.read(notices.newest, TOKEN)
        await records.write(notices.settle, [(TOKEN, newest)])
        assert await records.read(notices.owners_waiting, b"", 10) == []

    async def test_notices_for_nobody_are_not_kept(self, records: Records) -> None:
        waits = replace(SECOND, status=TokenStatus.CONFIRMED)
        await records.write(tokens.put, waits)
        number = await records.write(add, subscription(1, waits.id))
        fates = await records.write(notices.keep, number, [notice(1), notice(2)])
        assert [each.fate for each in fates] == [NoticeFate.INACTIVE, NoticeFate.NO_TOKEN]
        assert [each.token for each in fates] == [None, None]
        assert await records.read(notices.latest, waits.id) == []

    # Transactions.

    async def test_a_job_that_raises_leaves_no_trace(self, records: Records) -> None:
        def put_and_raise(tables: Tables) -> None:
            tokens.put(tables, SECOND)
            raise Unauthorised

        _, added, _ = await asyncio.gather(
            records.write(put_and_raise),
            records.write(add, subscription(1)),
            records.write(put_and_raise),
            return_exceptions=True,
        )
        assert isinstance(added, int)
        assert await records.read(tokens.get, SECOND.id) is None
        assert await records.read(subscriptions.held_by, TOKEN) == 1

    async def test_another_server_is_refused(
        self, records: Records, open_records: OpenRecords
    ) -> None:
        with pytest.raises(StoreError, match="another notification server uses it"):
            await open_records()


anything = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=25)
"""Steps of which each may happen at any time."""


async def play(open_records: OpenRecords, steps: list[tuple[int, int]]) -> None:
    """Take the steps in an empty store, and recount after each of them."""
    async with await open_records() as records:
        await records.write(empty)
        for kind, n in steps:
            with suppress(StoreError):
                await records.write(step, kind, n)
            assert await records.read(audit) == []


def empty(tables: Tables) -> None:
    for table in ("tokens", "routers", "subscriptions", "notices"):
        tables.change(f"DELETE FROM {table}")


def step(tables: Tables, kind: int, n: int) -> None:
    """Something that happens to a subscription, its token or its router."""
    router = ROUTER if n % 2 else OTHER_ROUTER
    number = routers.number_of(tables, router)
    notifiers = [subscription(each).notifier for each in (n, (n + 2) % 6)]
    single = partial(decisions.accept, service=None, ours=OUR_SERVICE)
    match kind:
        case 0 | 1:
            owner = ACTIVE.id if n < 3 else SECOND.id
            if tokens.get(tables, owner) is None:
                tokens.put(tables, ACTIVE if n < 3 else SECOND)
            add(tables, subscription(n, owner, router))
        case 2:
            accept(tables, number, subscription(n), subscription((n + 2) % 6))
        case 3:
            subscriptions.change(tables, number, notifiers, single)
        case 4:
            subscriptions.change(tables, number, notifiers, decisions.end)
        case 5:
            subscriptions.remove(tables, subscription(n).id)
        case 6:
            tokens.remove(tables, ACTIVE.id if n < 3 else SECOND.id)
        case 7:
            routers.forget_service(tables, number)
        case _:
            subscriptions.lose(tables, number)
