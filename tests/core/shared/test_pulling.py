"""Named consumers fetch when they want something; what they hold is theirs, not a connection's.

The numbers are those of the checks in docs/design/streams.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Drained, Interest, Purge, Reconfigure, Tick
from headgate.core.effects import Deliver, Failed
from headgate.core.facts import Confirmed, Delivered, Interested, Poisoned, ReaderGone, Returned
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.stream_id import StreamId
from headgate.core.reader_commands import DropReader, Withdraw
from headgate.core.reader_effects import Pulled
from headgate.core.shared.reader_upkeep import FORGET_SECONDS, REST_SECONDS
from headgate.core.shared.subscriptions import SubscriptionCompiler
from headgate.core.turn.turn import Turn
from headgate.errors import AppGone, BadSubscription, LimitReached, NoSuchApp, Prohibited
from headgate.expr.predicate import Predicate
from tests.support.readers import Patron, add
from tests.support.shared_queues import BROADCAST, FANOUT, PRIORITY, Q, Shop


def test_two_readers_share_an_app_and_two_apps_each_get_everything() -> None:
    """Check 24."""
    shop = Shop(FANOUT)
    a, b = Patron(shop, b"a", app="foo"), Patron(shop, b"b", app="foo")
    other = Patron(shop, b"a", app="bar")
    shop.post_many(4)
    assert a.fetch(2) + b.fetch() == [1, 2, 3, 4]
    assert a.fetch() == b.fetch() == []
    assert other.fetch() == [1, 2, 3, 4]


def test_fetched_here_and_confirmed_there() -> None:
    """Check 25: a client has many connections, and any of them confirms."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(2)
    reader.fetch()
    assert other.acknowledge(reader.ids[1]) == 1
    assert shop.stored() == {2: ("",)}
    [fact] = shop.rig.take_facts(Confirmed)
    assert fact.session < 0


def test_who_confirms_what_another_holds_takes_it_from_it() -> None:
    """Check 26."""
    shop = Shop()
    a, b = Patron(shop, b"a"), Patron(shop, b"b")
    shop.post_many(2)
    a.fetch()
    assert b.acknowledge(a.ids[2]) == 1
    assert a.held() == [1]


def test_what_is_unknown_or_confirmed_does_not_count() -> None:
    """Check 27: nor does a number with another time."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(1)
    reader.fetch()
    first = reader.ids[1]
    wrong = StreamId(first.milliseconds + 1, first.number)
    assert reader.acknowledge(wrong, StreamId(5, 5)) == 0
    assert reader.acknowledge(first, first) == 1
    assert reader.acknowledge(first) == 0


def test_what_was_never_delivered_can_be_confirmed() -> None:
    """Check 28: an ack that comes after a restart still prevents a repetition."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(3)
    reader.fetch(2)
    router = shop.restarted()
    again = Patron(router)
    assert again.acknowledge(reader.ids[1]) == 1
    assert again.fetch() == [2, 3]


def test_a_reader_that_comes_back_within_the_grace_has_everything() -> None:
    """Check 29."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(2)
    reader.fetch()
    reader.leave()
    shop.pass_time(29)
    back = reader.again()
    assert back.held() == [1, 2]
    shop.pass_time(60)
    assert other.fetch() == []


def test_after_the_grace_others_get_it_and_the_count_says_so() -> None:
    """Check 30."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(2)
    reader.fetch()
    reader.leave()
    shop.pass_time(30)
    assert [fact.messages for fact in shop.rig.take_facts(ReaderGone)] == [2]
    assert all(fact.lost for fact in shop.rig.take_facts(Returned))
    assert other.fetch() == [1, 2]
    assert [p.deliveries for p in other.pending()] == [2, 2]


