"""What is told to other workers, and who waits until they know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels.announcements import Announcements
from headgate.core.channels.audience import Kind
from headgate.core.channels.peers import InterestChange, Name
from headgate.core.model.ids import SessionId

A, B = SessionId(1), SessionId(2)
ONE, TWO = SessionId(101), SessionId(102)
NEWS: Name = (Kind.EXACT, b"news")
MANY = 1000


class Subscribed:
    """The subscribers of a worker, and what it announces of them."""

    def __init__(self) -> None:
        self.of: dict[Name, set[SessionId]] = {}
        self.announcements = Announcements(lambda kind, name: len(self.of.get((kind, name), ())))

    def subscribe(self, session: SessionId, name: Name) -> None:
        self.of.setdefault(name, set()).add(session)
        self.announcements.changed(session, name[0], [name[1]])

    def leave(self, session: SessionId, name: Name) -> None:
        self.of[name].discard(session)
        self.announcements.changed(session, name[0], [name[1]])


def test_a_wish_is_announced_before_it_is_granted() -> None:
    here = Subscribed()
    told = here.announcements
    told.join(ONE)
    told.join(TWO)
    told.wish(A, {NEWS: 1}.items())
    assert told.is_due
    assert told.take(MANY) == [InterestChange(*NEWS, 1)]
    assert told.free() == []
    assert told.known(ONE, told.number) == []
    assert told.known(TWO, told.number) == [A]
    here.subscribe(A, NEWS)
    assert told.take(MANY) == []  # what was announced has come to be
    assert [*told.everything()] == [InterestChange(*NEWS, 1)]


def test_who_leaves_is_gone_for_others_first() -> None:
    here = Subscribed()
    told = here.announcements
    told.join(ONE)
    here.subscribe(A, NEWS)
    here.subscribe(B, NEWS)
    assert told.take(MANY) == [InterestChange(*NEWS, 2)]
    told.wish(A, {NEWS: -1}.items())
    assert told.take(MANY) == [InterestChange(*NEWS, 1)]
    assert told.known(ONE, told.number) == [A]
    here.leave(A, NEWS)
    assert told.take(MANY) == []
    here.leave(B, NEWS)  # without a word: it is gone
    assert told.take(MANY) == [InterestChange(*NEWS, 0)]
    assert [*told.everything()] == []


def test_a_wish_that_is_not_granted_is_taken_back() -> None:
    here = Subscribed()
    told = here.announcements
    told.join(ONE)
    told.wish(A, {NEWS: 1}.items())
    told.take(MANY)
    told.forget(A)
    assert told.take(MANY) == [InterestChange(*NEWS, 0)]
    assert told.known(ONE, told.number) == []


def test_nobody_waits_for_a_worker_that_is_gone() -> None:
    told = Subscribed().announcements
    told.join(ONE)
    told.join(TWO)
    told.wish(A, {NEWS: 1}.items())
    told.take(MANY)
    assert told.known(TWO, told.number) == []
    told.leave(ONE)
    assert told.free() == [A]


def test_nobody_waits_where_there_are_no_others() -> None:
    told = Subscribed().announcements
    told.wish(A, ())
    assert told.take(MANY) == []
    assert told.free() == [A]


def test_a_new_worker_is_told_everything_and_not_waited_for() -> None:
    """It has no clients before it knows."""
    told = Subscribed().announcements
    told.join(ONE)
    told.wish(A, {NEWS: 1}.items())
    told.take(MANY)
    told.join(TWO)
    assert [*told.everything()] == [InterestChange(*NEWS, 1)]
    assert told.known(ONE, told.number) == [A]


def test_an_announcement_without_changes_is_waited_for_all_the_same() -> None:
    """So what others published before is here when it is known."""
    told = Subscribed().announcements
    told.join(ONE)
    told.wish(A, ())
    assert told.is_due
    assert told.take(MANY) == []
    assert told.is_waiting(A)
    assert told.known(ONE, told.number) == [A]
    assert not told.is_waiting(A)


def test_many_names_are_announced_in_parts_and_waited_for_until_the_last() -> None:
    """Whoever has few does not wait for all of them."""
    told = Subscribed().announcements
    told.join(ONE)
    told.wish(A, (((Kind.EXACT, b"c%d" % n), 1) for n in range(7)))
    assert len(told.take(3)) == 3
    assert told.known(ONE, told.number) == []
    told.wish(B, [(NEWS, 1)])
    assert len(told.take(3)) == 3
    assert told.known(ONE, told.number) == []
    assert [each.name for each in told.take(3)] == [b"news", b"c6"]
    assert told.known(ONE, told.number) == [B, A]
    assert len([*told.everything()]) == 8


def test_what_comes_meanwhile_a_new_worker_is_told_as_it_is_then() -> None:
    here = Subscribed()
    told = here.announcements
    for n in range(3):
        here.subscribe(A, (Kind.EXACT, b"c%d" % n))
    told.take(MANY)
    everything = told.everything()
    assert next(everything) == InterestChange(Kind.EXACT, b"c0", 1)
    here.leave(A, (Kind.EXACT, b"c1"))
    here.subscribe(B, (Kind.EXACT, b"c2"))
    told.take(MANY)
    assert [*everything] == [InterestChange(Kind.EXACT, b"c2", 2)]


STEPS = st.tuples(
    st.sampled_from(("wish", "leave", "forget", "take", "gone")),
    st.sampled_from((A, B)),
    st.sampled_from((NEWS, (Kind.PATTERN, b"n*"))),
)


@given(st.lists(STEPS), st.integers(1, 3))
def test_when_all_is_quiet_what_was_told_is_what_is(
    steps: list[tuple[str, SessionId, Name]], most: int
) -> None:
    """Whatever was wished, granted, given up or ended by a lost connection on the way."""
    here = Subscribed()
    told = here.announcements
    told.join(ONE)
    elsewhere: dict[Name, int] = {}

    def take() -> None:
        for kind, named, count in told.take(most):
            elsewhere[kind, named] = count
        for session in told.known(ONE, told.number):
            for name, change in wishes.pop(session, {}).items():
                (here.subscribe if change > 0 else here.leave)(session, name)
            told.forget(session)

    wishes: dict[SessionId, dict[Name, int]] = {}
    for step, session, name in steps:
        holds = session in here.of.get(name, ())
        if step == "wish" and not holds and session not in wishes:
            wishes[session] = {name: 1}
            told.wish(session, {name: 1}.items())
        elif step == "leave" and holds and session not in wishes:
            wishes[session] = {name: -1}
            told.wish(session, {name: -1}.items())
        elif step == "forget":
            wishes.pop(session, None)
            told.forget(session)
        elif step == "gone":
            wishes.pop(session, None)
            told.forget(session)
            for each in [each for each, sessions in here.of.items() if session in sessions]:
                here.leave(session, each)
        elif step == "take":
            take()
    while told.is_due:
        take()
    assert {name: count for name, count in elsewhere.items() if count} == {
        name: len(sessions) for name, sessions in here.of.items() if sessions
    }
