"""MONITOR: a session that is told every command that is carried out."""

from __future__ import annotations

import pytest

from headgate.wire.resp.commands.all_commands import COMMANDS
from headgate.wire.resp.commands.monitor import quoted
from tests.support.resp_hub import Guest, House


def watched() -> tuple[Guest, Guest]:
    """A monitor, and somebody else."""
    house = House()
    monitor = house.guest()
    assert monitor.raw("MONITOR") == b"+OK\r\n"
    return monitor, house.guest()


def overheard(monitor: Guest, guest: Guest, *words: str | bytes) -> str:
    """What the monitor is told of a command, without time, database and address."""
    guest.raw(*words)
    told, monitor.received = monitor.received.decode(), b""
    return told.partition("] ")[2].rstrip()


def test_a_monitor_is_told_when_where_and_by_whom() -> None:
    monitor, guest = watched()
    guest.ask("SELECT", "3")
    monitor.received = b""
    guest.ask("GET", "key")
    line = f'+1000000000.250000 [3 {guest.peer}] "GET" "key"\r\n'
    assert monitor.received == line.encode()


def test_words_are_quoted_as_redis_does() -> None:
    word = b'a"b\\c\n\r\t\a\b\x00\xff \x7f'
    assert quoted(word) == rb'"a\"b\\c\n\r\t\a\b\x00\xff \x7f"'
    assert quoted(b"") == b'""'
    monitor, guest = watched()
    assert overheard(monitor, guest, "get", "a b") == '"get" "a b"'


def test_passwords_are_not_told() -> None:
    monitor, guest = watched()
    hidden = '"(redacted)"'
    assert overheard(monitor, guest, "AUTH", "pw") == f'"AUTH" {hidden}'
    assert overheard(monitor, guest, "AUTH", "ada", "pw") == f'"AUTH" {hidden} {hidden}'
    assert overheard(monitor, guest, "HELLO", "3", "auth", "ada", "pw", "SETNAME", "n") == (
        f'"HELLO" "3" "auth" {hidden} {hidden} "SETNAME" "n"'
    )
    assert overheard(monitor, guest, "HELLO", "3", "AUTH", "ada") == f'"HELLO" "3" "AUTH" {hidden}'


@pytest.mark.parametrize(
    "words",
    [
        ["ACL", "SETUSER", "ada", "on", ">pw"],
        ["CONFIG", "SET", "requirepass", "pw"],
        ["CLIENT", "LIST"],
        ["NOSUCH"],
        ["GET"],
    ],
)
def test_who_administers_is_not_overheard_and_mistakes_are_not_told(words: list[str]) -> None:
    monitor, guest = watched()
    assert overheard(monitor, guest, *words) == ""


@pytest.mark.parametrize("name", [b"acl|setuser", b"config|set", b"monitor"])
def test_commands_that_carry_secrets_are_those_of_administrators(name: bytes) -> None:
    entry = COMMANDS.get(name)
    assert entry is not None
    assert "admin" in entry.flags


def test_commands_of_a_transaction_are_told_when_they_are_carried_out() -> None:
    monitor, guest = watched()
    assert overheard(monitor, guest, "MULTI") == '"MULTI"'
    assert overheard(monitor, guest, "SET", "a", "1") == ""
    guest.raw("EXEC")
    assert b'"SET" "a" "1"\r\n' in monitor.received


def test_all_monitors_are_told_and_a_reset_ends_it() -> None:
    monitor, guest = watched()
    other = guest.house.guest()
    other.ask("MONITOR")
    assert overheard(monitor, guest, "PING") == '"PING"'
    assert b'"PING"' in other.received
    monitor.raw("RESET")
    assert overheard(monitor, guest, "PING") == ""


def test_a_run_of_messages_is_told_one_by_one() -> None:
    monitor, guest = watched()
    guest.session.receive(b"PUBLISH a 1\r\nPUBLISH b 2\r\n")
    assert monitor.received.count(b'"PUBLISH"') == 2


def test_a_monitor_is_listed_as_one() -> None:
    monitor, guest = watched()
    assert " flags=O " in guest.ask("CLIENT", "LIST", "ID", monitor.id)
    monitor.close("gone")
    assert not guest.house.hub.monitors
