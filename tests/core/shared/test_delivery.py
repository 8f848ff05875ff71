"""Offering: what is in line goes to whoever matches and has room, or waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import (
    Command,
    Configure,
    Confirm,
    Create,
    Delete,
    Disconnect,
    Drained,
    Get,
    Interest,
    Look,
    Open,
    Send,
    Subscribe,
)
from headgate.core.effects import Failed, Receipt
from headgate.core.facts import Missed, PutAside, Returned
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, PropertyValue
from headgate.core.model.window import Window
from headgate.core.turn.store_requests import TurnOutcome
from headgate.errors import NoSuchQueue
from headgate.testing.rig import Rig, deliveries
from tests.support.shared_queues import BROADCAST, FANOUT, PRIORITY, Shop

WORK = Domain("work", Mode.PRIORITY)
NEWS = Domain("news", Mode.BROADCAST)
JOBS, OTHER = QueueId(b"jobs"), QueueId(b"other")
LIMITS = Limits(mailbox_bytes_soft=250)
"""Room for three messages of ten bytes with what a wire writes around them."""
ALL = (Interest(window=Window(10**9)),)


def rig_with_producer(domain: Domain = WORK, limits: Limits = LIMITS) -> tuple[Rig, SessionId]:
    rig = Rig(domain, limits=limits)
    producer = rig.session("producer")
    rig.do(Open(producer, 1, JOBS, domain.name, read=False, write=True))
    return rig, producer


def post(rig: Rig, producer: SessionId, count: int, queue: QueueId = JOBS) -> None:
    for number in range(count):
        message = Message(MessageId(b"%s-%d" % (queue, number)), b"0123456789", rig.now)
        rig.do(Send(producer, None, queue, message))


def fill(rig: Rig, session: SessionId, size: int = 251) -> None:
    alive = rig.broker.sessions.get(session)
    assert alive is not None
    alive.mailbox.offer("stuck", size, rig.now)


def drain(rig: Rig, session: SessionId) -> TurnOutcome:
    alive = rig.broker.sessions.get(session)
    assert alive is not None
    alive.mailbox.take(rig.now)
    return rig.turn([Drained(session)])


@pytest.mark.parametrize("bodies", [1000, 0], ids=["bodies in memory", "bodies in the store"])
def test_a_turn_gives_a_session_no_more_than_its_mailbox_takes(bodies: int) -> None:
    """However large its window: memory is bounded whatever a consumer asks for."""
    rig, producer = rig_with_producer(limits=replace(LIMITS, bodies_bytes=bodies))
    post(rig, producer, 10)
    reader = rig.session("reader")
    outcome = rig.turn([Open(reader, 1, JOBS, "work", interests=ALL)])
    assert len(deliveries(outcome.effects)) == 4  # the check is made before each
    assert outcome.again == [Drained(reader)]
    outcome = rig.turn(outcome.again)
    assert len(deliveries(outcome.effects)) == 4
    outcome = rig.turn(outcome.again)
    assert len(deliveries(outcome.effects)) == 2
    assert outcome.again == []


def test_a_session_without_room_gets_nothing_until_it_has_drained() -> None:
    rig, producer = rig_with_producer()
    reader = rig.session("reader")
    rig.do(Open(reader, 1, JOBS, "work", interests=ALL))
    fill(rig, reader)
    post(rig, producer, 2)
    assert deliveries(rig.do(Drained(reader))) == []
    assert len(deliveries(drain(rig, reader).effects)) == 2


def test_others_of_the_group_take_what_a_full_session_cannot() -> None:
    """BMQ-39: a consumer without room in its mailbox is passed over like a full one."""
    rig, producer = rig_with_producer()
    full, easy = rig.session("full"), rig.session("easy")
    for session in (full, easy):
        rig.do(Open(session, 1, JOBS, "work", interests=ALL))
    fill(rig, full)
    message = Message(MessageId(b"m"), b"0123456789", rig.now)
    effects = rig.do(Send(producer, 1, JOBS, message))
    assert deliveries(effects, full) == []
    assert deliveries(effects, easy) == [b"0123456789"]


def test_a_full_session_is_held_in_all_its_queues_and_let_go_in_all() -> None:
    rig, producer = rig_with_producer()
    rig.do(Open(producer, 1, OTHER, "work", read=False, write=True))
    reader = rig.session("reader")
    for queue in (JOBS, OTHER):
        rig.do(Open(reader, 1, queue, "work", interests=ALL))
    fill(rig, reader)
    post(rig, producer, 1)
    post(rig, producer, 1, OTHER)
    assert len(deliveries(drain(rig, reader).effects)) == 2


def test_what_waited_for_a_held_group_comes_first_when_it_is_let_go() -> None:
    """S003-32."""
    rig, producer = rig_with_producer()
    reader, other = rig.session("reader"), rig.session("other")
    rig.do(Open(reader, 1, JOBS, "work", interests=(Interest(None, 5, Window(100)),)))
    rig.do(Open(other, 1, JOBS, "work", interests=(Interest("exists(x)", 5),)))
    fill(rig, reader)
    post(rig, producer, 3)
    effects = drain(rig, reader).effects
    names = deliveries(effects, reader, lambda message: message.id)
    assert names == [b"jobs-0", b"jobs-1", b"jobs-2"]


def test_a_session_that_is_gone_gets_nothing_before_its_clean_up() -> None:
    """S000-74: so nothing is returned from it, and nothing counts as an attempt."""
    rig, producer = rig_with_producer()
    gone = rig.session("gone")
    rig.do(Open(gone, 1, JOBS, "work", interests=ALL))
    rig.broker.close_session(gone, "lost", rig.now)
    post(rig, producer, 2)
    rig.leave(gone)
    assert rig.take_facts(Returned) == []
    heir = rig.session("heir")
    assert len(deliveries(rig.do(Open(heir, 1, JOBS, "work", interests=ALL)))) == 2


def test_a_held_session_may_still_confirm_and_configure() -> None:
    rig, producer = rig_with_producer()
    reader = rig.session("reader")
    rig.do(Open(reader, 1, JOBS, "work", interests=ALL))
    post(rig, producer, 1)
    fill(rig, reader)
    post(rig, producer, 3)
    rig.do(Confirm(reader, 2, JOBS, (MessageId(b"jobs-0"),)))
    rig.do(Configure(reader, 3, JOBS, (Interest("!exists(x)", 0, Window(1)),)))
    assert len(deliveries(drain(rig, reader).effects)) == 1


def test_a_broadcast_that_has_no_room_is_missed_and_said_so() -> None:
    rig, producer = rig_with_producer(NEWS)
    slow, easy = rig.session("slow"), rig.session("easy")
    for session in (slow, easy):
        rig.do(Open(session, 1, JOBS, "news", interests=ALL))
    fill(rig, slow)
    message = Message(MessageId(b"m"), b"0123456789", rig.now)
    effects = rig.do(Send(producer, 1, JOBS, message))
    assert deliveries(effects, slow) == []
    assert deliveries(effects, easy) == [b"0123456789"]
    assert [fact.session for fact in rig.take_facts(Missed)] == [slow]


def test_a_message_and_the_clean_up_of_a_gone_consumer_may_share_a_turn() -> None:
    """Its gates are held until it is removed, and not let go a moment before."""
    rig, producer = rig_with_producer()
    gone, heir = rig.session("gone"), rig.session("heir")
    rig.do(Open(gone, 1, JOBS, "work", interests=ALL))
    rig.broker.close_session(gone, "lost", rig.now)
    message = Message(MessageId(b"m"), b"0123456789", rig.now)
    rig.do(Send(producer, 1, JOBS, message), Disconnect(gone))
    assert len(deliveries(rig.do(Open(heir, 1, JOBS, "work", interests=ALL)))) == 1


def test_what_waits_for_a_group_goes_before_the_rest_of_the_line() -> None:
    """S003-32: the line stopped behind it when nobody had room."""
    rig, producer = rig_with_producer()
    a, b = rig.session("a"), rig.session("b")
    rig.do(Open(a, 1, JOBS, "work", interests=(Interest("x == 1", 0, Window(1)),)))
    for number, x in enumerate((1, 1, 2, 1)):
        message = Message(MessageId(b"%d" % number), b"", rig.now, {"x": x})
        rig.do(Send(producer, None, JOBS, message))
    # The second waits for a; b takes the third and is full; the fourth is not looked at.
    rig.do(Open(b, 1, JOBS, "work", interests=(Interest("x == 2", 0, Window(1)),)))
    effects = rig.do(Confirm(a, 2, JOBS, (MessageId(b"0"),)))
    assert deliveries(effects, a, lambda message: message.id) == [b"1"]


def test_what_waits_for_others_now_is_not_given_to_those_it_once_waited_for() -> None:
    """BMQ-41: nor while a higher priority that came since has no room."""
    rig, producer = rig_with_producer()
    a, b, c, d = (rig.session(name) for name in "abcd")

    def read(session: SessionId, text: str, priority: int) -> None:
        rig.do(Open(session, 1, JOBS, "work", interests=(Interest(text, priority, Window(1)),)))

    read(a, "x == 1", 5)
    read(b, "x >= 1", 5)
    read(d, "x == 2", 5)  # has room, so that all is looked at
    for number in range(3):  # the third waits for a and b
        message = Message(MessageId(b"%d" % number), b"", rig.now, {"x": 1})
        rig.do(Send(producer, None, JOBS, message))
    rig.do(Confirm(b, None, JOBS, (MessageId(b"1"),)))  # b has it now
    read(c, "x > 0", 9)
    rig.do(Send(producer, None, JOBS, Message(MessageId(b"3"), b"", rig.now, {"x": 1})))
    rig.leave(b)  # now it waits for c
    effects = rig.do(Confirm(a, None, JOBS, (MessageId(b"0"),)))
    assert deliveries(effects) == []
    effects = rig.do(Confirm(c, None, JOBS, (MessageId(b"3"),)))
    assert deliveries(effects, c, lambda message: message.id) == [b"2"]


def test_a_shared_queue_that_nobody_has_open_takes_no_exclusive_commands() -> None:
    rig, _ = rig_with_producer()
    again = Rig(WORK, store=rig.store)
    session = again.session("s")
    message = Message(MessageId(b"m"), b"", again.now)
    for command in (
        Send(session, 1, JOBS, message),
        Subscribe(session, 2, JOBS),
        Get(session, 3, JOBS),
        Confirm(session, 4, JOBS, (MessageId(b"m"),)),
        Delete(session, 5, JOBS),
    ):
        [refused] = again.do(command)
        assert isinstance(refused, Failed)
        assert isinstance(refused.error, NoSuchQueue)


def test_an_id_is_of_one_kind_of_queue_and_a_mistake_costs_nobody_else() -> None:
    line = Domain("line", Mode.EXCLUSIVE)
    rig = Rig(WORK, line)
    a, b = rig.session("a"), rig.session("b")
    rig.do(Create(a, 1, OTHER, "line"), Open(a, 2, JOBS, "work", write=True, read=False))
    effects = rig.do(
        Open(b, 1, OTHER, "work", interests=ALL),
        Create(b, 2, JOBS, "line"),
        Send(a, 3, OTHER, Message(MessageId(b"m"), b"", rig.now)),
    )
    assert [type(effect) for effect in effects] == [Failed, Failed, Receipt]


def test_a_silent_confirm_of_a_failed_turn_is_tried_again() -> None:
    rig, producer = rig_with_producer()
    reader = rig.session("reader")
    rig.do(Open(reader, 1, JOBS, "work", interests=(Interest(window=Window(1)),)))
    post(rig, producer, 2)
    rig.fail_at = 0
    effects = rig.do(Confirm(reader, None, JOBS, (MessageId(b"jobs-0"),)))
    assert deliveries(effects, reader, lambda message: message.id) == [b"jobs-1"]


def test_an_app_that_went_while_the_router_was_down_does_not_come_back() -> None:
    """BMQ-77: its references are released, in the store as well."""
    both = Domain("fan", Mode.FANOUT, apps=("a", "b"))
    rig = Rig(both)
    producer = rig.session("producer")
    rig.do(Open(producer, 1, JOBS, "fan", read=False, write=True))
    post(rig, producer, 1)
    less = Rig(Domain("fan", Mode.FANOUT, apps=("a",)), store=rig.store)
    less.do(Open(less.session("s"), 1, JOBS, "fan", read=False, write=True))
    more = Rig(both, store=rig.store)
    reader = more.session("reader")
    assert deliveries(more.do(Open(reader, 1, JOBS, "fan", "b", interests=ALL))) == []


def test_a_turn_looks_at_so_many_messages_and_leaves_the_rest_to_the_next() -> None:
    """BMQ-40: everybody waits for a turn, so one consumer's change of mind is not one long turn."""
    rig, producer = rig_with_producer(limits=Limits(turn_looks=3))
    reader = rig.session("reader")
    rig.do(Open(reader, 1, JOBS, "work", interests=(Interest("x == 1"),)))
    post(rig, producer, 8)
    outcome = rig.turn([Configure(reader, 1, JOBS, ALL)])
    given = deliveries(outcome.effects)
    while outcome.again:
        assert outcome.again == [Look(JOBS, WHOLE)]
        assert len(deliveries(outcome.effects)) == 3
        outcome = rig.turn(outcome.again)
        given += deliveries(outcome.effects)
    assert len(given) == 8


