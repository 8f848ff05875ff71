"""Who gets a published message, how often, in which form and in which order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from tests.support.resp_client import OK, PONG, QUEUED, Client, Frame, Push, Word
from tests.support.resp_flood import Flood, is_message, numbered
from tests.support.resp_servers import Connect, Dial, Server, eventually, items_of

KB = 1000


def joined(connect: Connect, channel: str, count: int, protocol: int = 2) -> list[Client]:
    clients = [connect(protocol) for _ in range(count)]
    for client in clients:
        client.ask("SUBSCRIBE", channel)
    return clients


def test_the_reply_is_the_number_of_subscribers(connect: Connect, name: str) -> None:
    """RESP-39, S002-27, S002-28."""
    publisher = connect()
    assert publisher.ask("PUBLISH", name, "x") == 0
    clients = joined(connect, name, 5)
    assert publisher.ask("PUBLISH", name, "y") == 5
    for client in clients:
        assert client.before_fence() == [[b"message", name.encode(), b"y"]], "nothing is replayed"
    clients[0].ask("UNSUBSCRIBE")
    assert publisher.ask("PUBLISH", name, "z") == 4


def test_a_channel_and_three_patterns_are_four_copies(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-40, S002-28, S002-36, S002-52."""
    client, publisher = connect(protocol), connect()
    n = name.encode()
    patterns = [n + b"*", b"*" + n, n + b"**"]
    client.send("PSUBSCRIBE", *patterns)
    client.read_many(3)
    client.ask("SUBSCRIBE", n)
    assert publisher.ask("PUBLISH", n, "x") == 4
    first, *others = client.before_fence()
    assert first == client.pushed(b"message", n, b"x")
    assert sorted(str(frame) for frame in others) == sorted(
        str(client.pushed(b"pmessage", pattern, n, b"x")) for pattern in patterns
    )


def test_a_pattern_is_told_as_it_was_subscribed(connect: Connect, name: str, protocol: int) -> None:
    """RESP-41, S002-35, S002-36, S002-52."""
    client, publisher = connect(protocol), connect()
    pattern = f"{name}[A-Z]\\?x*".encode()
    channel = f"{name}Q?x\r\n".encode()
    client.ask("PSUBSCRIBE", pattern)
    assert publisher.ask("PUBLISH", channel, "x") == 1
    assert publisher.ask("PUBLISH", channel.lower(), "x") == 0
    assert client.read() == client.pushed(b"pmessage", pattern, channel, b"x")


def test_shards_and_channels_do_not_meet(connect: Connect, name: str, protocol: int) -> None:
    """RESP-42, S002-5, S002-50, S002-51, S002-71: two namespaces, as in Redis."""
    exact, pattern, shard = (connect(protocol) for _ in range(3))
    publisher, n = connect(), name.encode()
    exact.ask("SUBSCRIBE", n)
    pattern.ask("PSUBSCRIBE", n + b"*")
    shard.ask("SSUBSCRIBE", n)
    assert publisher.ask("SPUBLISH", n, "s") == 1
    assert publisher.ask("PUBLISH", n, "p") == 2
    assert exact.before_fence() == [exact.pushed(b"message", n, b"p")]
    assert pattern.before_fence() == [pattern.pushed(b"pmessage", n + b"*", n, b"p")]
    assert shard.before_fence() == [shard.pushed(b"smessage", n, b"s")]


def test_one_connection_may_have_all_three(connect: Connect, name: str, protocol: int) -> None:
    """RESP-42, S002-5."""
    client, publisher, n = connect(protocol), connect(), name.encode()
    for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"):
        client.ask(command, n)
    assert publisher.ask("SPUBLISH", n, "s") == 1
    assert publisher.ask("PUBLISH", n, "p") == 2
    assert client.before_fence() == [
        client.pushed(b"smessage", n, b"s"),
        client.pushed(b"message", n, b"p"),
        client.pushed(b"pmessage", n, n, b"p"),
    ]


