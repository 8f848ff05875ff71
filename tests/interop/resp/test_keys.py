"""Strings under keys, and the time that they have to live."""

from __future__ import annotations

import time

import pytest

from tests.support.resp_client import OK, Client, Error, Simple, Word
from tests.support.resp_servers import Connect, items_of, number_of

SYNTAX = Error("ERR syntax error")
NO_INTEGER = Error("ERR value is not an integer or out of range")


def bad_expire(command: str) -> Error:
    return Error(f"ERR invalid expire time in '{command}' command")


def test_a_value_is_set_and_read(client: Client, name: str) -> None:
    """RESP-65."""
    assert client.ask("GET", name) is None
    assert client.ask("SET", name, "v") == OK
    assert client.ask("GET", name) == b"v"
    assert client.ask("SET", name, "w", "GET") == b"v"
    assert client.ask("SET", name, "n", "NX") is None
    assert client.ask("SET", name, "n", "NX", "GET") == b"w"
    assert client.ask("SET", name, "x", "XX") == OK
    assert client.ask("GET", name) == b"x"
    assert client.ask("SET", name + "2", "x", "XX") is None
    assert client.ask("SET", name + "2", "x", "XX", "GET") is None
    assert client.ask("SET", name + "2", "x", "GET") is None
    assert client.ask("GETDEL", name + "2") == b"x"
    assert client.ask("GETDEL", name + "2") is None
    assert client.ask("SETNX", name, "y") == 0
    assert client.ask("SETNX", name + "2", "y") == 1
    assert client.ask("MSET", name, "a", name + "2", "b") == OK
    assert client.ask("MGET", name, "no", name + "2") == [b"a", None, b"b"]
    assert client.ask("MSET", name) == Error("ERR wrong number of arguments for 'mset' command")
    assert client.ask("MSET", name, "a", "b") == Error(
        "ERR wrong number of arguments for 'mset' command"
    )


def test_keys_are_counted_and_deleted(client: Client, name: str) -> None:
    """RESP-65."""
    client.ask("MSET", name, "1", name + "2", "2", name + "3", "3")
    assert client.ask("EXISTS", name, name, "no", name + "2") == 3
    assert client.ask("TYPE", name) == Simple("string")
    assert client.ask("TYPE", "no") == Simple("none")
    assert client.ask("DEL", name, name, "no") == 1
    assert client.ask("UNLINK", name + "2", name + "3") == 2
    assert client.ask("EXISTS", name, name + "2") == 0


@pytest.mark.parametrize("unit", ["EX", "PX", "EXAT", "PXAT"])
def test_a_value_may_have_a_deadline(client: Client, name: str, unit: str) -> None:
    """RESP-65."""
    scale = 1 if unit.startswith("E") else 1000
    base = int(time.time()) if unit.endswith("AT") else 0
    deadline = (base + 100) * scale
    assert client.ask("SET", name, "v", unit, deadline) == OK
    assert 98 <= number_of(client.ask("TTL", name)) <= 100
    assert 98_000 <= number_of(client.ask("PTTL", name)) <= 100_000
    if base:
        assert client.ask("EXPIRETIME", name) == base + 100
        assert client.ask("PEXPIRETIME", name) == (base + 100) * 1000
    assert client.ask("SET", name, "w", "KEEPTTL") == OK
    assert 98 <= number_of(client.ask("TTL", name)) <= 100
    assert client.ask("SET", name, "w") == OK
    assert client.ask("TTL", name) == -1
    assert client.ask("GETEX", name, unit, deadline) == b"w"
    assert 98 <= number_of(client.ask("TTL", name)) <= 100
    assert client.ask("GETEX", name) == b"w"
    assert 98 <= number_of(client.ask("TTL", name)) <= 100
    assert client.ask("GETEX", name, "PERSIST") == b"w"
    assert client.ask("TTL", name) == -1


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (["SET", "k", "v", "EX", 0], bad_expire("set")),
        (["SET", "k", "v", "EX", -1], bad_expire("set")),
        (["SET", "k", "v", "PX", 0], bad_expire("set")),
        (["SET", "k", "v", "EX", "x"], NO_INTEGER),
        (["SET", "k", "v", "EX", 2**63], NO_INTEGER),
        (["SET", "k", "v", "EX", 2**63 - 1], bad_expire("set")),
        (["SET", "k", "v", "EX"], SYNTAX),
        (["SET", "k", "v", "EX", 1, "PX", 1], SYNTAX),
        (["SET", "k", "v", "EX", 1, "KEEPTTL"], SYNTAX),
        (["SET", "k", "v", "NX", "XX"], SYNTAX),
        (["SET", "k", "v", "FOO"], SYNTAX),
        (["SETEX", "k", 0, "v"], bad_expire("setex")),
        (["PSETEX", "k", -1, "v"], bad_expire("psetex")),
        (["GETEX", "k", "EX", 1, "PERSIST"], SYNTAX),
        (["EXPIRE", "k", "x"], NO_INTEGER),
        (["EXPIRE", "k", 2**63 - 1], bad_expire("expire")),
        (["EXPIRE", "k", 1, "FOO"], Error("ERR Unsupported option FOO")),
        (
            ["EXPIRE", "k", 1, "NX", "XX"],
            Error("ERR NX and XX, GT or LT options at the same time are not compatible"),
        ),
        (
            ["EXPIRE", "k", 1, "GT", "LT"],
            Error("ERR GT and LT options at the same time are not compatible"),
        ),
    ],
)
def test_a_wrong_deadline_changes_nothing(client: Client, words: list[Word], reply: Error) -> None:
    """RESP-65."""
    client.ask("DEL", "k")
    assert client.ask(*words) == reply
    assert client.ask("EXISTS", "k") == 0


