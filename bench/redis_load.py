"""A load of publishers and subscribers for any server that speaks Redis's protocol.

One thread, one epoll. Everything that is sent is encoded before the clock starts, and what comes
is only counted, so that Python keeps a server in C busy. Counting is exact: a round is over when
every connection got the bytes that it was due, and fails if one got more. Contents and order are
compared in a round of their own, `check`, which is slow.
"""

from __future__ import annotations

import select
import socket
import statistics
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

import hiredis

from bench import patterns

PATIENCE_SECONDS = 60
BUFFER_BYTES = 1 << 20
CHECKED_MESSAGES = 300
PATTERN_CLIENTS = 50
PATTERN_DEPTH = 10
PATTERN_REPEATED = 16
PATTERN_CHECKED = 200

Address: TypeAlias = tuple[str, int]
Receive: TypeAlias = Callable[[bytearray], int]


class Work(NamedTuple):
    operations: int
    wall_us: float
    """Of one operation."""
    p99_us: float = 0.0
    """Of the slowest hundredth, where each operation is timed."""


class Scene(Protocol):
    """Connections to one server, and what a round does with them."""

    def round(self) -> Work: ...

    def check(self) -> object:
        """Compare contents and order; return what a right server's equal is compared with."""
        ...

    def close(self) -> None: ...


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def publish(channel: bytes, body: bytes) -> bytes:
    return command(b"PUBLISH", channel, body)


def delivery(channel: bytes, body: bytes) -> bytes:
    """What a subscriber is sent, in RESP2: an array as a command is one."""
    return command(b"message", channel, body)


def connect(address: Address) -> socket.socket:
    """A blocking connection whose waits end: without them a hang would be for ever."""
    found = socket.create_connection(address)
    found.settimeout(None)
    patience = struct.pack("ll", PATIENCE_SECONDS, 0)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def subscribe(found: socket.socket, channel: bytes) -> None:
    found.sendall(command(b"SUBSCRIBE", channel))
    wanted = b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%b\r\n:1\r\n" % (len(channel), channel)
    told = read_exactly(found, len(wanted))
    assert told == wanted, f"SUBSCRIBE was answered {told!r}"


