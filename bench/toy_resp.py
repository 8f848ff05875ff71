"""Two toy RESP servers that differ only in where publishing is decided.

Both parse with hiredis, know SUBSCRIBE and PUBLISH, log the frames of one loop pass and write
one joined blob per audience. `inline` does it all in the protocol class, with transports in
its dictionaries: the floor. `core` goes through `headgate.core.channels.channels`.

    python -m bench.toy_resp inline|core

prints its port, and its CPU seconds whenever it reads a line on standard input.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import hiredis

from headgate.core.channels.audience import Kind
from headgate.core.channels.channels import Channels
from headgate.core.model.ids import Channel, SessionId
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.message_frames import FORMS

REPLIES = [b":%d\r\n" % n for n in range(2000)]
SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
FRAMES_MAX, BYTES_MAX = 1000, 1 << 20


def frame(channel: bytes, body: bytes) -> bytes:
    return b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
        len(channel),
        channel,
        len(body),
        body,
    )


class Floor:
    """What the inline variant shares between connections."""

    __slots__ = ("deliveries", "heard", "log", "log_bytes", "published", "scheduled", "subscribers")

    def __init__(self) -> None:
        self.subscribers: dict[bytes, dict[asyncio.Transport, bool]] = {}
        self.heard: dict[bytes, list[Any]] = {}
        self.log: list[tuple[int, bytes]] = []
        self.log_bytes = 0
        self.published = 0
        self.deliveries = 0
        self.scheduled = False

    def flush(self) -> None:
        self.scheduled = False
        audible = []
        for heard in self.heard.values():
            self.published += heard[3]
            self.deliveries += heard[3] * heard[2]
            if heard[2]:
                audible.append(heard)
        if len(audible) == 1:
            blob = b"".join([encoded for _, encoded in self.log])
            for transport in audible[0][1]:
                transport.write(blob)
        elif audible:
            masks: dict[asyncio.Transport, int] = {}
            for heard in audible:
                for transport in heard[1]:
                    masks[transport] = masks.get(transport, 0) | heard[0]
            blobs: dict[int, bytes] = {}
            for transport, mask in masks.items():
                if mask not in blobs:
                    blobs[mask] = b"".join([e for bit, e in self.log if bit & mask])
                transport.write(blobs[mask])
        self.heard.clear()
        self.log.clear()
        self.log_bytes = 0


class Inline(asyncio.Protocol):
    """Everything in one loop over the commands of a read, with transports in dictionaries."""

    floor = Floor()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        floor = self.floor
        all_heard, log = floor.heard, floor.log
        gets = self.reader.gets
        self.reader.feed(data)
        replies = []
        log_bytes = 0
        while (command := gets()) is not False:
            if command[0] == b"PUBLISH":
                _, channel, body = command
                heard = all_heard.get(channel)
                if heard is None:
                    targets = tuple(floor.subscribers.get(channel, ()))
                    heard = all_heard[channel] = [1 << len(all_heard), targets, len(targets), 0, 0]
                heard[3] += 1
                heard[4] += len(body)
                receivers = heard[2]
                if receivers:
                    encoded = frame(channel, body)
                    log.append((heard[0], encoded))
                    log_bytes += len(encoded)
                replies.append(REPLIES[receivers])
            else:
                floor.flush()
                for channel in command[1:]:
                    before = floor.subscribers.get(channel, {})
                    floor.subscribers[channel] = {**before, self.transport: True}
                    replies.append(SUBSCRIBED)
        floor.log_bytes += log_bytes
        if len(log) > FRAMES_MAX or floor.log_bytes > BYTES_MAX:
            floor.flush()
        self.transport.write(b"".join(replies))
        if not floor.scheduled:
            floor.scheduled = True
            asyncio.get_running_loop().call_soon(floor.flush)


class Shell:
    """What the core variant shares between connections."""

    __slots__ = ("channels", "scheduled", "writers")

    def __init__(self) -> None:
        self.channels = Channels(Limits())
        self.writers: dict[SessionId, Callable[[bytes], None]] = {}
        self.scheduled = False

    def flush(self) -> None:
        self.scheduled = False
        writers = self.writers
        for blob, sessions, _ in self.channels.take():
            for session in sessions:
                writers[session](blob)


class Core(asyncio.Protocol):
    """The wire parses, the core decides, the shell writes."""

    shell = Shell()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.session = SessionId(len(self.shell.writers) + 1)
        self.shell.writers[self.session] = transport.write
        self.reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        shell = self.shell
        gets = self.reader.gets
        self.reader.feed(data)
        replies = []
        pairs: list[tuple[Channel, bytes]] = []
        while (command := gets()) is not False:
            if command[0] == b"PUBLISH":
                _, channel, body = command
                pairs.append((channel, body))
            else:
                replies += self.publish(pairs)
                pairs = []
                shell.channels.subscribe(self.session, Kind.EXACT, command[1:], FORMS[2])
                replies += [SUBSCRIBED] * (len(command) - 1)
        replies += self.publish(pairs)
        self.transport.write(b"".join(replies))
        if not shell.scheduled:
            shell.scheduled = True
            asyncio.get_running_loop().call_soon(shell.flush)

    def publish(self, pairs: list[tuple[Channel, bytes]]) -> list[bytes]:
        return [REPLIES[n] for n in self.shell.channels.publish(Kind.EXACT, pairs)]


async def serve(protocol: type[asyncio.Protocol]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    done = loop.create_future()

    def asked() -> None:
        if sys.stdin.readline():
            times = os.times()
            print(times.user + times.system, flush=True)
        else:
            loop.remove_reader(sys.stdin)
            done.set_result(None)

    loop.add_reader(sys.stdin, asked)
    await done


if __name__ == "__main__":
    asyncio.run(serve({"inline": Inline, "core": Core}[sys.argv[1]]))
