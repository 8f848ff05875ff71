"""Subscribers that do not read: who waits for them, who does not, and when it ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.resp_client import PONG, Client, Frame, HungUp, Push, encoded
from tests.support.resp_flood import Flood, is_message
from tests.support.resp_servers import (
    Dial,
    Server,
    Setting,
    client_list,
    eventually,
    info,
    items_of,
    number_of,
    start_headgate,
    start_redis,
)

KIB = 1024
MIB = KIB * KIB
SMALL: dict[str, Setting] = {
    "publish_buffer_limit": "1 MiB",
    "mailbox_soft": "256 KiB",
    "mailbox_hard": "1 MiB",
}
SMALL_LIMIT = MIB


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    """A router with a small budget, so that little is enough to stall publishers."""
    with start_headgate(tmp_path, **SMALL) as server:
        yield server


class Publisher:
    """Publishes one message after another from a thread, and counts the replies."""

    def __init__(self, client: Client, channel: str, messages: int, payload: bytes) -> None:
        self.client = client
        self.replies: list[Frame] = []
        self._request = encoded("PUBLISH", channel, payload)
        self._messages = messages
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        # Ended by the test, which closes the connection.
        with contextlib.suppress(HungUp, OSError, ValueError):
            for _ in range(self._messages):
                self.client.send_raw(self._request)
                self.replies.append(self.client.read())

    @property
    def is_done(self) -> bool:
        return len(self.replies) == self._messages

    def join(self) -> None:
        self._thread.join()


def budget(small: Server) -> int:
    """What a small router's worker may hold for its clients: each has its share."""
    return SMALL_LIMIT // small.workers


def waiting_bytes(asker: Client) -> int:
    return int(info(asker, "stats")["dispatch_queue_subscriber_bytes"])


def stalled(server: Server, dial: Dial, channel: str, protocol: int = 2) -> Client:
    """A subscriber that reads nothing from now on."""
    client = dial(server, protocol, receive_buffer=4096)
    client.ask("SUBSCRIBE", channel)
    return client


def blocked_clients(asker: Client) -> int:
    return int(info(asker, "clients")["blocked_clients"])


