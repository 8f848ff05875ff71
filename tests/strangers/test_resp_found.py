"""Differences from redis-server, and from the documents, that drawn sessions found, each alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.strangers.resp_draw import Command, Step
from tests.strangers.resp_pressure import (
    LIMITS,
    Scene,
    eventually,
    fence,
    field,
    most_waiting,
    numbers_heard,
    publishing,
    slow_subscriber,
    until_over,
)
from tests.strangers.resp_sequences import Arena, Line, arena
from tests.support.resp_servers import Setting, start_headgate


@pytest.fixture(scope="module", params=[1, 2], ids=["one", "two workers"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("found"), request.param) as both:
        both.avoid = False
        yield both


def said(connection: int, *lines: str) -> Step:
    commands: list[Command] = [tuple(line.encode().split()) for line in lines]
    return Step(connection, tuple(commands))


FOUND = {
    # RESP-35: Confirmations are told to those without replies as well, out of EXEC, too.
    "subscribed in a transaction without replies": [
        said(0, "CLIENT REPLY OFF"),
        said(0, "MULTI", "SUBSCRIBE a", "EXEC"),
    ],
    # SKIP in a transaction is for the command after EXEC.
    "the next reply is skipped in a transaction": [
        said(0, "MULTI", "SUBSCRIBE a", "CLIENT REPLY SKIP", "EXEC"),
    ],
    # What was executed before is answered.
    "replies are switched off in a transaction": [
        said(0, "MULTI", "SET k1 v", "CLIENT REPLY OFF", "EXEC"),
    ],
    # Each reply has the protocol of its moment.
    "the protocol changes in a transaction": [
        said(0, "MULTI", "GET nothing", "SUBSCRIBE a", "HELLO 3", "GET nothing", "EXEC"),
    ],
    # The reply of EXEC is an array also for who ends itself in it.
    "a transaction ends its own connection": [
        said(0, "MULTI", "SUBSCRIBE a", "CLIENT KILL TYPE pubsub SKIPME no", "EXEC"),
    ],
    "a transaction ends its own connection and goes on": [
        said(0, "SUBSCRIBE a", "HELLO 3"),
        said(1, "HELLO 3", "SUBSCRIBE a"),
        said(1, "MULTI", "CLIENT KILL TYPE pubsub SKIPME no", "SET k1 v", "EXEC"),
        said(2, "GET k1"),
    ],
    "a transaction forgets its own user": [
        said(1, "ACL SETUSER u1 on >p1 +@all ~* &*"),
        said(0, "AUTH u1 p1"),
        said(0, "MULTI", "SET k1 v", "ACL DELUSER u1", "GET k1", "EXEC"),
        said(1, "GET k1"),
    ],
    # One command of a transaction that fails late is one that fails.
    "a transaction ends a connection that is not there": [
        said(0, "MULTI", "SET k1 v", "CLIENT KILL 1.2.3.4:5", "GET k1", "EXEC"),
        said(0, "MULTI", "GET k1", "EXEC"),
    ],
    # Who switched replies off is not answered.
    "a connection without replies ends itself": [
        said(0, "HELLO 3"),
        said(0, "CLIENT REPLY OFF", "SUBSCRIBE a", "CLIENT KILL TYPE pubsub SKIPME no"),
    ],
    # A flush does not change a key that was not there.
    "a missing key is watched and all are flushed": [
        said(0, "WATCH nothing"),
        said(1, "FLUSHALL"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    "a missing key is watched and others are flushed": [
        said(1, "SET k1 v"),
        said(0, "WATCH nothing"),
        said(1, "FLUSHDB"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    "a missing key is watched, comes, and is flushed": [
        said(0, "WATCH k1"),
        said(1, "SET k1 v", "FLUSHALL"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    # Nothing changed: the key had no deadline.
    "a key is told to stay that would stay": [
        said(0, "SET k1 v", "WATCH k1"),
        said(1, "GETEX k1 PERSIST"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    # A key that goes is another one than its namesake in another database.
    "a key expires in another database": [
        said(0, "WATCH k1"),
        said(1, "SELECT 5", "SET k1 v PXAT 1000", "EXISTS k1"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    "a key is removed in another database": [
        said(0, "SELECT 5", "WATCH k1"),
        said(1, "SET k1 v", "DEL k1"),
        said(0, "MULTI", "PING", "EXEC"),
    ],
    "a transaction asks for its own connection": [said(0, "MULTI", "CLIENT INFO", "EXEC")],
    "a transaction asks for all connections": [said(0, "MULTI", "CLIENT LIST", "EXEC")],
    "a key is got where a subscribe is refused in a transaction without replies": [
        said(which, "CLIENT REPLY OFF", "MULTI", "GET k1", "SSUBSCRIBE b", "EXEC")
        for which in (0, 1)
    ],
    "a transaction with a key lists channels and then subscribes": [
        said(which, "MULTI", "GET k1", "PUBSUB CHANNELS", f"SUBSCRIBE a{which}", "EXEC")
        for which in (0, 1)
    ],
    "a user may subscribe to the first of two channels": [
        said(2, "ACL SETUSER u1 on >p1 +@all ~* &news.*"),
        *(said(which, "AUTH u1 p1") for which in (0, 1)),
        *(said(which, "SUBSCRIBE news.1", "SUBSCRIBE b") for which in (0, 1)),
        said(2, "PUBLISH b x"),
    ],
    # Nothing but confirmations: an error is none.
    "a subscribe is refused in a transaction without replies": [
        said(0, "CLIENT REPLY OFF", "MULTI", "SUBSCRIBE a", "SSUBSCRIBE b", "PING", "EXEC"),
    ],
    "replies are switched off and on in a transaction": [
        said(0, "MULTI", "PING", "CLIENT REPLY OFF", "PING", "CLIENT REPLY ON", "PING", "EXEC"),
    ],
    "a reply is skipped and all are wanted in a transaction": [
        said(0, "MULTI", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "EXEC"),
        said(0, "PING", "PING"),
    ],
}


@pytest.mark.parametrize("steps", FOUND.values(), ids=FOUND)
def test_the_router_does_as_redis(both: Arena, steps: list[Step]) -> None:
    trouble = both.run(steps)
    assert trouble is None, str(trouble)


def test_the_flags_of_a_user_are_a_set_in_resp3(both: Arena) -> None:
    answers = []
    for server in both.servers:
        line = Line(server.address)
        line.ask(b"HELLO", b"3")
        answers.append(line.ask(b"ACL", b"GETUSER", b"default"))
        line.close()
    assert answers[0] == answers[1]


def test_the_newest_arrives_where_one_message_is_over_the_limit(tmp_path: Path) -> None:
    """drop-oldest: a session loses its oldest messages."""
    limits: dict[str, Setting] = {"mailbox_soft": 65_536, "mailbox_hard": 131_072}
    large = Scene(seed=0, publishers=1, body_bytes=400_000, protocol=3, way="channel", end="reads")
    with start_headgate(tmp_path, **limits, slow_session="drop-oldest") as server:
        slow = slow_subscriber(server, large)
        with publishing(server, large) as publishers:
            eventually(lambda: publishers[0].is_done(), "all is published")
        slow.send(fence(server))
        (heard,) = numbers_heard(until_over(slow), large)
        slow.close()
    assert heard[-1] == large.each - 1


def test_a_mailbox_exceeds_its_limit_by_one_shard_message_per_publisher(tmp_path: Path) -> None:
    small = Scene(seed=0, publishers=3, body_bytes=500, protocol=3, way="shard", end="leaves")
    with start_headgate(tmp_path, **LIMITS) as server:
        control = Line(server.address)
        slow = slow_subscriber(server, small)
        with publishing(server, small):
            eventually(lambda: field(control, b"blocked_clients") == 3, "all publishers wait")
            waiting = field(control, b"dispatch_queue_subscriber_bytes")
            slow.close()
        control.close()
    assert waiting <= most_waiting(small, server.workers)
