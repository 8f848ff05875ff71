"""Confirming what an exclusive queue delivered."""

from __future__ import annotations

from headgate.core import facts as f
from headgate.core.effects import Deliver
from headgate.core.turn.store_requests import Batch, Load
from tests.support.exclusive_queues import Q, ack, desk_with, get, send, sub


def test_a_confirm_after_get_deletes_and_never_answers_with_a_message() -> None:
    """SMP-20: OK, although there is a next message."""
    desk, (a, *_) = desk_with("m1", "m2")
    assert desk.say(get(a, Q), ack(a, Q, "m1")) == ["a MSG q m1", "a OK"]
    assert desk.stored(Q) == ["m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(get(a, Q)) == ["a MSG q m2"]


def test_a_confirm_after_get_of_something_else_is_refused() -> None:
    """SMP-13, SMP-20, ACC-42: NO_MSG for an id that was not delivered to this GET."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(get(a, Q), ack(a, Q, "m2"), ack(b, Q, "m1")) == [
        "a MSG q m1",
        "a ERR NoMessage",
        "b ERR NoMessage",
    ]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]
    assert desk.stored(Q) == ["m2"]


def test_a_confirm_after_get_without_an_id_deletes_nothing_and_answers_ok() -> None:
    """SMP-13, SMP-20: an empty id matches what is delivered, never deletes, and the answer to a GET
    session's ACK is always OK."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(get(a, Q), ack(a, Q)) == ["a MSG q m1", "a OK"]
    assert desk.stored(Q) == ["m1"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]


def test_a_confirm_after_get_is_fine_when_the_subscriber_was_faster() -> None:
    """SMP-20, ACC-42: OK, provided it is what was delivered to this GET; nothing else is
    deleted."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q), get(b, Q))
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(b, Q, "m1")) == ["b OK"]
    assert desk.stored(Q) == ["m2"]


def test_a_confirm_of_what_a_getter_removed_delivers_the_current_head() -> None:
    """SMP-13, ACC-43, ACC-44: the subscriber skips it, and nothing is lost."""
    desk, (a, b, *_) = desk_with("m1", "m2", "m3")
    desk.say(sub(a, Q))
    assert desk.say(get(b, Q), ack(b, Q, "m1"), get(b, Q), ack(b, Q, "m2")) == [
        "b MSG q m1",
        "b OK",
        "b MSG q m2",
        "b OK",
    ]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m3"]
    assert desk.stored(Q) == ["m3"]


def test_a_confirm_deletes_and_answers_with_the_next_message_in_one_trip() -> None:
    """S000-33, S000-34, SMP-13: one batch that deletes; the next head is the answer itself."""
    desk, (a, *_) = desk_with("m1", "m2", "m3")
    desk = desk.restarted()
    a = desk.session("a")
    desk.do(sub(a, Q))
    desk.asked.clear()
    desk.facts.clear()
    command = ack(a, Q, "m1")
    effects = desk.do(command)
    assert [fact.message for fact in desk.take_facts(f.Confirmed)] == [b"m1"]
    assert [fact.message for fact in desk.take_facts(f.Delivered)] == [b"m2"]
    assert [
        (effect.ref, effect.message.id) for effect in effects if isinstance(effect, Deliver)
    ] == [(command.ref, b"m2")]
    assert len([trip for trip in desk.asked if isinstance(trip, Batch)]) == 1
    assert len([trip for trip in desk.asked if isinstance(trip, Load)]) <= 1
    assert desk.stored(Q) == ["m2", "m3"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m2"]


def test_a_confirm_of_the_last_message_opens_the_gate() -> None:
    """S000-35, SMP-13, ACC-4, ACC-5: OK; a second ACK is NO_MSG; the next SEND is pushed."""
    desk, (a, _, _, x) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.heard_by(a, desk.say(send(x, Q, "m2"))) == ["* MSG q m2"]


def test_a_confirm_without_an_id_deletes_nothing_and_delivers_the_head_again() -> None:
    """SMP-13: ACK with an empty id never deletes."""
    desk, (a, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q), ack(a, Q)) == ["a MSG q m1", "a MSG q m1"]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]


def test_a_confirm_of_the_wrong_message_changes_nothing() -> None:
    """SMP-13: NO_MSG, and the gate stays shut under its id."""
    desk, (a, b, _, x) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q, "m2"), ack(a, Q, "zz"), ack(b, Q, "m1")) == [
        "a ERR NoMessage",
        "a ERR NoMessage",
        "b ERR NoMessage",
    ]
    assert desk.say(send(x, Q, "m3")) == ["x RECEIPT q m3"]
    assert desk.stored(Q) == ["m1", "m2", "m3"]


def test_several_confirms_of_one_queue_in_a_block_see_one_another() -> None:
    """S004-51, S004-43: the whole backlog in one block, none of it in memory before."""
    names = [f"m{k:02}" for k in range(30)]
    desk, _ = desk_with(*names)
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(sub(a, Q), *(ack(a, Q, name) for name in names))
    assert lines == ["a SOK q", *(f"a MSG q {name}" for name in names[1:]), "a OK"]
    assert desk.stored(Q) == []
