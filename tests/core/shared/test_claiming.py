"""Messages that one reader takes over from another. The numbers are those of the checks in
docs/design/streams.md."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Tick
from headgate.core.effects import Failed
from headgate.core.facts import Claimed, Poisoned, Purged
from headgate.core.model.stream_id import FIRST, StreamId, id_of
from headgate.core.reader_commands import Pull, RemoveMessages
from headgate.core.reader_effects import ClaimDone, Pulled
from headgate.errors import NoSuchApp
from tests.support.readers import Patron
from tests.support.shared_queues import FANOUT, PRIORITY, Q, Shop


def shop_with(count: int) -> tuple[Shop, Patron, Patron]:
    """One reader that holds so many messages, and another."""
    shop = Shop()
    a, b = Patron(shop, b"a"), Patron(shop, b"b")
    shop.post_many(count)
    a.fetch()
    return shop, a, b


def test_what_was_held_long_enough_is_handed_over() -> None:
    """Check 42: with its count, and told."""
    shop, a, b = shop_with(2)
    shop.rig.now += 5
    assert b.claim(a.ids[1], idle=6) == []
    assert b.claim(a.ids[1], StreamId(1, 1), idle=5) == [1]
    assert a.held() == [2]
    assert [(p.reader, p.deliveries, p.idle) for p in b.pending()] == [(b"b", 2, 0), (b"a", 2, 0)]
    assert len(shop.rig.take_facts(Claimed)) == 1
    assert b.done(1) == 1


def test_ids_alone_do_not_count_as_a_delivery() -> None:
    """Check 42."""
    shop, a, b = shop_with(1)
    [done] = [e for e in shop.do(b.claiming(a.ids[1], only_ids=True)) if isinstance(e, ClaimDone)]
    assert done.ids == (a.ids[1],)
    assert [(p.reader, p.deliveries) for p in b.pending()] == [(b"b", 1)]


def test_time_and_count_can_be_set() -> None:
    """Check 42: IDLE, TIME, RETRYCOUNT."""
    shop, a, b = shop_with(1)
    b.claim(a.ids[1], since=shop.rig.now - 60, deliveries=9)
    assert [(p.deliveries, p.idle) for p in b.pending()] == [(9, 60)]
    b.claim(a.ids[1], since=shop.rig.now + 60)
    assert [p.idle for p in b.pending()] == [0]


def test_what_is_in_line_is_taken_only_by_force() -> None:
    """Check 42."""
    shop = Shop()
    reader, other = Patron(shop), Patron(shop, b"other")
    reader.fetch()
    shop.post_many(2)
    queue = shop.rig.shard.shared.queues[Q]
    id = id_of(next(iter(queue.entries.values())))
    assert reader.claim(id) == []
    assert reader.claim(id, forced=True) == [1]
    assert other.fetch() == [2]
    assert [p.deliveries for p in reader.pending()] == [1, 1]


def test_a_sweep_goes_through_in_pages() -> None:
    """Check 43."""
    _, _, b = shop_with(25)
    cursor, got, pages = FIRST, [], 0
    while pages == 0 or cursor != FIRST:
        some, done = b.sweep(cursor, count=10)
        got += some
        cursor = done.next
        pages += 1
    assert got == list(range(1, 26))
    assert pages == 3


def test_a_sweep_of_much_gives_a_page() -> None:
    """Check 40: what it costs is in docs/design/streams.md."""
    shop = Shop(replace(PRIORITY, max_messages=None))
    holder, other = Patron(shop, b"holder"), Patron(shop, b"other")
    shop.post_many(3000)
    while holder.fetch(1000):
        pass
    got, done = other.sweep(count=100)
    assert (len(got), done.next) == (100, holder.ids[101])
    assert len(other.pending(count=3000)) == 3000


def test_a_claim_is_an_attempt_and_may_be_the_last() -> None:
    """Check 44."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=2))
    a, b = Patron(shop, b"a"), Patron(shop, b"b")
    shop.post_many(1)
    a.fetch()
    assert b.sweep()[0] == [1]
    assert b.sweep()[0] == [1]  # its own: nobody was lost
    got, done = a.sweep()
    assert got == []
    assert done.poisoned == (b.ids[1],)
    assert len(shop.rig.take_facts(Poisoned)) == 1
    assert shop.stored() == {}


