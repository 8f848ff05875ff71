"""What is kept of exclusive queues, and that it stays within its bounds."""

from __future__ import annotations

from headgate.core.backlogs import Backlogs
from headgate.core.limits import Limits
from headgate.core.message import Message, Stored
from headgate.core.names import WHOLE, MessageId, QueueId, Seq
from headgate.core.parties import Address, Parties, Party
from headgate.core.steps import Head, QueueRecord
from headgate.core.undo import Undo
from tests.core.desk import Desk, ack, new, send, sub


def head(name: bytes, bodies: int, size: int = 100) -> Head:
    queue = QueueId(name)
    first = tuple(
        Stored(Seq(n + 1), queue, Message(MessageId(b"%d" % n), bytes(size), 0.0), (WHOLE,))
        for n in range(bodies)
    )
    parties = Parties((b"key",), b"secret", b"sender of " + name)
    return Head(QueueRecord(queue, "smp", None, parties), bodies, first)


def test_first_messages_are_bounded_in_bytes_over_all_queues() -> None:
    backlogs = Backlogs(Limits(backlogs_bytes=1000))
    names = [b"%d" % n for n in range(20)]
    for name in names:
        backlogs.adopt(head(name, 2))
        backlogs.settle([QueueId(name)])
        assert backlogs.bytes <= 1000
    kept = [name for name in names if backlogs.find(QueueId(name)) is not None]
    assert kept == names[-5:]  # the most recently used
    assert backlogs.owner(Address(Party.SENDER, b"sender of 0")) is None
    assert backlogs.owner(Address(Party.SENDER, b"sender of 19")) == b"19"


def test_bytes_are_counted_as_messages_come_and_go() -> None:
    backlogs = Backlogs(Limits())
    backlogs.adopt(head(b"q", 3))
    assert backlogs.bytes == 300
    backlogs.adopt(head(b"q", 1))
    assert backlogs.bytes == 100
    backlog = backlogs.find(QueueId(b"q"))
    assert backlog is not None
    backlog.pop(Undo())
    backlogs.settle([QueueId(b"q")])
    assert backlogs.bytes == 0


def test_what_a_failed_turn_forgot_is_counted_again() -> None:
    backlogs = Backlogs(Limits())
    backlogs.adopt(head(b"q", 3))
    undo = Undo()
    backlogs.forget(QueueId(b"q"), undo)
    assert backlogs.bytes == 0
    undo.take_back()
    assert backlogs.bytes == 300


def test_a_queue_that_does_not_fit_is_read_again_and_nothing_is_lost() -> None:
    desk = Desk(limits=Limits(backlogs_bytes=10))
    a, b = desk.sessions("a b")
    queues = [QueueId(b"q%d" % n) for n in range(5)]
    for queue in queues:
        desk.say(new(a, queue))
        desk.say(*(send(b, queue, f"m{n}", bytes(50)) for n in range(3)))
    assert len(desk.broker.shard.backlogs) == 0
    for queue in queues:
        name = queue.decode()
        assert desk.say(sub(a, queue)) == [f"a SOK {name}", f"a * MSG {name} m0"]
        assert desk.say(ack(a, queue, "m0")) == [f"a MSG {name} m1"]
