"""Subscriptions of consumers over the wire, with expressions, which the official client has no
words for."""

from __future__ import annotations

import pytest

from headgate.core.facts import PutAside
from headgate.core.model.domain import Mode
from headgate.wire.bmq.codec.control import (
    Category,
    ConfigureStream,
    ConfigureStreamResponse,
    ConsumerInfo,
    ConsumerSubscription,
    Content,
    ControlMessage,
    Expression,
    Status,
    StreamParameters,
)
from headgate.wire.bmq.codec.control_encoding import encode_control
from headgate.wire.bmq.codec.frames import Encoding, EventType, event
from headgate.wire.bmq.codec.messages import encode_puts
from headgate.wire.bmq.requests import READ, WRITE
from tests.support.bmq_raw import RawClient, Wants, bodies, numbers
from tests.support.bmq_raw_router import Rig, StartRig, domain
from tests.support.bmq_raw_router import rig as rig
from tests.support.bmq_raw_router import start_rig as start_rig

QUEUE = "bmq://work/q"


async def consumer(rig: Rig, *wanted: Wants, uri: str = QUEUE) -> RawClient:
    """A client that reads a queue with these subscriptions."""
    client = await rig.connect()
    await opened(client, uri, READ, sub=1 if "?" in uri else 0)
    app = uri.partition("?id=")[2] or "__default"
    assert is_done(await client.configure(*wanted, app=app))
    return client


async def producer(rig: Rig, uri: str = QUEUE) -> RawClient:
    client = await rig.connect()
    await opened(client, uri, WRITE)
    return client


async def opened(client: RawClient, uri: str, flags: int, sub: int = 0) -> None:
    response = await client.open(uri, 0, flags, sub)
    assert not isinstance(response, Status), response.message


def is_done(content: Content) -> bool:
    return isinstance(content, ConfigureStreamResponse)


def refusal(content: Content) -> Category:
    assert isinstance(content, Status)
    return content.category


# Expressions.


@pytest.mark.parametrize("encoding", Encoding, ids=lambda encoding: encoding.name)
async def test_only_what_matches_arrives_and_in_order(rig: Rig, encoding: Encoding) -> None:
    """BMQ-1, S003-4, S003-14: whichever way the client writes its requests."""
    client = await rig.connect()
    client.encoding = encoding
    await opened(client, QUEUE, READ | WRITE)
    assert is_done(await client.configure(Wants("x <= 1", id=7)))
    await client.post_numbers([0, 1, 2])
    given = await client.given()
    assert numbers(given) == [0, 1]
    assert {message.subscription for message in given} == {7}
    assert [dict(message.properties) for message in given] == [{"x": 0}, {"x": 1}]


async def test_no_expression_is_everything_and_brings_the_backlog_back(rig: Rig) -> None:
    """BMQ-2, S003-1, S003-23."""
    reader, writer = await consumer(rig, Wants()), await producer(rig)
    await writer.post_numbers([1, 2])
    assert numbers(await reader.given()) == [1, 2]
    assert is_done(await reader.configure(Wants("x < 0")))
    await writer.post_numbers([3, 4])
    assert await reader.given() == []
    assert is_done(await reader.configure(Wants()))
    assert numbers(await reader.given()) == [3, 4]


async def test_no_subscription_at_all_stops_what_comes(rig: Rig) -> None:
    """BMQ-2: it is how a consumer says that it is about to close the queue."""
    reader, writer = await consumer(rig, Wants()), await producer(rig)
    assert is_done(await reader.configure())
    await writer.post_numbers([1])
    assert await reader.given() == []
    assert rig.queue(QUEUE)["apps"][""]["undelivered"] == 1


@pytest.mark.parametrize("valid_first", [True, False], ids=["valid first", "empty first"])
async def test_an_empty_text_is_refused_with_all_that_came_with_it(
    rig: Rig, valid_first: bool
) -> None:
    """BMQ-3: and the subscriptions of before stay, with their numbers."""
    reader, writer = await consumer(rig, Wants("x == 1", id=5)), await producer(rig)
    both = [Wants("x == 2", id=6), Wants("", id=7)]
    reply = await reader.configure(*(both if valid_first else both[::-1]))
    assert refusal(reply) is Category.INVALID_ARGUMENT
    await writer.post_numbers([1, 2])
    [message] = await reader.given()
    assert (message.body, message.subscription) == (b"1", 5)