def test_a_long_line_holds_no_other_queue_up() -> None:
    """BMQ-40: what a turn did not look at comes first in the next, before what it only began."""
    rig, producer = rig_with_producer(limits=Limits(turn_looks=3))
    reader, stranger = rig.session("reader"), rig.session("stranger")
    rig.do(Open(reader, 1, JOBS, "work", interests=(Interest("x == 1"),)))
    rig.do(Open(stranger, 1, OTHER, "work", interests=ALL))
    rig.do(Open(producer, 1, OTHER, "work", read=False, write=True))
    post(rig, producer, 30)
    outcome = rig.turn([Configure(reader, 1, JOBS, ALL)])
    message = Message(MessageId(b"other"), b"0123456789", rig.now)
    given = []
    for command in ([Send(producer, None, OTHER, message)], []):
        outcome = rig.turn([*outcome.again, *command])
        given += deliveries(outcome.effects, stranger)
    assert len(given) == 1
    assert outcome.again == [Look(JOBS, WHOLE)]


def test_what_came_back_goes_out_as_much_at_a_time_as_a_turn_may() -> None:
    """BMQ-58, BMQ-50: to the one who has room, in order, and nothing is forgotten."""
    shop = Shop(limits=Limits(turn_looks=3))
    a = shop.consumer()
    shop.post_many(8)
    b = shop.consumer()
    shop.rig.broker.close_session(a.session, "lost", shop.rig.now)
    again: list[Command] = [Disconnect(a.session)]
    counts = []
    while again:
        outcome = shop.rig.turn(again)
        counts.append(len(deliveries(shop.note(outcome.effects))))
        again = outcome.again
    assert counts == [3, 3, 2]
    assert b.got() == list(range(1, 9))


