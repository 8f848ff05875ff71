"""Turns: all of a batch or nothing, each command seeing what came before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from headgate.core import facts as f
from headgate.core.commands import (
    Command,
    Disconnect,
    Drained,
    Expire,
    Notify,
    Request,
    Sweep,
    Tick,
)
from headgate.core.effects import Deliver, Failed
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.domain import DAY
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.parties import (
    Address,
    ChangeKeys,
    DropLink,
    DropNotifier,
    Party,
    Purpose,
    Secure,
    SetLink,
    SetNotifier,
    Suspend,
)
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.statistics import Statistics
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.store_requests import Batch, Breath, Load, Page
from headgate.errors import StoreError
from headgate.testing.rig import at_once
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Q4,
    SMP,
    Desk,
    Q,
    S,
    T,
    ack,
    amend,
    delete,
    desk_with,
    get,
    identify,
    lget,
    link,
    new,
    nkey,
    notifier,
    nsub,
    nsubs,
    parties,
    post,
    que,
    queues,
    send,
    skey,
    snapshot,
    soks,
    sub,
    subs,
)

CACHES = (QueueCache, BodyCache, Statistics, NumberSequence)
"""What a failed turn may leave behind: what is in the store anyway, and numbers not used."""

QUEUES = (Q, Q1, Q2, Q3, Q4, QueueId(b"n1"), QueueId(b"n2"), QueueId(b"n3"))

ADDRESSES = [
    Address(party, queue + ending)
    for queue in QUEUES
    for party, ending in (
        (Party.SENDER, b".snd"),
        (Party.LINK, b".lnk"),
        (Party.NOTIFIER, b".ntf1"),
        (Party.NOTIFIER, b".ntf2"),
    )
]


def kept(desk: Desk) -> object:
    """Everything that the store has, but for the numbers of the messages: a failed turn leaves
    its own unused."""
    pages = {service: Page(service, QueueId(b""), 1000) for service in (S, T)}
    wanted = Load(
        heads=dict.fromkeys(QUEUES, 1000),
        addresses=dict.fromkeys(ADDRESSES, 0),
        services=set(pages),
        pages=set(pages.values()),
        identities={b"one", b"two"},
    )
    loaded = at_once(desk.store.load(wanted))
    return (
        loaded.addresses,
        loaded.identities,
        {q: (h.record, [s.message for s in h.first]) for q, h in loaded.heads.items()},
        {service: loaded.services.get(service) for service in pages},
        {service: loaded.pages[page].queues for service, page in pages.items()},
    )


def memory(desk: Desk) -> object:
    return snapshot(desk.shard, CACHES)


# A store that fails.


def workshop(limits: Limits | None = None) -> Desk:
    """Plain and service queues, subscribers, a getter, messages in flight and waiting for room;
    sessions a, b (plain), s, t (of service S) and x, of which none is in memory more than need
    be: the router has just started."""
    desk = Desk(limits=limits)
    s, x = desk.sessions("s x")
    desk.do(
        *(new(x, queue) for queue in (Q, Q1, Q2)), *(new(s, queue, service=S) for queue in (Q3, Q4))
    )
    desk.do(*(send(x, queue, f"m{k}") for queue in (Q, Q1, Q3, Q4) for k in (1, 2, 3)))
    desk = desk.restarted()
    a, b, s, *_ = desk.sessions("a b s t x")
    desk.do(sub(a, Q), sub(a, Q2), get(b, Q1), sub(s, Q3, S))
    return desk


def named_sessions(desk: Desk) -> list[SessionId]:
    by_name = {name: session for session, name in desk.names.items()}
    return [by_name[name] for name in "abstx"]


def named(desk: Desk, story: Callable[..., list[Command]]) -> list[Command]:
    return story(*named_sessions(desk))


STORIES: dict[str, Callable[..., list[Command]]] = {
    "create": lambda a, b, s, t, x: [
        new(a, QueueId(b"n1"), subscribe=True),
        new(s, QueueId(b"n2"), subscribe=True, service=S),
        new(t, QueueId(b"n3"), subscribe=True, service=S),
    ],
    "delete": lambda a, b, s, t, x: [delete(x, Q), delete(a, Q2), delete(x, Q3), delete(x, Q4)],
    "subscribe": lambda a, b, s, t, x: [sub(b, Q), sub(a, Q1), sub(x, Q3), sub(a, Q1), sub(a, Q)],
    "subscribe as a service": lambda a, b, s, t, x: [sub(s, Q, S), sub(s, Q4, S), sub(t, Q1, S)],
    "subscribe as another service": lambda a, b, s, t, x: [sub(x, Q3, T), sub(x, Q, T)],
    "take back from a service": lambda a, b, s, t, x: [sub(a, Q3), sub(a, Q4)],
    "subscribe all": lambda a, b, s, t, x: [subs(s, S), subs(t, S)],
    "get": lambda a, b, s, t, x: [get(x, Q), get(x, Q1), get(x, Q4), get(b, Q1), get(a, Q)],
    "send": lambda a, b, s, t, x: [send(x, queue, "new") for queue in (Q, Q1, Q2, Q3, Q4)],
    "confirm": lambda a, b, s, t, x: [
        ack(a, Q, "m1"),
        ack(b, Q1, "m1"),
        ack(s, Q3, "m1"),
        ack(s, Q3, "m2"),
        ack(s, Q3, "wrong"),
        ack(a, Q),
    ],
    "mixed": lambda a, b, s, t, x: [
        send(x, Q2, "new"),
        ack(a, Q2, "new"),
        sub(b, Q2),
        delete(x, Q2),
        new(x, QueueId(b"n1")),
        sub(t, QueueId(b"n1"), S),
        send(x, QueueId(b"n1"), "m1"),
        sub(t, Q4, S),
        ack(t, Q4, "m1"),
        sub(b, Q),
        ack(a, Q, "m1"),
        ack(b, Q, "m1"),
        subs(s, S),
    ],
}


@pytest.mark.parametrize("limits", [None, Limits(heads=1, backlogs=1)], ids=["roomy", "tiny"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_failure_at_any_call_to_the_store_leaves_no_trace(
    story: Callable[..., list[Command]], limits: Limits | None
) -> None:
    """S004-36, S001-35: memory and store are as before, every request is answered with the
    error, and the same commands work when they are asked again. The only trace of it is a fact:
    how many commands did not happen, and why."""
    fail_everywhere(workshop, limits, story)


def fail_everywhere(
    make: Callable[[Limits | None], Desk],
    limits: Limits | None,
    story: Callable[..., list[Command]],
) -> None:
    """Fail at each call to the store that the story makes, and compare with a store that is
    sound."""
    untroubled = make(limits)
    expected = untroubled.lines(untroubled.turn(named(untroubled, story)).effects)
    call = 0
    while True:
        desk = make(limits)
        commands = named(desk, story)
        before = memory(desk), kept(desk)
        desk.fail_at = call
        outcome = desk.turn(commands)
        if desk.fail_at is not None:
            break
        requests = [command for command in commands if isinstance(command, get_args(Request))]
        assert [type(effect) for effect in outcome.effects] == [Failed] * len(requests)
        for effect, command in zip(outcome.effects, requests, strict=True):
            assert isinstance(effect, Failed)
            assert isinstance(command, get_args(Request))
            assert (effect.session, effect.ref) == (command.session, command.ref)
            assert isinstance(effect.error, StoreError)
        assert outcome.again == [command for command in commands if command not in requests]
        assert outcome.facts == [f.TurnFailed(desk.now, len(commands), "on purpose")]
        assert (memory(desk), kept(desk)) == before
        desk.check_backlogs()
        assert tidy(desk.lines(desk.turn(commands).effects)) == tidy(expected)
        assert kept(desk) == kept(untroubled)
        assert memory(desk) == memory(untroubled)
        desk.check_backlogs()
        call += 1
    assert call > 0, "the story asks the store for something"


def tidy(lines: list[str]) -> list[str]:
    """In which order notifiers are told is left open."""
    return sorted(lines, key=lambda line: line if "NMSG" in line else "")


def parlour(limits: Limits | None = None) -> Desk:
    """Queues with parties: q for messaging, with a link and a notifier that a watches; q1 for
    contacts, its notifier of service S, whose session is s; q2 with all the messages that it
    may have, one of them in flight; q3 with messages that are too old; notices that wait."""
    desk = Desk(limits=limits, domain=replace(SMP, max_messages=3, marks_quota=True))
    s, x = desk.sessions("s x")
    purposes = {Q: Purpose.MESSAGING, Q1: Purpose.CONTACT, Q2: None, Q3: Purpose.CONTACT}
    for queue, purpose in purposes.items():
        whole = parties(queue, purpose, link=link(queue), notifier=notifier(queue))
        desk.do(new(x, queue, parties=whole))
    desk.do(nsub(s, Q1, S), identify(s, b"one", "notifier", S))
    desk.do(*(post(x, Q3, f"m{k}") for k in (1, 2)))
    desk.now = LATER
    desk.do(*(post(x, Q2, f"m{k}", at=desk.now) for k in (1, 2, 3)))
    desk = desk.restarted()
    a, _b, s, _t, x = desk.sessions("a b s t x")
    desk.do(nsub(a, Q), nsub(s, Q1, S), sub(a, Q2))
    for queue in (Q, Q1):
        desk.do(post(x, queue, "shown", notify=True, at=desk.now))
    return desk


N1, N2 = QueueId(b"n1"), QueueId(b"n2")
LATER = 1000.0 + 8 * DAY

PARLOUR_STORIES: dict[str, Callable[..., list[Command]]] = {
    "new": lambda a, b, s, t, x: [
        new(a, N1, subscribe=True, parties=parties(N1, link=link(N1), notifier=notifier(N1))),
        new(a, N2, parties=replace(parties(N2), sender=Q + b".snd")),
        nsub(b, N1),
        post(x, N1, "m1", notify=True),
    ],
    "delete": lambda a, b, s, t, x: [delete(x, Q), delete(x, Q1), new(x, Q, parties=parties(Q))],
    "secure": lambda a, b, s, t, x: [amend(x, Q1, Secure(b"key")), skey(x, Q, b"key")],
    "secure and send": lambda a, b, s, t, x: [
        skey(x, Q, b"key"),
        post(x, Q, "new", notify=True, at=LATER),
    ],
    "keys": lambda a, b, s, t, x: [amend(x, Q1, ChangeKeys((b"new",)))],
    "links": lambda a, b, s, t, x: [
        lget(x, Q, b"key"),
        amend(x, Q1, SetLink(link(Q1, b"other"))),
        amend(x, Q2, SetLink(link(Q1))),
        amend(x, Q1, DropLink()),
        amend(x, Q2, DropLink()),
        amend(x, Q2, SetLink(link(Q1))),
    ],
    "notifiers": lambda a, b, s, t, x: [
        nkey(x, Q, 2),
        nkey(x, Q1, 2),
        nsub(b, Q, number=2),
        amend(x, Q2, DropNotifier()),
        amend(x, Q, SetNotifier(notifier(Q, 1))),
        nsub(b, Q, number=2),
    ],
    "off": lambda a, b, s, t, x: [amend(x, Q, Suspend()), post(x, Q, "no")],
    "inspect": lambda a, b, s, t, x: [que(a, Q2), que(b, Q), que(x, Q3)],
    "watch": lambda a, b, s, t, x: [nsub(b, Q), nsub(a, Q2), nsub(b, Q1), nsub(b, Q1)],
    "watch as a service": lambda a, b, s, t, x: [nsub(t, Q1, S), nsub(t, Q, S), nsub(s, Q2, S)],
    "watch as another service": lambda a, b, s, t, x: [nsub(t, Q1, T), nsub(t, Q, T)],
    "watch all": lambda a, b, s, t, x: [nsubs(s, S), nsubs(t, S), nsub(t, Q, S)],
    "identify": lambda a, b, s, t, x: [
        identify(a, b"one", "notifier", T),
        identify(b, b"two", "notifier", T),
        identify(x, b"two", "messaging", T),
    ],
    "notify": lambda a, b, s, t, x: [nsub(b, Q), Notify(), post(x, Q, "new", notify=True)],
    "quota": lambda a, b, s, t, x: [
        post(x, Q2, "m4"),
        post(x, Q2, "m5"),
        *(ack(a, Q2, f"m{k}") for k in (1, 2, 3, 4)),
        post(x, Q2, "m6", at=LATER),
    ],
    "expire": lambda a, b, s, t, x: [que(x, Q3), get(b, Q2), Expire()],
    "expire at a send": lambda a, b, s, t, x: [
        ack(a, Q3),
        ack(a, Q3),
        post(x, Q3, "new", at=LATER),
        que(x, Q3),
        sub(b, Q3),
    ],
}


@pytest.mark.parametrize("limits", [None, Limits(heads=1, backlogs=1)], ids=["roomy", "tiny"])
@pytest.mark.parametrize("story", PARLOUR_STORIES.values(), ids=PARLOUR_STORIES.keys())
def test_a_failure_at_any_call_leaves_no_trace_of_what_concerns_parties(
    story: Callable[..., list[Command]], limits: Limits | None
) -> None:
    """S004-36, S001-35: who may do what, who is told of messages, what waits to be told, who a
    certificate is, quota and age."""
    fail_everywhere(parlour, limits, story)


@pytest.mark.parametrize("limits", [None, Limits(heads=1, backlogs=1)], ids=["roomy", "tiny"])
def test_commands_of_parties_do_in_one_turn_what_they_do_one_by_one(limits: Limits | None) -> None:
    """S004-42, S004-43: the same is heard and the same is kept."""
    for shown, story in PARLOUR_STORIES.items():
        if shown == "expire at a send":
            continue  # what a send finds too old depends on what is in memory
        together, alone = parlour(limits), parlour(limits)
        lines = together.lines(together.do(*named(together, story)))
        others = [
            line for command in named(alone, story) for line in alone.lines(alone.do(command))
        ]
        assert sorted(lines) == sorted(others), shown
        assert kept(together) == kept(alone), shown


@pytest.mark.once
def test_a_turn_for_parties_is_at_most_one_load_and_one_batch() -> None:
    """SMP-21, SMP-22: whatever is in it."""
    for story in PARLOUR_STORIES.values():
        desk = parlour(Limits(heads=1, backlogs=1))
        kinds = [type(trip) for trip in desk.trips(*named(desk, story))]
        assert kinds in ([], [Load], [Batch], [Load, Batch])


def test_a_disconnect_whose_turn_fails_is_put_back_and_works_later() -> None:
    """S000-75: nobody waits for its answer, so it is tried again, and the others are told."""
    desk = workshop()
    a, _b, _s, _t, x = named_sessions(desk)
    desk.hang_up(a)
    goodbye = Disconnect(a)
    before = memory(desk)
    desk.fail_at = 0
    outcome = desk.turn([goodbye, send(x, Q1, "new")])
    assert desk.lines(outcome.effects) == ["x ERR StoreError"]
    assert outcome.again == [goodbye]
    assert memory(desk) == before
    assert desk.subscriber(Q) == [a]
    desk.turn(outcome.again)
    assert desk.subscriber(Q) == []
    assert a not in dict(desk.shard.session_states.items())


def test_a_drained_mailbox_whose_turn_fails_is_not_forgotten() -> None:
    """S000-43, S000-46: what waited for room is delivered by the turn that happens."""
    desk = workshop(Limits(backlogs=1))
    a, _b, _s, _t, x = named_sessions(desk)
    desk.fill(a)
    desk.do(send(x, Q2, "new"))
    desk.do(get(x, Q1))
    desk.drain(a)
    before = memory(desk)
    desk.fail_at = 0
    outcome = desk.turn([Drained(a), send(x, Q1, "more")])
    assert outcome.again == [Drained(a)]
    assert memory(desk) == before
    assert desk.say(*outcome.again) == ["a * MSG q2 new"]


@pytest.mark.parametrize("failing", range(3))
def test_a_sweep_whose_turn_fails_goes_on_where_it_was(failing: int) -> None:
    """S000-97, S000-98, S001-47, S004-7: no queue is skipped, none is swept twice, one ALLS."""
    names = queues(5)
    desk = Desk(limits=Limits(sweep_queues=2))
    owner, x = desk.sessions("owner x")
    desk.do(*(new(owner, name, service=S) for name in names))
    desk.do(*(send(x, name, "m1") for name in names))
    desk = desk.restarted()
    a = desk.session("a")
    lines, again = desk.say_one(subs(a, S))
    for _ in range(failing):
        more, again = desk.say_one(*again)
        lines += more
    before = memory(desk)
    desk.fail_at = 0
    outcome = desk.turn(again)
    assert outcome.effects == []
    assert all(isinstance(command, Sweep) for command in outcome.again)
    assert outcome.again == again
    assert memory(desk) == before
    lines += desk.say(*outcome.again)
    assert lines == [
        "a " + soks(S, *names),
        *(f"a * MSG {name.decode()} m1" for name in names),
        "a * ALLS S",
    ]


def test_requests_and_clean_up_of_one_failed_turn_go_their_own_ways() -> None:
    """Requests are answered with the error; what nobody waits for comes again, in its order."""
    desk = workshop()
    a, b, _s, _t, x = named_sessions(desk)
    desk.hang_up(a)
    commands: list[Command] = [Drained(b), send(x, Q1, "new"), Disconnect(a), Tick()]
    desk.fail_at = 0
    outcome = desk.turn(commands)
    assert desk.lines(outcome.effects) == ["x ERR StoreError"]
    assert outcome.again == [commands[0], commands[2], commands[3]]


def test_a_store_that_recovers_finds_the_message_numbers_in_order() -> None:
    """SMP-17: numbers of a failed turn stay unused; the order is that of what was accepted."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q))
    desk.do(send(x, Q, "m1"))
    desk.fail_at = 0
    desk.do(send(x, Q, "lost"), send(x, Q, "too"))
    desk.do(send(x, Q, "m2"))
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    desk.do(send(x, Q, "m3"))
    assert desk.stored(Q) == ["m1", "m2", "m3"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(ack(a, Q, "m1"), ack(a, Q, "m2")) == ["a MSG q m2", "a MSG q m3"]


# One turn.


def test_a_turn_sees_its_own_earlier_commands() -> None:
    """S004-43: made, filled, read, confirmed, deleted and gone, within one turn."""
    desk = Desk()
    a, x = desk.sessions("a x")
    assert desk.say(
        sub(a, Q),
        new(a, Q),
        new(x, Q),
        send(x, Q, "m1"),
        sub(a, Q),
        send(x, Q, "m2"),
        ack(a, Q, "m1"),
        get(x, Q),
        ack(x, Q, "m2"),
        ack(a, Q, "m2"),
        send(x, Q, "m3"),
        delete(x, Q),
        send(x, Q, "m4"),
        ack(a, Q, "m3"),
    ) == [
        "a ERR NoSuchQueue",
        "a SOK q",
        "x ERR QueueExists",
        "x RECEIPT q m1",
        "a SOK q",
        "x RECEIPT q m2",
        "a MSG q m2",
        "x MSG q m2",
        "x OK",
        "a OK",
        "x RECEIPT q m3",
        "a * MSG q m3",
        "a * DELD q",
        "x OK",
        "x ERR NoSuchQueue",
        "a ERR NoSuchQueue",
    ]
    assert desk.stored_head(Q) is None


def test_a_message_sent_and_confirmed_in_one_turn_is_not_left_in_the_store() -> None:
    """Batch order: appended, then deleted."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, subscribe=True))
    desk.do(send(x, Q, "m1"), ack(a, Q, "m1"), send(x, Q, "m2"))
    assert desk.stored(Q) == ["m2"]


@pytest.mark.once
def test_a_turn_is_at_most_one_load_and_one_batch() -> None:
    """SMP-21, SMP-22: whatever is in it."""
    desk = workshop(Limits(heads=1, backlogs=1))
    for story in STORIES.values():
        kinds = [type(trip) for trip in desk.trips(*named(desk, story))]
        assert kinds in ([], [Load], [Batch], [Load, Batch])


def test_a_turn_of_only_reads_applies_no_batch() -> None:
    """Nothing changed, nothing to write: SUB, GET, an ACK without an id, and what is refused."""
    desk = workshop()
    a, b, s, _t, x = named_sessions(desk)
    trips = desk.trips(
        sub(b, Q),
        sub(x, Q2),
        get(x, Q1),
        ack(a, Q, "m1"),
        ack(b, Q),
        sub(s, Q3, S),
        subs(s, S),
        send(x, QueueId(b"unknown"), "m"),
        delete(x, QueueId(b"unknown")),
        new(x, Q),
    )
    assert [type(trip) for trip in trips] in ([], [Load])
    desk.hang_up(a)
    trips = desk.trips(Disconnect(a), Drained(b), Drained(a))
    assert not any(isinstance(trip, Batch) for trip in trips)


def test_an_empty_turn_does_nothing() -> None:
    desk = workshop()
    before = memory(desk)
    assert desk.trips() == []
    assert memory(desk) == before


def test_nothing_leaves_a_turn_before_the_store_has_it() -> None:
    """A receipt means that the message survives: the effects come after the batch."""
    desk = workshop()
    *_, x = named_sessions(desk)
    step = desk.shard.turn([send(x, Q2, "new")], desk.now)
    asked: Load | Batch | Breath | None = next(step)
    while isinstance(asked, Load):
        asked = step.send(at_once(desk.store.load(asked)))
    assert isinstance(asked, Batch)
    assert [stored.message.id for stored in asked.append.values()] == [b"new"]
    at_once(desk.store.apply(asked))
    with pytest.raises(StopIteration) as done:
        step.send(None)
    assert desk.lines(done.value.value.effects)[0] == "x RECEIPT q2 new"


def test_a_turn_that_breaks_takes_back_what_it_did() -> None:
    """Not only the store's own errors: a shell that is cancelled closes the turn."""
    desk = workshop()
    _a, b, _s, _t, x = named_sessions(desk)
    before = memory(desk), kept(desk)
    step = desk.shard.turn([sub(b, Q), send(x, Q2, "new"), delete(x, Q3)], desk.now)
    asked: Load | Batch | Breath | None = next(step)
    while isinstance(asked, Load):
        asked = step.send(at_once(desk.store.load(asked)))
    step.close()
    assert (memory(desk), kept(desk)) == before


def test_the_body_and_the_time_of_a_message_come_back_as_they_were_sent() -> None:
    """The same message delivered again is equal, from memory and from the store."""
    desk = Desk()
    a, x = desk.sessions("a x")
    body = bytes(range(256))
    desk.do(new(x, Q), send(x, Q, "m1", body))
    desk.now = 2000.0
    desk = desk.restarted()
    a = desk.session("a")
    expected = Message(MessageId(b"m1"), body, 1000.0)
    for command in (sub(a, Q), sub(a, Q), ack(a, Q)):
        effects = desk.do(command)
        assert [e.message for e in effects if isinstance(e, Deliver)] == [expected]


def test_a_session_id_is_never_used_again() -> None:
    """S000-4: also when sessions end at once, in any order."""
    desk = Desk()
    seen = set()
    alive = []
    for number in range(100):
        session = desk.session()
        assert session not in seen
        seen.add(session)
        alive.append(session)
        if number % 3:
            desk.leave(alive.pop(number % len(alive)))


def test_a_late_command_of_an_old_session_does_not_reach_a_new_one() -> None:
    """S000-4, S000-74: its confirm opens nobody's gate, and it is not given a seat again."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, subscribe=True), send(x, Q, "m1"), send(x, Q, "m2"))
    desk.leave(a)
    b = desk.session("b")
    desk.do(sub(b, Q))
    lines = desk.say(ack(a, Q, "m1"), get(a, Q), sub(a, Q1), Drained(a), Disconnect(a))
    assert desk.heard_by(b, lines) == []
    assert desk.stored(Q) == ["m1", "m2"]
    assert a not in dict(desk.shard.session_states.items())
    assert desk.say(ack(b, Q, "m1")) == ["b MSG q m2"]


def test_a_store_that_fails_while_loading_fails_each_subscribe() -> None:
    """S004-36: the batch as a whole, with an error for each SUB; nobody is registered."""
    desk = Desk()
    x = desk.session("x")
    names = queues(10)
    desk.do(*(new(x, name) for name in names))
    desk = desk.restarted()
    a = desk.session("a")
    desk.fail_at = 0
    assert desk.say(*(sub(a, name) for name in names)) == ["a ERR StoreError"] * 10
    assert len(desk.shard.exclusive.holders.subscribers) == 0
    assert desk.say(*(sub(a, name) for name in names)) == [f"a SOK {n.decode()}" for n in names]


def test_a_mixed_block_is_carried_out_in_its_order() -> None:
    """S004-42, S004-46, S004-39, ACC-50: each command is answered as if it came alone."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q1), new(x, Q2), new(x, Q3))
    desk.do(*(send(x, q, m) for q in (Q1, Q2) for m in ("m1", "m2")))
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(
        sub(a, Q1),
        get(a, Q2),
        ack(a, Q1, "m1"),
        sub(a, Q2),
        sub(a, Q),
        ack(a, Q2, "m1"),
        send(a, Q3, "m3"),
        sub(a, Q3),
        delete(a, Q1),
        ack(a, Q1, "m2"),
    )
    assert lines == [
        "a SOK q1",
        "a MSG q2 m1",
        "a MSG q1 m2",
        "a ERR Prohibited",
        "a ERR NoSuchQueue",
        "a OK",
        "a RECEIPT q3 m3",
        "a SOK q3",
        "a * MSG q3 m3",
        "a OK",
        "a ERR NoSuchQueue",
    ]
    shown = [(fact.queue, fact.message) for fact in desk.take_facts(f.Delivered)]
    assert shown == [(Q2, b"m1"), (Q1, b"m2"), (Q3, b"m3")]
    assert [(fact.queue, fact.reason) for fact in desk.take_facts(f.Refused)] == [
        (Q2, "Prohibited"),
        (Q, "NoSuchQueue"),
        (Q1, "NoSuchQueue"),
    ]


def test_a_block_of_a_single_command_and_one_of_many_say_the_same() -> None:
    """S004-53, S004-42: with batching, single commands do what they did. What a block delivers and
    confirms itself is not pushed."""

    def story(desk: Desk) -> list[Command]:
        a, b, x = desk.sessions("a b x")
        return [
            new(x, Q1),
            new(x, Q2),
            send(x, Q1, "m1"),
            send(x, Q1, "m2"),
            sub(a, Q1),
            sub(a, Q2),
            send(x, Q2, "m1"),
            get(b, Q2),
            ack(a, Q1, "m1"),
            ack(b, Q2, "m1"),
            ack(a, Q1, "m2"),
            sub(b, Q1),
            ack(a, Q2, "m1"),
            send(x, Q1, "m3"),
            ack(b, Q1, "m3"),
            delete(x, Q1),
            sub(a, Q1),
        ]

    one_by_one, together = Desk(), Desk()
    slowly = [line for command in story(one_by_one) for line in one_by_one.say(command)]
    assert together.say(*story(together)) == [line for line in slowly if "* MSG" not in line]
    assert one_by_one.stored(Q2) == together.stored(Q2) == []


@pytest.mark.parametrize(
    "messages", [(), ("m1",), ("m1", "m2")], ids=["empty", "one message", "two messages"]
)
def test_a_message_removed_earlier_in_the_block_is_not_delivered_by_it(
    messages: tuple[str, ...],
) -> None:
    """S004-43: the prefetch is not what is delivered if the block removed it; and what the
    block added is."""
    desk, (a, b, _, x) = desk_with("m0", *messages)
    desk.say(sub(a, Q))
    desk = desk.restarted()
    a, b, x = desk.sessions("a b x")
    lines = desk.say(get(a, Q), ack(a, Q, "m0"), send(x, Q, "m9"), sub(b, Q))
    following = messages[0] if messages else "m9"
    assert desk.heard_by(a, lines) == ["MSG q m0", "OK"]
    assert desk.heard_by(b, lines) == ["SOK q", f"* MSG q {following}"]
    assert desk.stored(Q) == [*messages, "m9"]


def test_a_message_added_earlier_in_the_block_is_not_missed() -> None:
    """S004-43: sent to an empty queue just before the SUB."""
    desk, _ = desk_with()
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    assert desk.say(send(x, Q, "m1"), sub(a, Q)) == ["x RECEIPT q m1", "a SOK q", "a * MSG q m1"]


def test_a_message_that_is_confirmed_in_the_turn_that_pushes_it_is_not_pushed() -> None:
    """S004-42: whoever confirms it knows it, and would get it behind the one that follows."""
    desk, (a, *_) = desk_with("m1", "m2", "m3")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    desk.facts.clear()
    assert desk.say(sub(a, Q), ack(a, Q, "m1")) == ["a SOK q", "a MSG q m2"]
    shown = [fact.message for fact in desk.facts if isinstance(fact, f.Delivered)]
    assert shown == [b"m2"]
    assert desk.say(sub(a, Q), ack(a, Q, "m2"), sub(a, Q)) == [
        *("a SOK q", "a MSG q m3"),
        *("a SOK q", "a * MSG q m3"),
    ]


def test_a_message_that_is_asked_for_again_or_confirmed_by_others_is_pushed_all_the_same() -> None:
    """S004-42: a confirm without an id deletes nothing."""
    desk, (a, b, *_) = desk_with("m1")
    assert desk.say(sub(a, Q), ack(a, Q)) == ["a SOK q", "a * MSG q m1", "a MSG q m1"]
    assert desk.say(sub(a, Q), get(b, Q), ack(b, Q, "m1")) == [
        *("a SOK q", "a * MSG q m1"),
        *("b MSG q m1", "b OK"),
    ]


def test_what_is_not_pushed_takes_no_room() -> None:
    """Queues behind it are not kept waiting by it."""
    desk, (a, _, _, x) = desk_with("m1")
    desk.say(new(x, Q1), send(x, Q1, "m1"))
    desk.broker.budget.mailbox_soft = 0  # one message is more than that
    lines = desk.say(sub(a, Q), ack(a, Q, "m1"), sub(a, Q1))
    assert lines == ["a SOK q", "a OK", "a SOK q1", "a * MSG q1 m1"]