@pytest.mark.parametrize(
    "text",
    [
        " ", "()", "((true)", "x > ", "x x", "&&", " && 1 > 0", "() && 1 > 0", "true && (>>)",
        "x = 1", "x == 1 and y == 2", "x <> 1", "x == 9223372036854775808", "1 == 1", "x == 'a'",
        "\0", "x == \"", "é == 1",
    ],
)  # fmt: skip
async def test_what_is_no_expression_is_refused_and_changes_nothing(rig: Rig, text: str) -> None:
    """BMQ-4, BMQ-6, BMQ-18, BMQ-19: with the place of the mistake."""
    reader, writer = await consumer(rig, Wants("x == 1")), await producer(rig)
    reply = await reader.configure(Wants("x >= 0"), Wants(text))
    assert refusal(reply) is Category.INVALID_ARGUMENT
    assert isinstance(reply, Status)
    assert "at offset " in reply.message
    await writer.post_numbers([1, 2])
    assert numbers(await reader.given()) == [1]


async def test_what_is_neither_true_nor_false_matches_nothing(rig: Rig) -> None:
    """BMQ-5."""
    reader, writer = await consumer(rig, Wants("x"), Wants("x + 33")), await producer(rig)
    await writer.post_numbers([0, 1])
    assert await reader.given() == []
    assert rig.queue(QUEUE)["apps"][""]["put_aside"] == 2


async def test_an_expression_of_another_version_is_refused(rig: Rig) -> None:
    reader, writer = await consumer(rig, Wants("x == 1")), await producer(rig)
    everything = (ConsumerInfo(10, 1000, 0, 1),)
    for expression in (Expression(2, "x == 2"), Expression(0, "x == 2"), Expression(-1, "")):
        wrong = StreamParameters("__default", (ConsumerSubscription(1, expression, everything),))
        assert refusal(await reader.ask(ConfigureStream(0, wrong))) is Category.INVALID_ARGUMENT
    await writer.post_numbers([1, 2])
    assert numbers(await reader.given()) == [1]


# What is put aside.


async def test_what_nobody_wants_does_not_hold_up_the_rest(rig: Rig) -> None:
    """BMQ-23, S003-15, S003-18: it waits in the queue."""
    reader, writer = await consumer(rig, Wants("x > 10")), await producer(rig)
    await writer.post_numbers([1, 11, 2, 12])
    assert numbers(await reader.given()) == [11, 12]
    assert len(rig.facts_of(PutAside)) == 2
    assert rig.queue(QUEUE)["apps"][""]["put_aside"] == 2


async def test_a_new_consumer_receives_what_nobody_wanted_oldest_first(rig: Rig) -> None:
    """BMQ-24, S003-16."""
    first, writer = await consumer(rig, Wants("x > 10")), await producer(rig)
    await writer.post_numbers([3, 11, 1, 12, 2])
    assert numbers(await first.given()) == [11, 12]
    second = await consumer(rig, Wants("x < 10"))
    await writer.post_numbers([0])
    assert numbers(await second.given()) == [3, 1, 2, 0]
    assert await first.given() == []


async def test_a_wider_expression_brings_the_backlog_and_nothing_confirmed(rig: Rig) -> None:
    """BMQ-25, S003-22, S003-23."""
    reader, writer = await consumer(rig, Wants("x > 10")), await producer(rig)
    await writer.post_numbers([1, 11, 2, 12])
    first = await reader.given()
    reader.confirm(*first)
    assert is_done(await reader.configure(Wants("x > 1")))
    await writer.post_numbers([3])
    assert numbers(await reader.given()) == [2, 3]
    assert rig.queue(QUEUE)["messages"] == 3


# Who gets what.


async def test_subscriptions_that_do_not_overlap_split_the_stream(rig: Rig) -> None:
    """BMQ-26, S003-3: each in order."""
    small = await consumer(rig, Wants("x < 10"))
    large = await consumer(rig, Wants("x >= 10"))
    writer = await producer(rig)
    await writer.post_numbers([5, 15, 4, 14, 3, 13])
    assert numbers(await small.given()) == [5, 4, 3]
    assert numbers(await large.given()) == [15, 14, 13]