def test_a_waiting_reader_gets_what_came_back() -> None:
    """Check 48."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(1)
    reader.fetch()
    waiting = other.wait()
    reader.leave()
    shop.rig.now += 31
    assert other.answer(waiting, shop.do(Tick())) == [1]


def test_of_two_sessions_of_one_name_one_may_leave() -> None:
    """Check 31."""
    shop = Shop()
    reader = Patron(shop)
    second = reader.again()
    shop.post_many(2)
    assert reader.fetch(1) + second.fetch() == [1, 2]
    reader.leave()
    shop.pass_time(100)
    assert second.held() == [1, 2]


def test_grace_may_be_for_ever() -> None:
    """Check 32."""
    shop = Shop(replace(PRIORITY, consumer_grace=None))
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(1)
    reader.fetch()
    reader.leave()
    shop.pass_time(2 * FORGET_SECONDS)
    assert other.fetch() == []
    assert [p.reader for p in other.pending()] == [b"r"]


def test_after_a_restart_what_was_not_confirmed_is_in_line() -> None:
    """Check 33."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(3)
    reader.fetch()
    reader.done(2)
    assert Patron(shop.restarted(), b"other").fetch() == [1, 3]


def test_the_last_loss_poisons() -> None:
    """Check 34, without dead letters."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=3, suspicious_delay_high=0.0))
    shop.post_many(1)
    for number in range(3):
        reader = Patron(shop, b"%d" % number)
        assert reader.fetch() == [1]
        reader.leave()
        shop.pass_time(31)
    assert [fact.attempts for fact in shop.rig.take_facts(Poisoned)] == [3]
    assert shop.stored() == {}


def test_a_dropped_reader_gives_back_what_it_holds() -> None:
    """Check 35: in Redis nobody would get it any more."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    shop.post_many(2)
    reader.fetch()
    assert reader.drop() == 2
    assert other.fetch() == [1, 2]
    assert reader.drop() == 0


def test_a_dropped_reader_that_waits_is_answered() -> None:
    shop = Shop()
    reader = Patron(shop)
    waiting = reader.wait()
    other = shop.rig.session()
    effects = shop.do(DropReader(other, shop.ref(), Q, shop.domain.name, "", reader.name))
    assert reader.answer(waiting, effects) == []


def test_a_reader_is_forgotten_after_an_hour() -> None:
    """Check 36."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    reader.fetch()
    reader.leave()
    assert [view.name for view in other.view().readers] == [b"r"]
    shop.pass_time(FORGET_SECONDS - 1)
    assert [view.name for view in other.view().readers] == [b"r"]
    shop.pass_time(1)
    assert other.view().readers == ()
    assert shop.rig.shard.shared.queues[Q].opens == 0


def test_fetched_and_confirmed_in_one() -> None:
    """Check 38: never pending."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(2)
    assert reader.fetch(confirms=True) == [1, 2]
    assert reader.pending() == []
    assert shop.stored() == {}
    waiting = reader.shop.do(command := reader.pulling(waits=True, confirms=True))
    assert waiting == []
    assert reader.answer(command, shop.do(shop.sending(shop.number()))) == [3]
    assert shop.stored() == {}


def test_what_is_held_is_told_again_and_counted() -> None:
    """Check 39."""
    shop = Shop()
    reader = Patron(shop)
    assert reader.held() == []
    shop.post_many(3)
    reader.fetch()
    shop.rig.now += 5
    assert reader.held(reader.ids[1]) == [2, 3]
    assert reader.held(count=1) == [1]
    assert [(p.deliveries, p.idle) for p in reader.pending()] == [(2, 0), (2, 0), (2, 0)]
    assert [p.reader for p in reader.pending()] == [b"r"] * 3


def test_one_that_waits_gets_what_comes() -> None:
    """Checks 48, 54: one message ends it, and the rest of its turn comes with it."""
    shop = Shop()
    reader = Patron(shop)
    waiting = reader.wait()
    first, second = shop.sending(shop.number()), shop.sending(shop.number())
    assert reader.answer(waiting, shop.do(first, second)) == [1, 2]
    shop.post_many(1)
    assert reader.fetch() == [3]


