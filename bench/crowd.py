"""10,000 subscribers that are idle, one message for all of them, and 20,000 that come and go.

    python -m bench.crowd            about a minute
    python -m bench.crowd --quick    a tenth of it

The same against redis-server. First the memory that an idle connection takes, and how long one
message is on its way to everybody. Then, with the crowd gone, waves of connections that come and
go at any point: at once, in the middle of a command, after SUBSCRIBE with or without its answer,
with an orderly end or a reset. Afterwards nothing may be left of them: no file descriptor, no
subscription, and no memory that grows from wave to wave.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any

import hiredis

from bench.redis_load import Address, command, connect, delivery, next_reply, publish
from bench.servers import Server, Start, describe, pin_load, redis_server, router

MB = 1_000_000
CROWD = 10_000
STORM = 20_000
WAVES = 4
AT_ONCE = 250
"""Connections of a storm that are open together."""
PER_ADDRESS = 5_000
"""Connections from one address of ours; a port is not free again for a while."""
DESCRIPTORS_SPARE = 500
SETTLE_SECONDS = 20.0
IP_BIND_ADDRESS_NO_PORT = 24
"""linux/in.h; Python has no name for it. The port is chosen when connecting, and may serve
several destinations."""
GROWTH_MOST = 8 * MB
"""Memory that may be left from the first wave to the last: 15,000 sessions that leak would be
more, and allocators do not give back everything."""
CHANNEL = b"crowd"
BODY = bytes(16)


@dataclass(frozen=True, slots=True)
class Came:
    """A way of coming and going."""

    sent: bytes
    waits: bool
    """Whether it reads an answer before it goes."""
    resets: bool


def ways() -> Iterator[Came]:
    """All of them, one after the other, for ever."""
    whole = command(b"SUBSCRIBE", CHANNEL)
    pattern = command(b"PSUBSCRIBE", b"cr*d", b"x[ab]?")
    told = publish(CHANNEL, BODY)
    while True:
        for resets in (False, True):
            yield Came(b"", False, resets)
            yield Came(whole[:-4], False, resets)
            yield Came(whole, False, resets)
            yield Came(whole, True, resets)
            yield Came(pattern, True, resets)
            yield Came(whole + told[:-6], True, resets)


def main(arguments: list[str]) -> None:
    share = 10 if "--quick" in arguments else 1
    crowd, storm = CROWD // share, STORM // share
    allow_descriptors(crowd + DESCRIPTORS_SPARE)
    pin_load()
    print(describe())
    failed = False
    # Redis allows 10,000 clients, and takes other addresses than 127.0.0.1 for foreign ones.
    redis = partial(redis_server, "--maxclients", str(crowd + 100), "--protected-mode", "no")
    starts: tuple[Start, ...] = (redis, router)
    for start in starts:
        with start() as server:
            print(f"\n{server.name}")
            gather(server, crowd)
            left = blow(server, storm)
            # What Redis keeps of its memory for a while is no fault of it.
            failed = left and server.name != "redis"
    if failed:
        print("BROKEN: something is left")
    sys.exit(failed)


def allow_descriptors(wanted: int) -> None:
    """For us and for the servers that we start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except ValueError:
            raise SystemExit(f"{wanted} file descriptors are needed; ulimit -n is {hard}") from None
    elif soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Sources:
    """Connections whose own address changes before its ports run out."""

    def __init__(self) -> None:
        self._numbers = count()

    def connect(self, address: Address) -> socket.socket:
        found = socket.socket()
        found.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        found.bind((f"127.0.1.{1 + next(self._numbers) // PER_ADDRESS}", 0))
        found.connect(address)
        return found


SOURCES = Sources()


