"""COMMAND, and what tools and test suites for Redis ask besides."""

from __future__ import annotations

import pytest

from headgate.wire.resp.codec.replies import Reply
from headgate.wire.resp.commands import introspection
from headgate.wire.resp.commands.all_commands import COMMANDS
from headgate.wire.resp.commands.table import CommandEntry
from tests.support.resp_hub import House

WITHOUT_HELP = frozenset(("cluster", "dflycluster"))
"""Without a cluster the first refuses everything; the second has one subcommand."""

PUBLISHING = ({"pubsub", "loading", "fast"}, {"@pubsub", "@fast"})
SUBSCRIBING = ({"pubsub", "loading", "noscript"}, {"@pubsub", "@slow"})


def test_every_command_has_an_entry_of_ten_items() -> None:
    """RESP-22."""
    guest = House().guest()
    entries = guest.ask("COMMAND")
    assert {len(entry) for entry in entries} == {10}
    names = {entry[0] for entry in entries}
    assert names >= {"get", "set", "publish", "subscribe", "client", "hello", "command", "info"}
    assert guest.ask("COMMAND", "COUNT") == len(entries)
    assert guest.ask("COMMAND", "INFO") == entries


def test_an_entry_is_written_as_in_redis() -> None:
    """RESP-22."""
    line = b"$9\r\nclient|id\r\n:2\r\n%b3\r\n+noscript\r\n+loading\r\n+stale\r\n:0\r\n:0\r\n:0\r\n"
    rest = b"%b2\r\n+@slow\r\n+@connection\r\n%b0\r\n%b0\r\n*0\r\n"
    for protocol, mark in ((2, b"*"), (3, b"~")):
        told = House().guest(protocol).raw("COMMAND", "INFO", "client|id")
        assert told == b"*1\r\n*10\r\n" + line % mark + rest % (mark, mark, mark)


def test_an_unknown_command_has_none() -> None:
    """RESP-22."""
    unknown, known = House().guest().ask("COMMAND", "INFO", "nosuch", "PING")
    assert unknown is None
    assert known[0] == "ping"


def test_subcommands_are_inside_their_command() -> None:
    """RESP-22."""
    [entry] = House().guest().ask("COMMAND", "INFO", "client")
    assert entry[0] == "client"
    assert {"client|id", "client|kill"} <= {part[0] for part in entry[9]}


@pytest.mark.parametrize(
    ("command", "arity", "keys", "kind"),
    [
        ("publish", 3, [0, 0, 0], PUBLISHING),
        ("spublish", 3, [1, 1, 1], PUBLISHING),
        ("subscribe", -2, [0, 0, 0], SUBSCRIBING),
        ("psubscribe", -2, [0, 0, 0], SUBSCRIBING),
        ("ssubscribe", -2, [1, -1, 1], SUBSCRIBING),
        ("unsubscribe", -1, [0, 0, 0], SUBSCRIBING),
        ("punsubscribe", -1, [0, 0, 0], SUBSCRIBING),
        ("sunsubscribe", -1, [1, -1, 1], SUBSCRIBING),
    ],
)
def test_commands_of_channels_are_registered_as_documented(
    command: str, arity: int, keys: list[int], kind: tuple[set[str], set[str]]
) -> None:
    """RESP-22, S002-82, S002-83, S002-84."""
    [entry] = House().guest().ask("COMMAND", "INFO", command)
    assert (entry[1], entry[3:6]) == (arity, keys)
    flags, categories = kind
    assert flags <= set(entry[2])
    assert set(entry[6]) == categories


def test_tools_that_want_docs_get_a_map() -> None:
    """RESP-22."""
    guest = House().guest(3)
    assert guest.ask("COMMAND", "DOCS", "publish", "nosuch") == {
        "publish": {"summary": "", "since": "7.2.4", "group": "pubsub"}
    }
    everything = guest.ask("COMMAND", "DOCS")
    assert len(everything) == guest.ask("COMMAND", "COUNT")
    assert "client|id" in everything["client"]["subcommands"]
    assert everything["info"]["group"] == "server"
    assert guest.house.guest().ask("COMMAND", "DOCS", "nosuch") == []


