"""What worlds found, told as plain tests."""

from __future__ import annotations

from itertools import count

from headgate.core.commands import (
    Close,
    Configure,
    Confirm,
    Create,
    Delete,
    Disconnect,
    Drained,
    Get,
    Interest,
    Open,
    Send,
    Subscribe,
    Tick,
)
from headgate.core.effects import Deliver, End, Failed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.store.memory import MemoryStore
from headgate.testing.rig import Rig, deliveries

SMP = Domain("smp", Mode.EXCLUSIVE)
WORK = Domain("work", Mode.PRIORITY)
NEWS = Domain("news", Mode.FANOUT, apps=("a",))
Q = QueueId(b"q")
_refs = count(1)


def opening(session: SessionId, *interests: Interest, write: bool = False) -> Open:
    return Open(session, next(_refs), Q, "work", WHOLE, bool(interests), write, interests)


def sending(session: SessionId, body: bytes, queue: QueueId = Q) -> Send:
    return Send(session, next(_refs), queue, Message(MessageId(body), body, 1000.0))


def test_a_message_and_the_end_of_its_consumer_fit_into_one_turn() -> None:
    """The consumer had no seat any more, so its gate could not be held shut."""
    rig = Rig(WORK)
    producer, consumer = rig.session(), rig.session()
    rig.do(opening(producer, write=True), opening(consumer, Interest()))
    rig.broker.close_session(consumer, "lost", rig.now)
    assert deliveries(rig.do(sending(producer, b"m1"), Disconnect(consumer))) == []
    other = rig.session()
    assert deliveries(rig.do(opening(other, Interest()))) == [b"m1"]


def test_a_message_and_the_close_of_a_full_consumer_fit_into_one_turn() -> None:
    """Closed, the queue was no longer among those held shut."""
    rig = Rig(WORK, limits=Limits(mailbox_bytes_soft=10))
    producer, consumer = rig.session(), rig.session()
    rig.do(opening(producer, write=True), opening(consumer, Interest()))
    session = rig.broker.sessions.get(consumer)
    assert session is not None
    session.mailbox.offer("something", 11, rig.now)
    closing = Close(consumer, next(_refs), Q)
    assert deliveries(rig.do(sending(producer, b"m1"), closing)) == []


def test_what_waited_for_room_goes_before_what_is_in_line_again() -> None:
    """A mailbox filled up in the middle of a line; the rest of it came first."""
    rig = Rig(WORK, limits=Limits(mailbox_bytes_soft=100))
    producer, consumer = rig.session(), rig.session()
    rig.do(opening(producer, write=True), opening(consumer, Interest("x == 1")))
    bodies = [b"8 bytes1", b"8 bytes2", b"8 bytes3", b"8 bytes4"]
    for body in bodies:
        rig.do(sending(producer, body))
    changing = Configure(consumer, next(_refs), Q, (Interest(None, 0, Window(10)),))
    assert deliveries(rig.turn([changing]).effects) == bodies[:2]
    assert deliveries(rig.turn([Drained(consumer)]).effects) == bodies[2:]


def test_a_queue_that_nobody_opened_takes_no_messages() -> None:
    """After a restart a fan-out took them as if it were an exclusive queue: with a receipt,
    for no app of its own, and forgot them when it was opened."""
    store = MemoryStore()
    first = Rig(NEWS, store=store)
    producer = first.session()
    first.do(Open(producer, next(_refs), Q, "news", WHOLE, False, True))
    rig = Rig(NEWS, store=store)
    effects = rig.do(sending(rig.session(), b"m1"))
    assert [type(effect) for effect in effects] == [Failed]


def test_a_failed_turn_forgets_no_message_id() -> None:
    """A tick forgot the oldest id because of a message that then was not accepted."""
    rig = Rig(WORK, limits=Limits(remembered_ids=2))
    producer = rig.session()
    rig.do(opening(producer, write=True))
    rig.do(sending(producer, b"m1"), sending(producer, b"m2"))
    rig.fail_at = 0
    rig.turn([sending(producer, b"m3"), Tick()])
    assert list(rig.shard.shared.queues[Q].remembered.arrivals) == [b"m1", b"m2"]


def test_a_subscriber_that_was_displaced_in_between_gets_the_head_again() -> None:
    """It had been given the message before its END, and was not given it after."""
    rig = Rig(SMP)
    one, two, sender = rig.session(), rig.session(), rig.session()
    rig.do(Create(one, next(_refs), Q, "smp", True))
    effects = rig.do(
        sending(sender, b"m1"), Subscribe(two, next(_refs), Q), Subscribe(one, next(_refs), Q)
    )
    heard = [type(x) for x in effects if x.session == one and isinstance(x, End | Deliver)]
    assert heard == [Deliver, End, Deliver]


def test_a_queue_made_anew_is_not_read_with_get_any_more() -> None:
    """The mark of a GET outlived its queue, and the new one was never pushed."""
    rig = Rig(SMP)
    one, sender = rig.session(), rig.session()
    rig.do(Create(one, next(_refs), Q, "smp"), Get(one, next(_refs), Q))
    rig.do(Delete(one, next(_refs), Q), Create(one, next(_refs), Q, "smp", True))
    assert deliveries(rig.do(sending(sender, b"m1"))) == [b"m1"]
    assert deliveries(rig.do(Confirm(one, next(_refs), Q, (MessageId(b"m1"),)))) == []
