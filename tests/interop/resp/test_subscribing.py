"""Joining and leaving channels and patterns, and what a subscriber may say meanwhile."""

from __future__ import annotations

import pytest

from tests.support.resp_client import OK, PONG, QUEUED, Client, Error, Simple, Word
from tests.support.resp_servers import Connect, eventually, items_of, mapping, number_of

ALLOWED = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"


def test_a_channel_counts_once(connect: Connect, name: str, protocol: int) -> None:
    """RESP-26, S002-18, S002-20, S002-23."""
    client, publisher = connect(protocol), connect()
    a, b = f"{name}a".encode(), f"{name}b".encode()
    client.send("SUBSCRIBE", a, b, a)
    assert client.read_many(3) == [
        client.pushed(b"subscribe", a, 1),
        client.pushed(b"subscribe", b, 2),
        client.pushed(b"subscribe", a, 2),
    ]
    assert client.ask("SUBSCRIBE", b) == client.pushed(b"subscribe", b, 2)
    assert publisher.ask("PUBLISH", a, "x") == 1
    assert client.before_fence() == [client.pushed(b"message", a, b"x")]


def test_patterns_count_with_channels_and_shards_apart(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-27, S002-5, S002-23."""
    client, n = connect(protocol), name.encode()
    asked = [
        ("SUBSCRIBE", b"subscribe", 1),
        ("PSUBSCRIBE", b"psubscribe", 2),
        ("SSUBSCRIBE", b"ssubscribe", 1),
        ("PSUBSCRIBE", b"psubscribe", 2),
        ("SSUBSCRIBE", b"ssubscribe", 1),
        ("UNSUBSCRIBE", b"unsubscribe", 1),
        ("SUNSUBSCRIBE", b"sunsubscribe", 0),
        ("PUNSUBSCRIBE", b"punsubscribe", 0),
    ]
    for command, kind, count in asked:
        assert client.ask(command, n) == client.pushed(kind, n, count)


def test_leaving_all_channels_counts_down_to_the_patterns_left(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-28, S002-19."""
    client = connect(protocol)
    channels = [f"{name}{number}".encode() for number in range(5)]
    client.send("SUBSCRIBE", *channels)
    client.send("PSUBSCRIBE", name + "p*", name + "q*")
    client.read_many(7)
    client.send("UNSUBSCRIBE")
    frames = [items_of(frame) for frame in client.read_many(5)]
    assert [frame[0] for frame in frames] == [b"unsubscribe"] * 5
    assert {frame[1] for frame in frames} == set(channels)
    assert [frame[2] for frame in frames] == [6, 5, 4, 3, 2]
    client.send("PUNSUBSCRIBE")
    assert [items_of(frame)[2] for frame in client.read_many(2)] == [1, 0]
    assert client.before_fence() == []


@pytest.mark.parametrize("kind", ["unsubscribe", "punsubscribe", "sunsubscribe"])
def test_leaving_nothing_is_confirmed_without_a_name(
    connect: Connect, protocol: int, kind: str
) -> None:
    """RESP-29, S002-22."""
    client = connect(protocol)
    nil = b"_\r\n" if protocol == 3 else b"$-1\r\n"
    marker = b">" if protocol == 3 else b"*"
    expected = b"%b3\r\n$%d\r\n%b\r\n%b:0\r\n" % (marker, len(kind), kind.encode(), nil)
    assert client.read_raw_of(kind.upper()) == expected
    assert client.ask("PING") == PONG


def test_leaving_no_channel_tells_the_patterns_left(connect: Connect, name: str) -> None:
    """RESP-29."""
    client = connect()
    client.ask("PSUBSCRIBE", name)
    assert client.ask("UNSUBSCRIBE") == [b"unsubscribe", None, 1]
    assert client.ask("SUNSUBSCRIBE") == [b"sunsubscribe", None, 0]
    client.ask("SSUBSCRIBE", name)
    client.ask("PUNSUBSCRIBE", name)
    assert client.ask("PUNSUBSCRIBE") == [b"punsubscribe", None, 0]


def test_leaving_shards_leaves_the_channels(connect: Connect, name: str) -> None:
    """RESP-28: without names only those of the same kind are left."""
    client, publisher = connect(), connect()
    client.ask("SUBSCRIBE", name)
    client.ask("SSUBSCRIBE", name)
    assert client.ask("SUNSUBSCRIBE") == [b"sunsubscribe", name.encode(), 0]
    assert publisher.ask("PUBLISH", name, "x") == 1
    assert publisher.ask("SPUBLISH", name, "x") == 0


def test_leaving_unknown_names_changes_nothing(connect: Connect, name: str, protocol: int) -> None:
    """RESP-30, S002-22."""
    client, publisher = connect(protocol), connect()
    client.ask("SUBSCRIBE", name)
    for command, kind, count in (
        ("UNSUBSCRIBE", b"unsubscribe", 1),
        ("PUNSUBSCRIBE", b"punsubscribe", 1),
        ("SUNSUBSCRIBE", b"sunsubscribe", 0),
    ):
        client.send(command, "no", "such", "no")
        assert client.read_many(3) == [
            client.pushed(kind, channel, count) for channel in (b"no", b"such", b"no")
        ]
    assert publisher.ask("PUBLISH", name, "x") == 1


def test_confirmations_and_messages_are_the_only_answer(connect: Connect, name: str) -> None:
    """RESP-31, S002-53."""
    client, publisher = connect(3), connect()
    channel = name.encode()
    size = len(name)
    assert client.read_raw_of("SUBSCRIBE", name) == (
        b">3\r\n$9\r\nsubscribe\r\n$%d\r\n%b\r\n:1\r\n" % (size, channel)
    )
    assert client.before_fence() == []
    publisher.ask("PUBLISH", name, "x")
    assert client.read_raw() == b">3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$1\r\nx\r\n" % (size, channel)
    assert client.read_raw_of("UNSUBSCRIBE") == (
        b">3\r\n$11\r\nunsubscribe\r\n$%d\r\n%b\r\n:0\r\n" % (size, channel)
    )
    assert client.before_fence() == []


@pytest.mark.parametrize("kind", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
def test_a_subscriber_in_resp2_may_say_little(connect: Connect, name: str, kind: str) -> None:
    """RESP-32, S002-24."""
    client = connect()
    client.ask(kind, name)
    for words, full_name in (
        (["GET", "k"], "get"),
        (["PUBLISH", name, "x"], "publish"),
        (["HELLO", 3], "hello"),
        (["HELLO"], "hello"),
        (["PUBSUB", "CHANNELS"], "pubsub|channels"),
        (["CLIENT", "ID"], "client|id"),
        (["MULTI"], "multi"),
    ):
        assert client.ask(*words) == Error(f"ERR Can't execute '{full_name}': {ALLOWED}")
    assert isinstance(client.ask("NOSUCH"), Error)
    assert client.ask("GET") == Error("ERR wrong number of arguments for 'get' command")
    client.ask(kind.replace("SUB", "UNSUB"), name)
    assert client.ask("ECHO", "x") == b"x"
    assert mapping(client.ask("HELLO", 3))[b"proto"] == 3


def test_subscriber_mode_ends_with_the_last_of_all_kinds(connect: Connect, name: str) -> None:
    """RESP-32, S002-24."""
    client = connect()
    for kind in ("", "P", "S"):
        client.ask(f"{kind}SUBSCRIBE", name)
    for kind in ("", "P"):
        client.ask(f"{kind}UNSUBSCRIBE", name)
        assert isinstance(client.ask("GET", "k"), Error)
    client.ask("SUNSUBSCRIBE", name)
    assert client.ask("GET", "k") is None


def test_a_ping_in_subscriber_mode_is_an_array_in_resp2(connect: Connect, name: str) -> None:
    """RESP-33."""
    client = connect()
    client.ask("SUBSCRIBE", name)
    assert client.read_raw_of("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert client.read_raw_of("PING", "x") == b"*2\r\n$4\r\npong\r\n$1\r\nx\r\n"
    assert client.ask("PING", "x", "y") == Error("ERR wrong number of arguments for 'ping' command")
    client.ask("UNSUBSCRIBE")
    assert client.ask("PING") == PONG


def test_a_subscriber_in_resp3_may_say_anything(connect: Connect, name: str) -> None:
    """RESP-33, RESP-34."""
    client = connect(3)
    client.ask("SUBSCRIBE", name)
    assert client.ask("PING") == PONG
    assert client.ask("PING", "x") == b"x"
    assert client.ask("SET", name, "v") == OK
    assert client.ask("GET", name) == b"v"
    assert client.ask("PUBSUB", "NUMSUB", name) == [name.encode(), 1]
    assert client.ask("PUBLISH", name + "other", "x") == 0
    assert number_of(client.ask("CLIENT", "ID")) > 0
    assert client.ask("MULTI") == OK
    assert client.ask("PING") == QUEUED
    assert client.ask("EXEC") == [PONG]


def test_a_subscriber_that_turns_back_to_resp2_is_bound_again(connect: Connect, name: str) -> None:
    """RESP-32, RESP-34."""
    client, publisher = connect(3), connect()
    client.ask("SUBSCRIBE", name)
    client.hello(2)
    assert isinstance(client.ask("GET", "k"), Error)
    publisher.ask("PUBLISH", name, "x")
    assert client.read() == [b"message", name.encode(), b"x"]


@pytest.mark.parametrize("silence", ["OFF", "SKIP"])
def test_silence_is_not_for_confirmations_and_messages(
    connect: Connect, name: str, protocol: int, silence: str
) -> None:
    """RESP-35."""
    client, publisher, n = connect(protocol), connect(), name.encode()
    client.send("CLIENT", "REPLY", silence)
    assert client.ask("SUBSCRIBE", n) == client.pushed(b"subscribe", n, 1)
    assert publisher.ask("PUBLISH", n, "x") == 1
    assert client.read() == client.pushed(b"message", n, b"x")
    if silence == "OFF":
        client.send("PING", "unheard")
        assert client.ask("UNSUBSCRIBE") == client.pushed(b"unsubscribe", n, 0)
        client.send("PING", "unheard")
        assert client.ask("CLIENT", "REPLY", "ON") == OK
    assert client.ask("PING", "heard") in (b"heard", [b"pong", b"heard"])


def test_silence_skips_one_reply(client: Client) -> None:
    """RESP-35."""
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("PING", "unheard")
    assert client.ask("PING", "heard") == b"heard"
    assert client.ask("CLIENT", "REPLY", "x") == Error("ERR syntax error")


def test_a_thousand_channels_in_one_command(connect: Connect, name: str, protocol: int) -> None:
    """RESP-36, S002-16."""
    client = connect(protocol)
    channels = [f"{name}.{number}".encode() for number in range(1000)]
    client.send("SUBSCRIBE", *channels)
    assert client.read_many(1000) == [
        client.pushed(b"subscribe", channel, number + 1) for number, channel in enumerate(channels)
    ]
    client.send("UNSUBSCRIBE", *channels)
    assert client.read_many(1000) == [
        client.pushed(b"unsubscribe", channel, 999 - number)
        for number, channel in enumerate(channels)
    ]


def test_a_connection_that_ends_leaves_nothing(connect: Connect, name: str, protocol: int) -> None:
    """RESP-37, S002-14, S002-21, S002-26."""
    client, other = connect(protocol), connect()
    patterns = number_of(other.ask("PUBSUB", "NUMPAT"))
    client.ask("SUBSCRIBE", name)
    client.ask("SSUBSCRIBE", name)
    client.ask("PSUBSCRIBE", name + "*")
    client.close()
    eventually(lambda: other.ask("PUBSUB", "NUMSUB", name) == [name.encode(), 0], "no subscriber")
    assert other.ask("PUBSUB", "CHANNELS", name) == []
    assert other.ask("PUBSUB", "SHARDCHANNELS", name) == []
    assert number_of(other.ask("PUBSUB", "NUMPAT")) <= patterns
    assert other.ask("PUBLISH", name, "x") == 0
    assert other.ask("SPUBLISH", name, "x") == 0


@pytest.mark.parametrize(
    "words",
    [
        ["SUBSCRIBE"],
        ["PSUBSCRIBE"],
        ["SSUBSCRIBE"],
        ["PUBLISH"],
        ["PUBLISH", "a"],
        ["PUBLISH", "a", "b", "c"],
        ["SPUBLISH", "a"],
        ["SPUBLISH", "a", "b", "c"],
    ],
)
def test_a_wrong_number_of_arguments_changes_nothing(
    connect: Connect, name: str, protocol: int, words: list[str]
) -> None:
    """RESP-38, S002-82."""
    client = connect(protocol)
    text = f"ERR wrong number of arguments for '{words[0].lower()}' command"
    assert client.ask(*words) == Error(text)
    assert client.ask("SUBSCRIBE", name) == client.pushed(b"subscribe", name.encode(), 1)
    assert client.ask(*words) == Error(text)
    assert client.ask("UNSUBSCRIBE") == client.pushed(b"unsubscribe", name.encode(), 0)


def test_a_pattern_is_not_a_channel(connect: Connect, name: str) -> None:
    """S002-6."""
    client, other = connect(3), connect()
    client.ask("SUBSCRIBE", name + "*")
    assert other.ask("PUBLISH", name + "x", "x") == 0
    assert other.ask("PUBLISH", name + "*", "x") == 1
    client.read()
    assert client.ask("PUNSUBSCRIBE", name + "*") == client.pushed(
        b"punsubscribe", f"{name}*".encode(), 1
    )
    assert other.ask("PUBLISH", name + "*", "x") == 1


def test_a_new_life_of_the_mode_starts_from_nothing(connect: Connect, name: str) -> None:
    """S002-10, S002-24."""
    client, other = connect(), connect()
    for _ in range(3):
        assert client.ask("SUBSCRIBE", name) == [b"subscribe", name.encode(), 1]
        assert other.ask("PUBLISH", name, "x") == 1
        assert client.read() == [b"message", name.encode(), b"x"]
        assert client.ask("UNSUBSCRIBE") == [b"unsubscribe", name.encode(), 0]
        assert other.ask("PUBLISH", name, "x") == 0
        assert client.ask("PING") == PONG


def test_subscriptions_and_other_commands_in_one_write_keep_their_order(
    connect: Connect, name: str
) -> None:
    """RESP-31."""
    client, n = connect(3), name.encode()
    commands: list[tuple[Word, ...]]
    commands = [("ECHO", "1"), ("SUBSCRIBE", n), ("ECHO", "2"), ("UNSUBSCRIBE", n), ("ECHO", "3")]
    assert (
        client.pipeline(commands * 50)
        == [
            b"1",
            client.pushed(b"subscribe", n, 1),
            b"2",
            client.pushed(b"unsubscribe", n, 0),
            b"3",
        ]
        * 50
    )


def test_quitting_in_a_pipeline_after_subscribing(connect: Connect, name: str) -> None:
    """RESP-24."""
    client = connect()
    client.send_raw(f"SUBSCRIBE {name}\r\nPING\r\nQUIT\r\nPING\r\n".encode())
    assert client.until_closed() == [
        [b"subscribe", name.encode(), 1],
        [b"pong", b""],
        Simple("OK"),
    ]
