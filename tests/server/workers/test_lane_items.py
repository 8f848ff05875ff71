"""Commands and effects as bytes between workers."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, get_args

import pytest

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core.model.ids import MessageId, QueueId, Seq, ServiceId, SessionId
from headgate.core.model.interest import Interest
from headgate.core.model.message import Declared, Fields, Message, Notice
from headgate.core.model.parties import (
    Address,
    Link,
    Notifier,
    Parties,
    Party,
    Purpose,
    Secure,
    SetLink,
)
from headgate.core.model.stream_id import StreamId
from headgate.core.model.tally import Tally
from headgate.core.reader_commands import Block, FeedPart, MakeQueue, TrimTo, View, Want
from headgate.core.reader_effects import AppView, PendingMessage, ReaderView
from headgate.errors import BadSubscription, ExpressionError, HeadgateError, QuotaReached
from headgate.server.workers import lane_items as items
from headgate.server.workers.lane_items import Numbered

SESSION = SessionId(5)
ID = StreamId(7, 9)
PARTIES = Parties(
    (b"one", b"two"),
    b"secret",
    b"sender",
    b"key",
    Purpose.CONTACT,
    Link(b"link", b"fixed", b"user"),
    Notifier(b"notifier", b"key", b"secret", ServiceId(b"service")),
)
MESSAGE = Message(MessageId(b"id"), b"body", 1.5, Declared({"n": 5, "t": "x"}, b"\3\5"))
WRONG = BadSubscription(ExpressionError("syntax", "what is this", "a <", 3))

EXAMPLES: dict[str, Any] = {
    "session": SESSION,
    "ref": 3,
    "queue": QueueId(b"queue"),
    "domain": "orders",
    "app": "app",
    "message": MESSAGE,
    "messages": (MessageId(b"id"), MessageId(b"other")),
    "parties": PARTIES,
    "change": Secure(b"key"),
    "via": Address(Party.SENDER, b"sender"),
    "notifier": b"notifier",
    "fingerprint": b"print",
    "role": "M",
    "service": ServiceId(b"service"),
    "expected": Tally(2, 2**127),
    "tally": Tally(2, 2**127),
    "interests": (Interest("n > 4", 2),),
    "client": "ann",
    "sink": "sink",
    "batch": 4,
    "wants": (Want(QueueId(b"queue"), "orders", "app", ID),),
    "reader": b"reader",
    "interest": Interest("n > 4"),
    "idle": 2.0,
    "first": ID,
    "last": ID,
    "count": 4,
    "error": WRONG,
    "notice": Notice(b"notifier", b"secret", MessageId(b"id"), 2.5),
    "standing": e.Standing.GETTING,
    "delivered": MessageId(b"id"),
    "head": MESSAGE,
    "id": ID,
    "ids": (ID,),
    "next": ID,
    "poisoned": (),
    "exists": True,
    "apps": (AppView("app", (ReaderView(b"r", 1, 0.5),), ((SESSION, 2),), 3, ID, None, 4),),
    "seq": Seq(8),
    "after": ID,
    "to": TrimTo(5, ID, 2),
    "channel": b"news",
    "body": b"rain",
    "parts": (FeedPart(QueueId(b"queue"), "orders", MESSAGE, True),),
    "taken": 1,
    "past": {(QueueId(b"queue"), Seq(8)): (1.5, 2)},
}
OTHERS: dict[tuple[str, str], Any] = {
    ("Deliver", "interests"): (1, 2),
    ("Deliver", "parties"): Parties((), b"secret", b""),
    ("Land", "messages"): (MESSAGE,),
    ("Purge", "messages"): 3,
    ("RememberBatch", "messages"): 3,
    ("Receipt", "message"): MessageId(b"id"),
    ("PurgeDone", "messages"): 3,
    ("Inspected", "messages"): 3,
    ("Surveyed", "messages"): 3,
    ("Acknowledge", "messages"): (ID,),
    ("RemoveMessages", "messages"): (ID,),
    ("TakeOver", "messages"): (ID,),
    ("Survey", "apps"): ("app",),
    ("Browse", "wants"): (View(QueueId(b"queue"), "orders", ID),),
    ("PendingListed", "messages"): (PendingMessage(ID, None, SESSION, 1.0, 2),),
}


def example(kind: type[Any]) -> Any:  # noqa: ANN401
    """A value with something in every field that has an example, or needs one."""
    named = {}
    for each in fields(kind):
        key = kind.__name__, each.name
        if key in OTHERS or each.name in EXAMPLES:
            named[each.name] = OTHERS.get(key, EXAMPLES.get(each.name))
        else:
            assert each.default is not MISSING or each.default_factory is not MISSING, key
    return kind(**named)


@pytest.mark.parametrize("kind", [*get_args(c.Request), c.Disconnect])
def test_every_command_arrives_as_it_was_sent(kind: type[Any]) -> None:
    command = example(kind)
    item = items.decode(items.encode(items.pack_command(Numbered(3, command), repr)))
    assert items.unpack_command(item, lambda proof: proof, MESSAGE.arrived) == command


@pytest.mark.parametrize("kind", get_args(e.Effect))
def test_every_effect_arrives_as_it_was_sent(kind: type[Any]) -> None:
    effect = example(kind)
    item = items.decode(items.encode(items.pack_effect(effect)))
    number = items.number_of(item)
    assert number == getattr(effect, "ref", 0)
    found = items.unpack_effect(item, number)
    if isinstance(effect, e.Failed):
        assert isinstance(found, e.Failed)
        assert_same(found.error, effect.error)
    else:
        assert found == effect


def assert_same(found: HeadgateError, error: HeadgateError) -> None:
    assert type(found) is type(error)
    assert str(found) == str(error)
    for name, inside in vars(error).items():
        if isinstance(inside, HeadgateError):
            assert_same(getattr(found, name), inside)
        else:
            assert getattr(found, name) == inside


def test_an_error_has_what_the_wires_ask_of_it() -> None:
    failed = e.Failed(SESSION, 3, QuotaReached("queue", "messages", 10))
    found = items.unpack_effect(items.decode(items.encode(items.pack_effect(failed))), 3)
    assert isinstance(found, e.Failed)
    assert_same(found.error, failed.error)


def test_a_front_is_told_nothing_of_a_queue_but_what_it_seals_with() -> None:
    """Ids and keys of the other parties stay where the queue is."""
    delivery = e.Deliver(SESSION, QueueId(b"queue"), MESSAGE, parties=PARTIES)
    blob = items.encode(items.pack_effect(delivery))
    assert b"secret" in blob
    assert not any(word in blob for word in (b"sender", b"link", b"notifier", b"two"))


def test_a_message_arrives_by_the_clock_of_the_worker_that_has_the_queue() -> None:
    sent = c.Send(SESSION, 3, QueueId(b"queue"), MESSAGE)
    found = items.unpack_command(
        items.pack_command(Numbered(3, sent), repr), lambda proof: proof, 99.0
    )
    assert isinstance(found, c.Send)
    assert found.message.arrived == 99.0
    assert found.message.properties == MESSAGE.properties


@pytest.mark.parametrize(
    "named",
    [Fields({"n": 1}, b"\3", "text"), Fields({}, b"", "n"), Fields({"a": 1}, b"\3", "x", 0)],
)
def test_the_names_of_fields_are_kept(named: Fields) -> None:
    """Also of the body alone, and of fields that were read out of it."""
    delivery = e.Deliver(SESSION, QueueId(b"queue"), Message(MessageId(b"id"), b"body", 1.0, named))
    found = items.unpack_effect(items.decode(items.encode(items.pack_effect(delivery))), None)
    assert isinstance(found, e.Deliver)
    kept = found.message.properties
    assert isinstance(kept, Fields)
    assert (dict(kept), kept.types) == (dict(named), named.types)
    assert (kept.body, kept.own) == (named.body, named.own)


def test_a_block_stays_together() -> None:
    made = MakeQueue(SESSION, 1, QueueId(b"queue"), "orders")
    packed = [items.BLOCK, [items.pack_command(Numbered(1, made), repr)] * 2]
    found = items.unpack_command(packed, lambda proof: proof, 1.0)
    assert found == Block((made, made))


def test_changes_of_a_queue_are_told_apart() -> None:
    for change in (Secure(b"key", True), SetLink(Link(b"id", b"fixed", b"user"))):
        amend = c.Amend(SESSION, 1, QueueId(b"queue"), change)
        item = items.decode(items.encode(items.pack_command(Numbered(1, amend), repr)))
        assert items.unpack_command(item, lambda proof: proof, 1.0) == amend
