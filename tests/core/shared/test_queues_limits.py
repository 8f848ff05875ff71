"""The bounds of shared queues: what is still admitted, and what is one too many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Close, Interest, Open, Tick
from headgate.core.facts import Expired
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.ids import WHOLE, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.window import Window
from headgate.errors import BadSubscription, HeadgateError, LimitReached
from tests.support.shared_queues import BROADCAST, FANOUT, OTHER, PRIORITY, Q, Shop, message_id


def assert_reached(
    shop: Shop, error: HeadgateError | None, name: str, limit: int, session: SessionId
) -> None:
    """The request failed at the limit, and there is a fact that says who caused it."""
    assert isinstance(error, LimitReached), error
    assert (error.name, error.limit) == (name, limit)
    [fact] = shop.rig.take_facts(LimitReachedFact)
    assert (fact.name, fact.limit, fact.session) == (name, limit, session)


def write(shop: Shop, queue: QueueId = Q) -> tuple[SessionId, HeadgateError | None]:
    """A new session opens the queue for writing."""
    session = shop.rig.session("writer")
    domain = shop.domain.name
    return session, shop.ask(Open(session, 1, queue, domain, WHOLE, False, True))


# One message.


def test_a_message_may_have_so_many_properties() -> None:
    shop = Shop(limits=Limits(message_properties=3))
    a = shop.consumer()
    shop.post(p=1, q=2, r=3)
    error = shop.try_post(p=1, q=2, r=3, s=4)
    assert_reached(shop, error, "message_properties", 3, shop.producer())
    assert a.got() == [1]
    assert shop.usage().messages == 1


def test_properties_may_have_so_many_bytes() -> None:
    """Names, and values: text and bytes by their length, others with eight."""
    shop = Shop(limits=Limits(properties_bytes=20))
    shop.post(ab="012345678", n=1)
    shop.post(name="0123456789012345")
    error = shop.try_post(name="01234567890123456")
    assert_reached(shop, error, "properties_bytes", 20, shop.producer())
    error = shop.try_post(blob=17 * b"x")
    assert_reached(shop, error, "properties_bytes", 20, shop.producer())
    assert shop.usage().messages == 2


def test_text_counts_by_its_bytes_not_by_its_characters() -> None:
    """`properties_bytes` is a number of bytes, and text is UTF-8."""
    shop = Shop(limits=Limits(properties_bytes=20))
    shop.post(name=8 * "é")
    error = shop.try_post(name=9 * "é")
    assert_reached(shop, error, "properties_bytes", 20, shop.producer())


def test_a_body_may_have_so_many_bytes() -> None:
    """In every mode."""
    for domain in (PRIORITY, FANOUT, BROADCAST):
        shop = Shop(domain, limits=Limits(body_bytes=10))
        shop.post(body=10 * b"x")
        error = shop.try_post(body=11 * b"x")
        assert_reached(shop, error, "body_bytes", 10, shop.producer())


# Subscriptions.


def test_an_app_has_room_for_so_many_subscriptions_at_open() -> None:
    """Of all consumers together; an app beside it has its own room."""
    shop = Shop(FANOUT, limits=Limits(subscriptions_per_app=3))
    shop.consumer("x == 1", "x == 2", app="foo")
    late = shop.stranger(app="foo")
    error = late.open("x == 1", "x == 3")
    assert_reached(shop, error, "subscriptions_per_app", 3, late.session)
    assert late.open("x == 3") is None
    another = shop.stranger(app="foo")
    assert_reached(shop, another.open(), "subscriptions_per_app", 3, another.session)
    assert shop.consumer("x == 1", "x == 2", "x == 3", app="bar").got() == []


def test_an_app_has_room_for_so_many_subscriptions_at_configure() -> None:
    """The consumer's old ones do not count, and stay if the new ones do not fit."""
    shop = Shop(limits=Limits(subscriptions_per_app=3))
    shop.consumer("x == 9")
    a = shop.consumer("x == 1", "x == 2")
    a.configure("x == 3", "x == 4")
    error = a.try_configure("x == 5", "x == 6", "x == 7")
    assert_reached(shop, error, "subscriptions_per_app", 3, a.session)
    shop.post_each(1, 3, 5)
    assert a.got_x() == [3]


def test_a_closed_consumer_makes_room_for_subscriptions() -> None:
    shop = Shop(limits=Limits(subscriptions_per_app=1, expressions_per_app=1))
    shop.consumer("x == 1").close()
    shop.consumer("x == 2").crash()
    assert shop.stranger().open("x == 3") is None


def test_an_app_has_room_for_so_many_expressions() -> None:
    """Equal texts count once; at open and at configure."""
    shop = Shop(limits=Limits(expressions_per_app=2))
    for _ in range(3):
        a = shop.consumer("x == 1", "x == 2")
    late = shop.stranger()
    error = late.open("x == 3")
    assert_reached(shop, error, "expressions_per_app", 2, late.session)
    error = a.try_configure("x == 3")
    assert_reached(shop, error, "expressions_per_app", 2, a.session)
    assert late.open("x == 2") is None


