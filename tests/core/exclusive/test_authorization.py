"""Finding the queue of a command by the id of a party, and asking whether it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.commands import Command, Confirm, Open
from headgate.core.effects import Amended, Failed
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.parties import (
    Address,
    DropLink,
    DropNotifier,
    Party,
    Purpose,
    QueueRecord,
    Secure,
)
from headgate.core.shared.statistics import Statistics
from headgate.core.turn.session_state import SessionStates
from headgate.core.turn.store_requests import Batch, Load
from headgate.errors import HeadgateError, NoSuchQueue, Prohibited, Unauthorised
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Desk,
    Q,
    ack,
    amend,
    delete,
    get,
    lget,
    link,
    mid,
    new,
    nkey,
    notifier,
    nsub,
    parties,
    post,
    que,
    queues,
    send,
    skey,
    snapshot,
    sub,
)

CONTACT = Purpose.CONTACT

MEMORIES = {"roomy": Limits(), "tiny": Limits(heads=1, backlogs=1)}
each_memory = pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())


class Asked:
    """A proof that remembers what it was asked, and always says the same."""

    def __init__(self, error: HeadgateError | None = None) -> None:
        self.error = error
        self.records: list[QueueRecord | None] = []

    def __call__(self, record: QueueRecord | None) -> HeadgateError | None:
        self.records.append(record)
        return self.error


def guarded(command: Any, proof: Asked) -> Command:  # noqa: ANN401
    """The same command, with a proof."""
    made: Command = replace(command, proof=proof)
    return made


COMMANDS: dict[str, Callable[[SessionId, QueueId], Command]] = {
    "delete": delete,
    "subscribe": sub,
    "get": get,
    "send": lambda session, queue: post(session, queue, "new"),
    "send by the queue's own id": lambda session, queue: send(session, queue, "new"),
    "confirm": lambda session, queue: ack(session, queue, "m1"),
    "amend": lambda session, queue: amend(session, queue, DropLink()),
    "amend by the sender": lambda session, queue: skey(session, queue, b"key"),
    "amend by the link": lget,
    "inspect": que,
    "watch": nsub,
}
each_command = pytest.mark.parametrize("make", COMMANDS.values(), ids=COMMANDS.keys())


def desk_with_queue(purpose: Purpose | None = Purpose.MESSAGING, **options: Any) -> Desk:  # noqa: ANN401
    """One queue with every party and a message, of session a, in a router that just started."""
    desk = Desk(**options)
    a = desk.session("a")
    desk.do(new(a, Q, parties=parties(Q, purpose, link=link(Q), notifier=notifier(Q))))
    desk.do(post(a, Q, "m1"))
    return desk.restarted()


# Proofs.


@each_command
def test_a_proof_is_asked_about_the_queue_as_it_is(
    make: Callable[[SessionId, QueueId], Command],
) -> None:
    """3.4: once, with the record; and what it says is the answer, whatever it is."""
    desk = desk_with_queue()
    a = desk.session("a")
    error = Prohibited("of the proof")
    proof = Asked(error)
    stored = desk.stored_head(Q)
    assert stored is not None
    before = snapshot(desk.shard, (QueueCache, SessionStates, Statistics))
    [effect] = desk.do(guarded(make(a, Q), proof))
    assert isinstance(effect, Failed)
    assert effect.error is error
    assert proof.records == [stored.record]
    assert desk.stored_head(Q) == stored
    assert snapshot(desk.shard, (QueueCache, SessionStates, Statistics)) == before


@each_command
def test_a_proof_is_asked_about_a_queue_that_does_not_exist_as_well(
    make: Callable[[SessionId, QueueId], Command],
) -> None:
    """3.4: so that both take as long, and its error is the answer: nobody learns which it was."""
    desk = Desk()
    a = desk.session("a")
    for proof in (Asked(Unauthorised()), Asked(Prohibited("of the proof"))):
        [effect] = desk.do(guarded(make(a, Q), proof))
        assert isinstance(effect, Failed)
        assert effect.error is proof.error
        assert proof.records == [None]


@each_command
def test_no_proof_makes_a_queue_that_does_not_exist(
    make: Callable[[SessionId, QueueId], Command],
) -> None:
    """Neither one that would allow everything nor none at all."""
    desk = Desk()
    a = desk.session("a")
    proof = Asked()
    assert desk.say(guarded(make(a, Q), proof)) == ["a ERR NoSuchQueue"]
    assert proof.records == [None]
    assert desk.say(make(a, Q)) == ["a ERR NoSuchQueue"]


@each_command
def test_a_queue_that_exists_and_one_that_does_not_ask_the_same_of_the_store(
    make: Callable[[SessionId, QueueId], Command],
) -> None:
    """3.4: one load, and nothing is written for a command that is refused."""
    trips = []
    for desk in (desk_with_queue(), Desk()):
        a = desk.session("a")
        trips.append(
            [type(trip) for trip in desk.trips(guarded(make(a, Q), Asked(Unauthorised())))]
        )
    assert trips == [[Load], [Load]]


@each_command
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "not open"])
@pytest.mark.once
def test_a_shared_queue_does_not_exist_for_a_command_with_a_proof(
    make: Callable[[SessionId, QueueId], Command], is_open: bool
) -> None:
    """3.4: its name may be guessed, so it must not be told from any other id, and no proof may be
    passed by. A session of another wire may have it open."""
    shared = Domain("shared", Mode.PRIORITY)
    desk = Desk(others=(shared,))
    other = desk.session("other")
    desk.do(Open(other, 1, Q, "shared", write=True))
    if not is_open:
        desk = desk.restarted()
    a = desk.session("a")
    proof = Asked(Unauthorised())
    assert desk.say(guarded(make(a, Q), proof)) == ["a ERR Unauthorised"]
    assert proof.records == [None]
    assert desk.stored(Q) == []


def test_a_confirm_without_a_proof_still_reaches_a_shared_queue() -> None:
    """The other wires have none to give."""
    desk = Desk(others=(Domain("shared", Mode.PRIORITY),))
    a = desk.session("a")
    desk.do(Open(a, 1, Q, "shared", write=True))
    desk.do(send(a, Q, "m1"))
    assert desk.stored(Q) == ["m1"]
    assert desk.do(Confirm(a, None, Q, (mid("m1"),))) == []


@pytest.mark.once
def test_a_proof_sees_what_the_turn_has_done_before() -> None:
    """ACC-6, ACC-12, ACC-13: a key that is set in the same block counts for the next command in
    it."""
    desk = desk_with_queue()
    a = desk.session("a")
    before, after = Asked(), Asked(Unauthorised())
    desk.do(
        post(a, Q, "m2", proof=before),
        amend(a, Q, Secure(b"key")),
        post(a, Q, "m3", proof=after),
    )
    keys = [
        record.parties.sender_key
        for record in before.records + after.records
        if record is not None and record.parties is not None
    ]
    assert keys == [None, b"key"]
    assert desk.stored(Q) == ["m1", "m2"]


# Finding.


@each_memory
@pytest.mark.parametrize("forget", [True, False], ids=["restarted", "known"])
def test_every_party_finds_the_queue_by_its_own_id(limits: Limits, forget: bool) -> None:
    """ACC-2, ACC-12, ACC-19, ACC-83: from memory, from the store, and after others were used in
    between."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    for queue in (Q, Q1):
        whole = parties(queue, CONTACT, link=link(queue), notifier=notifier(queue))
        desk.do(new(a, queue, parties=whole))
    for queue in (Q, Q1, Q):
        if forget:
            desk = desk.restarted()
            a = desk.session("a")
        name = queue.decode()
        assert desk.say(post(a, queue, "m1")) == [f"a RECEIPT {name} m1"]
        assert desk.say(lget(a, queue)) == [f"a AMENDED {name}"]
        assert desk.say(nsub(a, queue)) == [f"a NSOK {name}.ntf1"]
        assert desk.say(get(a, queue)) == [f"a MSG {name} m1"]
        assert desk.say(ack(a, queue, "m1")) == ["a OK"]
        desk.check_backlogs()