def test_what_another_wire_holds_is_shown_and_not_taken() -> None:
    """Check 45."""
    shop = Shop()
    consumer = shop.consumer()
    shop.post_many(1)
    reader = Patron(shop)
    assert reader.sweep()[0] == []
    [pending] = reader.pending()
    assert (pending.reader, pending.session) == (None, consumer.session)
    assert reader.claim(pending.id) == []
    assert reader.view().others == ((consumer.session, 1),)


def test_a_sweep_with_an_expression_takes_what_matches() -> None:
    """Check 46."""
    shop = Shop()
    a, b = Patron(shop, b"a"), Patron(shop, b"b", where="x == 2")
    shop.post_each(1, 2, 3)
    a.fetch()
    assert b.sweep()[0] == [2]


def test_of_two_that_sweep_at_once_one_has_each() -> None:
    """Check 47: the first takes it, and for the second it was not held long enough."""
    shop, _, b = shop_with(3)
    c = Patron(shop, b"c")
    shop.rig.now += 5
    first = b.claiming(*b.ids.values(), idle=5)
    assert b.sweep(idle=5)[0] == [1, 2, 3]
    assert c.sweep(idle=5)[0] == []
    assert first is not None


def test_claimed_messages_stay_with_a_session_that_is_there() -> None:
    shop, _, b = shop_with(1)
    b.sweep()
    b.leave()
    shop.pass_time(31)
    assert Patron(shop, b"c").fetch() == [1]


def test_of_no_queue_nothing_is_claimed() -> None:
    shop = Shop()
    reader = Patron(shop)
    assert isinstance(reader.error(reader.claiming(StreamId(1, 1))), NoSuchApp)
    assert reader.acknowledge(StreamId(1, 1)) == 0


def test_pending_messages_are_listed_by_who_and_how_long() -> None:
    """Check 41, of the core."""
    shop, a, b = shop_with(2)
    shop.rig.now += 10
    shop.post_many(1)
    b.fetch()
    assert [p.idle for p in a.pending()] == [10, 10, 0]
    assert [p.reader for p in a.pending(idle=5)] == [b"a", b"a"]
    assert [p.reader for p in a.pending(reader=b"b")] == [b"b"]
    assert len(a.pending(count=2)) == 2
    assert [p.id for p in a.pending(first=a.ids[2])] == [a.ids[2], b.ids[3]]
    view = a.view()
    assert (view.pending, view.first, view.last) == (3, a.ids[1], b.ids[3])
    assert [(r.name, r.pending) for r in view.readers] == [(b"a", 2), (b"b", 1)]


def test_removed_messages_are_gone_for_every_app() -> None:
    """Held, in line or put aside: nobody has them any more, and the store neither."""
    shop = Shop(FANOUT)
    foo, bar = Patron(shop, b"f", app="foo"), Patron(shop, b"b", app="bar", where="x == 1")
    shop.post_each(1, 2, 3)
    foo.fetch(1)
    bar.fetch()
    entries = shop.rig.shard.shared.queues[Q].entries
    first, second, third = (id_of(entry) for entry in entries.values())
    assert foo.remove(first, second, StreamId(1, 1)) == 2
    assert foo.remove(first) == 0
    assert list(shop.stored()) == [3]
    assert foo.pending() == bar.pending() == []
    assert foo.fetch() == [3]
    assert foo.ids[3] == third
    assert len(shop.rig.take_facts(Purged)) == 2