def read_exactly(found: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = found.recv(size - len(parts))
        if not part:
            raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
        parts += part
    return parts


class Lines:
    """Connections that are read as bytes come."""

    def __init__(self, connections: Sequence[socket.socket]) -> None:
        self.connections = {each.fileno(): each for each in connections}
        self._poll = select.epoll()
        for number, each in self.connections.items():
            each.setblocking(False)
            # A batch is sent at once when the one before it was answered: it has to fit.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            self._poll.register(number, select.EPOLLIN)
        self._buffer = bytearray(BUFFER_BYTES)

    def counted(self) -> dict[int, Receive]:
        return {number: each.recv_into for number, each in self.connections.items()}

    def kept(self) -> tuple[dict[int, Receive], dict[int, bytearray]]:
        """Ways to receive that keep the bytes, and what they kept."""
        kept = {number: bytearray() for number in self.connections}

        def keeping(found: socket.socket, into: bytearray) -> Receive:
            def receive(buffer: bytearray) -> int:
                size = found.recv_into(buffer)
                into.extend(memoryview(buffer)[:size])
                return size

            return receive

        return {n: keeping(each, kept[n]) for n, each in self.connections.items()}, kept

    def drive(
        self,
        publishers: Sequence[socket.socket],
        batches: Sequence[bytes],
        reply_bytes: int,
        due: Mapping[int, int],
        receive: Mapping[int, Receive],
    ) -> float:
        """Have the publishers send the batches, each its next when the last one is answered;
        return the seconds until everybody has what is due."""
        send = {each.fileno(): each.send for each in publishers}
        answered = dict.fromkeys(send, reply_bytes)
        got = dict.fromkeys(self.connections, 0)
        left = len(batches) * reply_bytes + sum(due.values())
        waiting = iter(batches)
        poll, buffer, most = self._poll.poll, self._buffer, len(self.connections)
        began = time.perf_counter()
        for each, batch in zip(publishers, waiting, strict=False):
            assert each.send(batch) == len(batch), "the batch did not fit"
        while left > 0:
            ready = poll(PATIENCE_SECONDS, most)
            if not ready:
                raise TimeoutError(f"{left} bytes have not come")
            for number, _ in ready:
                size = receive[number](buffer)
                if not size:
                    raise ConnectionError(f"closed with {left} bytes to come")
                left -= size
                got[number] += size
                if number in answered and got[number] == answered[number]:
                    following = next(waiting, None)
                    if following is not None:
                        answered[number] += reply_bytes
                        assert send[number](following) == len(following), "it did not fit"
        took = time.perf_counter() - began
        assert not poll(0), "more came than was due"
        for number, size in due.items():
            assert got[number] == size, f"a subscriber got {got[number]} bytes of {size}"
        replies = sum(got[number] for number in send)
        assert replies == len(batches) * reply_bytes, f"{replies} bytes of replies"
        return took

    def close(self) -> None:
        self._poll.close()
        for each in self.connections.values():
            each.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    subscribers: int
    messages: int
    """Published in one round."""
    publishers: int = 1
    channels: int = 1
    """Subscribers and messages go to one channel after the other."""
    depth: int = 1
    """Publishes under way at once, of each publisher."""
    body_bytes: int = 16

    @property
    def receivers(self) -> int:
        return self.subscribers // self.channels


class FanOut:
    """Some publish, others listen."""

    def __init__(self, address: Address, shape: Shape) -> None:
        self.shape = shape
        self.names = [b"bench:%02d" % n for n in range(shape.channels)]
        self.subscribers = [connect(address) for _ in range(shape.subscribers)]
        for n, each in enumerate(self.subscribers):
            subscribe(each, self.names[n % shape.channels])
        self.publishers = [connect(address) for _ in range(shape.publishers)]
        self.lines = Lines(self.subscribers + self.publishers)
        self.reply = b":%d\r\n" % shape.receivers
        self.batches = self._batches([bytes(shape.body_bytes)] * shape.depth)
        self.batches *= shape.messages // shape.depth
        one = len(delivery(self.names[0], bytes(shape.body_bytes)))
        each_due = len(self.batches) * shape.depth // shape.channels * one
        self.due = {each.fileno(): each_due for each in self.subscribers}

    def _batches(self, bodies: Sequence[bytes]) -> list[bytes]:
        depth, channels = self.shape.depth, self.shape.channels
        sent = [publish(self.names[n % channels], body) for n, body in enumerate(bodies)]
        return [b"".join(sent[at : at + depth]) for at in range(0, len(sent), depth)]

    def round(self) -> Work:
        reply_bytes = len(self.reply) * self.shape.depth
        receive = self.lines.counted()
        took = self.lines.drive(self.publishers, self.batches, reply_bytes, self.due, receive)
        operations = len(self.batches) * self.shape.depth * max(1, self.shape.receivers)
        return Work(operations, took / operations * 1e6)

    def check(self) -> object:
        shape = self.shape
        assert shape.publishers == 1 or not shape.subscribers, "two publishers have no order"
        bodies = [b"%0*d" % (shape.body_bytes, n) for n in range(CHECKED_MESSAGES)]
        wanted = {
            each.fileno(): b"".join(
                delivery(self.names[n % shape.channels], body)
                for body in bodies[n % shape.channels :: shape.channels]
            )
            for n, each in enumerate(self.subscribers)
        }
        receive, kept = self.lines.kept()
        due = {number: len(stream) for number, stream in wanted.items()}
        batches = self._batches(bodies)
        self.lines.drive(self.publishers, batches, len(self.reply) * shape.depth, due, receive)
        for number, stream in wanted.items():
            assert kept[number] == stream, "a subscriber got other messages, or in another order"
        for each in self.publishers:
            answers = kept[each.fileno()]
            assert answers == self.reply * (len(answers) // len(self.reply)), "another reply"
        return None

    def close(self) -> None:
        self.lines.close()


class Latency:
    """One publishes, one listens: the time from sending a message to having it."""

    def __init__(self, address: Address, messages: int) -> None:
        self.messages = messages
        self.subscriber = connect(address)
        subscribe(self.subscriber, b"bench")
        self.publisher = connect(address)

    def round(self) -> Work:
        body = bytes(16)
        sent, wanted = publish(b"bench", body), len(delivery(b"bench", body))
        send, receive, answer = (
            self.publisher.send, self.subscriber.recv_into, self.publisher.recv_into,
        )  # fmt: skip
        buffer, clock, times = bytearray(4096), time.perf_counter_ns, []
        for _ in range(self.messages):
            began = clock()
            send(sent)
            size = receive(buffer)
            times.append(clock() - began)
            assert (size, answer(buffer)) == (wanted, 4), "a message or a reply came in pieces"
        times.sort()
        p99 = times[self.messages * 99 // 100]
        return Work(self.messages, statistics.median(times) / 1000, p99 / 1000)

    def check(self) -> object:
        for n in range(CHECKED_MESSAGES):
            body = b"%016d" % n
            self.publisher.sendall(publish(b"bench", body))
            wanted = delivery(b"bench", body)
            assert read_exactly(self.subscriber, len(wanted)) == wanted, "another message"
            assert read_exactly(self.publisher, 4) == b":1\r\n", "another reply"
        return None

    def close(self) -> None:
        self.subscriber.close()
        self.publisher.close()


class Patterns:
    """Many patterns, and a publisher to channels that none of them matches."""

    def __init__(self, address: Address, size: int, publishes: int, *, repeated: bool) -> None:
        self.size = size
        self.publishes = max(PATTERN_DEPTH, publishes // PATTERN_DEPTH * PATTERN_DEPTH)
        self.repeated = repeated
        self.numbers = count(1_000_000)
        texts = [patterns.pattern(n) for n in range(size)]
        # The mix repeats every ten: in order, a client would have patterns of one form only.
        Random(size).shuffle(texts)
        self.clients = [connect(address) for _ in range(PATTERN_CLIENTS)]
        for n, each in enumerate(self.clients):
            psubscribe(each, texts[n::PATTERN_CLIENTS])
        self.publisher = connect(address)
        self.lines = Lines([self.publisher])

    def round(self) -> Work:
        names = [b"q/%d/%d.x" % (n % 1000, next(self.numbers)) for n in range(self.publishes)]
        if self.repeated:
            names = [names[n % PATTERN_REPEATED] for n in range(self.publishes)]
        sent = [publish(name, bytes(16)) for name in names]
        batches = [
            b"".join(sent[at : at + PATTERN_DEPTH])
            for at in range(0, self.publishes, PATTERN_DEPTH)
        ]
        receive = self.lines.counted()
        took = self.lines.drive([self.publisher], batches, 4 * PATTERN_DEPTH, {}, receive)
        return Work(self.publishes, took / self.publishes * 1e6)

    def check(self) -> object:
        """How many receivers each message had, and which patterns each client got it by. A
        pattern's place among those of one message is the server's own affair, so it is sorted."""
        random = Random(self.size)
        self.publisher.setblocking(True)
        reader = hiredis.Reader()
        most = min(PATTERN_CHECKED, max(20, 4_000_000 // (self.size or 1)))
        counts = []
        for n in range(most):
            name = patterns.channel(random, self.size or 1)
            self.publisher.sendall(publish(name, b"%08d" % n))
            counts.append(next_reply(self.publisher, reader))
        for each in self.clients:
            each.sendall(command(b"SUBSCRIBE", b"fence"))
        got = [self._until_fence(each, b"subscribe") for each in self.clients]
        assert sum(map(len, got)) == sum(counts), "the replies count other deliveries"
        for frames in got:
            bodies = [body for _, _, _, body in frames]
            assert bodies == sorted(bodies), "a client got messages in another order"
        return counts, [sorted(frames, key=lambda frame: (frame[3], frame[1])) for frames in got]

    def _until_fence(self, client: socket.socket, kind: bytes) -> list[list[bytes]]:
        """The deliveries before the answer to a later command: answers keep their place."""
        reader, frames = hiredis.Reader(), []
        while (frame := next_reply(client, reader))[0] != kind:
            frames.append(frame)
        return frames

    def close(self) -> None:
        self.lines.close()
        for each in self.clients:
            each.close()


def psubscribe(client: socket.socket, texts: Sequence[bytes]) -> None:
    reader = hiredis.Reader()
    for at in range(0, len(texts), 500):
        some = texts[at : at + 500]
        client.sendall(command(b"PSUBSCRIBE", *some))
        for n, text in enumerate(some, at + 1):
            told = next_reply(client, reader)
            assert told == [b"psubscribe", text, n], f"PSUBSCRIBE was answered {told!r}"


def next_reply(client: socket.socket, reader: hiredis.Reader) -> Any:  # noqa: ANN401
    while (reply := reader.gets()) is False:
        part = client.recv(BUFFER_BYTES)
        if not part:
            raise ConnectionError("closed instead of an answer")
        reader.feed(part)
    return reply
