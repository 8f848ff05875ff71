"""Loads that look like real use of channels, drawn from a seed, for any server of Redis's protocol.

A load is drawn once and is the same for every server: who subscribes to what and in which
protocol, and what each publisher sends in which pipelines. What everybody is due follows from it by
arithmetic, so a round ends when it has come, to the byte. Contents and order are compared in
`check`, with one batch under way at a time.
"""

from __future__ import annotations

import select
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from socket import SO_SNDBUF, SOL_SOCKET, socket

import hiredis

from bench.redis_load import BUFFER_BYTES, PATIENCE_SECONDS, Address, Work, command, connect

CHECKED_BATCHES = 200
PING = command(b"PING")
PONG = b"+PONG\r\n"
DONE = b"+OK\r\n"


@dataclass(frozen=True, slots=True)
class MixShape:
    """What is drawn."""

    publishes: int
    publishers: int = 8
    depths: tuple[int, int] = (1, 16)
    """Commands of one pipeline, from and to."""
    channels: int = 1_000
    skew: float = 1.0
    """Zipf's exponent; at 0 all channels are alike."""
    bodies: tuple[int, int] = (10, 4_000)
    body_median: float = 250.0
    body_spread: float = 1.0
    """Of the logarithm."""
    subscribers: int = 140
    subscriptions: tuple[int, int] = (1, 40)
    pattern_share: float = 0.25
    """Subscriptions that are patterns."""
    newer_share: float = 0.2
    """Subscribers with RESP3."""
    other_share: float = 0.08
    """Commands that are PINGs and SETs."""
    seed: int = 1


