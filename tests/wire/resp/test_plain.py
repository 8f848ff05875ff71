"""Plain reads: the short way in C and the steps in Python come to the same."""

from __future__ import annotations

import gc
import weakref

import pytest

from fuzz.compiled_sessions import check_sessions, request
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.replies import bulk, error
from headgate.wire.resp.command_cost import FEW
from headgate.wire.resp.commands.all_commands import COMMANDS
from headgate.wire.resp.commands.at_once import AT_ONCE, VALUE_BYTES
from headgate.wire.resp.commands.key_commands import FULL
from headgate.wire.resp.plain import PlainHub, PlainSession, PurePlainSession
from headgate.wire.resp.session import RespSession
from tests.support.resp_hub import Guest, House

needs_compiled = pytest.mark.skipif(
    PlainSession is PurePlainSession, reason="there was no compiler, or it is not wanted"
)
PUBLISH = request(b"PUBLISH", b"c", b"x")


def send(guest: Guest, data: bytes) -> bytes:
    guest.session.receive(data)
    received, guest.received = guest.received, b""
    return received


@needs_compiled
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_both_ways_answer_and_deliver_the_same(first: int) -> None:
    """RESP-44, RESP-45, RESP-59: every byte to every client, whoever waits for whom."""
    for seed in range(first, first + 50):
        check_sessions(seed)


@needs_compiled
def test_what_is_plain_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    reader, publisher = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "c")
    send(publisher, PUBLISH)
    house.end_pass()
    reader.received = b""
    monkeypatch.delattr(RespSession, "_receive_by_steps")
    data = PUBLISH + request(b"PING") + request(b"SET", b"k", b"v") + PUBLISH * 100
    assert send(publisher, data) == b":1\r\n+PONG\r\n+OK\r\n" + b":1\r\n" * 100
    assert (house.hub.commands, publisher.session.last_command) == (105, "set")
    house.end_pass()
    assert reader.received == (b"*3\r\n" + request(b"message", b"c", b"x")[4:]) * 101
    assert house.hub.channels.totals() == (102, 102)


@needs_compiled
def test_a_command_of_few_words_takes_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    client = house.guest(3)
    send(client, PUBLISH)
    for step in ("_receive_by_steps", "_take", "_run", "_execute"):
        monkeypatch.delattr(RespSession, step)
    asked = {
        request(b"SET", b"k", b"v"): b"+OK\r\n",
        request(b"GET", b"k"): b"$1\r\nv\r\n",
        request(b"GET", b"none"): b"_\r\n",
        request(b"set", b"k", b"x" * VALUE_BYTES): b"+OK\r\n",
        request(b"get", b"k"): bulk(b"x" * VALUE_BYTES),
        request(b"PING"): b"+PONG\r\n",
    }
    for data, answer in asked.items():
        assert send(client, data) == answer
    assert send(client, b"".join(asked) + PUBLISH) == b"".join(asked.values()) + b":0\r\n"
    assert (house.hub.commands, client.session.last_command) == (15, "ping")


@needs_compiled
@pytest.mark.parametrize("command", [request(b"GET", b"k"), request(b"PING")])
def test_only_some_of_a_read_take_no_step(command: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps see how long a read takes; so not all of it goes another way."""
    house, steps = House(), list[list[bytes]]()
    client = house.guest()
    run = RespSession._run

    def counted(session: RespSession, commands: list[list[bytes]]) -> None:
        steps.extend(commands)
        run(session, commands)

    monkeypatch.setattr(RespSession, "_run", counted)
    answer = send(client, command)
    assert send(client, command * 40) == answer * 40
    assert len(steps) == 8


def test_what_takes_one_call_needs_no_look_at_its_cost() -> None:
    for name in AT_ONCE:
        entry = COMMANDS.get(name)
        assert entry is not None
        assert entry.name == name.decode().lower()
        assert abs(entry.arity) <= FEW
        assert entry.steps == 0
        assert entry.publishes is None


@pytest.mark.parametrize("limits", [Limits(keys=1), Limits(keys_bytes=3)], ids=["keys", "bytes"])
def test_a_key_that_has_no_room_is_refused(limits: Limits) -> None:
    client = House(limits=limits).guest()
    data = request(b"SET", b"a", b"x") + request(b"SET", b"b", b"xx") + request(b"GET", b"b")
    answer = b"+OK\r\n" + error(FULL) + b"$-1\r\n"
    assert send(client, PUBLISH + data + PUBLISH) == b":0\r\n" + answer + b":0\r\n"


def test_a_key_found_dead_is_told_before_what_comes_next() -> None:
    """RESP-67, RESP-68."""
    house = House()
    house.hub.settings.notify_keyspace_events = "Ex"
    reader, client = house.guest(), house.guest()
    reader.ask("SUBSCRIBE", "__keyevent@0__:expired")
    client.ask("SET", "k", "v", "PX", "500")
    house.now += 1
    assert send(client, request(b"SET", b"k", b"v") + PUBLISH) == b"+OK\r\n:0\r\n"
    house.end_pass()
    assert reader.received.endswith(bulk(b"k"))


@pytest.mark.parametrize("between", [b"", request(b"PING"), request(b"SET", b"k", b"v")])
def test_a_part_of_a_command_behind_what_is_plain_waits_for_the_rest(between: bytes) -> None:
    """RESP-8."""
    house = House()
    publisher = house.guest()
    send(publisher, PUBLISH)
    data = PUBLISH + between + PUBLISH
    for end in range(len(PUBLISH + between) + 1, len(data)):
        assert send(publisher, data[:end]).startswith(b":0\r\n")
        assert publisher.session.held == end - len(PUBLISH + between)
        assert send(publisher, data[end:]) == b":0\r\n"
        assert not publisher.session.held


def test_commands_between_that_take_long_let_others_have_their_turn() -> None:
    """However many they are, a read does not hold the loop for longer than a session may."""
    house = House()
    publisher = house.guest()
    send(publisher, PUBLISH)
    house.step = 0.0009
    answers = send(publisher, (request(b"SET", b"k", b"v") + PUBLISH) * 50)
    assert 0 < answers.count(b"+OK") < 50
    assert publisher.paused
    while publisher.paused:
        house.end_pass()
    assert answers + publisher.received == b"+OK\r\n:0\r\n" * 50


def test_who_looks_on_is_told_of_what_is_plain_too() -> None:
    """The tap of a desk hears what is published, whatever way it takes."""
    house, said = House(), list[tuple[bytes, list[bytes]]]()
    publisher = house.guest()
    send(publisher, PUBLISH)
    house.hub.channels.tap = lambda channel, bodies: said.append((channel, list(bodies)))
    send(publisher, PUBLISH * 2)
    house.hub.channels.tap = None
    send(publisher, PUBLISH)
    assert said == [(b"c", [b"x", b"x"])]


@needs_compiled
def test_what_is_no_bytes_is_refused() -> None:
    publisher = House().guest()
    with pytest.raises(TypeError):
        publisher.session.receive("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        publisher.session.held = "text"  # type: ignore[assignment]
    bare = PlainHub()  # type: ignore[abstract]
    for asked in (bare.flush_soon, bare._flush_some):
        with pytest.raises(AttributeError):
            asked()


def test_a_hub_and_its_sessions_hold_each_other_and_are_collected() -> None:
    house = House()
    send(house.guest(), PUBLISH)
    gone = weakref.ref(house)
    del house
    gc.collect()
    assert gone() is None
