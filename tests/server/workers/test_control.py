"""Messages between the supervisor and a worker, with the sockets that they pass."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headgate.server.workers import control
from headgate.server.workers.control import Control, Message


class End:
    """One end, and what came to it."""

    def __init__(self, end: socket.socket) -> None:
        self.messages: list[Message] = []
        self.passed: list[socket.socket] = []
        self.arrived = asyncio.Event()
        self.ended = asyncio.Event()
        self.control = Control(end, self.take, self.ended.set)

    def take(self, message: Message, passed: socket.socket | None) -> None:
        self.messages.append(message)
        self.arrived.set()
        if passed is not None:
            self.passed.append(passed)

    async def until(self, count: int) -> None:
        """Wait for so many messages."""
        async with asyncio.timeout(30):
            while len(self.messages) < count:
                self.arrived.clear()
                await self.arrived.wait()


def test_what_is_sent_comes_in_its_order_with_its_sockets() -> None:
    async def run() -> None:
        one, two = map(End, control.pair())
        ours, theirs = socket.socketpair()
        sent: list[Message] = [
            control.Welcome([1, 2]),
            control.Client("resp", "1.2.3.4:5"),
            control.Listening({"resp": ("127.0.0.1", 6379)}),
        ]
        one.control.send(sent[0])
        one.control.send(sent[1], theirs)
        one.control.send(sent[2])
        await two.until(3)
        assert two.messages == sent
        ours.send(b"hello")
        assert two.passed[0].recv(10) == b"hello"
        two.control.send(control.Lost(1, 2, "why"))
        await one.until(1)
        assert one.messages == [control.Lost(1, 2, "why")]
        for each in (ours, *two.passed):
            each.close()
        one.control.close()
        await two.ended.wait()

    asyncio.run(run())


def test_what_the_other_end_does_not_take_waits_and_comes() -> None:
    async def run() -> None:
        ends = control.pair()
        one = End(ends[0])
        for number in range(5000):
            one.control.send(control.Ping(number))
        assert len(one.control)
        two = End(ends[1])
        await two.until(5000)
        assert two.messages == [control.Ping(number) for number in range(5000)]
        assert not len(one.control)
        one.control.close()
        two.control.close()

    asyncio.run(run())


def test_a_socket_for_one_that_is_gone_is_closed() -> None:
    async def run() -> None:
        ends = control.pair()
        one = End(ends[0])
        ends[1].close()
        await one.ended.wait()
        ours, theirs = socket.socketpair()
        one.control.send(control.Client("resp", "1.2.3.4:5"), theirs)
        assert theirs.fileno() == -1
        with pytest.raises(ConnectionError):
            ours.send(b"anybody?")
        ours.close()

    asyncio.run(run())
