"""MULTI and EXEC, which clients use for every pipeline, and channels inside of them."""

from __future__ import annotations

import socket

import pytest

from tests.support.resp_client import OK, QUEUED, TIMEOUT_SECONDS, Client, Error
from tests.support.resp_servers import Connect, Server


def test_a_transaction_answers_all_at_once(connect: Connect, name: str) -> None:
    client = connect()
    assert client.ask("MULTI") == OK
    assert client.ask("PUBLISH", name, "x") == QUEUED
    assert client.ask("PING", "y") == QUEUED
    assert client.ask("EXEC") == [0, b"y"]
    assert client.ask("MULTI") == OK
    assert client.ask("MULTI") == Error("ERR MULTI calls can not be nested")
    assert client.ask("DISCARD") == OK
    assert client.ask("DISCARD") == Error("ERR DISCARD without MULTI")
    assert client.ask("EXEC") == Error("ERR EXEC without MULTI")


@pytest.mark.parametrize("wrong", [["NOSUCH"], ["PUBLISH", "x"], ["CLIENT", "NOSUCH"]])
def test_a_transaction_with_a_wrong_command_is_not_executed(
    client: Client, name: str, wrong: list[str]
) -> None:
    assert client.ask("MULTI") == OK
    assert client.ask("SET", name, "v") == QUEUED
    assert isinstance(client.ask(*wrong), Error)
    assert client.ask("EXEC") == Error(
        "EXECABORT Transaction discarded because of previous errors."
    )
    assert client.ask("GET", name) is None


def test_a_command_that_fails_in_a_transaction_fails_alone(client: Client, name: str) -> None:
    client.ask("MULTI")
    client.ask("SELECT", "x")
    client.ask("SET", name, "v")
    assert client.ask("EXEC") == [Error("ERR value is not an integer or out of range"), OK]


def test_channels_may_be_joined_in_a_transaction(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-31: their confirmations stand in its reply, one for the command, more after it."""
    client, n = connect(protocol), name.encode()
    client.ask("MULTI")
    assert client.ask("SUBSCRIBE", n) == QUEUED
    assert client.ask("PSUBSCRIBE", n) == QUEUED
    assert client.ask("UNSUBSCRIBE", n) == QUEUED
    assert client.ask("EXEC") == [
        client.pushed(b"subscribe", n, 1),
        client.pushed(b"psubscribe", n, 2),
        client.pushed(b"unsubscribe", n, 1),
    ]
    assert connect().ask("PUBLISH", n, "x") == 1
    assert client.read() == client.pushed(b"pmessage", n, n, b"x")


def test_a_later_failure_takes_no_subscription_back(connect: Connect, name: str) -> None:
    """S002-87."""
    client, n = connect(3), name.encode()
    client.ask("MULTI")
    client.ask("SUBSCRIBE", n)
    client.ask("SELECT", "x")
    confirmed = client.pushed(b"subscribe", n, 1)
    assert client.ask("EXEC") == [confirmed, Error("ERR value is not an integer or out of range")]
    assert connect().ask("PUBLISH", n, "x") == 1


def test_shard_channels_may_not_be_joined_in_a_transaction(
    connect: Connect, name: str, protocol: int
) -> None:
    client = connect(protocol)
    client.ask("MULTI")
    assert client.ask("SSUBSCRIBE", name) == QUEUED
    assert client.ask("EXEC") == [Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")]
    assert connect().ask("SPUBLISH", name, "x") == 0


def test_an_answer_that_is_skipped_inside_of_a_transaction(server: Server) -> None:
    """It is the one after EXEC, and the array lacks an item."""
    lines = ("MULTI", "CLIENT REPLY SKIP", "PING", "EXEC", "ECHO skipped", "ECHO told", "QUIT")
    with socket.create_connection(server.address, timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert received == (b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n$4\r\ntold\r\n+OK\r\n")