@each_memory
def test_the_id_of_one_party_is_not_that_of_another(limits: Limits) -> None:
    """ACC-8, ACC-18, ACC-25, ACC-28, ACC-84: the sender's id opens nothing of the recipient, nor
    the reverse."""
    desk = desk_with_queue(CONTACT, limits=limits)
    a = desk.session("a")
    ids = {
        Party.RECIPIENT: bytes(Q),
        Party.SENDER: Q + b".snd",
        Party.NOTIFIER: notifier(Q).id,
        Party.LINK: link(Q).id,
    }
    for party, id in ids.items():
        for other in Party:
            found = desk.stored_owner(Address(other, id))
            assert found == (Q if other is party else None)
        if party is not Party.RECIPIENT:
            queue = QueueId(id)
            assert desk.say(sub(a, queue)) == ["a ERR NoSuchQueue"]
            assert desk.say(delete(a, queue)) == ["a ERR NoSuchQueue"]
            assert desk.say(amend(a, queue, Secure(b"k"))) == ["a ERR NoSuchQueue"]
    via = Address(Party.SENDER, Q)
    assert desk.say(replace(post(a, Q, "m"), via=via)) == ["a ERR NoSuchQueue"]
    assert desk.say(replace(skey(a, Q, b"k"), via=via)) == ["a ERR NoSuchQueue"]
    assert desk.say(replace(nsub(a, Q), notifier=bytes(Q))) == ["a ERR NoSuchQueue"]
    assert desk.say(replace(lget(a, Q), via=Address(Party.LINK, Q))) == ["a ERR NoSuchQueue"]
    assert desk.stored(Q) == ["m1"]