@dataclass(slots=True)
class Listener:
    """A subscriber, and what it subscribes to."""

    is_newer: bool
    channels: set[bytes] = field(default_factory=set)
    patterns: set[bytes] = field(default_factory=set)

    def frames(self, channel: bytes, body: bytes) -> list[bytes]:
        """What it gets for a message, in any order."""
        mark = b">" if self.is_newer else b"*"
        frames = [
            mark + command(b"pmessage", pattern, channel, body)[1:]
            for pattern in self.patterns
            if channel.startswith(pattern[:-1])
        ]
        if channel in self.channels:
            frames.append(mark + command(b"message", channel, body)[1:])
        return frames


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands that are sent together: a message, or something else with its answer."""

    messages: tuple[tuple[bytes, bytes] | None, ...]
    """Channel and body; none where there is another command."""
    data: bytes
    answers: bytes


@dataclass(slots=True)
class Load:
    """A drawn load: pipelines of each publisher, and listeners."""

    listeners: list[Listener]
    pipelines: list[list[Pipeline]]
    due: list[int]
    """Bytes of each listener."""
    deliveries: int


def draw(shape: MixShape) -> Load:
    random = Random(shape.seed)
    # Names in groups, so that a pattern is heard by some of them.
    names = [b"g%d:item:%d" % (n % max(1, shape.channels // 25), n) for n in range(shape.channels)]
    weights = list(accumulate(1 / (rank**shape.skew) for rank in range(1, shape.channels + 1)))
    listeners = [_listener(random, shape, names) for _ in range(shape.subscribers)]
    heard: dict[bytes, list[tuple[int, int]]] = {
        name: [
            (place, len(each.frames(name, b"")))
            for place, each in enumerate(listeners)
            if each.frames(name, b"")
        ]
        for name in names
    }
    due, deliveries = [0] * len(listeners), 0
    pipelines: list[list[Pipeline]] = [[] for _ in range(shape.publishers)]
    left = shape.publishes
    while left > 0:
        messages: list[tuple[bytes, bytes] | None] = []
        for _ in range(min(left, random.randint(*shape.depths))):
            if random.random() < shape.other_share:
                messages.append(None)
                continue
            [name] = random.choices(names, cum_weights=weights)
            size = int(random.lognormvariate(0, shape.body_spread) * shape.body_median)
            body = random.randbytes(max(shape.bodies[0], min(size, shape.bodies[1])))
            messages.append((name, body))
            left -= 1
            for place, frames in heard[name]:
                due[place] += sum(map(len, listeners[place].frames(name, body)))
                deliveries += frames
        pipelines[random.randrange(shape.publishers)].append(_pipeline(random, messages, heard))
    return Load(listeners, pipelines, due, deliveries)


def _listener(random: Random, shape: MixShape, names: Sequence[bytes]) -> Listener:
    listener = Listener(random.random() < shape.newer_share)
    for _ in range(random.randint(*shape.subscriptions)):
        name = random.choice(names)
        if random.random() < shape.pattern_share:
            listener.patterns.add(name[: name.index(b":") + 1] + b"*")
        else:
            listener.channels.add(name)
    return listener


def _pipeline(
    random: Random,
    messages: Sequence[tuple[bytes, bytes] | None],
    heard: dict[bytes, list[tuple[int, int]]],
) -> Pipeline:
    data, answers = [], []
    for message in messages:
        if message is not None:
            channel, body = message
            data.append(command(b"PUBLISH", channel, body))
            answers.append(b":%d\r\n" % sum(frames for _, frames in heard[channel]))
        elif random.random() < 0.5:
            data.append(PING)
            answers.append(PONG)
        else:
            data.append(command(b"SET", b"key:%d" % random.randrange(100), random.randbytes(20)))
            answers.append(DONE)
    return Pipeline(tuple(messages), b"".join(data), b"".join(answers))


class Mix:
    """The connections of a load with one server."""

    def __init__(self, address: Address, load: Load) -> None:
        self.load = load
        self.listeners = [self._listening(address, each) for each in load.listeners]
        self.publishers = [connect(address) for _ in load.pipelines]
        self._poll = select.epoll()
        self._all = {each.fileno(): each for each in (*self.listeners, *self.publishers)}
        for number, each in self._all.items():
            each.setblocking(False)
            each.setsockopt(SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES)
            self._poll.register(number, select.EPOLLIN)
        self._buffer = bytearray(BUFFER_BYTES)

    @staticmethod
    def _listening(address: Address, listener: Listener) -> socket:
        found = connect(address)
        if listener.is_newer:
            found.sendall(command(b"HELLO", b"3"))
        for verb, names in (
            (b"SUBSCRIBE", listener.channels),
            (b"PSUBSCRIBE", listener.patterns),
        ):
            if names:
                found.sendall(command(verb, *sorted(names)))
        reader, left = hiredis.Reader(), len(listener.channels) + len(listener.patterns)
        left += listener.is_newer
        while left:
            reader.feed(found.recv(BUFFER_BYTES))
            while reader.gets() is not False:
                left -= 1
        return found

    def round(self) -> Work:
        load = self.load
        due = {
            each.fileno(): size for each, size in zip(self.listeners, load.due, strict=True) if size
        }
        waiting = {
            each.fileno(): iter(pipelines)
            for each, pipelines in zip(self.publishers, load.pipelines, strict=True)
        }
        answered: dict[int, int] = {}
        left = len(due) + sum(bool(self._next(n, waiting, answered)) for n in waiting)
        poll, buffer, connections = self._poll.poll, self._buffer, self._all
        began = time.perf_counter()
        while left:
            ready = poll(PATIENCE_SECONDS)
            assert ready, "nothing came for a minute"
            for number, _ in ready:
                size = connections[number].recv_into(buffer)
                assert size, "a connection was closed"
                if number in answered:
                    answered[number] -= size
                    assert answered[number] >= 0, "more answers than questions"
                    if not answered[number]:
                        left -= not self._next(number, waiting, answered)
                else:
                    due[number] -= size
                    assert due[number] >= 0, "a listener got more than it was due"
                    left -= not due[number]
        took = time.perf_counter() - began
        return Work(load.deliveries, took / load.deliveries * 1e6)

    def _next(
        self, number: int, waiting: dict[int, Iterator[Pipeline]], answered: dict[int, int]
    ) -> bool:
        """Send a publisher's next pipeline, if there is one."""
        pipeline = next(waiting[number], None)
        if pipeline is None:
            return False
        sent = self._all[number].send(pipeline.data)
        assert sent == len(pipeline.data), "the pipeline did not fit"
        answered[number] = len(pipeline.answers)
        return True

    def check(self) -> object:
        """Every listener gets exactly what it should, message by message, in their order; those of
        one message by several patterns may come in any order. So do answers."""
        got: dict[int, bytearray] = defaultdict(bytearray)
        wanted: dict[int, list[list[bytes]]] = defaultdict(list)
        pairs = zip(self.publishers, self.load.pipelines, strict=True)
        for publisher, pipelines in pairs:
            for pipeline in pipelines[: CHECKED_BATCHES // len(self.publishers) or 1]:
                publisher.send(pipeline.data)
                for place, listener in enumerate(self.load.listeners):
                    for message in pipeline.messages:
                        if message is not None and (frames := listener.frames(*message)):
                            wanted[self.listeners[place].fileno()].append(frames)
                answers = got[publisher.fileno()]
                self._read_until(got, lambda: len(answers) >= len(pipeline.answers))  # noqa: B023
                assert bytes(answers) == pipeline.answers, "another answer"
                answers.clear()
        sizes = {n: sum(sum(map(len, frames)) for frames in each) for n, each in wanted.items()}
        self._read_until(got, lambda: all(len(got[n]) >= size for n, size in sizes.items()))
        for number, messages in wanted.items():
            stream, at = bytes(got[number]), 0
            for frames in messages:
                end = at + sum(map(len, frames))
                assert _same(stream[at:end], frames), "another message, or in another order"
                at = end
            assert at == len(stream), "a listener got more than it was due"
        return None

    def _read_until(self, got: dict[int, bytearray], done: Callable[[], bool]) -> None:
        while not done():
            ready = self._poll.poll(PATIENCE_SECONDS)
            assert ready, "nothing came for a minute"
            for number, _ in ready:
                got[number] += self._all[number].recv(BUFFER_BYTES)

    def close(self) -> None:
        self._poll.close()
        for each in self._all.values():
            each.close()


def _same(stream: bytes, frames: Sequence[bytes]) -> bool:
    """Whether the stream is these frames in some order."""
    left, at = sorted(frames, key=len, reverse=True), 0
    while left:
        found = next((frame for frame in left if stream.startswith(frame, at)), None)
        if found is None:
            return False
        left.remove(found)
        at += len(found)
    return at == len(stream)
