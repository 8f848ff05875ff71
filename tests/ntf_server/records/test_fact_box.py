"""Facts of the records: in the transaction of what they say, numbered, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import name_of
from headgate.core.ntf_facts import NTF_KINDS, NoticesCounted, TokenRegistered
from headgate.errors import StoreError
from headgate.journal.codec import decode_facts
from headgate.notify.subscriptions import NotifierSubscription, accept, end
from headgate.notify.tokens import Token, invalidate
from headgate.ntf_server.records import Records, Tables, outbox, routers, subscriptions, tokens
from headgate.ntf_server.records.fact_box import FactBox
from headgate.ntf_server.records.routers import ServiceCredentials
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from tests.support.ntf_examples import NOTIFIER_PRIVATE, ROUTER, SUBSCRIPTION
from tests.support.ntf_tokens import token_in
from tests.support.smp_examples import NOTIFIER

OWNER = token_in(TokenStatus.ACTIVE)
MADE = NotifierSubscription(SUBSCRIPTION, OWNER.id, ROUTER, NOTIFIER, NOTIFIER_PRIVATE)
AT = 1_700_000_000.0
TOKEN_NAME, NOTIFIER_NAME = name_of(QueueId(OWNER.id)), name_of(QueueId(NOTIFIER))
WHERE = "relay.example:5223"


@pytest.fixture(params=["sqlite", "postgresql"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records]:
    url = "sqlite:ntf.db" if request.param == "sqlite" else request.getfixturevalue("url")
    async with await Records.open(url, tmp_path) as records:
        records.box.clock = lambda: AT
        await records.keep_facts(0)
        yield records


def rows(tables: Tables) -> list[tuple[int, int, bytes]]:
    found = tables.ask("SELECT first, last, facts FROM outbox ORDER BY first")
    return [(first, last, bytes(facts)) for first, last, facts in found]


async def recorded(records: Records) -> list[list[object]]:
    """All facts that are stored, and gone from there afterwards."""
    found = await records.read(rows)
    numbers = [each for first, last, _ in found for each in range(first, last + 1)]
    facts = [list(fact) for _, _, blob in found for fact in decode_facts(blob)]
    assert len(numbers) == len(facts)
    assert numbers == sorted(set(numbers))
    if found:
        assert records.box.watermark == numbers[-1]
        await records.write(outbox.remove_sealed, numbers[-1])
        records.box.sealed(numbers[-1])
    assert records.box.bytes == 0
    return facts


def add_token(tables: Tables, token: Token) -> None:
    tokens.put(tables, token)
    tokens.record(tables, None, token)


async def test_what_happens_to_a_token_is_recorded(records: Records) -> None:
    await records.write(add_token, OWNER)
    dead = partial(invalidate, device=OWNER.device, reason=InvalidReason.UNREGISTERED)
    await records.write(tokens.change, OWNER.id, dead)
    await records.write(tokens.change, OWNER.id, lambda token: token)
    await records.write(tokens.remove, OWNER.id)
    await records.write(tokens.remove, OWNER.id)
    assert await recorded(records) == [
        ["TokenRegistered", AT, TOKEN_NAME, "apns_test"],
        ["TokenChanged", AT, TOKEN_NAME, "apns_test", "INVALID,UNREGISTERED"],
        ["TokenRemoved", AT, TOKEN_NAME, 0],
    ]


async def test_what_happens_to_a_subscription_is_recorded(records: Records) -> None:
    def subscribe(tables: Tables) -> None:
        subscriptions.put(tables, routers.number_of(tables, ROUTER), MADE)

    await records.write(add_token, OWNER)
    await records.write(subscribe)
    number = await records.write(routers.number_of, ROUTER)
    change = partial(subscriptions.change, router=number, notifiers=[NOTIFIER])
    active = partial(accept, service=None, ours=b"ours")
    await records.write(subscriptions.send, number, [NOTIFIER])
    await records.write(change, decide=active)
    await records.write(subscriptions.lose, number)
    await records.write(subscriptions.lose, number)
    await records.write(change, decide=active)
    await records.write(change, decide=end)
    await records.write(subscribe)
    await records.write(subscriptions.remove, MADE.id)
    assert (await recorded(records))[1:] == [
        ["NotifierAdded", AT, NOTIFIER_NAME, TOKEN_NAME, WHERE],
        ["NotifiersActive", AT, WHERE, 1],
        ["NotifiersLost", AT, WHERE, 1],
        ["NotifiersActive", AT, WHERE, 1],
        ["NotifierEnded", AT, NOTIFIER_NAME, WHERE, SubscriptionStatus.END.value],
        ["NotifierAdded", AT, NOTIFIER_NAME, TOKEN_NAME, WHERE],
        ["NotifierRemoved", AT, NOTIFIER_NAME, WHERE],
    ]


async def test_a_service_that_is_given_up_is_recorded(records: Records) -> None:
    number = await records.write(routers.number_of, ROUTER)
    await records.write(routers.forget_service, number)
    credentials = ServiceCredentials(b"certificate", b"key", b"print")
    await records.write(routers.put_credentials, number, credentials)
    await records.write(routers.forget_service, number)
    assert await recorded(records) == [["ServiceForgotten", AT, WHERE, 0]]


async def test_a_job_that_fails_leaves_no_fact(records: Records) -> None:
    def fail(tables: Tables) -> None:
        add_token(tables, OWNER)
        raise StoreError("not now")

    failing = [records.write(fail), records.write(add_token, OWNER), records.write(fail)]
    done = await asyncio.gather(*failing, return_exceptions=True)
    assert [isinstance(each, StoreError) for each in done] == [True, False, True]
    assert [fact[0] for fact in await recorded(records)] == ["TokenRegistered"]
    assert await records.read(tokens.get, OWNER.id) == OWNER


async def test_numbers_go_on_after_what_is_sealed_and_what_is_not(
    records: Records, tmp_path: Path
) -> None:
    await records.write(outbox.add, NoticesCounted(AT, "pushed", 1), NoticesCounted(AT, "x", 2))
    again = FactBox()
    last, size = await records.read(outbox.unsealed)
    again.start(max(last, 1), size)
    assert (again.last, again.bytes) == (2, records.box.bytes)
    row = again.row([NoticesCounted(AT, "pushed", 1)])
    assert row is not None
    assert (row.first, row.last) == (3, 3)
    again.sealed(2)
    assert again.bytes == 0


async def test_without_a_journal_nothing_is_recorded(tmp_path: Path) -> None:
    async with await Records.open("sqlite:ntf.db", tmp_path) as records:
        await records.write(add_token, OWNER)
        assert await records.read(rows) == []


def test_what_has_no_room_is_counted_and_dropped() -> None:
    """An app is not refused because a journal cannot be written."""
    box = FactBox(bytes_max=10)
    box.start(0, 0)
    fact = TokenRegistered(AT, b"t" * 16, "null")
    row = box.row([fact])
    assert row is not None
    box.stored(row)
    assert box.is_full
    assert box.row([fact, fact]) is None
    assert (box.dropped, box.last) == (2, 1)
    box.sealed(row.last)
    assert box.row([fact]) is not None


def test_no_fact_can_hold_a_device_or_a_key() -> None:
    """Their fields are these, and bytes are digests of tokens and notifiers."""
    named = {field.name: str(field.type) for kind in NTF_KINDS for field in fields(kind)}
    assert {name for name, type_ in named.items() if "bytes" in type_} == {"token", "notifier"}
    assert set(named) == {
        *("at", "version", "token", "notifier", "provider", "status", "count", "router"),
        *("fate", "push", "outcome", "drift"),
    }