def test_one_that_waits_gets_no_more_than_it_asked_for() -> None:
    """And what is confirmed meanwhile makes it no more."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(1)
    reader.fetch()
    waiting = reader.wait(1)
    reader.done(1)
    sent = [shop.sending(shop.number()) for _ in range(3)]
    assert reader.answer(waiting, shop.do(*sent)) == [2]
    assert Patron(shop, b"other").fetch() == [3, 4]


def test_who_withdraws_gets_nothing_or_what_came_first() -> None:
    """Check 49: a turn decides."""
    shop = Shop()
    reader = Patron(shop)
    waiting = reader.wait()
    assert reader.answer(waiting, reader.withdraw(waiting)) == []
    waiting = reader.wait()
    effects = shop.do(shop.sending(shop.number()), Withdraw(reader.session, waiting.ref))
    assert reader.answer(waiting, effects) in ([], [1])
    assert reader.held() + reader.fetch() == [1]
    assert reader.withdraw(waiting) == []


def test_who_is_gone_while_it_waits_leaves_nothing() -> None:
    """Check 56."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    reader.wait()
    reader.leave()
    shop.post_many(1)
    assert other.fetch() == [1]
    assert shop.rig.shard.shared.pulling.readers.pulls == {}


def test_a_gone_session_is_given_nothing_before_its_end_is_known() -> None:
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    reader.wait()
    shop.rig.broker.close_session(reader.session, "lost", shop.rig.now)
    shop.post_many(1)
    assert other.fetch() == [1]


def test_many_that_wait_get_one_each() -> None:
    """Check 55, with fewer."""
    shop = Shop()
    readers = [Patron(shop, b"%d" % number) for number in range(20)]
    waiting = [reader.wait(1) for reader in readers]
    effects = shop.do(*(shop.sending(shop.number()) for _ in range(20)))
    got = [r.answer(w, effects) for r, w in zip(readers, waiting, strict=True)]
    assert sorted(number for each in got for number in each) == list(range(1, 21))
    assert all(len(each) == 1 for each in got)


def test_expressions_decide_who_gets_what() -> None:
    """Check 58."""
    shop = Shop()
    express = Patron(shop, b"e", where='kind == "express"')
    shop.post(kind="normal")
    shop.post(kind="express")
    assert express.fetch() == [2]
    assert Patron(shop, b"plain").fetch() == [1]


def test_the_highest_priority_goes_first_until_it_rests() -> None:
    """Check 59: whoever does not fetch any more holds nobody up."""
    shop = Shop()
    high, low = Patron(shop, b"h", priority=10), Patron(shop, b"l", priority=1)
    high.fetch()
    shop.post_many(1)
    assert low.fetch() == []
    shop.pass_time(REST_SECONDS)
    assert low.fetch() == [1]
    shop.post_many(1)
    assert high.fetch() == [2]


def test_a_wrong_expression_changes_nothing() -> None:
    """Check 60."""
    shop = Shop()
    reader = Patron(shop)
    shop.post_many(1)
    reader.fetch()
    wrong = Patron(shop, where="kind ==")
    assert isinstance(wrong.error(wrong.pulling()), BadSubscription)
    assert reader.held() == [1]


