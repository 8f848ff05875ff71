"""Batches of sinks land once, all of them or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import ForgetSink, Land, RememberBatch, Send, Tick
from headgate.core.effects import Done, Failed
from headgate.core.facts import (
    Accepted,
    AutoConfirmed,
    QueueCreated,
    Repeated,
    SinkCommitted,
    SinkForgotten,
)
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.facts import Refused as RefusedFact
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, PropertyValue
from headgate.core.shared.sinks import FORGET_SECONDS, LOOK_SECONDS
from headgate.core.turn.store_requests import Batch, Load, SinkRecord
from headgate.errors import (
    BadMessage,
    HeadgateError,
    LimitReached,
    Prohibited,
    QuotaReached,
    StoreError,
)
from headgate.testing.rig import at_once
from tests.support.exclusive_queues import snapshot
from tests.support.shared_queues import (
    BROADCAST,
    FANOUT,
    OTHER,
    PRIORITY,
    Q,
    Shop,
    filters,
    message_id,
)


def messages(*numbers: int, **properties: PropertyValue) -> tuple[Message, ...]:
    return tuple(Message(message_id(n), b"body %d" % n, 1000.0, properties) for n in numbers)


def land(
    shop: Shop,
    batch: int,
    *numbers: int,
    sink: str = "s",
    queue: QueueId = Q,
    domain: str = "orders",
    **properties: PropertyValue,
) -> HeadgateError | None:
    """Let a batch land; return the error, if it was refused."""
    command = Land(
        shop.producers.setdefault(QueueId(b"sink"), shop.rig.session("sink")),
        shop.ref(),
        sink,
        batch,
        queue,
        domain,
        messages(*numbers, **properties),
    )
    [reply] = [e for e in shop.do(command) if isinstance(e, Done | Failed)]
    assert (reply.session, reply.ref) == (command.session, command.ref)
    return reply.error if isinstance(reply, Failed) else None


def remembered(shop: Shop) -> dict[str, int]:
    """What the store remembers of sinks."""
    loaded = at_once(shop.rig.store.load(Load(sinks=True)))
    return {sink: record.batch for sink, record in loaded.sinks.items()}


def test_a_batch_is_delivered_to_who_reads_the_queue() -> None:
    shop = Shop()
    a = shop.consumer()
    assert land(shop, 0, 1, 2, 3) is None
    assert a.got() == [1, 2, 3]
    assert shop.stored().keys() == {1, 2, 3}
    assert remembered(shop) == {"s": 0}
    assert shop.rig.take_facts(SinkCommitted) == [SinkCommitted(1000.0, "s", 0, 3)]
    assert len(shop.rig.take_facts(Accepted)) == 3


def test_messages_and_the_number_of_the_batch_are_one_transaction() -> None:
    shop = Shop()
    shop.rig.asked.clear()
    land(shop, 7, 1, 2)
    [batch] = [asked for asked in shop.rig.asked if isinstance(asked, Batch)]
    assert len(batch.append) == 2
    assert batch.sinks == {"s": SinkRecord(7, 1000.0)}
    assert Q in batch.create


def test_a_batch_that_comes_again_is_answered_and_not_done() -> None:
    shop = Shop()
    a = shop.consumer()
    land(shop, 4, 1)
    shop.rig.take_facts(SinkCommitted)
    for batch in (4, 3, 0):
        assert land(shop, batch, 8, 9) is None
    assert a.got() == [1]
    assert remembered(shop) == {"s": 4}
    assert shop.rig.take_facts(SinkCommitted) == []
    assert land(shop, 5, 2) is None
    assert land(shop, 0, 3, sink="other") is None
    assert a.got() == [2, 3]


def test_both_commits_of_one_turn_count_once() -> None:
    shop = Shop()
    session = shop.rig.session()
    command = Land(session, 1, "s", 0, Q, "orders", messages(1, 2))
    effects = shop.do(command, replace(command, ref=2))
    assert effects == [Done(session, 1), Done(session, 2)]
    assert shop.stored().keys() == {1, 2}


def test_the_queue_is_made_if_it_is_not_there() -> None:
    shop = Shop()
    assert land(shop, 0, 1) is None
    assert shop.rig.take_facts(QueueCreated) == [QueueCreated(1000.0, Q, "orders")]
    assert shop.consumer().got() == [1]


def test_a_queue_of_the_store_is_found() -> None:
    shop = Shop()
    shop.post()
    later = shop.restarted()
    assert land(later, 0, 2) is None
    assert later.rig.take_facts(QueueCreated) == []
    assert later.consumer().got() == [1, 2]
    assert later.usage().messages == 2


def test_a_router_that_begins_anew_knows_what_the_store_remembers() -> None:
    shop = Shop()
    land(shop, 3, 1)
    later = shop.restarted()
    later.rig.shard.shared.sinks.adopt(at_once(later.rig.store.load(Load(sinks=True))).sinks)
    assert land(later, 3, 1, 2) is None
    assert later.stored().keys() == {1}


def test_filters_of_apps_hold_for_a_batch() -> None:
    shop = Shop(replace(FANOUT, filters=filters(foo="x > 1")))
    foo, bar = shop.consumer(app="foo"), shop.consumer(app="bar")
    assert land(shop, 0, 1, x=1) is None
    assert land(shop, 1, 2, x=2) is None
    assert foo.got() == [2]
    assert bar.got() == [1, 2]
    assert len(shop.rig.take_facts(AutoConfirmed)) == 1


def test_a_batch_goes_to_everybody_who_hears_a_broadcast() -> None:
    shop = Shop(replace(BROADCAST, max_messages=1))
    a, b = shop.consumer(), shop.consumer()
    assert land(shop, 0, 1, 2) is None
    assert (a.got(), b.got()) == ([1, 2], [1, 2])
    assert shop.stored() == {}


def test_a_message_whose_id_is_known_is_not_stored_again() -> None:
    shop = Shop()
    shop.post()
    assert land(shop, 0, 1, 2, 2) is None
    assert shop.stored().keys() == {1, 2}
    assert [fact.message for fact in shop.rig.take_facts(Repeated)] == [
        message_id(1),
        message_id(2),
    ]
    assert len(shop.rig.take_facts(Accepted)) == 2
    assert shop.usage().messages == 2


@pytest.mark.parametrize(
    ("bound", "scope", "unit"),
    [
        ({"max_messages": 3}, "queue", "messages"),
        ({"max_bytes": 18}, "queue", "bytes"),
        ({"domain_max_messages": 3}, "domain", "messages"),
        ({"domain_max_bytes": 18}, "domain", "bytes"),
    ],
)
def test_a_batch_that_does_not_fit_leaves_nothing(
    bound: dict[str, int], scope: str, unit: str
) -> None:
    shop = Shop(replace(PRIORITY, **bound))  # type: ignore[arg-type]
    a = shop.consumer()
    error = land(shop, 0, 1, 2, 3, 4)
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit) == (scope, unit)
    assert shop.stored() == {}
    assert a.got() == []
    assert remembered(shop) == {}
    assert shop.rig.take_facts(SinkCommitted) == []
    assert land(shop, 0, 1, 2, 3) is None
    assert a.got() == [1, 2, 3]
    assert isinstance(land(shop, 1, 4), QuotaReached)


def test_a_queue_is_not_made_for_a_batch_that_is_refused() -> None:
    shop = Shop(replace(PRIORITY, max_messages=1))
    assert isinstance(land(shop, 0, 1, 2), QuotaReached)
    assert shop.usage().queues == 0
    assert shop.rig.take_facts(QueueCreated) == []


def test_one_message_that_no_queue_could_take_refuses_the_batch() -> None:
    shop = Shop(limits=Limits(body_bytes=10))
    session = shop.rig.session()
    large = Message(message_id(2), 11 * b"x", 0.0)
    effects = shop.do(Land(session, 1, "s", 0, Q, "orders", (*messages(1), large)))
    [failed] = effects
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, LimitReached)
    assert failed.error.name == "body_bytes"
    assert shop.stored() == {}
    assert [fact.name for fact in shop.rig.take_facts(LimitReachedFact)] == ["body_bytes"]
    assert isinstance(land(shop, 0, 1, x=2**63), BadMessage)


def test_a_domain_without_shared_queues_is_refused() -> None:
    shop = Shop()
    assert isinstance(land(shop, 0, 1, domain="nope"), Prohibited)
    assert isinstance(shop.rig.take_facts(RefusedFact)[0], RefusedFact)


def test_a_queue_of_another_domain_is_refused() -> None:
    shop = Shop()
    shop.post()
    shop.rig.shard.domains["more"] = replace(PRIORITY, name="more")
    assert isinstance(land(shop, 0, 1, domain="more"), Prohibited)
    later = shop.restarted()
    later.rig.shard.domains["more"] = replace(PRIORITY, name="more")
    assert isinstance(land(later, 0, 1, domain="more"), Prohibited)


def test_a_sink_is_a_producer_as_any_other() -> None:
    shop = Shop(replace(PRIORITY, max_producers=1))
    assert land(shop, 0, 1) is None
    shop.producer()
    error = land(shop, 1, 2)
    assert isinstance(error, LimitReached)
    assert error.name == "max_producers"
    shop.producer(OTHER)
    assert shop.stored().keys() == {1}


def test_a_domain_has_room_for_so_many_queues() -> None:
    shop = Shop(replace(PRIORITY, max_queues=1))
    shop.post(queue=OTHER)
    error = land(shop, 0, 5)
    assert isinstance(error, LimitReached)
    assert error.name == "max_queues"
    assert shop.usage().queues == 1


def test_nothing_lands_while_the_journal_does_not_keep_up() -> None:
    shop = Shop(limits=Limits(outbox_bytes=1))
    shop.rig.shard.outbox.found(1, 1)
    error = land(shop, 0, 1)
    assert isinstance(error, LimitReached)
    assert error.name == "outbox_bytes"
    assert remembered(shop) == {}


def test_there_are_so_many_sinks() -> None:
    shop = Shop(limits=Limits(sinks=2))
    assert land(shop, 0, 1, sink="a") is None
    assert land(shop, 0, 2, sink="b") is None
    error = land(shop, 0, 3, sink="c")
    assert isinstance(error, LimitReached)
    assert (error.name, error.limit) == ("sinks", 2)
    assert land(shop, 1, 4, sink="a") is None
    assert shop.stored().keys() == {1, 2, 4}


def test_a_turn_that_fails_leaves_no_trace_of_a_batch() -> None:
    for fail_at in (0, 1):
        shop = Shop()
        land(shop, 0, 1)
        shop.post(queue=OTHER)
        later = shop.restarted()
        later.rig.shard.shared.sinks.adopt(at_once(later.rig.store.load(Load(sinks=True))).sinks)
        session = later.rig.session("sink")
        before = (
            snapshot(later.rig.shard.shared.sinks.records),
            snapshot(later.rig.shard.shared.queues),
        )
        later.rig.fail_at = fail_at
        [failed] = later.do(Land(session, 1, "s", 1, Q, "orders", messages(2, 3)))
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, StoreError)
        after = (
            snapshot(later.rig.shard.shared.sinks.records),
            snapshot(later.rig.shard.shared.queues),
        )
        assert after == before
        assert land(later, 1, 2, 3) is None
        assert later.consumer().got() == [1, 2, 3]


def test_a_batch_without_messages_is_remembered() -> None:
    shop = Shop()
    assert land(shop, 0) is None
    assert remembered(shop) == {"s": 0}


def test_a_batch_of_channels_is_remembered() -> None:
    shop = Shop()
    session = shop.rig.session()
    assert shop.do(RememberBatch(session, 1, "s", 5, 10)) == [Done(session, 1)]
    assert shop.do(RememberBatch(session, 2, "s", 4, 10)) == [Done(session, 2)]
    assert remembered(shop) == {"s": 5}
    assert shop.rig.take_facts(SinkCommitted) == [SinkCommitted(1000.0, "s", 5, 10)]


def test_a_sink_that_is_forgotten_may_begin_again() -> None:
    shop = Shop()
    land(shop, 5, 1)
    session = shop.rig.session()
    assert shop.do(ForgetSink(session, 1, "s")) == [Done(session, 1)]
    assert shop.do(ForgetSink(session, 2, "s")) == [Done(session, 2)]
    assert remembered(shop) == {}
    assert shop.rig.take_facts(SinkForgotten) == [SinkForgotten(1000.0, "s", 5)]
    assert land(shop, 0, 2) is None
    assert shop.stored().keys() == {1, 2}


def test_a_sink_that_was_not_used_for_long_is_forgotten() -> None:
    shop = Shop(replace(PRIORITY, message_ttl=None))
    land(shop, 0, 1, sink="old")
    shop.pass_time(FORGET_SECONDS / 2)
    land(shop, 0, 2, sink="young")
    shop.pass_time(FORGET_SECONDS / 2)
    assert remembered(shop).keys() == {"old", "young"}
    shop.pass_time(LOOK_SECONDS - 1)
    assert remembered(shop).keys() == {"old", "young"}
    shop.pass_time(1)
    assert remembered(shop).keys() == {"young"}
    assert [fact.sink for fact in shop.rig.take_facts(SinkForgotten)] == ["old"]


@pytest.mark.once
def test_only_so_many_sinks_are_forgotten_in_one_turn() -> None:
    shop = Shop(limits=Limits(expiries=2))
    for n in range(3):
        land(shop, 0, sink=f"s{n}")
    shop.pass_time(FORGET_SECONDS + 1)
    assert remembered(shop).keys() == {"s2"}
    shop.do(Tick())
    assert remembered(shop) == {}


def test_a_tick_that_fails_looks_again() -> None:
    shop = Shop()
    land(shop, 0, sink="s")
    shop.rig.now += FORGET_SECONDS + 1
    shop.rig.fail_at = 0
    shop.do(Tick())
    assert remembered(shop) == {}


def test_a_sender_and_a_sink_share_a_queue() -> None:
    shop = Shop()
    session = shop.producer()
    a = shop.consumer()
    sending = Send(session, 1, Q, messages(1)[0])
    landing = Land(shop.rig.session(), 2, "s", 0, Q, "orders", messages(1, 2))
    shop.do(sending, landing)
    assert a.got() == [1, 2]