async def test_the_higher_priority_has_everything_until_it_is_the_lower(rig: Rig) -> None:
    """BMQ-27."""
    high = await consumer(rig, Wants("x >= 0", priority=10))
    low = await consumer(rig, Wants("x >= 0", priority=5))
    writer = await producer(rig)
    await writer.post_numbers([1, 2])
    assert (numbers(await high.given()), await low.given()) == ([1, 2], [])
    assert is_done(await high.configure(Wants("x >= 0", priority=1)))
    await writer.post_numbers([3, 4])
    assert (await high.given(), numbers(await low.given())) == ([], [3, 4])


async def test_an_overlap_goes_to_the_higher_priority(rig: Rig) -> None:
    """BMQ-28, S003-30."""
    high = await consumer(rig, Wants("x >= 1000", priority=5))
    low = await consumer(rig, Wants("x >= 0", priority=1))
    writer = await producer(rig)
    await writer.post_numbers([1, 1000, 2, 2000, -1])
    assert numbers(await high.given()) == [1000, 2000]
    assert numbers(await low.given()) == [1, 2]


async def test_a_consumer_may_have_256_subscriptions(rig: Rig) -> None:
    """BMQ-29: each message once, and with the number of its own."""
    wanted = [Wants(f"x == {number}", id=10_000 + number) for number in range(256)]
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers(range(257))
    given = await reader.given()
    assert numbers(given) == list(range(256))
    assert [each.subscription for each in given] == list(range(10_000, 10_256))
    reader.confirm(*given)
    await reader.fence()
    assert rig.queue(QUEUE)["messages"] == 1


async def test_several_matching_subscriptions_make_one_delivery(rig: Rig) -> None:
    """BMQ-30, S003-27."""
    wanted = [Wants("x > 0", id=1), Wants("x > 1", id=2), Wants(id=3)]
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers([1, 2, 3])
    assert numbers(await reader.given()) == [1, 2, 3]


async def test_several_expressions_are_or(rig: Rig) -> None:
    """BMQ-31, S003-26: and the number says which was true."""
    wanted = [Wants("x == 1", id=11), Wants("x == 3", id=33)]
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers([1, 2, 3])
    given = await reader.given()
    assert [(each.body, each.subscription) for each in given] == [(b"1", 11), (b"3", 33)]


async def test_each_subscription_has_its_own_priority(rig: Rig) -> None:
    """BMQ-32, S003-24."""
    first = await consumer(rig, Wants("x < 10", priority=2), Wants("x >= 10", priority=1))
    second = await consumer(rig, Wants("x < 10", priority=1), Wants("x >= 10", priority=2))
    writer = await producer(rig)
    await writer.post_numbers([1, 11, 2, 12])
    assert numbers(await first.given()) == [1, 2]
    assert numbers(await second.given()) == [11, 12]


async def test_a_removed_subscription_stops_at_once_and_can_still_be_confirmed(rig: Rig) -> None:
    """BMQ-33."""
    wanted = Wants("x == 1"), Wants("x == 2")
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers([1, 2])
    [one, two] = await reader.given()
    assert is_done(await reader.configure(Wants("x == 2")))
    await writer.post_numbers([1, 2])
    assert numbers(await reader.given()) == [2]
    assert rig.queue(QUEUE)["apps"][""]["unconfirmed"] == 3
    reader.confirm(one, two)
    await reader.fence()
    assert rig.queue(QUEUE)["apps"][""]["unconfirmed"] == 1
    assert rig.queue(QUEUE)["messages"] == 2


async def test_below_filtered_consumers_one_without_gets_what_they_do_not_match(
    rig: Rig,
) -> None:
    """BMQ-34."""
    filtered = await consumer(rig, Wants("x > 1", priority=1))
    everything = await consumer(rig, Wants())
    writer = await producer(rig)
    await writer.post_numbers([1, 2, 3])
    assert numbers(await filtered.given()) == [2, 3]
    assert numbers(await everything.given()) == [1]


async def test_a_message_without_properties_reaches_only_those_who_ask_for_none(
    rig: Rig,
) -> None:
    """BMQ-35."""
    one = await consumer(rig, Wants("x > 0", priority=3), Wants("!(x > 0)", priority=2))
    other = await consumer(rig, Wants("!exists(x)", priority=1))
    writer = await producer(rig)
    await writer.post_all(b"first")
    assert bodies(await other.given()) == [b"first"]
    assert is_done(await other.configure(Wants("x > 5")))
    await writer.post_all(b"second")
    assert await other.given() == []
    assert is_done(await other.configure(Wants()))
    assert bodies(await other.given()) == [b"second"]
    assert await one.given() == []