def test_looking_on_is_nothing_when_the_queue_is_not_there() -> None:
    rig, _ = rig_with_producer()
    assert rig.do(Look(OTHER, WHOLE), Look(JOBS, "app")) == []


def test_a_refusal_keeps_nothing_alive() -> None:
    """The frames of an error would hold the turn, which holds the error."""
    rig, producer = rig_with_producer(replace(WORK, max_messages=0))
    message = Message(MessageId(b"1"), b"body", rig.now)
    [refused] = rig.do(Send(producer, 1, JOBS, message))
    assert isinstance(refused, Failed)
    assert refused.error.__traceback__ is None


def test_only_matching_messages_arrive_and_in_order() -> None:
    """BMQ-1, S003-4, S003-14, S003-21: `x <= 1` at open gets 0 and 1 of 0, 1, 2."""
    shop = Shop()
    a = shop.consumer("x <= 1")
    shop.post_each(0, 1, 2)
    assert a.got_x() == [0, 1]


def test_what_nobody_matches_stays_for_who_does() -> None:
    """S003-14, BMQ-23: nobody else is given it, and what comes after it goes on."""
    shop = Shop()
    a = shop.consumer("x <= 1")
    shop.post_each(2, 0, 3, 1)
    assert a.got_x() == [0, 1]
    b = shop.consumer("x == 3")
    assert (a.got_x(), b.got_x()) == ([], [3])
    b.configure("x >= 2")
    assert (a.got_x(), b.got_x()) == ([], [2])


