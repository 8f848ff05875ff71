"""What is kept of exclusive queues, and that it stays within its bounds."""

from __future__ import annotations

import random

import pytest

from headgate.core.effects import Deliver, Effect
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, Stored
from headgate.core.model.parties import Address, Parties, Party, QueueRecord
from headgate.core.turn.store_requests import Head
from headgate.core.turn.undo import Undo
from tests.support.exclusive_queues import Q1, Q2, Q3, Desk, ack, new, send, sub


def head(name: bytes, bodies: int, size: int = 100) -> Head:
    queue = QueueId(name)
    first = tuple(
        Stored(Seq(n + 1), queue, Message(MessageId(b"%d" % n), bytes(size), 0.0), (WHOLE,))
        for n in range(bodies)
    )
    parties = Parties((b"key",), b"secret", b"sender of " + name)
    return Head(QueueRecord(queue, "smp", None, parties), bodies, first)


def test_first_messages_are_bounded_in_bytes_over_all_queues() -> None:
    cache = QueueCache(Limits(backlogs_bytes=1000))
    names = [b"%d" % n for n in range(20)]
    for name in names:
        cache.adopt(head(name, 2))
        cache.settle([QueueId(name)])
        assert cache.bytes <= 1000
    kept = [name for name in names if cache.find(QueueId(name)) is not None]
    assert kept == names[-5:]  # the most recently used
    assert cache.owner(Address(Party.SENDER, b"sender of 0")) is None
    assert cache.owner(Address(Party.SENDER, b"sender of 19")) == b"19"


def test_bytes_are_counted_as_messages_come_and_go() -> None:
    cache = QueueCache(Limits())
    cache.adopt(head(b"q", 3))
    assert cache.bytes == 300
    cache.adopt(head(b"q", 1))
    assert cache.bytes == 100
    cached = cache.find(QueueId(b"q"))
    assert cached is not None
    cached.pop(Undo())
    cache.settle([QueueId(b"q")])
    assert cache.bytes == 0


def test_what_a_failed_turn_forgot_is_counted_again() -> None:
    cache = QueueCache(Limits())
    cache.adopt(head(b"q", 3))
    undo = Undo()
    cache.forget(QueueId(b"q"), undo)
    assert cache.bytes == 0
    undo.take_back()
    assert cache.bytes == 300


def test_a_queue_that_does_not_fit_is_read_again_and_nothing_is_lost() -> None:
    desk = Desk(limits=Limits(backlogs_bytes=10))
    a, b = desk.sessions("a b")
    queues = [QueueId(b"q%d" % n) for n in range(5)]
    for queue in queues:
        desk.say(new(a, queue))
        desk.say(*(send(b, queue, f"m{n}", bytes(50)) for n in range(3)))
    assert len(desk.broker.shard.cache) == 0
    for queue in queues:
        name = queue.decode()
        assert desk.say(sub(a, queue)) == [f"a SOK {name}", f"a * MSG {name} m0"]
        assert desk.say(ack(a, queue, "m0")) == [f"a MSG {name} m1"]


TINY = {
    "one head": Limits(heads=1),
    "one byte of heads": Limits(heads_bytes=1),
    "one backlog": Limits(backlogs=1),
    "one of all": Limits(heads=1, heads_bytes=1, backlogs=1),
}


@pytest.mark.parametrize("limits", TINY.values(), ids=TINY.keys())
def test_small_caches_do_not_change_what_is_delivered(limits: Limits) -> None:
    """SMP-17: the same story with all in memory and with nearly nothing in memory."""

    def story(desk: Desk) -> list[str]:
        shuffle = random.Random(7)
        a, b, x = desk.sessions("a b x")
        lines = desk.say(*(new(x, q) for q in (Q1, Q2, Q3)))
        for turn in range(30):
            q = shuffle.choice((Q1, Q2, Q3))
            lines += desk.say(*(send(x, q, f"{turn}.{k}") for k in range(shuffle.randrange(4))))
            lines += desk.say(sub(shuffle.choice((a, b)), q))
        for q in (Q1, Q2, Q3):
            got: list[Effect] = desk.do(sub(a, q))
            while isinstance(got[-1], Deliver):
                lines += desk.lines(got)
                got = desk.do(ack(a, q, got[-1].message.id.decode()))
        return lines

    assert story(Desk(limits=limits)) == story(Desk())