def test_an_expression_may_have_so_many_bytes() -> None:
    """Bytes of UTF-8; the error says which bound it was."""
    shop = Shop(limits=Limits(expression_bytes=11))
    a = shop.consumer('x == "åå"')
    shop.post(x="åå")
    assert a.got() == [1]
    for error in (a.try_configure('x == "ååa"'), shop.stranger().open('x == "ååa"')):
        assert isinstance(error, BadSubscription)
        assert error.error.code == "TOO_LONG"


def test_an_expression_may_have_so_many_operators() -> None:
    """References to properties do not count."""
    shop = Shop(limits=Limits(expression_operators=3))
    a = shop.consumer("x == 1 && y == 1")
    for error in (
        a.try_configure("x == 1 && !(y == 1)"),
        shop.stranger().open("x == 1 || x == 2 || y"),
    ):
        assert isinstance(error, BadSubscription)
        assert error.error.code == "TOO_COMPLEX"
    shop.post(x=1, y=1)
    assert a.got() == [1]


@pytest.mark.parametrize("terms", [32, 33])
def test_sixty_four_operators_are_the_default(terms: int) -> None:
    """The decision: 64, and the length has to allow it. 32 terms have 63 of them."""
    text = "||".join(terms * ["x<9"])
    shop = Shop(limits=Limits(expression_bytes=1000))
    error = shop.stranger().open(text)
    assert (error is None) == (terms == 32)


@pytest.mark.parametrize(
    ("limits", "text", "name", "limit"),
    [
        (Limits(expression_bytes=10), "x == 12345 ", "expression_bytes", 10),
        (Limits(expression_operators=1), "x == 1 && y", "expression_operators", 1),
    ],
)
def test_a_too_large_expression_is_told_as_a_limit(
    limits: Limits, text: str, name: str, limit: int
) -> None:
    """`Limits` says: reaching one makes a fact that names it."""
    shop = Shop(limits=limits)
    a = shop.stranger()
    assert isinstance(a.open(text), BadSubscription)
    [fact] = shop.rig.take_facts(LimitReachedFact)
    assert (fact.name, fact.limit, fact.session) == (name, limit, a.session)


# Queues and sessions of a domain.


def test_a_domain_has_room_for_so_many_queues() -> None:
    shop = Shop(replace(PRIORITY, max_queues=2))
    shop.consumer()
    shop.producer(OTHER)
    third = QueueId(b"bmq://orders/third")
    session, error = write(shop, third)
    assert_reached(shop, error, "max_queues", 2, session)
    assert shop.usage().queues == 2
    assert write(shop, OTHER)[1] is None  # it is there already


def test_queues_are_counted_after_a_restart() -> None:
    shop = Shop(replace(PRIORITY, max_queues=1))
    shop.post_many(1)
    shop = shop.restarted()
    session, error = write(shop, OTHER)
    assert_reached(shop, error, "max_queues", 1, session)
    assert shop.consumer().got() == [1]


def test_two_opens_of_one_turn_count_both() -> None:
    shop = Shop(replace(PRIORITY, max_queues=1))
    a, b = shop.rig.session(), shop.rig.session()
    shop.do(Open(a, 1, Q, "orders"), Open(b, 2, OTHER, "orders"), Open(b, 3, Q, "orders"))
    [fact] = shop.rig.take_facts(LimitReachedFact)
    assert (fact.name, fact.session) == ("max_queues", b)
    assert shop.usage().queues == 1


def test_zero_is_any_number() -> None:
    shop = Shop(replace(PRIORITY, max_queues=0, max_consumers=0, max_producers=0))
    for number in range(20):
        queue = QueueId(b"bmq://orders/%d" % number)
        assert write(shop, queue)[1] is None
        assert write(shop)[1] is None
        shop.consumer()
    assert shop.usage().queues == 21


def test_a_queue_has_room_for_so_many_consumers() -> None:
    """Of all apps together, for it is a number of sessions; who leaves makes room."""
    shop = Shop(replace(FANOUT, max_consumers=2))
    a = shop.consumer(app="foo")
    b = shop.consumer(app="bar")
    late = shop.stranger(app="baz")
    assert_reached(shop, late.open(), "max_consumers", 2, late.session)
    a.close()
    assert late.open() is None
    b.crash()
    assert shop.stranger(app="foo").open() is None
    assert write(shop)[1] is None  # a writer is not a consumer
    assert shop.consumer(app="foo", queue=OTHER).got() == []  # nor is one elsewhere


def test_a_session_that_reads_two_apps_is_one_consumer() -> None:
    shop = Shop(replace(FANOUT, max_consumers=1))
    a = shop.consumer(app="foo")
    opened = shop.ask(Open(a.session, 9, Q, "orders", "bar", True, False, (Interest(),)))
    assert opened is None