def test_what_waited_for_room_is_delivered_once_when_there_is_room() -> None:
    """S000-45: of exclusive and of shared queues alike; nothing of it goes to whoever is full."""
    shop = Shop()
    a = shop.consumer(window=1)
    session = shop.rig.broker.sessions.get(a.session)
    assert session is not None
    mailbox = session.mailbox
    mailbox.offer("stuff", shop.rig.broker.limits.mailbox_bytes_soft + 1, shop.rig.now)
    shop.post_many(2)
    shop.do(Drained(a.session))
    assert a.got() == []
    assert mailbox.take(shop.rig.now) == "stuff"
    shop.do(Drained(a.session), Drained(a.session))
    assert a.got() == [1]
    a.confirm(1)
    assert a.got() == [2]


def test_a_missing_property_does_not_match_and_the_next_subscription_is_tried() -> None:
    """BMQ-7: also when the expression with the missing one has the higher priority."""
    shop = Shop()
    a = shop.consumer(Interest("y == 1", 5), Interest("x == 1", 1))
    b = shop.consumer("y != 1", priority=9)
    shop.post_each(1)
    [delivery] = a.news()
    assert delivery.interests == (1,)
    assert b.got() == []


def test_a_bare_word_is_a_property() -> None:
    """S003-5: `OrderType == EXPRESS` compares two properties."""
    shop = Shop()
    bare = shop.consumer("OrderType == EXPRESS", priority=1)
    quoted = shop.consumer('OrderType == "EXPRESS"')
    shop.post(OrderType="EXPRESS")
    shop.post(OrderType="slow", EXPRESS="slow")
    assert (bare.got(), quoted.got()) == ([2], [1])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x == true", True),
        ("x", True),
        ("x == -7", -7),
        ("x == 9223372036854775807", 2**63 - 1),
        ('x == "blå"', "blå"),
    ],
)
def test_properties_have_types(text: str, value: PropertyValue) -> None:
    """S003-4: a boolean, an integer, a text."""
    shop = Shop()
    a = shop.consumer(text)
    shop.post(x=value)
    assert a.got() == [1]


