"""What a turn decided, in parts: whole sessions, in order, and answers before sealed messages."""

from __future__ import annotations

from headgate.core.effects import Deliver, Done, Effect, Granted
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.message import Message
from headgate.core.turn.handouts import PART_EFFECTS, PART_SEALED, handouts
from tests.support.exclusive_queues import parties

ONE, TWO = SessionId(1), SessionId(2)
Q = QueueId(b"q")


def push(number: int, *, sealed: bool = True, ref: int | None = None) -> Deliver:
    message = Message(MessageId(b"%d" % number), b"", 0.0)
    return Deliver(ONE, Q, message, ref, parties=parties(Q) if sealed else None)


def test_each_session_gets_its_own_in_order() -> None:
    effects: list[Effect] = [Done(ONE, 1), Done(TWO, 2), Done(ONE, 3)]
    assert list(handouts(effects)) == [
        (ONE, [effects[0], effects[2]]),
        (TWO, [effects[1]]),
    ]


def test_what_is_cheap_is_cut_in_large_parts() -> None:
    effects: list[Effect] = [Done(ONE, number) for number in range(PART_EFFECTS + 1)]
    assert [len(part) for _, part in handouts(effects)] == [PART_EFFECTS, 1]
    pushes: list[Effect] = [push(number, sealed=False) for number in range(PART_EFFECTS + 1)]
    assert [part for _, part in handouts(pushes)] == [pushes[:PART_EFFECTS], pushes[PART_EFFECTS:]]


def test_a_part_takes_a_message_while_it_has_room_for_an_answer() -> None:
    """S004-34, SMP-12: the answers first, and as many messages as are sealed in a row."""
    answers: list[Effect] = [Granted(ONE, n, Q, None) for n in range(PART_EFFECTS - 1)]
    messages: list[Effect] = [push(number) for number in range(PART_SEALED + 1)]
    parts = [part for _, part in handouts([*messages, *answers])]
    assert parts == [[*answers, messages[0]], messages[1:]]


def test_what_is_sealed_is_cut_in_small_parts() -> None:
    effects: list[Effect] = [push(number) for number in range(PART_SEALED + 1)]
    assert [part for _, part in handouts(effects)] == [effects[:PART_SEALED], effects[PART_SEALED:]]


def test_a_batch_of_subscriptions_is_answered_before_its_messages_come() -> None:
    """S004-34: however the effects are cut."""
    effects: list[Effect] = []
    for number in range(3 * PART_SEALED):
        effects += [Granted(ONE, number, Q, None), push(number)]
    order = [effect for _, part in handouts(effects) for effect in part]
    assert order == [*effects[::2], *effects[1::2]]


def test_a_message_that_was_asked_for_is_an_answer() -> None:
    """S004-34"""
    effects: list[Effect] = [push(0), *(push(n, ref=n) for n in range(1, 2 * PART_SEALED))]
    order = [effect for _, part in handouts(effects) for effect in part]
    assert order == [*effects[1:], effects[0]]