def test_equal_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch has the expression with it."""
    texts: list[str] = []
    compile = SubscriptionCompiler.compile

    def counting(self: SubscriptionCompiler, text: str, turn: Turn) -> Predicate:
        texts.append(text)
        return compile(self, text, turn)

    monkeypatch.setattr(SubscriptionCompiler, "compile", counting)
    shop = Shop()
    reader = Patron(shop, where="x == 1")
    for _ in range(3):
        reader.fetch()
    shop.post_each(1)
    Patron(shop, b"r", where="x == 1").fetch()
    assert texts == ["x == 1"]
    reader.interest = Interest("x == 2")
    reader.fetch()
    assert texts == ["x == 1", "x == 2"]


def test_many_expressions_are_not_evaluated() -> None:
    """Check 62: of all that readers ask for only what may match is looked at."""
    shop = Shop()
    session = shop.rig.session()
    for number in range(200):
        Patron(shop, b"r%d" % number, where=f"x == {number}", session=session).fetch()
    Patron(shop, b"r7", where="x == 7", session=session).wait()
    shop.post(x=7)
    assert shop.rig.shard.shared.queues[Q].apps[""].groups.candidates == 1


def test_equal_text_regroups_nothing() -> None:
    """Check 61."""
    shop = Shop()
    reader = Patron(shop, where="x == 1")
    for _ in range(3):
        reader.fetch()
    assert len(shop.rig.take_facts(Interested)) == 1
    shop.post_each(1, 2)
    assert reader.fetch() == [1]
    reader.interest = Interest("x == 2")
    assert reader.fetch() == [2]
    assert len(shop.rig.take_facts(Interested)) == 1
    assert reader.held() == [1, 2]
    assert reader.done(1, 2) == 2


def test_a_consumer_with_a_session_and_a_reader_take_turns() -> None:
    """One dispatch for both: who waits and who has room take turns."""
    shop = Shop()
    consumer, reader = shop.consumer(window=2), Patron(shop)
    waiting = reader.wait(2)
    effects = shop.do(*(shop.sending(shop.number()) for _ in range(4)))
    shop.note([])
    got = reader.answer(waiting, effects)
    assert sorted(got + consumer.got()) == [1, 2, 3, 4]
    assert len(got) == 2
    consumer.crash()
    assert sorted(reader.fetch() + got) == [1, 2, 3, 4]


def test_what_nobody_fetches_waits_in_line_and_costs_nothing() -> None:
    shop = Shop()
    reader = Patron(shop)
    reader.fetch()
    shop.post_many(3)
    app = shop.rig.shard.shared.queues[Q].apps[""]
    assert app.open == 0
    assert len(app.fresh) == 3
    assert reader.fetch() == [1, 2, 3]


def test_no_more_at_once_than_the_limits_say() -> None:
    shop = Shop(limits=Limits(pull_messages=2, pull_bytes=10))
    reader = Patron(shop)
    shop.post_many(3)
    assert reader.fetch(10) == [1, 2]
    shop.post(body=b"x" * 20)
    shop.post_many(1)
    assert reader.fetch() == [3, 4]
    assert reader.held(count=10) == [1, 2]


def test_a_session_without_room_is_answered_when_it_has_some() -> None:
    shop = Shop(limits=Limits(mailbox_bytes_soft=10, mailbox_bytes_hard=20))
    reader = Patron(shop)
    session = shop.rig.broker.sessions.get(reader.session)
    assert session is not None
    session.mailbox.offer(b"x" * 15, 15, shop.rig.now)
    waiting = reader.wait()
    shop.post_many(1)
    session.mailbox.take(shop.rig.now)
    assert reader.answer(waiting, shop.do(Drained(reader.session))) == [1]


def test_bodies_that_are_not_in_memory_are_read() -> None:
    shop = Shop(limits=Limits(bodies_bytes=1))
    shop.post_many(2)
    reader = Patron(shop)
    effects = shop.do(reader.pulling())
    assert [e.message.body for e in effects if isinstance(e, Deliver)] == [b"body 1", b"body 2"]


def test_what_may_not_be_read_is_refused() -> None:
    shop = Shop(replace(FANOUT, readers=("alice",)))
    assert "readers" in str(Patron(shop, app="foo").error(Patron(shop, app="foo").pulling()))
    shop = Shop(FANOUT)
    reader = Patron(shop, app="nobody")
    assert isinstance(reader.error(reader.pulling()), NoSuchApp)
    reader = Patron(Shop(BROADCAST))
    assert isinstance(reader.error(reader.pulling()), Prohibited)


def test_there_are_only_so_many_names() -> None:
    shop = Shop(limits=Limits(readers_per_app=1))
    Patron(shop, b"a").fetch()
    other = Patron(shop, b"b")
    assert isinstance(other.error(other.pulling()), LimitReached)


def test_a_read_of_several_queues_that_fails_leaves_nothing_pending() -> None:
    shop = Shop(replace(PRIORITY, max_queues=1))
    shop.post_many(1)
    reader = Patron(shop)
    command = reader.pulling()
    [want] = command.wants
    both = replace(command, wants=(want, replace(want, queue=QueueId(b"bmq://orders/new"))))
    assert isinstance(reader.error(both), LimitReached)
    assert reader.held() == []
    assert reader.fetch() == [1]


def test_a_session_waits_for_one_thing() -> None:
    shop = Shop()
    reader = Patron(shop)
    reader.wait()
    assert isinstance(reader.error(reader.pulling()), Prohibited)


def test_several_wait_by_one_name_and_are_served_in_their_order() -> None:
    """And nobody who waits is answered because another one asks."""
    shop = Shop()
    first, second, third = (Patron(shop) for _ in range(3))
    waiting = [first.wait(1), second.wait(1)]
    assert third.fetch() == []
    sent = [shop.sending(shop.number()) for _ in range(3)]
    effects = shop.do(*sent)
    assert first.answer(waiting[0], effects) == [1]
    assert second.answer(waiting[1], effects) == [2]
    assert third.fetch() == [3]
    assert third.held() == [1, 2, 3]


def test_of_those_who_wait_by_one_name_any_may_leave() -> None:
    shop = Shop()
    first, second, third = (Patron(shop) for _ in range(3))
    first.wait()
    withdrawn = second.wait()
    waiting = third.wait()
    assert second.answer(withdrawn, second.withdraw(withdrawn)) == []
    first.leave()
    assert third.answer(waiting, shop.do(shop.sending(shop.number()))) == [1]
    assert shop.rig.shard.shared.pulling.readers.pulls == {}


def test_added_by_name_arrives_in_order() -> None:
    """Checks 1 and 12: an id is greater than the one before, also with the clock set back."""
    shop = Shop()
    session = shop.rig.session()

    def message(number: int) -> Message:
        return Message(MessageId(b"%08d" % number), b"b", 0.0)

    assert add(shop, session, message(1), makes=False) is None
    first = add(shop, session, message(1))
    shop.rig.now -= 100
    second = add(shop, session, message(2))
    shop.next_number = 3
    shop.post()
    again = shop.restarted()
    third = add(again, again.rig.session(), message(4))
    assert None not in (first, second, third)
    reader = Patron(again)
    assert reader.fetch() == [1, 2, 3, 4]
    assert [first, second, third] == [reader.ids[number] for number in (1, 2, 4)]
    assert sorted(reader.ids.values()) == list(reader.ids.values())


def test_a_failed_store_answers_every_request() -> None:
    shop = Shop()
    reader = Patron(shop)
    shop.rig.fail_at = 0
    effects = shop.do(reader.pulling())
    assert [type(e) for e in effects] == [Failed]
    assert [type(e) for e in shop.do(reader.pulling())] == [Pulled]


def test_a_delivery_to_a_reader_is_told_with_its_number() -> None:
    shop = Shop()
    shop.post_many(1)
    Patron(shop).fetch()
    [fact] = shop.rig.take_facts(Delivered)
    assert fact.session == -1


def test_a_queue_that_is_removed_has_no_readers() -> None:
    shop = Shop()
    reader = Patron(shop)
    waiting = reader.wait()
    effects = shop.do(Purge(shop.rig.session(), 99, Q, "orders", removes=True, forced=True))
    [failed] = [e for e in effects if isinstance(e, Failed)]
    assert (failed.ref, type(failed.error)) == (waiting.ref, AppGone)
    assert shop.rig.shard.shared.pulling.readers.by_number == {}


def test_an_app_that_the_domain_lost_has_no_readers() -> None:
    """Check 52: who waited is answered, and what was held is nobody's."""
    shop = Shop(FANOUT)
    holding, waiting = Patron(shop, b"h", app="foo"), Patron(shop, b"w", app="foo")
    shop.post_many(1)
    holding.fetch()
    command = waiting.wait()
    shop.domain = replace(FANOUT, apps=("bar", "baz"))
    effects = shop.do(Reconfigure(shop.domain))
    [failed] = [e for e in effects if isinstance(e, Failed)]
    assert (failed.ref, type(failed.error)) == (command.ref, AppGone)
    assert shop.rig.shard.shared.pulling.readers.by_number == {}
    assert isinstance(waiting.error(waiting.pulling()), NoSuchApp)
    assert Patron(shop, app="bar").fetch() == [1]


@pytest.mark.parametrize("count", [1, 3])
def test_a_reader_made_beforehand_is_known_once(count: int) -> None:
    shop = Shop()
    assert [Patron(shop).make() for _ in range(count)] == [1] + [0] * (count - 1)