def test_who_may_not_write_removes_nothing() -> None:
    shop = Shop(replace(PRIORITY, writers=("alice",)))
    reader = Patron(shop)
    reader.fetch()
    command = RemoveMessages(reader.session, 1, Q, "orders", (StreamId(1, 1),))
    assert [type(e) for e in shop.do(command)] == [Failed]


# Claiming with a fetch.


def claimed(shop: Shop, reader: Patron, command: Pull) -> tuple[list[int], list[tuple[float, int]]]:
    """The messages that a fetch was given, and what it was told of their past."""
    effects = shop.do(command)
    [past] = [e.past for e in effects if isinstance(e, Pulled)]
    assert past is not None
    return reader.answer(command, effects), list(past.values())


def test_a_fetch_that_claims_gets_what_was_held_before_what_is_new() -> None:
    """What was given first is claimed first, and both count."""
    shop, a, b = shop_with(2)
    shop.rig.now += 5
    a.held(after=a.ids[1])
    shop.post_many(3)
    assert claimed(shop, b, b.pulling(2, claims=5)) == ([1, 3], [(5, 1), (0, 0)])
    shop.rig.now += 5
    assert claimed(shop, a, a.pulling(claims=5)) == (
        [1, 2, 3, 4, 5],
        [(5, 2), (5, 2), (5, 1), (0, 0), (0, 0)],
    )
    assert [p.deliveries for p in a.pending()] == [3, 3, 2, 1, 1]
    assert len(shop.rig.take_facts(Claimed)) == 4
    assert claimed(shop, b, b.pulling(claims=5)) == ([], [])


def test_a_fetch_claims_what_its_expression_is_true_for() -> None:
    shop = Shop()
    a, b = Patron(shop, b"a"), Patron(shop, b"b", where="x > 1")
    for x in range(4):
        shop.post(x=x)
    a.fetch(3)
    assert claimed(shop, b, b.pulling(claims=0)) == ([3, 4], [(0, 1), (0, 0)])


def test_what_was_claimed_is_not_confirmed_with_it() -> None:
    """Only what is new is."""
    shop, _, b = shop_with(1)
    shop.post_many(1)
    assert claimed(shop, b, b.pulling(confirms=True, claims=0))[0] == [1, 2]
    assert b.held() == [1]


def test_a_fetch_that_waits_is_given_what_was_held_for_long_enough() -> None:
    shop, _, b = shop_with(2)
    shop.rig.now += 4
    waiting = b.wait(claims=5)
    assert shop.do(Tick()) == []
    shop.rig.now += 1
    assert b.answer(waiting, shop.do(Tick())) == [1, 2]
    assert not shop.rig.shard.shared.pulling.readers.pulls


def test_a_fetch_does_not_claim_from_a_session_that_is_alive() -> None:
    """Check 45."""
    shop = Shop()
    other, reader = shop.consumer(), Patron(shop)
    shop.post_many(2)
    shop.rig.now += 5
    assert claimed(shop, reader, reader.pulling(claims=0)) == ([], [])
    assert [p.reader for p in reader.pending()] == [None, None]
    other.confirm(1, 2)


def test_a_fetch_may_poison_what_it_claims() -> None:
    """Check 44."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a, b = Patron(shop, b"a"), Patron(shop, b"b")
    shop.post_many(2)
    a.fetch(1)
    assert claimed(shop, b, b.pulling(claims=0))[0] == [2]
    assert len(shop.rig.take_facts(Poisoned)) == 1


def test_what_came_back_says_how_often_it_was_given() -> None:
    shop, a, b = shop_with(1)
    a.drop()
    assert claimed(shop, b, b.pulling(claims=5)) == ([1], [(0, 1)])


def test_a_fetch_claims_no_more_than_it_may_hold_in_one_answer() -> None:
    shop, _, b = shop_with(3)
    shop.rig.now += 2
    assert claimed(shop, b, b.pulling(2, claims=1))[0] == [1, 2]
    assert claimed(shop, b, b.pulling(1, claims=1))[0] == [3]
