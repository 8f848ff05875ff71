"""The sweep: the messages of a service's queues, page by page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Drained, Sweep
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.turn.store_requests import Load, Loaded
from headgate.store.memory import MemoryStore
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Q4,
    Desk,
    Q,
    S,
    ack,
    delete,
    desk_of,
    desk_with,
    ends,
    get,
    messages,
    new,
    queues,
    send,
    soks,
    sub,
    subs,
)


def test_only_the_core_asks_for_a_sweep() -> None:
    """SMP-37: one that belongs to no subscription does nothing."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(Sweep(a, S, QueueId(b""), object())) == []


def test_a_sweep_goes_page_by_page_and_delivers_as_it_goes() -> None:
    """S001-48, S000-97, S000-98, SMP-37: each turn hands over its page; ALLS is last and once."""
    names = queues(7)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    lines, again = desk.say_one(subs(a, S))
    assert lines == ["a " + soks(S, *names)]
    pages = []
    while again:
        lines, again = desk.say_one(*again)
        pages.append(lines)
    assert [line for lines in pages for line in lines][-1] == "a * ALLS S"
    swept = [messages(lines) for lines in pages]
    assert max(len(page) for page in swept) == 2
    assert [line for page in swept for line in page] == [
        f"a * MSG {name.decode()} m1" for name in names
    ]
    assert sum(line == "a * ALLS S" for lines in pages for line in lines) == 1


@pytest.mark.parametrize("number", range(8))
def test_a_sweep_ends_once_whatever_the_number_of_queues(number: int) -> None:
    """S000-98: also when the last page is full, and without any queue."""
    desk, _ = desk_of(*queues(number), pending=1, limits=Limits(sweep_queues=3))
    a = desk.session("a")
    lines = desk.say(subs(a, S))
    assert len(messages(lines)) == number
    assert lines.index("a * ALLS S") == len(lines) - 1
    assert [fact.session for fact in desk.take_facts(f.SweepEnded)] == [a]


def test_a_sweep_skips_queues_that_have_a_delivery_of_this_session() -> None:
    """S001-47, SMP-30: at most one head per queue; SUBs before the SUBS had theirs."""
    desk, _ = desk_of(Q1, Q2, Q3, pending=2)
    a = desk.session("a")
    desk.say(sub(a, Q1, S), sub(a, Q2, S), ack(a, Q2, "m1"))
    assert messages(desk.say(subs(a, S))) == ["a * MSG q3 m1"]
    assert desk.say(ack(a, Q3, "m1"), ack(a, Q3, "m2")) == ["a MSG q3 m2", "a OK"]


def test_commands_go_on_during_a_sweep() -> None:
    """S001-53, SMP-31: of the same session and of others, between two pages and in the same turn
    as a page."""
    names = queues(6)
    desk, x = desk_of(*names, pending=2, limits=Limits(sweep_queues=2))
    a, b = desk.sessions("a b")
    desk.do(new(b, Q, subscribe=True))
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    assert len(messages(lines)) == 2
    lines, again = desk.say_one(
        ack(a, names[0], "m1"), send(x, Q, "m1"), ack(b, Q, "m1"), *again, send(x, Q, "m2")
    )
    assert desk.heard_by(a, lines) == [
        f"MSG {names[0].decode()} m2",
        f"* MSG {names[2].decode()} m1",
        f"* MSG {names[3].decode()} m1",
    ]
    assert desk.heard_by(b, lines) == ["OK", "* MSG q m2"]
    assert desk.say(*again) == [
        f"a * MSG {names[4].decode()} m1",
        f"a * MSG {names[5].decode()} m1",
        "a * ALLS S",
    ]


@pytest.mark.once
def test_a_sweep_at_the_default_limits_leaves_room_for_commands() -> None:
    """S001-53, S001-48: a service with thousands of queues is not swept in one turn."""
    names = queues(1200)
    desk, _ = desk_of(*names, pending=1)
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    turns = []
    while again:
        lines, again = desk.say_one(*again)
        turns.append(len(messages(lines)))
    assert sum(turns) == len(names)
    assert max(turns) <= 500


def test_a_new_message_does_not_wait_for_the_sweep() -> None:
    """S001-55, S001-56, SMP-31: of a queue that the sweep has not reached, or of one associated
    after SUBS; and the sweep does not deliver it a second time."""
    names = queues(4)
    desk, x = desk_of(*names, limits=Limits(sweep_queues=1))
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    _, again = desk.say_one(*again)
    late = QueueId(b"zzz")
    lines, again = desk.say_one(
        new(x, late), sub(a, late, S), send(x, late, "m1"), send(x, names[3], "m1"), *again
    )
    assert messages(lines) == ["a * MSG zzz m1", f"a * MSG {names[3].decode()} m1"]
    assert desk.say(*again) == ["a * ALLS S"]


