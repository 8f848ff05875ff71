"""What the server says of itself: its settings, its commands and its state."""

from __future__ import annotations

import re

import pytest

from tests.support.resp_client import PONG, Client, Error, Frame, Members, Pairs, Simple, Verbatim
from tests.support.resp_servers import (
    Connect,
    Dial,
    Server,
    eventually,
    info,
    items_of,
    mapping,
    text_of,
)


def test_what_benchmarks_ask_of_the_configuration_is_answered(connect: Connect) -> None:
    """RESP-21."""
    client = connect()
    for key in (b"save", b"appendonly"):
        reply = items_of(client.ask("CONFIG", "GET", key))
        assert reply[0] == key
        assert isinstance(reply[1], bytes)
    assert client.ask("CONFIG", "GET", "no such setting") == []
    client.hello(3)
    assert client.ask("CONFIG", "GET", "no such setting") == Pairs()
    assert set(mapping(client.ask("CONFIG", "GET", "sav*", "APPENDON*"))) == {
        b"save",
        b"appendonly",
    }


def test_an_unknown_setting_is_refused(client: Client) -> None:
    """RESP-21."""
    assert client.ask("CONFIG", "SET", "nosuch", "1") == Error(
        "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"
    )
    assert client.ask("CONFIG", "SET", "save") == Error(
        "ERR wrong number of arguments for 'config|set' command"
    )


def entry_of(client: Client, command: str) -> list[Frame]:
    (entry,) = items_of(client.ask("COMMAND", "INFO", command))
    return items_of(entry)


def test_the_table_of_commands_is_told(connect: Connect, protocol: int) -> None:
    """RESP-22."""
    client = connect(protocol)
    entries = [items_of(entry) for entry in items_of(client.ask("COMMAND"))]
    assert {len(entry) for entry in entries} == {10}
    names = {entry[0] for entry in entries}
    assert names >= {b"get", b"set", b"publish", b"subscribe", b"client", b"hello", b"ping"}
    assert client.ask("COMMAND", "COUNT") == len(entries)
    name, arity, flags, first, last, step, categories, tips, specs, subcommands = entry_of(
        client, "GET"
    )
    assert (name, arity, first, last, step) == (b"get", 2, 1, 1, 1)
    kind = Members if protocol == 3 else list
    assert type(flags) is kind
    assert Simple("readonly") in flags
    assert type(categories) is kind
    assert Simple("@read") in categories
    assert isinstance(tips, list)
    assert isinstance(specs, list)
    assert isinstance(subcommands, list)


def test_an_unknown_command_has_no_entry(client: Client) -> None:
    """RESP-22."""
    unknown, known = items_of(client.ask("COMMAND", "INFO", "nosuch", "ping"))
    assert unknown is None
    assert items_of(known)[0] == b"ping"
    assert client.read_raw_of("COMMAND", "INFO", "nosuch") == b"*1\r\n$-1\r\n"


def test_tools_that_ask_for_docs_get_an_answer(connect: Connect, protocol: int) -> None:
    """RESP-22."""
    client = connect(protocol)
    reply = client.ask("COMMAND", "DOCS")
    assert isinstance(reply, Pairs if protocol == 3 else list)
    assert client.ask("COMMAND", "DOCS", "nosuch") == (Pairs() if protocol == 3 else [])
    assert client.ask("PING") == PONG


def test_keys_are_found_in_commands(client: Client) -> None:
    """RESP-22."""
    assert client.ask("COMMAND", "GETKEYS", "SET", "k", "v") == [b"k"]
    assert client.ask("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2") == [b"a", b"b"]
    assert client.ask("COMMAND", "GETKEYS", "NOSUCH", "k") == Error("ERR Invalid command specified")
    assert client.ask("COMMAND", "GETKEYS", "PING", "k") == Error(
        "ERR The command has no key arguments"
    )


PUBSUB_COMMANDS = {
    "publish": (3, {"loading", "fast"}, (0, 0, 0), {"@pubsub", "@fast"}),
    "spublish": (3, {"loading", "fast"}, (1, 1, 1), {"@pubsub", "@fast"}),
    "subscribe": (-2, {"loading", "noscript"}, (0, 0, 0), {"@pubsub", "@slow"}),
    "psubscribe": (-2, {"loading", "noscript"}, (0, 0, 0), {"@pubsub", "@slow"}),
    "ssubscribe": (-2, {"loading", "noscript"}, (1, -1, 1), {"@pubsub", "@slow"}),
    "unsubscribe": (-1, {"loading", "noscript"}, (0, 0, 0), {"@pubsub", "@slow"}),
    "punsubscribe": (-1, {"loading", "noscript"}, (0, 0, 0), {"@pubsub", "@slow"}),
    "sunsubscribe": (-1, {"loading", "noscript"}, (1, -1, 1), {"@pubsub", "@slow"}),
}