def gather(server: Server, size: int) -> None:
    """Have a crowd subscribe, tell all of it something, and send it home."""
    time.sleep(0.5)
    before, held, began = server.rss(), server.descriptors(), time.perf_counter()
    wanted = b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%b\r\n:1\r\n" % (len(CHANNEL), CHANNEL)
    members: list[socket.socket] = []
    while len(members) < size:
        some = [SOURCES.connect(server.address) for _ in range(min(AT_ONCE, size - len(members)))]
        for each in some:
            each.sendall(command(b"SUBSCRIBE", CHANNEL))
        receive_all(some, wanted)
        members += some
    joined = time.perf_counter() - began
    time.sleep(0.5)
    idle = server.rss()
    print(f"  {size} subscribed in {joined:.1f} s; memory {before / MB:.1f} MB before,")
    print(f"  {idle / MB:.1f} MB after: {(idle - before) / size:.0f} bytes per connection")
    with closing(connect(server.address)) as publisher:
        cpu, began = server.cpu_ns(), time.perf_counter()
        publisher.sendall(publish(CHANNEL, BODY))
        receive_all(members, delivery(CHANNEL, BODY))
        took = time.perf_counter() - began
        heard = next_reply(publisher, hiredis.Reader())
        cpu = server.cpu_ns() - cpu
    assert heard == size, f"PUBLISH was answered {heard}"
    print(
        f"  one PUBLISH: answered {heard}, delivered {size} of {size} in {took * 1e3:.0f} ms,"
        f" {cpu / 1e6:.0f} ms of CPU"
    )
    for each in members:
        each.close()
    settle(server, held)
    assert ask(server, b"PUBSUB", b"NUMSUB", CHANNEL) == [CHANNEL, 0], "somebody is left"
    print(f"  gone: memory {server.rss() / MB:.1f} MB")


def receive_all(members: Sequence[socket.socket], wanted: bytes) -> None:
    """Everybody gets these bytes and nothing else."""
    waiting = {each.fileno(): (each, bytearray()) for each in members}
    with closing(select.epoll()) as poll:
        for number in waiting:
            poll.register(number, select.EPOLLIN)
        while waiting:
            ready = poll.poll(SETTLE_SECONDS, len(waiting))
            assert ready, f"{len(waiting)} got nothing"
            for number, _ in ready:
                found, got = waiting[number]
                part = found.recv(4096)
                got += part
                assert part, "a member of the crowd was closed"
                assert wanted.startswith(got), f"a member got {bytes(got)!r}"
                if got == wanted:
                    poll.unregister(number)
                    del waiting[number]


def blow(server: Server, size: int) -> bool:
    """Have waves of connections come and go; whether something is left of them."""
    held, before, every = server.descriptors(), server.rss(), ways()
    print(f"  {size} come and go, {AT_ONCE} at once, in {WAVES} waves:")
    memory = []
    for wave in range(1, WAVES + 1):
        began, cpu, left = time.perf_counter(), server.cpu_ns(), size // WAVES
        while left:
            some = list(islice(every, min(AT_ONCE, left)))
            left -= len(some)
            come_and_go(server.address, some)
        settle(server, held)
        took, cpu = time.perf_counter() - began, server.cpu_ns() - cpu
        memory.append(server.rss())
        print(
            f"    {wave}: {took:.1f} s, {cpu / (size // WAVES) / 1000:.0f} us of CPU each;"
            f" memory {memory[-1] / MB:.1f} MB"
        )
    growth = memory[-1] - memory[0]
    found = server.descriptors()
    listening = ask(server, b"PUBSUB", b"NUMSUB", CHANNEL)[1], ask(server, b"PUBSUB", b"NUMPAT")
    print(
        f"  before and after: memory {before / MB:.1f} and {memory[-1] / MB:.1f} MB"
        f" ({growth / MB:+.1f} since the first wave), descriptors {held} and"
        f" {found}, NUMSUB {listening[0]}, NUMPAT {listening[1]}"
    )
    return found > held or listening != (0, 0) or growth > GROWTH_MOST


def come_and_go(address: Address, some: Sequence[Came]) -> None:
    opened = [(SOURCES.connect(address), each) for each in some]
    for found, each in opened:
        found.sendall(each.sent)
    for found, each in opened:
        if each.waits:
            found.settimeout(SETTLE_SECONDS)
            assert found.recv(16), "closed instead of an answer"
        if each.resets:
            linger = struct.pack("ii", 1, 0)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        found.close()


def settle(server: Server, descriptors: int) -> None:
    """Wait until the server noticed that connections are gone."""
    end = time.monotonic() + SETTLE_SECONDS
    while server.descriptors() > descriptors and time.monotonic() < end:
        time.sleep(0.05)


def ask(server: Server, *words: bytes) -> Any:  # noqa: ANN401
    with closing(connect(server.address)) as asked:
        asked.sendall(command(*words))
        return next_reply(asked, hiredis.Reader())


if __name__ == "__main__":
    main(sys.argv[1:])