def test_a_deadline_is_set_and_taken_away(client: Client, name: str) -> None:
    """RESP-65."""
    assert client.ask("EXPIRE", name, 10) == 0
    assert client.ask("TTL", name) == -2
    assert client.ask("PTTL", name) == -2
    assert client.ask("EXPIRETIME", name) == -2
    assert client.ask("PERSIST", name) == 0
    client.ask("SET", name, "v")
    assert client.ask("TTL", name) == -1
    assert client.ask("PTTL", name) == -1
    assert client.ask("PEXPIRETIME", name) == -1
    assert client.ask("PERSIST", name) == 0
    assert client.ask("EXPIRE", name, 10) == 1
    assert client.ask("TTL", name) == 10
    assert client.ask("PERSIST", name) == 1
    assert client.ask("TTL", name) == -1
    assert client.ask("SETEX", name, 100, "v") == OK
    assert client.ask("TTL", name) == 100
    assert client.ask("PSETEX", name, 100_000, "v") == OK
    assert client.ask("TTL", name) == 100
    later = int(time.time()) + 200
    assert client.ask("EXPIREAT", name, later) == 1
    assert client.ask("EXPIRETIME", name) == later
    assert client.ask("PEXPIREAT", name, later * 1000 + 1) == 1
    assert client.ask("PEXPIRETIME", name) == later * 1000 + 1
    assert client.ask("PEXPIRE", name, 50_000) == 1
    assert client.ask("TTL", name) == 50


def test_a_deadline_may_have_a_condition(client: Client, name: str) -> None:
    """RESP-65."""
    client.ask("SET", name, "v")
    asked: list[tuple[int, str, int, int]] = [
        (100, "XX", 0, -1),
        (100, "GT", 0, -1),  # no deadline is the latest of all
        (100, "NX", 1, 100),
        (50, "NX", 0, 100),
        (50, "GT", 0, 100),
        (150, "GT", 1, 150),
        (200, "LT", 0, 150),
        (100, "LT", 1, 100),
        (300, "xx", 1, 300),
    ]
    for seconds, condition, reply, left in asked:
        assert client.ask("EXPIRE", name, seconds, condition) == reply, (seconds, condition)
        assert client.ask("TTL", name) == left
    client.ask("PERSIST", name)
    assert client.ask("EXPIRE", name, 100, "LT") == 1


@pytest.mark.parametrize("command", ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
def test_a_deadline_in_the_past_deletes(client: Client, name: str, command: str) -> None:
    """RESP-65."""
    client.ask("SET", name, "v")
    past = 1 if command.endswith("AT") else -1
    assert client.ask(command, name, past) == 1
    assert client.ask("EXISTS", name) == 0
    assert client.ask("TTL", name) == -2


def test_databases_hold_their_own_keys(connect: Connect, name: str) -> None:
    """RESP-65."""
    client, other = connect(), connect()
    client.ask("SELECT", 11)
    assert client.ask("FLUSHDB") == OK
    assert client.ask("RANDOMKEY") is None
    client.ask("MSET", name + "a", "1", name + "b", "2")
    assert client.ask("DBSIZE") == 2
    keys = items_of(client.ask("KEYS", name + "*"))
    assert set(map(str, keys)) == {str(f"{name}{letter}".encode()) for letter in "ab"}
    assert client.ask("KEYS", name + "[b]") == [f"{name}b".encode()]
    assert client.ask("RANDOMKEY") in keys
    assert other.ask("EXISTS", name + "a") == 0
    assert client.ask("FLUSHDB", "ASYNC") == OK
    assert client.ask("DBSIZE") == 0
    assert client.ask("FLUSHALL", "SYNC") == OK
    assert client.ask("FLUSHALL", "FOO") == SYNTAX
