"""Many sockets behind one entry of the loop."""

from __future__ import annotations

import asyncio
import socket

from headgate.server.poller import GONE, READ, WRITE, Poller


async def test_sockets_are_told_what_they_are_ready_for() -> None:
    poller = Poller(asyncio.get_running_loop())
    ours, theirs = socket.socketpair()
    told: asyncio.Queue[int] = asyncio.Queue()
    poller.add(ours.fileno(), told.put_nowait, READ | WRITE)
    async with asyncio.timeout(10):
        assert await told.get() == WRITE
    poller.change(ours.fileno(), READ)
    while not told.empty():
        told.get_nowait()
    theirs.send(b"x")
    async with asyncio.timeout(10):
        assert await told.get() & READ
    ours.recv(1)
    poller.change(ours.fileno(), 0)
    while not told.empty():
        told.get_nowait()
    theirs.close()
    async with asyncio.timeout(10):
        assert await told.get() & GONE
    poller.remove(ours.fileno())
    poller.close()
    ours.close()


async def test_a_socket_that_another_one_closed_is_not_called() -> None:
    poller = Poller(asyncio.get_running_loop())
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def ready(number: int) -> None:
        called.append(number)
        for other, (ours, _) in enumerate(pairs):
            if other != number and ours.fileno() >= 0:
                poller.remove(ours.fileno())
                ours.close()

    for number, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        poller.add(ours.fileno(), lambda events, n=number: ready(n), READ)  # type: ignore[misc]
    await asyncio.sleep(0.02)
    assert len(set(called)) == 1
    poller.close()
    for pair in pairs:
        for end in pair:
            end.close()


async def test_what_is_to_be_done_soon_is_done_when_all_were_served() -> None:
    poller = Poller(asyncio.get_running_loop())
    pairs = [socket.socketpair() for _ in range(3)]
    order: list[str] = []

    def ready(ours: socket.socket) -> None:
        ours.recv(10)
        order.append("served")
        poller.soon(lambda: order.append("soon"))

    for ours, theirs in pairs:
        theirs.send(b"x")
        poller.add(ours.fileno(), lambda events, s=ours: ready(s), READ)  # type: ignore[misc]
    await asyncio.sleep(0.02)
    assert order == ["served"] * 3 + ["soon"] * 3
    poller.soon(lambda: order.append("outside"))
    assert order[-1] == "soon"
    await asyncio.sleep(0)
    assert order[-1] == "outside"
    poller.close()
    for pair in pairs:
        for end in pair:
            end.close()