@each_memory
def test_ids_count_at_once_and_not_before(limits: Limits) -> None:
    """ACC-29, ACC-74, ACC-78, ACC-79, ACC-84, S004-43: within one turn, whatever was loaded when it
    began."""
    desk = desk_with_queue(CONTACT, limits=limits)
    a = desk.session("a")
    lines = desk.say(
        nsub(a, Q, number=2),
        nkey(a, Q, 2),
        nsub(a, Q, number=1),
        nsub(a, Q, number=2),
        amend(a, Q, DropNotifier()),
        nsub(a, Q, number=2),
        nkey(a, Q, 1),
        nsub(a, Q, number=1),
        lget(a, Q),
        amend(a, Q, DropLink()),
        lget(a, Q),
        post(a, Q, "m2"),
        delete(a, Q),
        post(a, Q, "m3"),
        nsub(a, Q, number=1),
        amend(a, Q, Secure(b"key")),
    )
    assert lines == [
        "a ERR NoSuchQueue",
        "a AMENDED q",
        "a ERR NoSuchQueue",
        "a NSOK q.ntf2",
        "a AMENDED q",
        "a ERR NoSuchQueue",
        "a AMENDED q",
        "a NSOK q.ntf1",
        "a AMENDED q",
        "a AMENDED q",
        "a ERR NoSuchQueue",
        "a RECEIPT q m2",
        "a OK",
        "a ERR NoSuchQueue",
        "a ERR NoSuchQueue",
        "a ERR NoSuchQueue",
    ]
    assert desk.stored_head(Q) is None
    assert desk.stored_owner(Address(Party.SENDER, Q + b".snd")) is None
    desk.check_backlogs()


@each_memory
def test_ids_that_changed_are_the_new_ones_in_later_turns(limits: Limits) -> None:
    """ACC-65, ACC-74: in the next turn, after other queues were used, and after a restart."""
    desk = desk_with_queue(CONTACT, limits=limits)
    a, b = desk.sessions("a b")
    desk.do(nsub(b, Q))
    assert desk.heard_by(b, desk.say(nkey(a, Q, 2), amend(a, Q, DropLink()))) == ["* NDELD q.ntf1"]
    desk.do(new(a, Q1, parties=parties(Q1)), new(a, Q2, parties=parties(Q2)))
    for _ in range(2):
        assert desk.say(nsub(a, Q, number=1)) == ["a ERR NoSuchQueue"]
        assert desk.say(nsub(a, Q, number=2)) == ["a NSOK q.ntf2"]
        assert desk.say(lget(a, Q)) == ["a ERR NoSuchQueue"]
        desk.check_backlogs()
        desk = desk.restarted()
        a = desk.session("a")


