"""Keys whose time is over are published by name."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.resp_client import OK, Client, Error, Frame, Simple, Word
from tests.support.resp_servers import Connect, Dial, Server, info, items_of

EXPIRED = "__keyevent@{}__:expired"


@pytest.fixture
def notifying(connect: Connect) -> Iterator[Client]:
    """A connection to a server that publishes the keys whose time is over."""
    client = connect()
    client.ask("CONFIG", "SET", "notify-keyspace-events", "Ex")
    yield client
    client.ask("CONFIG", "SET", "notify-keyspace-events", "")


def events(subscriber: Client, count: int) -> list[Frame]:
    """The names in the next events."""
    return [items_of(frame)[-1] for frame in subscriber.read_many(count)]


def test_a_key_that_nobody_touches_expires_with_an_event(
    notifying: Client, connect: Connect, name: str, protocol: int
) -> None:
    """RESP-66, S002-78, S002-79."""
    subscriber, channel = connect(protocol), EXPIRED.format(0).encode()
    subscriber.ask("SUBSCRIBE", channel)
    before = int(info(notifying, "stats")["expired_keys"])
    keys = [f"{name}.{number}".encode() for number in range(40)]
    for number, key in enumerate(keys):
        assert notifying.ask("SET", key, "v", "PX", 100 + number * 5) == OK
    frames = subscriber.read_many(40)
    assert sorted(map(str, frames)) == sorted(
        str(subscriber.pushed(b"message", channel, key)) for key in keys
    )
    assert subscriber.before_fence() == []
    assert int(info(notifying, "stats")["expired_keys"]) >= before + 40


def test_a_key_that_is_touched_too_late_is_gone_with_one_event(
    notifying: Client, connect: Connect, name: str
) -> None:
    """RESP-67, S002-78."""
    subscriber = connect()
    subscriber.ask("SUBSCRIBE", EXPIRED.format(0))
    touches: list[tuple[tuple[Word, ...], Frame]] = [
        (("GET", name), None),
        (("EXISTS", name), 0),
        (("TTL", name), -2),
        (("TYPE", name), Simple("none")),
        (("DEL", name), 0),
        (("EXPIRE", name, 100), 0),
        (("PERSIST", name), 0),
        (("GETDEL", name), None),
        (("MGET", name), [None]),
        (("SET", name, "w", "XX"), None),
    ]
    for words, reply in touches:
        notifying.ask("SET", name, "v", "PX", 1)
        time.sleep(0.005)
        assert notifying.ask(*words) == reply, words
        assert events(subscriber, 1) == [name.encode()], words
    assert subscriber.before_fence() == []


def test_a_key_that_is_set_anew_after_its_time_had_its_event(
    notifying: Client, connect: Connect, name: str
) -> None:
    """RESP-67."""
    subscriber = connect()
    subscriber.ask("SUBSCRIBE", EXPIRED.format(0))
    notifying.ask("SET", name, "v", "PX", 1)
    time.sleep(0.005)
    assert notifying.ask("SET", name, "w", "NX") == OK
    assert events(subscriber, 1) == [name.encode()]
    assert notifying.ask("GET", name) == b"w"


def test_events_go_to_the_channel_of_their_database(
    notifying: Client, connect: Connect, name: str, protocol: int
) -> None:
    """RESP-68, S002-78, S002-81: a pattern is told with each of them."""
    exact, patterned = connect(protocol), connect(protocol)
    exact.ask("SUBSCRIBE", EXPIRED.format(3))
    patterned.ask("PSUBSCRIBE", "__keyevent@*__:expired")
    wanted: list[Frame] = []
    for database in (0, 3, 15):
        notifying.ask("SELECT", database)
        for number in range(5):
            key = f"{name}.{database}.{number}"
            notifying.ask("SET", key, "v", "PX", 20)
            channel = EXPIRED.format(database).encode()
            wanted.append(
                patterned.pushed(b"pmessage", b"__keyevent@*__:expired", channel, key.encode())
            )
    seen = patterned.read_many(15)
    assert sorted(map(str, seen)) == sorted(map(str, wanted))
    assert sorted(map(str, events(exact, 5))) == [
        str(f"{name}.3.{number}".encode()) for number in range(5)
    ]
    assert exact.before_fence() == []


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL"])
def test_keys_that_end_otherwise_make_no_event(
    notifying: Client, connect: Connect, name: str, flush: str
) -> None:
    """RESP-69."""
    subscriber = connect()
    subscriber.ask("SELECT", 12)
    subscriber.ask("SUBSCRIBE", EXPIRED.format(12))
    notifying.ask("SELECT", 12)
    for letter in "abcdefg":
        notifying.ask("SET", name + letter, "v", "PX", 500)
    notifying.ask("DEL", name + "a")
    notifying.ask("SET", name + "b", "w")
    notifying.ask("PERSIST", name + "c")
    notifying.ask("GETDEL", name + "d")
    notifying.ask("GETEX", name + "e", "PERSIST")
    notifying.ask("EXPIRE", name + "f", 100)
    notifying.ask(flush)
    notifying.ask("SET", name + "last", "v", "PX", 700)
    assert events(subscriber, 1) == [f"{name}last".encode()]


def test_without_the_setting_there_are_no_events(
    notifying: Client, connect: Connect, name: str
) -> None:
    """RESP-66, RESP-70, S002-80: it is obeyed at once."""
    subscriber = connect()
    subscriber.ask("SUBSCRIBE", EXPIRED.format(0))
    assert notifying.ask("CONFIG", "SET", "notify-keyspace-events", "") == OK
    assert notifying.ask("CONFIG", "GET", "notify-keyspace-events") == [
        b"notify-keyspace-events",
        b"",
    ]
    notifying.ask("SET", name, "v", "PX", 1)
    time.sleep(0.005)
    assert notifying.ask("GET", name) is None
    assert subscriber.before_fence() == []
    assert notifying.ask("CONFIG", "SET", "notify-keyspace-events", "Ex") == OK
    notifying.ask("SET", name, "v", "PX", 1)
    assert events(subscriber, 1) == [name.encode()]


@pytest.mark.parametrize("wrong", ["nonsense", "Ex?"])
def test_a_wrong_setting_is_refused_and_the_old_one_stays(
    notifying: Client, connect: Connect, name: str, wrong: str
) -> None:
    """RESP-70, S002-77."""
    reply = notifying.ask("CONFIG", "SET", "notify-keyspace-events", wrong)
    assert isinstance(reply, Error)
    assert reply.text.startswith("ERR CONFIG SET failed")
    subscriber = connect()
    subscriber.ask("SUBSCRIBE", EXPIRED.format(0))
    notifying.ask("SET", name, "v", "PX", 1)
    assert events(subscriber, 1) == [name.encode()]


def test_only_expiry_can_be_switched_on(headgate: Server, dial: Dial) -> None:
    """RESP-70, S002-77: what Redis has beyond it is refused."""
    client = dial(headgate)
    for accepted in ("Ex", "ex", "xE", "EX", ""):
        assert client.ask("CONFIG", "SET", "notify-keyspace-events", accepted) == OK, accepted
    for refused in ("KEA", "E", "x", "Kx", "Exg", "A"):
        reply = client.ask("CONFIG", "SET", "notify-keyspace-events", refused)
        assert isinstance(reply, Error), refused
    assert client.ask("CONFIG", "SET", "notify_keyspace_events", "Ex") == OK
    assert client.ask("CONFIG", "SET", "notify_keyspace_events", "") == OK


@pytest.mark.parametrize(
    "words",
    [
        ("EXPIRE", "{}", -1),
        ("PEXPIREAT", "{}", 1),
        ("GETEX", "{}", "PXAT", 1),
        ("SET", "{}", "w", "PXAT", 1),
    ],
)
def test_a_deadline_in_the_past_is_a_deletion_but_for_set(
    notifying: Client, connect: Connect, name: str, words: tuple[Word, ...]
) -> None:
    """RESP-66, RESP-69: as Redis has it; SET stores the value, whose time is over at once."""
    subscriber = connect()
    subscriber.ask("SUBSCRIBE", EXPIRED.format(0))
    notifying.ask("SET", name, "v")
    assert not isinstance(notifying.ask(*(name if word == "{}" else word for word in words)), Error)
    assert notifying.ask("GET", name) is None
    notifying.ask("SET", name + "last", "v", "PX", 1)
    seen: list[Frame] = []
    while f"{name}last".encode() not in seen:
        seen += events(subscriber, 1)
    assert seen.count(name.encode()) == (1 if words[0] == "SET" else 0)