def fill(server: Server, dial: Dial, channel: str, payload: bytes = b"x" * 64 * KIB) -> Client:
    """Publish to a stalled subscriber until the publisher waits for it; return the publisher."""
    publisher, asker = dial(server, timeout=60), dial(server)
    for _ in range(64 * MIB // len(payload)):
        before = blocked_clients(asker)
        publisher.send("PUBLISH", channel, payload)
        while not publisher.is_answered(0.01):
            if blocked_clients(asker) > before:
                asker.close()
                return publisher
        assert publisher.read() == 1
    raise AssertionError("64 MiB were accepted for a subscriber that reads nothing")


def test_others_go_on_while_a_publisher_waits(small: Server, dial: Dial, name: str) -> None:
    """RESP-59, RESP-60, S002-1, S002-29, S002-39, S002-58, S002-60, S002-61."""
    stalled(small, dial, name)
    fill(small, dial, name)
    other, listener = dial(small), dial(small)
    assert other.ask("PING") == PONG
    before = waiting_bytes(other)
    assert before >= budget(small)
    listener.ask("SUBSCRIBE", name + "elsewhere")
    for number in range(100):
        assert other.ask("PUBLISH", name + "elsewhere", str(number)) == 1
    assert [items_of(frame)[2] for frame in listener.read_many(100)] == [
        b"%d" % number for number in range(100)
    ]
    assert other.ask("PUBLISH", name + "nobody", "x") == 0
    assert other.ask("PUBSUB", "NUMSUB", name) == [name.encode(), 1]
    eventually(lambda: waiting_bytes(other) == before, "nothing was added for the stalled one")


def test_reading_again_lets_all_publishers_finish(small: Server, dial: Dial, name: str) -> None:
    """RESP-60, RESP-61, S002-57, S002-62, S002-63."""
    subscriber, asker = stalled(small, dial, name), dial(small)
    publishers = [Publisher(dial(small, timeout=60), name, 20, b"x" * 64 * KIB) for _ in range(20)]
    eventually(lambda: waiting_bytes(asker) >= budget(small), "it is spent")
    assert not all(publisher.is_done for publisher in publishers)
    subscriber.read_many(400)
    for publisher in publishers:
        publisher.join()
        assert publisher.replies == [1] * 20
    eventually(lambda: waiting_bytes(asker) == 0, "everything has been handed over")
    assert asker.ask("PUBLISH", name, "x") == 1


@pytest.mark.parametrize("end", ["close", "quit", "kill"])
def test_the_end_of_the_stalled_one_lets_all_publishers_finish(
    small: Server, dial: Dial, name: str, end: str
) -> None:
    """RESP-61, S002-26, S002-57, S002-63."""
    subscriber, asker = dial(small, receive_buffer=4096), dial(small)
    number = number_of(subscriber.ask("CLIENT", "ID"))
    subscriber.ask("SUBSCRIBE", name)
    publishers = [Publisher(dial(small, timeout=60), name, 20, b"x" * 64 * KIB) for _ in range(20)]
    eventually(lambda: waiting_bytes(asker) >= budget(small), "it is spent")
    if end == "quit":
        subscriber.send("QUIT")
        subscriber.until_closed()
    elif end == "kill":
        assert asker.ask("CLIENT", "KILL", "ID", number) == 1
    else:
        subscriber.close()
    for publisher in publishers:
        publisher.join()
        assert publisher.is_done
    eventually(lambda: waiting_bytes(asker) == 0, "its share was given back")
    assert asker.ask("PUBLISH", name, "x") == 0


def test_a_publisher_that_leaves_while_it_waits_leaves_nothing(
    small: Server, dial: Dial, name: str
) -> None:
    """RESP-63, S002-57."""
    subscriber, asker = stalled(small, dial, name), dial(small)
    fill(small, dial, name).close()
    for _ in range(5):
        leaving = dial(small)
        leaving.send("PUBLISH", name, "never mind")
        leaving.close()
    staying = dial(small, timeout=60)
    staying.send("PUBLISH", name, "last")
    eventually(lambda: len(client_list(asker)) == 3, "those who left are forgotten")
    seen = 0
    while True:
        frame = subscriber.read()
        seen += 1
        if items_of(frame)[2] == b"last":
            break
    assert staying.read() == 1
    assert seen * 64 * KIB < 64 * MIB
    eventually(lambda: waiting_bytes(asker) == 0, "everything has been handed over")
    assert asker.ask("PUBLISH", name, "x") == 1


def test_memory_is_bounded_however_much_is_published(small: Server, dial: Dial, name: str) -> None:
    """RESP-62: twenty publishers want to send 2 GiB to one who does not read."""
    subscriber, asker = stalled(small, dial, name), dial(small)
    before = small.resident_bytes()
    publishers = [Publisher(dial(small, timeout=60), name, 100, b"x" * MIB) for _ in range(20)]
    eventually(lambda: waiting_bytes(asker) >= budget(small), "it is spent")
    eventually(lambda: blocked_clients(asker) == len(publishers), "all of them wait")
    dial(small).send("PUBLISH", name, "x")
    eventually(lambda: blocked_clients(asker) == len(publishers) + 1, "one more waits")
    # Each publisher may be over by one message, and has another in its own input.
    assert small.resident_bytes() - before < 100 * MIB
    assert not any(publisher.is_done for publisher in publishers)
    subscriber.close()
    for publisher in publishers:
        publisher.join()
        assert publisher.is_done


def test_a_client_that_publishes_to_itself_is_not_stuck(
    small: Server, dial: Dial, name: str
) -> None:
    """RESP-61: its messages are written while its PUBLISH waits."""
    client = dial(small, 3)
    client.ask("SUBSCRIBE", name)
    payload = b"x" * 64 * KIB
    frames = client.pipeline([("PUBLISH", name, payload)] * 100, frames=200)
    assert [frame for frame in frames if not isinstance(frame, Push)] == [1] * 100
    assert sum(isinstance(frame, Push) for frame in frames) == 100


def test_a_slow_one_does_not_hold_up_others_below_the_limit(
    headgate: Server, dial: Dial, name: str
) -> None:
    """RESP-59, S002-39."""
    slow = stalled(headgate, dial, name)
    quick, publisher = dial(headgate), dial(headgate)
    quick.ask("SUBSCRIBE", name)
    payload = b"x" * 64 * KIB
    for _ in range(160):
        assert publisher.ask("PUBLISH", name, payload) == 2
        assert quick.read() == [b"message", name.encode(), payload]
    assert slow.read_many(160) == [[b"message", name.encode(), payload]] * 160


@pytest.mark.parametrize("quota", [1, 4, 100, 0])
def test_messages_queued_before_leaving_come_first_whatever_the_quota(
    tmp_path: Path, dial: Dial, name: str, quota: int
) -> None:
    """RESP-58, S002-42."""
    with start_headgate(tmp_path, async_dispatch_quota=quota) as server:
        for protocol in (2, 3):
            subscriber, publisher = dial(server, protocol, receive_buffer=4096), dial(server)
            subscriber.ask("SUBSCRIBE", name)
            payloads = [b"%03d" % number + b"x" * 100_000 for number in range(60)]
            publishes = [("PUBLISH", name, payload) for payload in payloads]
            assert publisher.pipeline(publishes) == [1] * 60
            subscriber.send("UNSUBSCRIBE")
            frames = subscriber.before_fence()
            assert [items_of(frame)[2] for frame in frames[:-1]] == payloads
            assert frames[-1] == subscriber.pushed(b"unsubscribe", name.encode(), 0)


def test_a_flood_does_not_starve_the_subscriber(
    headgate: Server, dial: Dial, name: str, protocol: int
) -> None:
    """RESP-57, S002-44, S002-46."""
    client = dial(headgate, protocol)
    client.ask("SUBSCRIBE", name)
    client.ask("SUBSCRIBE", name + "other")
    floods = [Flood(dial(headgate), name, size=1000) for _ in range(3)]
    try:
        for _ in range(3):  # each has to read what its mailbox holds
            client.send("PING", "still there?")
            while is_message(frame := client.read()):
                pass
            assert frame in (b"still there?", [b"pong", b"still there?"])
        client.send("UNSUBSCRIBE", name)
        client.send("PING", "and now?")
        while is_message(frame := client.read()):
            pass
        assert frame == client.pushed(b"unsubscribe", name.encode(), 1)
        assert client.read() in (b"and now?", [b"pong", b"and now?"])
    finally:
        for flood in floods:
            flood.stop()


@pytest.mark.parametrize("which", ["redis", "headgate"])
def test_where_slow_subscribers_are_closed_publishers_never_wait(
    tmp_path: Path, dial: Dial, name: str, which: str
) -> None:
    """RESP-64: and the one that is closed is counted no more."""
    with contextlib.ExitStack() as stack:
        if which == "redis":
            server = stack.enter_context(start_redis(tmp_path))
            limit = ("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 512kb 60")
            dial(server).ask(*limit)
        else:
            server = stack.enter_context(start_headgate(tmp_path, slow_session="close", **SMALL))
        slow, quick, publisher = stalled(server, dial, name), dial(server), dial(server)
        quick.ask("SUBSCRIBE", name)
        payload = b"x" * 64 * KIB
        counts: list[Frame] = []
        while len(counts) < 1000 and counts[-1:] != [1]:
            counts.append(publisher.ask("PUBLISH", name, payload))
            assert quick.read() == [b"message", name.encode(), payload]
        assert counts == [2] * (len(counts) - 1) + [1]
        assert len(slow.until_closed()) < len(counts)
        assert publisher.ask("PUBSUB", "NUMSUB", name) == [name.encode(), 1]


def test_where_the_oldest_are_dropped_the_newest_arrive(
    tmp_path: Path, dial: Dial, name: str
) -> None:
    """RESP-62: publishers never wait, memory is bounded, and the order is kept."""
    with start_headgate(tmp_path, slow_session="drop-oldest", **SMALL) as server:
        slow, publisher = stalled(server, dial, name), dial(server)
        before = server.resident_bytes()
        padding = b"x" * 256 * KIB
        for number in range(1000):
            assert publisher.ask("PUBLISH", name, b"%d " % number + padding) == 1
        assert server.resident_bytes() - before < 50 * MIB
        words = [items_of(frame)[2] for frame in slow.before_fence()]
        numbers = [int(word.split()[0]) for word in words if isinstance(word, bytes)]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 999
        assert len(numbers) < 1000


def test_a_subscriber_that_is_stuck_too_long_is_closed(
    tmp_path: Path, dial: Dial, name: str
) -> None:
    """RESP-61: with slow_timeout those who wait for it go on."""
    with start_headgate(tmp_path, slow_timeout="300ms", **SMALL) as server:
        slow, asker = stalled(server, dial, name), dial(server)
        publishers = [
            Publisher(dial(server, timeout=60), name, 20, b"x" * 64 * KIB) for _ in range(10)
        ]
        for publisher in publishers:
            publisher.join()
            assert publisher.is_done
        eventually(lambda: asker.ask("PUBLISH", name, "x") == 0, "the stuck one is gone")
        slow.until_closed()
        eventually(lambda: waiting_bytes(asker) == 0, "its share was given back")


def test_the_default_budget_is_128_mebibytes(headgate: Server, dial: Dial) -> None:
    """S002-59."""
    reply = dial(headgate).ask("CONFIG", "GET", "publish-buffer-limit")
    assert reply == [b"publish-buffer-limit", b"%d" % (128 * MIB // headgate.workers)]