async def test_each_group_has_its_own_rotation(rig: Rig) -> None:
    """BMQ-37: messages of one do not move the turn of the other."""
    wanted = Wants("x < 10"), Wants("x >= 10")
    readers = [await consumer(rig, *wanted) for _ in range(2)]
    writer = await producer(rig)
    await writer.post_numbers([1, 11, 12, 13, 2, 3, 14, 4])
    first, second = [numbers(await reader.given()) for reader in readers]
    assert [n for n in first if n < 10] == [1, 3]
    assert [n for n in second if n < 10] == [2, 4]
    assert [n for n in first if n >= 10] == [11, 13]
    assert [n for n in second if n >= 10] == [12, 14]


# Windows.


async def test_when_all_are_full_the_oldest_goes_to_whoever_confirms(rig: Rig) -> None:
    """BMQ-40."""
    readers = [await consumer(rig, Wants("x >= 0", messages=1)) for _ in range(2)]
    writer = await producer(rig)
    await writer.post_numbers(range(5))
    [zero], [one] = [await reader.given() for reader in readers]
    assert (numbers([zero]), numbers([one])) == ([0], [1])
    readers[1].confirm(one)
    assert numbers(await readers[1].given()) == [2]
    readers[0].confirm(zero)
    assert numbers(await readers[0].given()) == [3]


async def test_a_full_subscription_does_not_stop_the_other_of_its_consumer(rig: Rig) -> None:
    """BMQ-48."""
    wanted = Wants("x < 10", messages=1), Wants("x >= 10")
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers([1, 2, 11, 3, 12])
    given = await reader.given()
    assert numbers(given) == [1, 11, 12]
    reader.confirm(given[0])
    assert numbers(await reader.given()) == [2]


async def test_a_window_of_nothing_pauses_one_subscription(rig: Rig) -> None:
    """BMQ-46: until it is raised."""
    wanted = Wants("x < 10", messages=0), Wants("x >= 10")
    reader, writer = await consumer(rig, *wanted), await producer(rig)
    await writer.post_numbers([1, 11])
    assert numbers(await reader.given()) == [11]
    assert is_done(await reader.configure(Wants("x < 10"), Wants("x >= 10")))
    assert numbers(await reader.given()) == [1]


# Apps.


async def test_expressions_of_app_and_consumer_are_and(start_rig: StartRig) -> None:
    """BMQ-63, S003-12: what only the app wants waits, until a consumer wants it too."""
    filters = {"foo": "x == 1", "bar": "x > 2"}
    rig = await start_rig(domains=[domain("fan", Mode.FANOUT, filters, apps=("foo", "bar"))])
    foo = await consumer(rig, Wants("x == 2"), uri="bmq://fan/q?id=foo")
    bar = await consumer(rig, Wants("x > 3"), uri="bmq://fan/q?id=bar")
    writer = await producer(rig, "bmq://fan/q")
    await writer.post_numbers([1, 2, 3, 4])
    assert await foo.given() == []
    [four] = await bar.given()
    assert four.body == b"4"
    bar.confirm(four, sub=1)
    await bar.fence()
    assert rig.queue("bmq://fan/q")["messages"] == 2
    assert is_done(await bar.configure(Wants("x > 2"), app="bar"))
    [three] = await bar.given()
    assert three.body == b"3"
    bar.confirm(three, sub=1)
    await bar.fence()
    assert rig.queue("bmq://fan/q")["messages"] == 1


async def test_one_client_reads_two_apps_with_expressions_of_their_own(rig: Rig) -> None:
    """BMQ-72, S003-9: what is confirmed for one is not for the other."""
    client, writer = await rig.connect(), await producer(rig, "bmq://fan/q")
    await opened(client, "bmq://fan/q?id=foo", READ, sub=1)
    await opened(client, "bmq://fan/q?id=bar", READ, sub=2)
    assert is_done(await client.configure(Wants("x < 3", id=1), app="foo"))
    assert is_done(await client.configure(Wants("x > 1", id=2), app="bar"))
    await writer.post_numbers([1, 2, 3])
    given = await client.given()
    assert sorted((each.subscription, int(each.body)) for each in given) == [
        (1, 1), (1, 2), (2, 2), (2, 3),
    ]  # fmt: skip
    client.confirm(*(each for each in given if each.subscription == 1), sub=1)
    await client.fence()
    apps = rig.queue("bmq://fan/q")["apps"]
    assert {name: row["unconfirmed"] for name, row in apps.items()} == {"foo": 0, "bar": 2}