@pytest.mark.parametrize("sweep_first", [True, False])
def test_sweep_and_new_message_in_one_turn_make_one_delivery(sweep_first: bool) -> None:
    """S001-56: the gate decides, whichever comes first."""
    desk, x = desk_of(Q1)
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    arrival = send(x, Q1, "m1")
    block: list[Command] = [*again, arrival] if sweep_first else [arrival, *again]
    lines = desk.say(*block)
    assert messages(lines) == ["a * MSG q1 m1"]
    assert "a * ALLS S" in lines
    assert desk.say(ack(a, Q1, "m1")) == ["a OK"]


def test_a_sweep_sees_what_its_turn_did_before_it() -> None:
    """S001-47, S004-43: confirmed, deleted and re-associated queues of the same turn."""
    desk, x = desk_of(Q1, Q2, Q3, Q4, pending=1)
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(
        get(b, Q1), ack(b, Q1, "m1"), delete(x, Q2), sub(b, Q3), send(x, Q1, "m2"), *again
    )
    assert desk.heard_by(a, lines) == [
        "* DELD q2",
        "* END q3",
        "* MSG q1 m2",
        "* MSG q4 m1",
        "* ALLS S",
    ]
    assert again == []


def test_a_sweep_delivers_what_was_sent_to_a_backlog_that_is_not_in_memory() -> None:
    """S000-97, S001-51, SMP-14: after a restart a SEND to a queue with a backlog is not pushed;
    the sweep then delivers the oldest message, not the newest, and nothing breaks."""
    desk, x = desk_of(Q1, Q2, pending=2)
    a = desk.session("a")
    assert desk.say(send(x, Q1, "m3")) == ["x RECEIPT q1 m3"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q1 m1", "a * MSG q2 m1"]
    assert desk.say(ack(a, Q1, "m1"), ack(a, Q1, "m2"), ack(a, Q1, "m3")) == [
        "a MSG q1 m2",
        "a MSG q1 m3",
        "a OK",
    ]


def test_a_send_in_the_turn_of_the_sweep_to_a_backlog_that_is_not_in_memory() -> None:
    """S000-97, S001-56: the page and the record of one queue in one turn."""
    desk, x = desk_of(Q1, pending=2)
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    lines = desk.say(send(x, Q1, "m3"), *again)
    assert messages(lines) == ["a * MSG q1 m1"]


@pytest.mark.parametrize("cold", [True, False])
def test_a_sweep_does_not_bring_back_what_its_turn_confirmed(cold: bool) -> None:
    """S001-47, S004-43: the page was read before the queue was emptied in the same turn; what
    is sent after the sweep is the head then."""
    desk, x = desk_of(Q1, pending=1)
    a, b = desk.sessions("a b")
    if not cold:
        desk.say(get(b, Q1))
    _, again = desk.say_one(subs(a, S))
    lines = desk.say(get(b, Q1), ack(b, Q1, "m1"), *again, send(x, Q1, "m2"), send(x, Q1, "m3"))
    assert messages(desk.heard_by(a, lines)) == ["* MSG q1 m2"]
    assert desk.say(ack(a, Q1, "m2"), ack(a, Q1, "m3")) == ["a MSG q1 m3", "a OK"]
    assert desk.stored(Q1) == []


def test_a_queue_created_again_under_the_id_of_a_refused_one_is_swept() -> None:
    """S000-97: a NEW of an id that exists reads its record only; the sweep still finds the
    head."""
    desk, x = desk_of(Q1, pending=1)
    a = desk.session("a")
    assert desk.say(new(x, Q1)) == ["x ERR QueueExists"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q1 m1"]


@pytest.mark.once
def test_all_that_was_pending_comes_before_the_end_of_the_sweep() -> None:
    """S001-51, SMP-31, SMP-37: without room in the mailbox the sweep waits, and so does ALLS."""
    names = queues(5)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    desk.fill(a)
    lines += desk.say(*again)
    assert len(messages(lines)) == 2
    assert "a * ALLS S" not in lines
    lines += desk.drained(a)
    assert messages(lines) == [f"a * MSG {name.decode()} m1" for name in names]
    assert lines.index("a * ALLS S") == len(lines) - 1


def test_a_sweep_that_never_had_room_delivers_everything_when_there_is_some() -> None:
    """S001-51, SMP-37: nothing is lost, nothing comes twice, ALLS is last and once."""
    names = queues(5)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    desk.fill(a)
    assert desk.say(subs(a, S)) == ["a " + soks(S, *names)]
    assert desk.say(Drained(a)) == []
    lines = desk.drained(a)
    assert sorted(messages(lines)) == [f"a * MSG {name.decode()} m1" for name in names]
    assert lines.index("a * ALLS S") == len(lines) - 1
    assert desk.drained(a) == []


def test_a_sweep_waits_for_room_without_delaying_others() -> None:
    """S001-53, SMP-37: the iteration must not block."""
    desk, x = desk_of(Q1, pending=1)
    a, b = desk.sessions("a b")
    desk.do(new(b, Q2, subscribe=True))
    desk.fill(a)
    desk.say(subs(a, S))
    assert desk.say(send(x, Q2, "m1"))[1:] == ["b * MSG q2 m1"]


def test_a_sweep_that_waited_for_room_goes_on_where_it_was() -> None:
    """S001-53, SMP-37: others had their turns meanwhile, and nothing is left out."""
    names = queues(3)
    desk, x = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    desk.do(new(b, Q2, subscribe=True))
    _, again = desk.say_one(subs(a, S))
    desk.fill(a)
    assert desk.say(*again) == []
    assert desk.say(send(x, Q2, "m1"))[1:] == ["b * MSG q2 m1"]
    lines = desk.drained(a)
    assert lines == [*(f"a * MSG {queue.decode()} m1" for queue in names), "a * ALLS S"]


def test_a_sweep_whose_last_waiting_queue_is_gone_still_ends() -> None:
    """S000-98, S001-51: the queue that waited for room was deleted meanwhile."""
    desk, x = desk_of(Q1, pending=1)
    a = desk.session("a")
    desk.fill(a)
    desk.say(subs(a, S))
    lines = desk.say(delete(x, Q1))
    assert desk.heard_by(a, lines) == ["* DELD q1"]
    assert desk.drained(a) == ["a * ALLS S"]


def test_a_sweep_stops_when_its_session_leaves() -> None:
    """S000-76, S004-8, SMP-37: nothing is delivered, and the next session gets it all."""
    names = queues(4)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    _, again = desk.say_one(*again)
    desk.hang_up(a)
    assert [line for line in desk.say(*again) if line.startswith("a")] == []
    desk.clean_up(a)
    assert len(messages(desk.say(subs(b, S)))) == 4


def test_the_sweep_of_a_displaced_session_delivers_nothing_more() -> None:
    """S001-62, S004-4, S004-8, SMP-37: not after the displacement, in the same turn or later."""
    names = queues(6)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    assert len(messages(lines)) == 1
    lines = desk.say(subs(b, S), *again)
    assert messages(desk.heard_by(a, lines)) == []
    assert desk.heard_by(a, lines)[0] == ends(S, *names)
    assert len(messages(desk.heard_by(b, lines))) == 6
    assert desk.heard_by(b, lines)[-1] == "* ALLS S"


def test_a_sweep_of_before_the_displacement_does_not_double_the_one_after_it() -> None:
    """S001-63, S001-62, S000-98: taken away and taken back while a page was still to come; one
    sweep of all queues, one ALLS."""
    names = queues(4)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, old = desk.say_one(subs(a, S))
    _, old = desk.say_one(*old)
    lines, again = desk.say_one(subs(b, S), subs(a, S))
    lines += desk.say(*old, *again)
    heard = desk.heard_by(a, lines)
    assert messages(heard) == [f"* MSG {name.decode()} m1" for name in names]
    assert heard.count("* ALLS S") == 1
    assert heard[-1] == "* ALLS S"


class DamagedStore(MemoryStore):
    """A store that has queues that it cannot read."""

    def __init__(self, *damaged: QueueId) -> None:
        super().__init__()
        self.damaged = set(damaged)

    async def load(self, load: Load) -> Loaded:
        loaded = await super().load(load)
        asked = {*load.heads, *(queue for page in loaded.pages.values() for queue in page.queues)}
        loaded.unreadable = asked & self.damaged
        for queue in loaded.unreadable:
            loaded.heads.pop(queue, None)
        for page, swept in loaded.pages.items():
            heads = [head for head in swept.heads if head.record.queue not in self.damaged]
            loaded.pages[page] = replace(swept, heads=heads)
        return loaded


@pytest.mark.parametrize("sweep_queues", [1, 2, 5])
def test_a_sweep_goes_on_behind_queues_that_cannot_be_read(sweep_queues: int) -> None:
    """S001-49, S001-50, S004-7: each is told behind the messages and before the end, of very many
    as many as a page has."""
    names = queues(5)
    store = DamagedStore()
    desk = Desk(limits=Limits(sweep_queues=sweep_queues), store=store)
    owner, x = desk.sessions("owner x")
    desk.do(*(new(owner, name, service=S) for name in names))
    desk.do(*(send(x, name, "m1") for name in names))
    desk = desk.restarted()
    store.damaged = {names[1], names[2]}
    a = desk.session("a")
    lines = [line for line in desk.say(subs(a, S)) if "SOKS" not in line]
    assert lines == [
        *(f"a * MSG {names[number].decode()} m1" for number in (0, 3, 4)),
        *(f"a * ERR {names[number].decode()}" for number in (1, 2) if number <= sweep_queues),
        "a * ALLS S",
    ]
    assert {fact.queue for fact in desk.take_facts(f.QueueDamaged)} == {names[1], names[2]}
