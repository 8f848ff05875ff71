"""What outlives a restart of the router: queues, messages with all that was said of them, and what
each app has confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.facts import Expired, QueueCreated, Repeated
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import KiB
from headgate.core.model.message import Declared, PropertyValue
from headgate.core.model.property_type import PropertyType
from headgate.wire.bmq.codec.control import (
    Category,
    ConfigureStreamResponse,
    OpenQueueResponse,
    Status,
)
from headgate.wire.bmq.codec.messages import AckStatus, Confirmation
from headgate.wire.bmq.requests import READ, WRITE
from tests.support.bmq_raw import RawClient, Wants, bodies, numbers
from tests.support.bmq_raw_router import Rig, StartRig, domain
from tests.support.bmq_raw_router import start_rig as start_rig

WORK, FAN = "bmq://work/q", "bmq://fan/q"
SQLITE = "sqlite:headgate.db"
APPS = ("foo", "bar")


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    """On SQLite."""
    return await start_rig(url=SQLITE)


async def writer(rig: Rig, uri: str = WORK) -> RawClient:
    client = await rig.connect()
    assert isinstance(await client.open(uri, 0, WRITE), OpenQueueResponse)
    return client


async def reader(rig: Rig, *wanted: Wants, uri: str = WORK) -> RawClient:
    client = await rig.connect()
    app = uri.partition("?id=")[2]
    assert isinstance(await client.open(uri, 0, READ, int(bool(app))), OpenQueueResponse)
    answer = await client.configure(*(wanted or (Wants(),)), app=app or "__default")
    assert isinstance(answer, ConfigureStreamResponse)
    return client


async def test_messages_outlive_a_restart_in_their_order(rig: Rig) -> None:
    """BMQ-64: what was delivered and not confirmed as well, and what was confirmed not."""
    sender, client = await writer(rig), await reader(rig, Wants(messages=3))
    large = bytes(range(256)) * KiB
    await sender.post_all(*(b"%d" % number for number in range(5)), large)
    first, _, third = await client.take(3)
    client.confirm(first, third)
    await client.fence()
    taken = await client.take(2)
    assert bodies(taken) == [b"3", b"4"]
    await rig.restart()
    client = await reader(rig)
    assert bodies(await client.given()) == [b"1", b"3", b"4", large]
    assert rig.queue(WORK)["bytes"] == 3 + len(large)


async def test_properties_keep_their_types_and_their_order(rig: Rig) -> None:
    """BMQ-14, S003-4: as they were declared by whoever sent them."""
    values: dict[str, PropertyValue] = {
        "b": True, "a": -5, "s": -300, "i": 2**31 - 1, "l": -(2**63), "t": "tëxt", "empty": "",
        "bin": b"\xff\0",
    }  # fmt: skip
    kinds = [
        PropertyType.BOOL, PropertyType.CHAR, PropertyType.SHORT, PropertyType.INT32,
        PropertyType.INT64, PropertyType.STRING, PropertyType.STRING, PropertyType.BINARY,
    ]  # fmt: skip
    declared = Declared(values, bytes(kinds))
    sender = await writer(rig)
    put = sender.put(b"body", declared)
    sender.send_puts([put])
    assert await sender.acked([put]) == [AckStatus.SUCCESS]
    await rig.restart()
    wanted = Wants('a == -5 && t > "t" && !exists(bin)')
    [message] = await (await reader(rig, wanted)).given()
    assert list(message.properties.items()) == list(values.items())
    assert isinstance(message.properties, Declared)
    assert message.properties.types == bytes(kinds)
    assert message.guid == put.guid


async def test_expressions_find_what_was_stored_before_a_restart(rig: Rig) -> None:
    """BMQ-24, BMQ-25, BMQ-64."""
    sender, client = await writer(rig), await reader(rig, Wants("x > 5"))
    await sender.post_numbers([1, 6, 2, 7])
    client.confirm(*await client.take(2))
    await client.fence()
    await rig.restart()
    assert numbers(await (await reader(rig, Wants("x == 2"))).given()) == [2]
    assert numbers(await (await reader(rig, Wants("x < 5"))).given()) == [1]


async def test_each_app_keeps_what_it_has_not_confirmed(rig: Rig) -> None:
    """BMQ-72, BMQ-73: whether or not anybody ever read it."""
    sender, foo = await writer(rig, FAN), await reader(rig, uri=FAN + "?id=foo")
    await sender.post_numbers([1, 2, 3])
    given = await foo.take(3)
    foo.confirm(given[0], given[2], sub=1)
    await foo.fence()
    await rig.restart()
    foo, bar = [await reader(rig, uri=f"{FAN}?id={app}") for app in APPS]
    assert numbers(await foo.given()) == [2]
    given = await bar.given()
    assert numbers(given) == [1, 2, 3]
    bar.confirm(*given, sub=1)
    await bar.fence()
    assert rig.queue(FAN)["messages"] == 1


async def test_what_an_app_refused_stays_refused(start_rig: StartRig) -> None:
    """BMQ-63, BMQ-64, S003-12."""
    filters = {"foo": "x == 1", "bar": "x > 2"}
    rig = await start_rig(url=SQLITE, domains=[domain("fan", Mode.FANOUT, filters, apps=APPS)])
    sender = await writer(rig, FAN)
    await sender.post_numbers([1, 2, 3, 4])
    await rig.restart()
    foo = await reader(rig, uri=FAN + "?id=foo")
    bar = await reader(rig, Wants("x > 3"), uri=FAN + "?id=bar")
    assert numbers(await foo.given()) == [1]
    assert numbers(await bar.given()) == [4]
    assert rig.queue(FAN)["messages"] == 3


async def test_an_id_is_remembered_over_a_restart(rig: Rig) -> None:
    """BMQ-59: whoever did not see its acknowledgement posts again, and it is one message still."""
    sender = await writer(rig)
    puts = [sender.put(b"%d" % number) for number in range(3)]
    sender.send_puts(puts)
    assert await sender.acked(puts) == [AckStatus.SUCCESS] * 3
    await rig.restart()
    sender = await writer(rig)
    sender.send_puts(puts)
    assert await sender.acked(puts) == [AckStatus.SUCCESS] * 3
    assert len(rig.facts_of(Repeated)) == 3
    assert bodies(await (await reader(rig)).given()) == [b"0", b"1", b"2"]


async def test_queues_and_quotas_are_counted_again(start_rig: StartRig) -> None:
    """BMQ-82, BMQ-83: the limits of a domain hold for what was there before."""
    limited = Domain("work", Mode.PRIORITY, max_queues=2, max_messages=2, domain_max_messages=3)
    rig = await start_rig(url=SQLITE, domains=[limited])
    sender = await rig.connect()
    for number in range(2):
        await sender.open(f"bmq://work/q{number}", number, WRITE)
    await sender.post_all(b"a", b"b")
    await rig.restart()
    sender = await rig.connect()
    for number in range(2):
        answer = await sender.open(f"bmq://work/q{number}", number, WRITE)
        assert isinstance(answer, OpenQueueResponse)
    refused = await sender.open("bmq://work/q2", 2, WRITE)
    assert isinstance(refused, Status)
    assert refused.category is Category.REFUSED
    assert await sender.post(b"c") is AckStatus.LIMIT_MESSAGES
    assert await sender.post(b"c", queue=1) is AckStatus.SUCCESS
    assert await sender.post(b"d", queue=1) is AckStatus.LIMIT_MESSAGES
    assert len(rig.facts_of(QueueCreated)) == 2


async def test_what_grew_old_while_the_router_was_down_is_removed(start_rig: StartRig) -> None:
    """BMQ-87: and not what did not."""
    now = 1_700_000_000.0
    short = Domain("work", Mode.PRIORITY, message_ttl=100.0)
    rig = await start_rig(url=SQLITE, domains=[short], clock=lambda: now)
    sender = await writer(rig)
    await sender.post_all(b"old")
    now += 60
    await sender.post_all(b"new")
    now += 60
    await rig.restart()
    client = await reader(rig, Wants("x == 1"))
    await rig.fact(Expired)
    await client.configure(Wants())
    assert bodies(await client.given()) == [b"new"]


async def test_a_broadcast_leaves_nothing_behind(rig: Rig) -> None:
    """BMQ-78."""
    sender = await writer(rig, "bmq://news/q")
    await sender.post_all(b"gone")
    await rig.restart()
    client = await reader(rig, uri="bmq://news/q")
    assert await client.given() == []


async def test_what_was_confirmed_in_the_same_breath_as_the_goodbye_does_not_come_back(
    rig: Rig,
) -> None:
    sender, client = await writer(rig), await reader(rig)
    await sender.post_all(b"one", b"two", b"three")
    one, two, _ = await client.take(3)
    client.send_confirms([Confirmation(0, one.guid, 0), Confirmation(0, two.guid, 0)])
    await client.disconnect()
    client.leave()
    await rig.restart()
    assert bodies(await (await reader(rig)).given()) == [b"three"]


async def test_an_empty_queue_is_still_a_queue(rig: Rig, tmp_path: Path) -> None:
    await writer(rig)
    await rig.restart()
    await writer(rig)
    assert len(rig.facts_of(QueueCreated)) == 1
    assert (tmp_path / "headgate.db").exists()