def test_a_queue_has_room_for_so_many_producers() -> None:
    shop = Shop(replace(PRIORITY, max_producers=2))
    (a, first), (b, second) = write(shop), write(shop)
    assert (first, second) == (None, None)
    session, error = write(shop)
    assert_reached(shop, error, "max_producers", 2, session)
    assert shop.ask(Close(a, 5, Q)) is None
    assert write(shop)[1] is None
    shop.rig.leave(b)
    assert write(shop)[1] is None
    session, error = write(shop)
    assert_reached(shop, error, "max_producers", 2, session)
    shop.consumer()


# What is remembered, removed and read again.


def test_so_many_ids_are_remembered() -> None:
    """When time works, the oldest beyond the bound is forgotten; it is new if it comes again."""
    shop = Shop(limits=Limits(remembered_ids=2))
    a = shop.consumer()
    shop.post_many(2)
    a.confirm(1, 2)
    assert shop.ask(shop.sending(1)) is None
    assert shop.ask(shop.sending(2)) is None
    assert a.got() == [1, 2]
    shop.ask(shop.sending(3))
    a.confirm(3)
    shop.do(Tick())
    assert a.got() == [3]
    assert shop.ask(shop.sending(2)) is None
    assert a.got() == []
    assert shop.ask(shop.sending(1)) is None
    assert a.got() == [1]


def test_a_forgotten_id_does_not_make_a_second_message_that_cannot_be_confirmed() -> None:
    """BMQ-59: the first of them is still in the queue."""
    shop = Shop(limits=Limits(remembered_ids=1))
    shop.post_many(2)
    shop.do(Tick())
    assert shop.ask(shop.sending(1)) is None
    a = shop.consumer()
    for number in a.got():
        a.confirm(number)
    assert shop.stored() == {}


def test_a_turn_removes_so_many_expired_messages() -> None:
    """The rest goes with the turns after it, and none of it is counted twice."""
    shop = Shop(replace(PRIORITY, message_ttl=10.0), limits=Limits(expiries=2))
    shop.post_many(5)
    shop.rig.now += 11
    left = []
    while shop.stored():
        shop.rig.turn([Tick()])
        left.append(len(shop.stored()))
    assert left == [3, 1, 0]
    assert [int(fact.message) for fact in shop.rig.take_facts(Expired)] == [1, 2, 3, 4, 5]


def test_as_many_as_a_turn_removes_go_in_one() -> None:
    shop = Shop(replace(PRIORITY, message_ttl=10.0), limits=Limits(expiries=2))
    shop.post_many(2)
    shop.rig.now += 11
    shop.rig.turn([Tick()])
    assert shop.stored() == {}


def test_expiries_are_shared_by_all_queues() -> None:
    """A turn is bounded, whatever the number of queues."""
    shop = Shop(replace(PRIORITY, message_ttl=10.0), limits=Limits(expiries=2))
    shop.post_many(2)
    shop.post(queue=OTHER)
    shop.post(queue=OTHER)
    shop.rig.now += 11
    shop.rig.turn([Tick()])
    assert len(shop.rig.take_facts(Expired)) == 2
    shop.rig.turn([Tick()])
    assert len(shop.rig.take_facts(Expired)) == 2


@pytest.mark.parametrize("cache", [0, 5, 6, 12, 1000])
def test_bodies_beyond_the_cache_are_read_from_the_store(cache: int) -> None:
    """Whatever the size of the cache, each delivery has its own body."""
    shop = Shop(FANOUT, limits=Limits(bodies_bytes=cache))
    foo = shop.consumer(app="foo", window=1)
    for number in range(1, 6):
        shop.post(body=b"body %d" % number, x=number)
    bar = shop.consumer("x > 2", app="bar")
    for number in range(1, 6):
        foo.confirm(number)
    bar.configure(None)
    assert [d.message.body for d in foo.news()] == [b"body %d" % n for n in range(1, 6)]
    assert [d.message.body for d in bar.news()] == [b"body %d" % n for n in (3, 4, 5, 1, 2)]
    bar.crash()
    again = shop.consumer(app="bar")
    assert {d.message.id: d.message.body for d in again.news()} == {
        message_id(n): b"body %d" % n for n in range(1, 6)
    }


def test_bodies_are_read_after_a_restart_within_the_cache() -> None:
    shop = Shop(limits=Limits(bodies_bytes=12))
    shop.post_many(4)
    shop = shop.restarted(limits=Limits(bodies_bytes=12))
    a = shop.consumer(window=Window(3))
    assert [d.message.body for d in a.news()] == [b"body 1", b"body 2", b"body 3"]
    a.confirm(1)
    assert [d.message.body for d in a.news()] == [b"body 4"]


def test_a_session_has_so_many_queues_open() -> None:
    """Closing one makes room for another; other sessions have their own count."""
    shop = Shop(limits=Limits(opens_per_session=1))
    session, error = write(shop)
    assert error is None
    one_more = Open(session, 1, OTHER, shop.domain.name, WHOLE, False, True)
    assert_reached(shop, shop.ask(one_more), "opens_per_session", 1, session)
    assert write(shop, OTHER)[1] is None
    assert shop.ask(Close(session, 1, Q)) is None
    assert shop.ask(one_more) is None