def test_three_thousand_messages_arrive_in_order(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-43, S002-40."""
    clients = [*joined(connect, name, 2, protocol), connect(protocol)]
    clients[2].ask("PSUBSCRIBE", name + "*")
    publisher = connect()
    words = [b"%d" % number for number in range(3000)]
    counts = publisher.pipeline([("PUBLISH", name, word) for word in words])
    assert counts == [3] * 3000
    for client in clients:
        assert [items_of(frame)[-1] for frame in client.before_fence()] == words


def test_a_message_to_oneself_comes_after_the_reply(
    headgate: Server, dial: Dial, name: str
) -> None:
    """RESP-44: as Redis has it since 7.2."""
    client, n = dial(headgate, 3), name.encode()
    client.ask("SUBSCRIBE", n)
    client.send("PUBLISH", n, "x")
    assert client.read_many(2) == [1, Push([b"message", n, b"x"])]
    client.ask("PSUBSCRIBE", n)
    client.send("PUBLISH", n, "y")
    assert client.read_many(3) == [
        2,
        Push([b"message", n, b"y"]),
        Push([b"pmessage", n, n, b"y"]),
    ]


def test_a_message_to_oneself_comes_after_the_whole_transaction(
    headgate: Server, dial: Dial, name: str
) -> None:
    """RESP-44."""
    client, n = dial(headgate, 3), name.encode()
    client.ask("SUBSCRIBE", n)
    assert client.ask("MULTI") == OK
    assert client.ask("PUBLISH", n, "x") == QUEUED
    assert client.ask("PING", "between") == QUEUED
    assert client.ask("PUBLISH", n, "y") == QUEUED
    client.send("EXEC")
    assert client.read_many(3) == [
        [1, b"between", 1],
        Push([b"message", n, b"x"]),
        Push([b"message", n, b"y"]),
    ]


def test_a_message_to_oneself_comes_before_one_leaves(connect: Connect, name: str) -> None:
    """RESP-44, RESP-45: in one write, too."""
    client, n = connect(3), name.encode()
    commands: list[tuple[Word, ...]]
    commands = [("SUBSCRIBE", n), ("PUBLISH", n, "x"), ("UNSUBSCRIBE", n), ("PING",)]
    frames = client.pipeline(commands, frames=5)
    assert [frame for frame in frames if not isinstance(frame, Push)] == [1, PONG]
    assert [frame for frame in frames if isinstance(frame, Push)] == [
        Push([b"subscribe", n, 1]),
        Push([b"message", n, b"x"]),
        Push([b"unsubscribe", n, 0]),
    ]
    assert client.before_fence() == []


def test_every_message_to_oneself_arrives(connect: Connect, name: str) -> None:
    """RESP-34, RESP-44: whatever the order, replies and messages are complete."""
    client, n = connect(3), name.encode()
    client.ask("SUBSCRIBE", n)
    words = [b"%d" % number for number in range(500)]
    frames = client.pipeline([("PUBLISH", n, word) for word in words], frames=1000)
    pushes = [frame for frame in frames if isinstance(frame, Push)]
    assert [frame for frame in frames if not isinstance(frame, Push)] == [1] * 500
    assert pushes == [Push([b"message", n, word]) for word in words]


@pytest.mark.parametrize("stays", [False, True], ids=["last", "others stay"])
def test_messages_stand_between_the_two_confirmations(
    connect: Connect, name: str, protocol: int, stays: bool
) -> None:
    """RESP-45, S002-25."""
    client, n = connect(protocol), name.encode()
    if stays:
        client.ask("SUBSCRIBE", name + "other")
        client.ask("PSUBSCRIBE", name + "others*")
    base = 2 if stays else 0
    flood = Flood(connect(), name)
    try:
        for _ in range(20):
            client.send("SUBSCRIBE", n)
            assert client.read() == client.pushed(b"subscribe", n, base + 1)
            seen = [client.read() for _ in range(5)]
            client.send("UNSUBSCRIBE", n)
            while (frame := client.read()) != client.pushed(b"unsubscribe", n, base):
                seen.append(frame)
            numbers = [numbered(frame) for frame in seen]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert client.before_fence() == []
    finally:
        flood.stop()


@pytest.mark.parametrize("after_a_command", [False, True])
def test_what_was_queued_comes_before_the_confirmation_of_leaving(
    connect: Connect, name: str, protocol: int, after_a_command: bool
) -> None:
    """RESP-46, S002-25."""
    client, publisher, n = connect(protocol, receive_buffer=4096), connect(), name.encode()
    client.ask("SUBSCRIBE", n)
    payloads = [b"%03d" % number + b"x" * 100 * KB for number in range(60)]
    assert publisher.pipeline([("PUBLISH", n, payload) for payload in payloads]) == [1] * 60
    if after_a_command:
        client.send("PING")
    client.send("UNSUBSCRIBE")
    frames = client.before_fence()
    messages = [frame for frame in frames if is_message(frame)]
    assert [items_of(frame)[2] for frame in messages] == payloads
    assert frames[-1] == client.pushed(b"unsubscribe", n, 0)
    assert len(frames) == 61 + after_a_command


def test_many_publishers_at_once_keep_their_own_order(
    connect: Connect, name: str, protocol: int
) -> None:
    """RESP-47, S002-38, S002-40: all subscribers see one order, too, if one process serves them."""
    clients = joined(connect, name, 3, protocol)
    publishers = [connect() for _ in range(4)]

    def publish(which: int) -> list[Frame]:
        words = [f"{which} {number}" for number in range(500)]
        return publishers[which].pipeline([("PUBLISH", name, word) for word in words])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(publish, range(4))) == [[3] * 500] * 4
    seen = [[items_of(frame)[2] for frame in client.before_fence()] for client in clients]
    if connect.server.workers == 1:
        assert seen[0] == seen[1] == seen[2]
    for words, which in product(seen, range(4)):
        mine = [word for word in words if isinstance(word, bytes) and word[0] == 48 + which]
        assert mine == [b"%d %d" % (which, number) for number in range(500)]


@pytest.mark.parametrize("count", [500, 1000])
def test_a_channel_may_have_a_thousand_subscribers(connect: Connect, name: str, count: int) -> None:
    """RESP-48."""
    clients = joined(connect, name, count)
    publisher = connect()
    assert publisher.ask("PUBSUB", "NUMSUB", name) == [name.encode(), count]
    for word in (b"x", b"y", b"z"):
        assert publisher.ask("PUBLISH", name, word) == count
    expected: list[Frame] = [[b"message", name.encode(), word] for word in (b"x", b"y", b"z")]
    for client in clients:
        assert client.read_many(3) == expected


def test_subscribers_come_and_go_while_messages_flow(connect: Connect, name: str) -> None:
    """RESP-49, S002-2, S002-38."""
    clients = [connect() for _ in range(100)]
    steady, asker, n = connect(), connect(), name.encode()
    steady.ask("SUBSCRIBE", n)

    def come_and_go(client: Client) -> None:
        for _ in range(5):
            client.send("SUBSCRIBE", n)
            assert client.read() == [b"subscribe", n, 1]
            assert items_of(client.read())[0] == b"message", "the flood goes on"
            client.send("UNSUBSCRIBE", n)
            while (frame := client.read()) != [b"unsubscribe", n, 0]:
                assert items_of(frame)[0] == b"message"

    flood = Flood(connect(), name)
    try:
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(come_and_go, clients))
    finally:
        flood.stop()
    assert asker.ask("PUBSUB", "NUMSUB", n) == [n, 1]
    numbers = [numbered(frame) for frame in steady.before_fence()]
    assert numbers == list(range(flood.sent)), "who stays misses nothing"
    steady.ask("UNSUBSCRIBE", n)
    assert asker.ask("PUBSUB", "NUMSUB", n) == [n, 0]


def test_subscribers_share_the_bytes_of_a_message(headgate: Server, dial: Dial, name: str) -> None:
    """RESP-50, S002-32, S002-33: a hundred copies would be 800 MiB."""
    mebibyte = 1 << 20
    clients = [dial(headgate, receive_buffer=4096) for _ in range(100)]
    for client in clients:
        client.ask("SUBSCRIBE", name)
    publisher = dial(headgate)
    before = headgate.resident_bytes()
    payload = b"x" * 8 * mebibyte
    assert publisher.ask("PUBLISH", name, payload) == 100
    assert publisher.ask("PING", "y") == b"y"
    assert headgate.resident_bytes() - before < 100 * mebibyte
    assert clients[0].read() == [b"message", name.encode(), payload]
    for client in clients:
        client.close()
    eventually(lambda: publisher.ask("PUBLISH", name, "x") == 0, "all of them are gone")


def test_who_subscribed_before_a_publish_is_reached(connect: Connect, name: str) -> None:
    """RESP-45, S002-20: as soon as the confirmation has been seen, on whatever path."""
    publisher = connect()
    for number in range(1, 30):
        client = connect()
        client.ask("SUBSCRIBE", name)
        assert publisher.ask("PUBLISH", name, "x") == number