def test_properties_that_are_not_named_do_not_matter() -> None:
    """S003-2, S003-44: only what the expression names counts."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post(x=1, y=5, z="text", blob=b"\xff")
    shop.post(x=1)
    shop.post(y=1)
    assert a.got() == [1, 2]


def test_an_unmatched_message_does_not_block_later_ones() -> None:
    """BMQ-23, S003-15, S003-18, S003-20: it stays, unconfirmed, and is sent to nobody."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2, 1, 2, 1)
    assert a.got() == [2, 4]
    a.confirm(2, 4)
    assert list(shop.stored()) == [1, 3]
    assert [fact.matched for fact in shop.rig.take_facts(PutAside)] == [False, False]
    assert shop.consumer("x == 2").got() == [1, 3]


def test_a_message_without_properties_reaches_only_those_who_ask_for_none() -> None:
    """BMQ-35, S003-2: no expression, or `!exists(...)`."""
    shop = Shop()
    picky = shop.consumer("x == 1 || x != 1", priority=9)
    absent = shop.consumer("!exists(x)", priority=5)
    plain = shop.consumer()
    shop.post()
    absent.configure()
    shop.post()
    shop.post_each(2)
    assert (picky.got(), absent.got(), plain.got()) == ([3], [1], [2])


def test_when_all_are_full_the_oldest_waits_for_the_first_that_is_freed() -> None:
    """BMQ-40, S003-37."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer(window=1)
    shop.post_many(5)
    assert (a.got(), b.got()) == ([1], [2])
    b.confirm(2)
    assert (a.got(), b.got()) == ([], [3])
    a.confirm(1)
    assert (a.got(), b.got()) == ([4], [])


def test_a_message_that_waits_for_two_groups_goes_to_one_of_them() -> None:
    """BMQ-40, BMQ-49: whichever has room first, and never to both."""
    shop = Shop()
    a = shop.consumer("x > 0", window=1)
    b = shop.consumer("x > 1", window=1)
    shop.post_each(2, 2, 2)
    b.confirm(2)
    a.confirm(1)
    assert a.got() + b.got() == [1, 2, 3]
    b.confirm(3)
    assert a.got() + b.got() == []
    assert shop.usage().messages == 0


def test_messages_that_wait_are_delivered_in_order_after_long() -> None:
    """BMQ-40, S003-32: one at a time, through a window of one."""
    shop = Shop()
    a = shop.consumer("x % 2 == 0", window=1)
    b = shop.consumer("x % 2 == 1", window=1)
    shop.post_each(*range(10))
    for even, odd in zip(range(0, 10, 2), range(1, 10, 2), strict=True):
        assert (a.got_x(), b.got_x()) == ([even], [odd])
        a.confirm(even + 1)
        b.confirm(odd + 1)
    assert shop.usage().messages == 0


def test_a_full_consumer_does_not_take_what_was_returned_and_a_fresh_one_does() -> None:
    """BMQ-58."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer(window=1)
    shop.post_many(2)
    a.crash()
    assert b.got() == [2]
    c = shop.consumer()
    assert (b.got(), c.got()) == ([], [1])