async def test_an_expression_filters_a_broadcast(rig: Rig) -> None:
    """BMQ-78, BMQ-80: at that moment, and once for each consumer."""
    low = await consumer(rig, Wants("x < 10"), Wants("x < 5"), uri="bmq://news/q")
    high = await consumer(rig, Wants("x >= 5"), uri="bmq://news/q")
    writer = await producer(rig, "bmq://news/q")
    await writer.post_numbers([1, 7, 12])
    assert numbers(await low.given()) == [1, 7]
    assert numbers(await high.given()) == [7, 12]
    assert is_done(await low.configure(Wants()))
    assert await low.given() == []


# Order.


async def test_a_change_holds_for_what_comes_after_it_and_not_before(rig: Rig) -> None:
    """S003-22, S003-32: a post, a configure and a post in one piece. What comes before the answer
    is of the old subscriptions, what comes after it of the new ones."""
    client = await rig.connect()
    await opened(client, QUEUE, READ | WRITE)
    assert is_done(await client.configure(Wants("x == 1", id=1)))
    client.events.clear()
    posts = [client.put(b"%d" % n, {"x": n}, flags=0) for n in (1, 2)]
    post = event(EventType.PUT, encode_puts(posts))
    more = [client.put(b"%d" % n, {"x": n}, flags=0) for n in (1, 2)]
    body = encode_control(
        ControlMessage(99, client.configuring(Wants("x == 2", id=2))), Encoding.BER
    )
    client.send(post + event(EventType.CONTROL, body) + event(EventType.PUT, encode_puts(more)))
    given = await client.take(3)
    assert [(each.body, each.subscription) for each in given] == [(b"1", 1), (b"2", 2), (b"2", 2)]
    assert client.events[:3] == [EventType.PUSH, EventType.CONTROL, EventType.PUSH]
    assert await client.given() == []


async def test_of_many_changes_in_one_piece_the_last_one_holds(rig: Rig) -> None:
    """S003-22: each is answered, in order, and what it says is how messages are numbered."""
    client = await rig.connect()
    await opened(client, QUEUE, READ | WRITE)
    changes = [client.configuring(Wants(f"x == {n}", id=n)) for n in range(50)]
    answers = await client.ask_all(*changes)
    assert answers == [ConfigureStreamResponse(change) for change in changes]
    await client.post_numbers([48, 49])
    [message] = await client.given()
    assert (message.body, message.subscription) == (b"49", 49)


async def test_the_same_subscription_may_get_a_new_number(rig: Rig) -> None:
    """Its window goes on with what is unconfirmed, whatever the number."""
    reader, writer = await consumer(rig, Wants("x > 0", id=1, messages=2)), await producer(rig)
    await writer.post_numbers([1, 2, 3])
    first = await reader.given()
    assert [(each.body, each.subscription) for each in first] == [(b"1", 1), (b"2", 1)]
    assert is_done(await reader.configure(Wants("x > 0", id=2, messages=2)))
    assert await reader.given() == []
    reader.confirm(*first)
    [third] = await reader.given()
    assert (third.body, third.subscription) == (b"3", 2)


async def test_a_subscription_for_two_consumers_has_two_places_in_the_rotation(rig: Rig) -> None:
    """BMQ-36: as those have who speak for others."""
    both, one = await rig.connect(), await consumer(rig, Wants("x >= 0"))
    await opened(both, QUEUE, READ)
    two = (ConsumerInfo(10, 1 << 20, 0, 1), ConsumerInfo(10, 1 << 20, 0, 1))
    stream = StreamParameters("__default", (ConsumerSubscription(4, Expression(1, "x >= 0"), two),))
    assert is_done(await both.ask(ConfigureStream(0, stream)))
    writer = await producer(rig)
    await writer.post_numbers(range(6))
    assert len(await one.given()) == 2
    given = await both.given()
    assert [each.subscription for each in given] == [4] * 4
