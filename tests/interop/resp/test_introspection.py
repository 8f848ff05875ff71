"""PUBSUB, and patterns: what they match and what they cost."""

from __future__ import annotations

import pytest

from tests.support.resp_client import Client, Error, Frame, Simple
from tests.support.resp_servers import Connect, Dial, Server, eventually, info, items_of


def test_channels_are_listed_while_they_have_a_subscriber(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-51, S002-14."""
    first, second, asker = connect(), connect(), connect(protocol)
    a, b, upper = (f"{name}{letter}".encode() for letter in "abA")
    first.send("SUBSCRIBE", a, b, upper)
    first.read_many(3)
    first.ask("PSUBSCRIBE", name + "p*")
    second.ask("SUBSCRIBE", a)
    assert sorted_channels(asker, name + "*") == [upper, a, b]
    assert sorted_channels(asker, name + "[ab]") == [a, b]
    assert sorted_channels(asker, name + "B") == []
    assert set(sorted_channels(asker)) >= {upper, a, b}
    first.send("UNSUBSCRIBE")
    first.read_many(3)
    assert sorted_channels(asker, name + "*") == [a]


def sorted_channels(client: Client, *words: str) -> list[bytes]:
    channels = items_of(client.ask("PUBSUB", "CHANNELS", *words))
    return sorted(channel for channel in channels if isinstance(channel, bytes))


def test_subscribers_are_counted_in_a_flat_list(connect: Connect, name: str, protocol: int) -> None:
    """RESP-51."""
    first, second, asker = connect(), connect(), connect(protocol)
    a, b, n = (f"{name}{letter}".encode() for letter in "abn")
    first.send("SUBSCRIBE", a, b)
    first.read_many(2)
    second.ask("SUBSCRIBE", a)
    second.ask("PSUBSCRIBE", name + "*")
    assert asker.ask("PUBSUB", "NUMSUB", b, n, a, b) == [b, 1, n, 0, a, 2, b, 1]
    assert asker.read_raw_of("PUBSUB", "NUMSUB") == b"*0\r\n"


def test_patterns_are_counted_once(connect: Connect, name: str) -> None:
    """RESP-51."""
    first, second, asker = connect(), connect(), connect()
    eventually(lambda: asker.ask("PUBSUB", "NUMPAT") == 0, "earlier tests are over")
    for client in (first, second):
        client.ask("PSUBSCRIBE", name + "*")
    first.ask("PSUBSCRIBE", name + "?")
    assert asker.ask("PUBSUB", "NUMPAT") == 2
    first.send("PUNSUBSCRIBE")
    first.read_many(2)
    assert asker.ask("PUBSUB", "NUMPAT") == 1


def test_shard_channels_have_questions_of_their_own(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-51."""
    first, second, asker = connect(), connect(), connect(protocol)
    a, b = (f"{name}{letter}".encode() for letter in "ab")
    first.send("SSUBSCRIBE", a, b)
    first.read_many(2)
    second.ask("SSUBSCRIBE", a)
    second.ask("SUBSCRIBE", name + "c")
    channels = items_of(asker.ask("PUBSUB", "SHARDCHANNELS", name + "*"))
    assert {channel for channel in channels if isinstance(channel, bytes)} == {a, b}
    assert asker.ask("PUBSUB", "SHARDCHANNELS", name + "c") == []
    assert asker.ask("PUBSUB", "SHARDNUMSUB", b, "no", a) == [b, 1, b"no", 0, a, 2]
    assert asker.ask("PUBSUB", "SHARDNUMSUB") == []
    assert asker.ask("PUBSUB", "NUMSUB", a) == [a, 0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "ERR wrong number of arguments for 'pubsub' command"),
        (["FOO"], "ERR unknown subcommand 'FOO'. Try PUBSUB HELP."),
        (["numpat", "x"], "ERR wrong number of arguments for 'pubsub|numpat' command"),
        (
            ["CHANNELS", "a", "b"],
            "ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
        ),
        (
            ["shardchannels", "a", "b"],
            "ERR unknown subcommand or wrong number of arguments for 'shardchannels'. "
            "Try PUBSUB HELP.",
        ),
    ],
)
def test_a_wrong_question_is_refused(client: Client, words: list[str], text: str) -> None:
    """RESP-52."""
    assert client.ask("PUBSUB", *words) == Error(text)


