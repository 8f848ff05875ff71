"""The pattern index against redis-server: the replies to PUBLISH count the same receivers."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headgate.core.channels.pattern_index import PatternIndex
from tests.core.model.glob_reference import draw_pattern, draw_subject
from tests.support.resp_servers import start_redis

SEED = 8
ROUNDS = 20
SUBSCRIBERS = 10
PATTERNS = 150
PUBLISHES = 1_000
PIPELINE = 250

# Redis compares the ends of a range as the compiler's char, signed on x86 and unsigned on ARM.
# A range from one half of the bytes to the other means different things there.
DEPENDS_ON_THE_MACHINE = re.compile(rb"[\x00-\x7f]-[\x80-\xff]|[\x80-\xff]-[\x00-\x7f]", re.DOTALL)


class Client:
    """A connection that writes commands and reads the replies it knows the shape of."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")

    def send(self, *commands: tuple[bytes, ...]) -> None:
        self._socket.sendall(b"".join(map(encoded, commands)))

    def reply(self) -> object:
        line = self._file.readline()
        assert line.endswith(b"\r\n"), f"redis-server hung up: {line!r}"
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return self._file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        assert kind in b":+", line
        return int(rest) if kind == b":" else rest

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def encoded(words: tuple[bytes, ...]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


@pytest.fixture
def redis_port(tmp_path: Path) -> Iterator[int]:
    """A redis-server of its own: a table of patterns that was large stays large, and slow."""
    with start_redis(tmp_path) as server:
        yield server.address[1]


def test_counts_are_those_of_redis_in_twenty_thousand_publishes(redis_port: int) -> None:
    random = Random(SEED)
    publisher = Client(redis_port)
    receivers_in_all = 0
    for turn in range(ROUNDS):
        # Small sets are scanned, larger ones have keys: both are compared.
        index = PatternIndex() if turn % 2 else PatternIndex(scan_max=PATTERNS)
        drawn = (draw_pattern(random) for _ in range(PATTERNS))
        patterns = [each for each in drawn if not DEPENDS_ON_THE_MACHINE.search(each)]
        # All patterns on one connection would be quadratic in Redis; some are on several.
        subscribers = [Client(redis_port) for _ in range(SUBSCRIBERS)]
        subscribed: Counter[bytes] = Counter()
        for client in subscribers:
            mine = set(random.sample(patterns, len(patterns) // 5))
            client.send((b"PSUBSCRIBE", *sorted(mine)))
            for _ in mine:
                client.reply()
            subscribed.update(mine)
        for pattern in subscribed:
            index.add(pattern)
        for _ in range(PUBLISHES // PIPELINE):
            channels = [draw_subject(random, random.choice(patterns)) for _ in range(PIPELINE)]
            publisher.send(*((b"PUBLISH", channel, b"x") for channel in channels))
            for channel in channels:
                found = index.matching(channel)
                wanted = publisher.reply()
                assert sum(subscribed[pattern] for pattern in found) == wanted, (
                    f"seed {SEED}: {channel!r} has {wanted} receivers, but {found}"
                )
                receivers_in_all += sum(subscribed[pattern] for pattern in found)
            for client in subscribers:
                drained(client)
        for client in subscribers:
            client.close()
    publisher.close()
    assert receivers_in_all > ROUNDS * PUBLISHES


def drained(client: Client) -> None:
    """Read what was pushed, up to the answer to a PING."""
    client.send((b"PING",))
    while client.reply() != [b"pong", b""]:
        pass
