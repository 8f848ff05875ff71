"""What a turn reads from the store: once, however many commands it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.commands import Command
from headgate.core.effects import Failed
from headgate.core.turn.store_requests import Batch, Load
from headgate.core.turn.turn import BREATH_WORK, COMMAND_WORK, Turn
from headgate.store.sqlite import SqliteStore
from headgate.testing.rig import deliveries
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Desk,
    Q,
    S,
    ack,
    broker_of,
    delete,
    desk_with,
    drive,
    get,
    new,
    queues,
    send,
    sub,
)

pytestmark = pytest.mark.once
"""What a turn that is refused at first has read is in memory when it comes again."""


async def statements(path: Path, word: str, number: int, *, cached: int) -> int:
    """Statements of one turn with so many commands of a kind, from an empty memory. Every
    second queue has a backlog."""
    names = queues(number)
    store = SqliteStore(path)
    broker = broker_of(await store.open())
    x = broker.open_session("test", "x", 0.0)[0].id
    await drive(broker, store, [new(x, name) for name in names], 0.0)
    sends = [send(x, name, f"m{k}") for k in range(cached) for name in names[::2]]
    await drive(broker, store, [*sends], 0.0)
    await store.close()
    store = SqliteStore(path)
    broker = broker_of(await store.open())
    a = broker.open_session("test", "a", 0.0)[0].id
    if word == "confirm":
        await drive(broker, store, [sub(a, name) for name in names], 0.0)
    commands: dict[str, list[Command]] = {
        "subscribe": [sub(a, name) for name in names],
        "subscribe as a service": [sub(a, name, S) for name in names],
        "get": [get(a, name) for name in names],
        "send": [send(a, name, "m") for name in names],
        "confirm": [ack(a, name, "m0") for name in names],
        "delete": [delete(a, name) for name in names],
    }
    before = store.statements
    outcome = await drive(broker, store, commands[word], 0.0)
    counted = store.statements - before
    await store.close()
    assert len(outcome.effects) >= number
    assert not any(isinstance(e, Failed) and word != "confirm" for e in outcome.effects)
    return counted


def test_a_long_block_is_one_load_and_others_are_served_in_it() -> None:
    """S000-91, S004-30, S004-32, S004-34, S004-35, S004-37, S004-38, S004-52, S004-56, SMP-21,
    SMP-22: what the commands of a block take is counted, from one breath to the next anew."""
    desk = Desk()
    x = desk.session("x")
    names = queues(200)
    desk.do(*(new(x, name) for name in names))
    for ask in (sub, get):
        desk = desk.restarted()
        a = desk.session("a")
        assert len(desk.do(*(ask(a, name) for name in names))) == len(names)
        assert len(desk.asked) == 1
        assert desk.breaths == (len(names) - 1) * COMMAND_WORK // BREATH_WORK
    turn = Turn(desk.now, desk.now)
    for _ in range(3):
        turn.charge(BREATH_WORK - 1)
        assert not turn.take_breath()
        turn.charge(1)
        assert turn.take_breath()


def test_a_block_of_subscribes_is_one_load_of_records_and_messages() -> None:
    """S004-30, S004-32, S004-34, S004-35, S004-37, S004-38, S004-56, SMP-21, SMP-22: 2,700 queues
    in 20 blocks are 20 loads; an empty queue is not asked for a second time, and nothing is
    written."""
    desk = Desk()
    x = desk.session("x")
    names = queues(2700)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, "m1") for name in names[::2]))
    desk = desk.restarted()
    a = desk.session("a")
    delivered = 0
    for start in range(0, 2700, 135):
        block = names[start : start + 135]
        effects = desk.do(*(sub(a, name) for name in block))
        delivered += len(deliveries(effects, a))
    assert delivered == 1350
    assert len(desk.asked) == 20
    for number, asked in enumerate(desk.asked):
        assert isinstance(asked, Load)
        assert asked.heads == dict.fromkeys(names[number * 135 : number * 135 + 135], 1)


def test_what_is_in_memory_is_not_read_again() -> None:
    """S004-37, S004-38: a block of SUBs of queues that the router just had in its hands, empty
    ones included, asks the store for nothing."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q1), new(x, Q2), send(x, Q1, "m1"))
    assert desk.trips(sub(a, Q1), sub(a, Q2)) == []


def test_a_command_that_is_refused_is_not_prefetched_for() -> None:
    """S004-40, S004-49: an unknown queue gets its own error, and the others their messages."""
    desk, _ = desk_with("m1")
    desk = desk.restarted()
    a = desk.session("a")
    assert desk.say(sub(a, Q1), sub(a, Q), sub(a, Q2)) == [
        "a ERR NoSuchQueue",
        "a SOK q",
        "a * MSG q m1",
        "a ERR NoSuchQueue",
    ]


def test_a_block_without_subscribes_reads_no_messages() -> None:
    """S004-41, SMP-22: sends and deletions need the records at most."""
    desk, _ = desk_with("m1", "m2")
    desk = desk.restarted()
    x = desk.session("x")
    trips = desk.trips(send(x, Q, "m3"), new(x, Q1), send(x, Q1, "m1"), delete(x, Q))
    for trip in trips:
        if isinstance(trip, Load):
            assert set(trip.heads.values()) <= {0}
            assert not trip.pages
            assert not trip.bodies


def test_a_block_of_confirms_is_one_round_trip() -> None:
    """S004-51: at most one load, and one batch that deletes all; the answers are the next
    messages."""
    desk = Desk()
    x = desk.session("x")
    names = queues(135)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, f"m{k}") for k in range(20) for name in names[:10]))
    desk.do(*(send(x, name, f"m{k}") for k in range(2) for name in names[10:]))
    desk = desk.restarted()
    a = desk.session("a")
    desk.do(*(sub(a, name) for name in names))
    desk.asked.clear()
    lines = desk.say(*(ack(a, name, "m0") for name in names))
    assert lines == [f"a MSG {name.decode()} m1" for name in names]
    assert [type(trip) for trip in desk.asked] in ([Load, Batch], [Batch])
    batch = desk.asked[-1]
    assert isinstance(batch, Batch)
    assert len(batch.delete) == 135


def test_a_block_of_gets_is_one_load() -> None:
    """S004-52: of all messages, empty queues included; nothing is written."""
    desk = Desk()
    x = desk.session("x")
    names = queues(135)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, "m1") for name in names[::2]))
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(*(get(a, name) for name in names))
    assert lines == [
        "a OK" if number % 2 else f"a MSG {name.decode()} m1" for number, name in enumerate(names)
    ]
    (asked,) = desk.asked
    assert isinstance(asked, Load)


@pytest.mark.parametrize("cached", [0, 1, 20])
@pytest.mark.parametrize(
    "word", ["subscribe", "subscribe as a service", "get", "send", "confirm", "delete"]
)
async def test_the_number_of_store_statements_does_not_depend_on_the_number_of_commands(
    tmp_path: Path, word: str, cached: int
) -> None:
    """S004-14, S004-30, S004-32, S004-38, S004-51, S004-52, SMP-21, SMP-22: 1 and 135 commands cost
    the same, empty queues included."""
    one = await statements(tmp_path / "one.db", word, 1, cached=cached)
    many = await statements(tmp_path / "many.db", word, 135, cached=cached)
    assert one == many