def test_names_can_be_listed_and_filtered() -> None:
    """RESP-22."""
    guest = House().guest()
    names = guest.ask("COMMAND", "LIST")
    assert {"get", "client", "client|id"} <= set(names)
    assert guest.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "P*PUBSUB?c*") == []
    assert set(guest.ask("COMMAND", "LIST", "filterby", "pattern", "PUBL*")) == {"publish"}
    listed = set(guest.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "pubsub"))
    assert {"publish", "subscribe", "sunsubscribe", "pubsub|numsub"} <= listed
    assert "get" not in listed
    assert guest.ask("COMMAND", "LIST", "FILTERBY", "MODULE", "x") == []
    for wrong in (["X"], ["FILTERBY", "X", "y"], ["FILTERBY", "PATTERN"]):
        assert guest.ask("COMMAND", "LIST", *wrong) == "ERR syntax error"


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("GET k", ["k"]),
        ("mset a 1 b 2", ["a", "b"]),
        ("DEL a b", ["a", "b"]),
        ("PING x", "ERR The command has no key arguments"),
        ("SSUBSCRIBE a b", "ERR The command has no key arguments"),
        ("CLIENT ID", "ERR The command has no key arguments"),
        ("NOSUCH x", "ERR Invalid command specified"),
        ("CLIENT NOSUCH", "ERR Invalid command specified"),
        ("GET a b", "ERR Invalid number of arguments specified for command"),
    ],
)
def test_keys_are_found_in_commands(words: str, reply: object) -> None:
    """RESP-22."""
    assert House().guest().ask("COMMAND", "GETKEYS", *words.split()) == reply


def test_an_unknown_question_about_commands_is_refused() -> None:
    guest = House().guest()
    assert guest.ask("COMMAND", "FOO") == "ERR unknown subcommand 'FOO'. Try COMMAND HELP."
    assert guest.ask("COMMAND", "HELP")[0].startswith("COMMAND <subcommand>")


# What a test suite needs.

ATTRIBUTE = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n"
AFTER_ATTRIBUTE = b"$39\r\nSome real reply following the attribute\r\n"
AFTER_PUSH = b"$40\r\nSome real reply following the push reply\r\n"
BIG = b"1234567999999999999999999999999999999"
NUMBERS = b"3\r\n:0\r\n:1\r\n:2\r\n"


@pytest.mark.parametrize(
    ("kind", "resp2", "resp3"),
    [
        ("string", b"$11\r\nHello World\r\n", b"$11\r\nHello World\r\n"),
        ("integer", b":12345\r\n", b":12345\r\n"),
        ("double", b"$5\r\n3.141\r\n", b",3.141\r\n"),
        ("null", b"$-1\r\n", b"_\r\n"),
        ("array", b"*" + NUMBERS, b"*" + NUMBERS),
        ("set", b"*" + NUMBERS, b"~" + NUMBERS),
        (
            "map",
            b"*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n",
            b"%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n",
        ),
        ("attrib", AFTER_ATTRIBUTE, ATTRIBUTE + AFTER_ATTRIBUTE),
        (
            "push",
            b"-ERR RESP2 is not supported by this command\r\n",
            b">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n" + AFTER_PUSH,
        ),
        (
            "verbatim",
            b"$25\r\nThis is a verbatim\nstring\r\n",
            b"=29\r\ntxt:This is a verbatim\nstring\r\n",
        ),
        ("true", b":1\r\n", b"#t\r\n"),
        ("false", b":0\r\n", b"#f\r\n"),
        ("bignum", b"$37\r\n%b\r\n" % BIG, b"(%b\r\n" % BIG),
    ],
)
def test_there_is_a_sample_of_every_type(kind: str, resp2: bytes, resp3: bytes) -> None:
    house = House()
    assert house.guest().raw("DEBUG", "PROTOCOL", kind) == resp2
    assert house.guest(3).raw("DEBUG", "PROTOCOL", kind) == resp3


def test_an_unknown_type_is_refused_with_a_list() -> None:
    assert House().guest().ask("DEBUG", "PROTOCOL", "foo") == (
        "ERR Wrong protocol type name. Please use one of the following: string|integer|double|"
        "bignum|null|array|set|map|attrib|push|verbatim|true|false"
    )


def test_a_test_suite_can_clean_up_what_is_not_there() -> None:
    guest = House().guest()
    assert guest.ask("FUNCTION", "FLUSH") == "OK"
    assert guest.ask("FUNCTION", "FLUSH", "async") == "OK"
    assert guest.ask("FUNCTION", "FLUSH", "x") == (
        "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
    )
    assert guest.ask("FUNCTION", "LIST") == []
    assert guest.ask("DEBUG", "LOG", "text") == "OK"
    assert guest.ask("SLOWLOG", "LEN") == 0
    assert guest.ask("LATENCY", "LATEST") == []


def test_everything_with_subcommands_has_help() -> None:
    """RESP-52: errors say to try it."""
    guest = House().guest()
    for entry in COMMANDS:
        if entry.subcommands and entry.name not in WITHOUT_HELP:
            head, *_ = lines = guest.ask(entry.name, "HELP")
            assert head.startswith(f"{entry.name.upper()} <subcommand>"), lines
            assert lines[-2:] == ["HELP", "    This list."]


def test_a_command_that_is_asked_for_often_is_described_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def described(entry: CommandEntry) -> list[Reply]:
        asked.append(entry.name)
        return [entry.name]

    monkeypatch.setattr(introspection, "described", described)
    assert House().guest().ask("COMMAND", "INFO", *["get"] * 100, "nosuch") == [["get"]] * 100 + [
        None
    ]
    assert asked == ["get"]