@each_memory
def test_a_queue_that_was_made_in_the_turn_is_found_by_all_its_ids(limits: Limits) -> None:
    """S004-43: a NEW and the first SEND to it may be in one turn."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    whole = parties(Q, CONTACT, link=link(Q), notifier=notifier(Q))
    lines = desk.say(
        post(a, Q, "early"),
        new(a, Q, subscribe=True, parties=whole),
        post(a, Q, "m1"),
        lget(a, Q),
        nsub(a, Q),
        delete(a, Q),
        new(a, Q, parties=parties(Q)),
        post(a, Q, "m2"),
        lget(a, Q),
    )
    assert lines == [
        "a ERR NoSuchQueue",
        "a SOK q",
        "a RECEIPT q m1",
        "a * MSG q m1",
        "a AMENDED q",
        "a NSOK q.ntf1",
        "a OK",
        "a SOK q",
        "a RECEIPT q m2",
        "a ERR NoSuchQueue",
    ]
    assert desk.stored(Q) == ["m2"]
    desk.check_backlogs()


@each_memory
@pytest.mark.once
def test_one_queue_named_by_several_ids_in_one_turn_is_one_queue(limits: Limits) -> None:
    """SMP-12, SMP-21: the first message that the recipient needs is there, though the sender, who
    came first, does not need it."""
    desk = desk_with_queue(CONTACT, limits=limits)
    a = desk.session("a")
    trips_before = len(desk.asked)
    assert desk.say(post(a, Q, "m2"), nsub(a, Q), lget(a, Q), sub(a, Q), ack(a, Q, "m1")) == [
        "a RECEIPT q m2",
        "a NSOK q.ntf1",
        "a AMENDED q",
        "a SOK q",
        "a MSG q m2",
    ]
    assert [type(trip) for trip in desk.asked[trips_before:]] == [Load, Batch]
    assert desk.stored(Q) == ["m2"]


def test_a_block_of_commands_by_other_ids_is_one_load() -> None:
    """SMP-21: however many, and none at all when the queues are known."""
    many = queues(135)
    desk = Desk()
    a = desk.session("a")
    desk.do(
        *(new(a, q, parties=parties(q, CONTACT, link=link(q), notifier=notifier(q))) for q in many)
    )
    desk = desk.restarted()
    a = desk.session("a")
    [loaded] = desk.trips(*(nsub(a, queue) for queue in many))
    assert isinstance(loaded, Load)
    assert len(loaded.addresses) == 135
    assert desk.trips(*(lget(a, queue) for queue in many)) == []
    [written] = desk.trips(*(post(a, queue, "m1") for queue in many))
    assert isinstance(written, Batch)


def test_what_an_amend_says_is_what_the_queue_is_afterwards() -> None:
    """ACC-83: the answer to LKEY has the link's data."""
    desk = desk_with_queue()
    a = desk.session("a")
    [amended] = desk.do(lget(a, Q, b"key"))
    assert isinstance(amended, Amended)
    assert amended.parties == desk.stored_parties(Q)
    assert (amended.parties.sender_key, amended.parties.link) == (b"key", link(Q))


def test_everything_about_an_unknown_queue_is_refused_alike() -> None:
    """S004-49: each command gets its own error, the one for an unknown queue."""
    desk = Desk()
    a = desk.session("a")
    outcome = desk.do(
        sub(a, Q), get(a, Q), send(a, Q, "m"), ack(a, Q, "m"), ack(a, Q), delete(a, Q)
    )
    assert len(outcome) == 6
    for effect in outcome:
        assert isinstance(effect, Failed)
        assert isinstance(effect.error, NoSuchQueue)
        assert effect.error.queue == Q
    assert desk.subscriber(Q) == []
