"""The connection itself: greeting, password, name, databases, lists of clients, and its end."""

from __future__ import annotations

import re

import pytest

from tests.support.resp_client import (
    OK,
    PONG,
    QUEUED,
    Client,
    Error,
    Pairs,
    Simple,
)
from tests.support.resp_servers import (
    PASSWORD,
    Connect,
    Dial,
    Server,
    client_list,
    eventually,
    mapping,
    number_of,
)

NEEDS_PASSWORD = Error("NOAUTH Authentication required.")
WRONG_PASSWORD = Error("WRONGPASS invalid username-password pair or user is disabled.")


# HELLO


@pytest.mark.parametrize("words", [["HELLO"], ["HELLO", 2], ["HELLO", 3], ["hello", "3"]])
def test_a_greeting_tells_seven_things(client: Client, words: list[str | int]) -> None:
    """RESP-13."""
    number = number_of(client.ask("CLIENT", "ID"))
    reply = client.ask(*words)
    version = int(words[1]) if len(words) > 1 else 2
    assert isinstance(reply, Pairs) == (version == 3)
    told = mapping(reply)
    assert list(told) == [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]
    assert (told[b"proto"], told[b"id"]) == (version, number)
    assert (told[b"mode"], told[b"role"], told[b"modules"]) == (b"standalone", b"master", [])
    assert isinstance(told[b"server"], bytes)
    assert isinstance(told[b"version"], bytes)
    assert re.fullmatch(rb"\d+\.\d+\.\d+", told[b"version"])


def test_a_greeting_without_a_version_keeps_the_protocol(client: Client) -> None:
    """RESP-13."""
    client.hello(3)
    assert mapping(client.ask("HELLO"))[b"proto"] == 3
    assert isinstance(client.ask("HELLO"), Pairs)
    assert isinstance(client.ask("HELLO", 2), list)
    assert mapping(client.ask("HELLO"))[b"proto"] == 2


def test_the_version_is_new_enough_for_clients_that_look_at_it(
    headgate: Server, dial: Dial
) -> None:
    """RESP-13: some switch on what they do by it."""
    version = mapping(dial(headgate).ask("HELLO"))[b"version"]
    assert isinstance(version, bytes)
    assert tuple(int(part) for part in version.split(b".")) >= (7, 2, 0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([4], "NOPROTO unsupported protocol version"),
        ([1], "NOPROTO unsupported protocol version"),
        ([0], "NOPROTO unsupported protocol version"),
        ([-1], "NOPROTO unsupported protocol version"),
        (["x"], "ERR Protocol version is not an integer or out of range"),
        (["3.0"], "ERR Protocol version is not an integer or out of range"),
        ([""], "ERR Protocol version is not an integer or out of range"),
        ([3, "FOO"], "ERR Syntax error in HELLO option 'FOO'"),
        ([3, "AUTH", "default"], "ERR Syntax error in HELLO option 'AUTH'"),
        ([3, "SETNAME"], "ERR Syntax error in HELLO option 'SETNAME'"),
        (
            [3, "SETNAME", "a b"],
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ),
    ],
)
def test_a_refused_greeting_changes_nothing(
    client: Client, words: list[str | int], text: str
) -> None:
    """RESP-14."""
    assert client.ask("HELLO", *words) == Error(text)
    assert client.read_raw_of("GET", "no such key") == b"$-1\r\n"
    assert client.ask("CLIENT", "GETNAME") is None


def test_a_greeting_may_bring_password_and_name(guarded: Server, dial: Dial, name: str) -> None:
    """RESP-15."""
    client = dial(guarded)
    reply = client.ask("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", name)
    assert isinstance(reply, Pairs)
    assert client.ask("CLIENT", "GETNAME") == name.encode()


def test_a_greeting_with_a_wrong_password_changes_nothing(guarded: Server, dial: Dial) -> None:
    """RESP-15."""
    client = dial(guarded)
    greeting = ("HELLO", 3, "AUTH", "default", "wrong", "SETNAME", "me")
    assert client.ask(*greeting) == WRONG_PASSWORD
    assert client.ask("PING") == NEEDS_PASSWORD
    assert client.ask("AUTH", PASSWORD) == OK
    assert client.read_raw_of("GET", "no such key") == b"$-1\r\n"
    assert client.ask("CLIENT", "GETNAME") is None


def test_a_greeting_of_a_stranger_asks_for_the_password(guarded: Server, dial: Dial) -> None:
    """RESP-15."""
    text = (
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
        "HELLO AUTH <user> <pass> option can be used to authenticate the client and select "
        "the RESP protocol version at the same time"
    )
    client = dial(guarded)
    assert client.ask("HELLO", 3) == Error(text)
    assert client.ask("HELLO") == Error(text)
    assert client.ask("HELLO", 4) == Error("NOPROTO unsupported protocol version")


# AUTH and RESET