@pytest.mark.parametrize(
    "name",
    ["PUBSUB", "ACL", "CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "SLOWLOG"],
)
def test_help_is_a_list_of_lines(client: Client, name: str) -> None:
    """RESP-52."""
    lines = items_of(client.ask(name, "HELP"))
    assert all(isinstance(line, Simple) for line in lines)
    assert isinstance(lines[0], Simple)
    assert lines[0].text.startswith(f"{name} <subcommand>")


# Each line: a pattern, what it matches, what it does not.
GLOBS: list[tuple[bytes, list[bytes], list[bytes]]] = [
    (b"*", [b"a", b"\n", b"\x00", b"abc"], [b""]),
    (b"", [b""], [b"a"]),
    (b"?", [b"a", b"\n", b"\x00", b"\xff"], [b"", b"ab"]),
    (b"**", [b"a"], [b""]),
    (b"[]", [], [b"a", b"]", b"[]"]),
    (b"[^]", [b"a"], [b""]),
    (b"[", [], [b"a", b"["]),
    (b"[^", [b"a"], []),
    (b"[abc", [b"b"], [b"d"]),
    (b"[a-]", [b"a", b"]"], [b"-", b"b"]),
    (b"[a-", [b"-", b"a"], [b"b"]),
    (b"[-a]", [b"-", b"a"], [b"b"]),
    (b"[z-a]", [b"m"], [b"A"]),
    (rb"[a\-z]", [b"-", b"a", b"z"], [b"m"]),
    (rb"[\]]", [b"]"], [b"\\"]),
    (b"[\\", [b"\\"], [b"["]),
    (b"[^a-c]x", [b"dx"], [b"bx"]),
    (b"[!a]", [b"!", b"a"], [b"b"]),
    (b"[a^]", [b"^", b"a"], [b"b"]),
    (rb"\*", [b"*"], [b"a", b"\\*"]),
    (b"a\\", [b"a\\"], [b"a"]),
    (rb"\a", [b"a"], [rb"\a"]),
    (b"A", [b"A"], [b"a"]),
    (b"[A-C]", [b"B"], [b"b"]),
    (b"a**b", [b"ab", b"axb"], [b"a"]),
    (b"*?", [b"a"], []),
    (b"?*?", [b"ab", b"abc"], [b"a"]),
    (b"[+-]]", [b","], [b",]"]),
    (rb"[+-\]]", [b",]"], [b"]"]),
    (b"[+--]", [b",", b"+", b"-"], [b"."]),
    (b"[[]", [b"["], [b"]"]),
    (b"]", [b"]"], [b"["]),
    (b"h[^]llo", [b"hello"], [b"hllo"]),
    (rb"\[a]", [b"[a]"], [b"a"]),
    (b"[*]", [b"*"], [b"a"]),
    (b"{a,b}", [b"{a,b}"], [b"a"]),
    (b"news.*", [b"news.", b"news.it"], [b"news", b"xnews.it"]),
    (b"h?llo", [b"hello"], [b"hllo", b"heello"]),
    (b"h[ae]llo", [b"hello", b"hallo"], [b"hillo"]),
    (rb"[\x80-\xff]", [], [b"\x90"]),
    (b"[\x80-\xff]", [b"\x90"], [b"a"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), GLOBS)
def test_patterns_match_as_in_redis(
    connect: Connect, pattern: bytes, matching: list[bytes], others: list[bytes]
) -> None:
    """RESP-53, S002-35: once for those who subscribe to it, once for those who ask."""
    client, publisher = connect(3), connect()
    client.ask("PSUBSCRIBE", pattern)
    subjects = [*matching, *others]
    received = [publisher.ask("PUBLISH", subject, "x") == 1 for subject in subjects]
    assert received == [True] * len(matching) + [False] * len(others)
    pushes: list[Frame] = [client.pushed(b"pmessage", pattern, m, b"x") for m in matching]
    assert client.before_fence() == pushes
    client.send("SUBSCRIBE", *subjects)
    client.read_many(len(subjects))
    listed = items_of(publisher.ask("PUBSUB", "CHANNELS", pattern))
    for subject in subjects:
        assert (subject in listed) == (subject in matching), subject


def test_a_pattern_of_many_stars_is_not_exponential(connect: Connect) -> None:
    """RESP-54."""
    client, publisher = connect(), connect()
    client.ask("PSUBSCRIBE", "a*" * 8 + "b")
    assert publisher.ask("PUBLISH", "a" * 8000, "x") == 0
    assert publisher.ask("PUBLISH", "a" * 8000 + "b", "x") == 1


def test_publishing_bears_many_patterns(headgate: Server, dial: Dial, name: str) -> None:
    """RESP-55, S002-37: a thousand publishes against 20,000 patterns, and again without them."""
    client, publisher = dial(headgate), dial(headgate)
    patterns = [f"{name}.{number}.*" for number in range(20_000)]
    client.pipeline([("PSUBSCRIBE", *patterns)], frames=20_000)
    publishes = [("PUBLISH", f"{name}.{number}.x", "m") for number in range(1000)]
    assert publisher.pipeline(publishes) == [1] * 1000
    client.read_many(1000)
    client.pipeline([("PUNSUBSCRIBE",)], frames=20_000)
    assert publisher.pipeline(publishes) == [0] * 1000


def test_fifty_thousand_patterns_of_one_client(headgate: Server, dial: Dial, name: str) -> None:
    """RESP-56: not quadratic, or it would not end in time."""
    client, asker = dial(headgate, timeout=60), dial(headgate)
    eventually(lambda: asker.ask("PUBSUB", "NUMPAT") == 0, "earlier tests are over")
    patterns = [f"{name}.{number}.*" for number in range(50_000)]
    client.pipeline([("PSUBSCRIBE", pattern) for pattern in patterns])
    assert asker.ask("PUBSUB", "NUMPAT") == 50_000
    assert info(asker, "stats")["pubsub_patterns"] == "50000"
    frames = client.pipeline([("PUNSUBSCRIBE", pattern) for pattern in patterns])
    assert items_of(frames[-1])[2] == 0
    assert asker.ask("PUBSUB", "NUMPAT") == 0
