"""Sessions that come and go: what is told of them, and what is left of them."""

from __future__ import annotations

import pytest

from headgate.core.broker import Broker
from headgate.core.channels.audience import Kind
from headgate.core.delivery.sessions import Session
from headgate.core.effects import GoOn
from headgate.core.facts import SessionEased, SessionSlowed
from headgate.core.model.ids import Seq
from headgate.core.model.limits import Limits
from tests.core.channels.test_channels import FORM, heard


@pytest.fixture
def broker() -> Broker:
    limits = Limits(mailbox_bytes_soft=10, mailbox_bytes_hard=20, budget_bytes=40)
    return Broker({}, limits, Seq(0))


def opened(broker: Broker, wire: str = "resp") -> Session:
    session, _ = broker.open_session(wire, f"a client of {wire}", 0.0)
    return session


def test_nothing_is_left_of_a_session_that_is_gone_in_any_roster(broker: Broker) -> None:
    """S002-9: neither of its channels nor of its patterns, and others keep theirs."""
    gone, stays = opened(broker), opened(broker)
    channels = broker.channels
    for kind, name in ((Kind.EXACT, b"c"), (Kind.PATTERN, b"c*"), (Kind.SHARDED, b"s")):
        for session in (gone, stays):
            channels.subscribe(session.id, kind, [name], FORM)
    channels.subscribe(gone.id, Kind.EXACT, [b"its own"], FORM)
    broker.close_session(gone.id, "lost", 1.0)
    assert [channels.subscribers(Kind.EXACT, b"c"), channels.count(Kind.EXACT)] == [1, 1]
    assert [channels.subscribers(Kind.PATTERN, b"c*"), channels.count(Kind.PATTERN)] == [1, 1]
    assert [channels.subscribers(Kind.SHARDED, b"s"), channels.count(Kind.SHARDED)] == [1, 1]
    assert not channels.has(gone.id)
    assert channels.publish(Kind.EXACT, [(b"c", b"1"), (b"its own", b"2")]) == [2, 0]
    assert set(heard(channels)) == {stays.id}


def test_nothing_that_waited_reaches_a_session_that_is_gone(broker: Broker) -> None:
    """S000-74: what was in line is given up, its bytes are others', and why it ended is known."""
    gone = opened(broker)
    gone.mailbox.offer("m", 11, 0.0)
    fact = broker.close_session(gone.id, "lost", 1.0)
    assert fact is not None
    assert gone.id not in broker.sessions
    assert gone.mailbox.take(1.0) is None
    assert (broker.budget.bytes, broker.budget.stuck) == (0, {})
    assert list(broker.closed) == [fact]
    assert broker.close_session(gone.id, "again", 2.0) is None


def test_who_becomes_slow_and_who_catches_up_is_told_by_name(broker: Broker) -> None:
    slow = opened(broker)
    slow.mailbox.offer("m", 11, 1.0)
    slow.peer, slow.agent, slow.user = "127.0.0.1:7", "redis-py 8", "etl"
    name = "127.0.0.1:7 a client of resp"
    parts = ("127.0.0.1:7", "a client of resp", "redis-py 8", "etl")
    assert broker.pressed(1.0) == [SessionSlowed(1.0, slow.id, name, 11, *parts)]
    slow.mailbox.take(3.0)
    assert broker.pressed(3.0) == [SessionEased(3.0, slow.id, name, 2.0, *parts)]
    assert broker.pressed(3.0) == []


def test_of_a_session_that_is_gone_no_more_is_told(broker: Broker) -> None:
    slow = opened(broker)
    slow.mailbox.offer("m", 11, 1.0)
    broker.close_session(slow.id, "lost", 1.0)
    assert broker.pressed(1.0) == []


@pytest.mark.parametrize("end", ["reads", "leaves"])
def test_a_session_of_any_wire_may_free_a_publisher(broker: Broker, end: str) -> None:
    """S002-63: the budget is that of all."""
    other, listener, publisher = opened(broker, "bmq"), opened(broker), opened(broker)
    other.mailbox.offer("m", 30, 0.0)
    listener.mailbox.offer("m", 15, 0.0)
    assert broker.budget.is_blocking(listener.id)
    broker.waiting.wait(publisher.id, listener.id, broker.budget)
    assert broker.relieved(listener.id) == []
    if end == "reads":
        other.mailbox.take(1.0)
    else:
        broker.close_session(other.id, "lost", 1.0)
    assert broker.relieved(other.id) == [GoOn(publisher.id)]
    assert broker.relieved(other.id) == []


def test_a_publisher_that_is_gone_waits_for_nobody(broker: Broker) -> None:
    """RESP-63"""
    listener, publisher = opened(broker), opened(broker)
    listener.mailbox.offer("m", 21, 0.0)
    broker.waiting.wait(publisher.id, listener.id, broker.budget)
    broker.close_session(publisher.id, "lost", 1.0)
    assert len(broker.waiting) == 0