def test_a_stranger_may_only_say_who_it_is(guarded: Server, dial: Dial, name: str) -> None:
    """RESP-16."""
    client = dial(guarded)
    for words in (["PING"], ["SUBSCRIBE", name], ["PUBLISH", name, "x"], ["CLIENT", "ID"]):
        assert client.ask(*words) == NEEDS_PASSWORD
    assert client.ask("NOSUCH") == Error("ERR unknown command 'NOSUCH', with args beginning with: ")
    assert client.ask("AUTH", "wrong") == WRONG_PASSWORD
    assert client.ask("AUTH", "nobody", PASSWORD) == WRONG_PASSWORD
    assert client.ask("PING") == NEEDS_PASSWORD
    assert client.ask("AUTH", PASSWORD) == OK
    assert client.ask("PING") == PONG
    assert client.ask("AUTH", "wrong") == WRONG_PASSWORD
    assert client.ask("PING") == PONG
    assert client.ask("RESET") == Simple("RESET")
    assert client.ask("PING") == NEEDS_PASSWORD
    assert client.ask("AUTH", "default", PASSWORD) == OK
    assert client.ask("SUBSCRIBE", name) == [b"subscribe", name.encode(), 1]


def test_a_stranger_may_leave(guarded: Server, dial: Dial) -> None:
    """RESP-16, RESP-24."""
    client = dial(guarded)
    assert client.ask("RESET") == Simple("RESET")
    client.send("QUIT")
    assert client.until_closed() == [OK]


def test_without_a_password_any_is_fine_for_the_default_user(client: Client) -> None:
    """RESP-16."""
    assert client.ask("AUTH", "default", "anything") == OK
    assert client.ask("AUTH", "nobody", "anything") == WRONG_PASSWORD
    assert client.ask("AUTH", "anything") == Error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?"
    )
    assert client.ask("AUTH", "a", "b", "c") == Error("ERR syntax error")
    assert client.ask("PING") == PONG


def test_a_reset_in_subscriber_mode_forgets_all(connect: Connect, name: str) -> None:
    """RESP-25, S002-26."""
    client, other = connect(), connect()
    client.ask("CLIENT", "SETNAME", name)
    assert client.ask("SELECT", 1) == OK
    client.hello(3)
    client.ask("SUBSCRIBE", name)
    client.ask("PSUBSCRIBE", name + "*")
    client.ask("SSUBSCRIBE", name)
    assert other.ask("PUBLISH", name, "x") == 2
    client.read_many(2)
    assert client.ask("RESET") == Simple("RESET")
    assert client.before_fence() == []
    assert other.ask("PUBLISH", name, "x") == 0
    assert other.ask("SPUBLISH", name, "x") == 0
    assert mapping(client.ask("HELLO"))[b"proto"] == 2
    assert client.ask("CLIENT", "GETNAME") is None
    assert client_list(client, "ID", number_of(client.ask("CLIENT", "ID")))[0]["db"] == "0"


def test_a_reset_drops_a_transaction_and_replies_come_again(client: Client) -> None:
    """RESP-25."""
    assert client.ask("MULTI") == OK
    assert client.ask("PING") == QUEUED
    assert client.ask("RESET") == Simple("RESET")
    assert client.ask("EXEC") == Error("ERR EXEC without MULTI")
    client.send("CLIENT", "REPLY", "OFF")
    client.send("RESET")
    client.send("PING")
    assert client.read_many(2) == [Simple("RESET"), PONG]


@pytest.mark.parametrize("subscribed", [False, True])
def test_quit_is_answered_and_ends_the_connection(
    connect: Connect, name: str, protocol: int, subscribed: bool
) -> None:
    """RESP-24."""
    client = connect(protocol)
    if subscribed:
        client.ask("SUBSCRIBE", name)
    client.send_raw(b"QUIT\r\nPING\r\n")
    assert client.until_closed() == [OK]
    other = connect()
    eventually(lambda: other.ask("PUBLISH", name, "x") == 0, "the subscription is gone")


# SELECT, ECHO, PING


def test_there_are_sixteen_databases(client: Client) -> None:
    assert client.ask("SELECT", 0) == OK
    assert client.ask("SELECT", 15) == OK
    assert client.ask("SELECT", 16) == Error("ERR DB index is out of range")
    assert client.ask("SELECT", -1) == Error("ERR DB index is out of range")
    assert client.ask("SELECT", "x") == Error("ERR value is not an integer or out of range")


def test_channels_are_those_of_all_databases(connect: Connect, name: str) -> None:
    subscriber, publisher = connect(), connect()
    subscriber.ask("SELECT", 1)
    subscriber.ask("SUBSCRIBE", name)
    publisher.ask("SELECT", 2)
    assert publisher.ask("PUBLISH", name, "x") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ECHO"], "ERR wrong number of arguments for 'echo' command"),
        (["PING", "a", "b"], "ERR wrong number of arguments for 'ping' command"),
        (["CLIENT"], "ERR wrong number of arguments for 'client' command"),
        (["CLIENT", "SETNAME"], "ERR wrong number of arguments for 'client|setname' command"),
        (["client", "Foo"], "ERR unknown subcommand 'Foo'. Try CLIENT HELP."),
    ],
)
def test_a_wrong_call_is_named(client: Client, words: list[str], text: str) -> None:
    """RESP-17."""
    assert client.ask(*words) == Error(text)
    assert client.ask("ECHO", "x") == b"x"