@pytest.mark.parametrize("command", PUBSUB_COMMANDS)
def test_commands_of_channels_are_registered_as_redis_has_them(
    client: Client, command: str
) -> None:
    """RESP-22, RESP-79, S002-82, S002-83, S002-84."""
    name, arity, flags, first, last, step, categories, *_ = entry_of(client, command)
    wanted_arity, wanted_flags, keys, wanted_categories = PUBSUB_COMMANDS[command]
    assert (name, arity, (first, last, step)) == (command.encode(), wanted_arity, keys)
    # The flag pubsub tells clients of clusters where the channels stand.
    assert {Simple(flag) for flag in (*wanted_flags, "pubsub")} <= {*as_simple(flags)}
    assert {*as_simple(categories)} == {Simple(category) for category in wanted_categories}


def as_simple(frame: Frame) -> list[Simple]:
    return [item for item in items_of(frame) if isinstance(item, Simple)]


def test_the_command_of_questions_is_registered_as_documented(headgate: Server, dial: Dial) -> None:
    """S002-82, S002-83, S002-84: the one that differs from Redis in its arity and flags."""
    name, arity, flags, first, last, step, categories, *_ = entry_of(dial(headgate), "PUBSUB")
    assert (name, arity, first, last, step) == (b"pubsub", -1, 0, 0, 0)
    assert {Simple("loading"), Simple("fast")} <= {*as_simple(flags)}
    assert as_simple(categories) == [Simple("@slow")]


INFO_FIELDS = {
    "server": "redis_version redis_mode process_id tcp_port uptime_in_seconds",
    "replication": "role connected_slaves",
    "clients": "connected_clients",
    "memory": "used_memory used_memory_rss",
    "stats": "total_connections_received total_commands_processed expired_keys pubsub_channels "
    "pubsub_patterns pubsubshard_channels",
    "cluster": "cluster_enabled",
}


def test_info_has_what_tools_look_for(connect: Connect, server: Server) -> None:
    """RESP-23."""
    # INFO of 7.0 does not count shard channels yet.
    ahead = {"pubsubshard_channels"} if server.is_redis else set()
    client = connect()
    for section, fields in INFO_FIELDS.items():
        told = info(client, section)
        assert [f for f in fields.split() if f not in told and f not in ahead] == [], section
        assert text_of(client.ask("INFO", section)).startswith(f"# {section.capitalize()}\r\n")
    everything = info(client)
    assert everything["role"] == "master"
    assert everything["redis_mode"] == "standalone"
    assert everything["cluster_enabled"] == "0"
    assert everything["connected_slaves"] == "0"
    assert int(everything["connected_clients"]) >= 1
    assert int(everything["tcp_port"]) == server.port
    assert client.ask("INFO", "nosuch") == b""
    assert set(info(client, "server", "CLIENTS")) >= {"redis_version", "connected_clients"}


def test_info_is_verbatim_in_resp3(connect: Connect) -> None:
    """RESP-23."""
    assert isinstance(connect(3).ask("INFO", "server"), Verbatim)


def test_info_counts_channels_and_patterns(connect: Connect, name: str) -> None:
    """RESP-23."""
    client, other = connect(), connect()
    before = info(other, "stats")
    client.ask("SUBSCRIBE", name)
    client.ask("PSUBSCRIBE", name)
    after = info(other, "stats")
    for field in ("pubsub_channels", "pubsub_patterns"):
        assert int(after[field]) >= 1
        assert field in before


def test_info_counts_what_waits_for_subscribers(headgate: Server, dial: Dial) -> None:
    """RESP-23, RESP-60, S002-55."""
    client = dial(headgate)
    eventually(
        lambda: info(client, "stats")["dispatch_queue_subscriber_bytes"] == "0",
        "everything has been handed over",
    )


def test_info_counts_keys(connect: Connect, name: str) -> None:
    """RESP-23."""
    client = connect()
    client.ask("SELECT", 14)
    client.ask("SET", name, "v", "EX", 100)
    assert re.match(r"keys=\d+,expires=\d+,avg_ttl=\d+", info(client, "keyspace")["db14"])