def test_what_was_returned_goes_before_what_waits_unread() -> None:
    """BMQ-50, BMQ-58: B7, before new messages."""
    shop = Shop()
    a = shop.consumer(window=2)
    b = shop.consumer(window=1)
    shop.post_many(5)
    assert (a.got(), b.got()) == ([1, 3], [2])
    a.crash()
    b.confirm(2)
    assert b.got() == [1]
    b.confirm(1)
    assert b.got() == [3]
    b.confirm(3)
    assert b.got() == [4]


def test_what_was_returned_goes_before_what_was_put_aside() -> None:
    """BMQ-50, BMQ-52: B7, "tried before put-aside and new messages"."""
    shop = Shop()
    a = shop.consumer("x == 2")
    shop.post_each(1, 2)
    assert a.got() == [2]
    a.crash()
    b = shop.consumer(window=1)
    assert b.got() == [2]


def test_a_slow_app_does_not_delay_the_others() -> None:
    """BMQ-72: B5 and B10."""
    shop = Shop(FANOUT)
    slow = shop.consumer(app="foo", window=1)
    quick = shop.consumer(app="bar")
    shop.post_many(3)
    assert (slow.got(), quick.got()) == ([1], [1, 2, 3])


def test_a_session_that_is_gone_gets_nothing_whatever_comes_before_its_clean_up() -> None:
    """BMQ-51, BMQ-39: posts, confirms and changes between the loss and its `Disconnect`."""
    for domain in (PRIORITY, BROADCAST):
        shop = Shop(domain)
        a = shop.consumer(window=2)
        b = shop.consumer(window=1)
        shop.post_many(1)
        shop.rig.broker.close_session(a.session, "lost", shop.rig.now)
        shop.post_many(2)
        b.configure(None, window=9)
        shop.post_many(1)
        assert a.got() == [1]
        shop.do(Disconnect(a.session))
        assert sorted(b.got()) == [1, 2, 3, 4]
