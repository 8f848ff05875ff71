"""Cost of the core: the publish path, the objects it is made of, and group commit.

    make bench-core            all of it, about three minutes
    python -m bench.core publish|objects|commit

Ratios are taken within one run, medians of alternating rounds; absolute numbers are of this
machine and this interpreter, whose build flags are printed.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import timeit
from collections.abc import Sequence
from pathlib import Path

from headgate.core.commands import Confirm, Create, Send
from headgate.core.effects import Receipt
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

ROUNDS = 5
GOAL_PUBLISH = 1.1
GOAL_COMMIT = 15.0


def main(parts: Sequence[str]) -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"built with {sysconfig.get_config_var('CONFIG_ARGS')}")
    for part in parts or ("objects", "publish", "commit"):
        {"objects": objects, "publish": publish, "commit": commit}[part]()


# The publish path.


def publish() -> None:
    print(
        "\nPublish path: server CPU per delivery, toy RESP loop, publisher 100 deep, 16-byte body"
    )
    print(f"{'subscribers':>12} {'inline us':>10} {'core us':>10} {'ratio':>7}")
    ratios = []
    for subscribers, messages in ((1, 400_000), (10, 150_000), (100, 40_000)):
        costs: dict[str, list[float]] = {"inline": [], "core": []}
        for _ in range(ROUNDS):
            for variant, seen in costs.items():
                seen.append(_publish_cost(variant, subscribers, messages))
        inline, core = (statistics.median(costs[v]) for v in ("inline", "core"))
        # The ratio of each round cancels what the machine did meanwhile.
        ratio = statistics.median(
            c / i for i, c in zip(costs["inline"], costs["core"], strict=True)
        )
        ratios.append(ratio)
        print(f"{subscribers:>12} {inline:>10.2f} {core:>10.2f} {ratio:>7.2f}")
    mean = statistics.geometric_mean(ratios)
    print(f"core over inline, geometric mean: {mean:.2f} (goal: at most {GOAL_PUBLISH})")


def _publish_cost(variant: str, subscribers: int, messages: int) -> float:
    """Microseconds of the server's CPU per delivery."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.toy_resp", variant],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        asyncio.run(_load(port, subscribers, messages // 10))  # warm up
        before = _cpu(server)
        asyncio.run(_load(port, subscribers, messages))
        cost = _cpu(server) - before
        server.stdin.close()
    return cost / (messages * subscribers) * 1e6


def _cpu(server: subprocess.Popen[str]) -> float:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n")
    server.stdin.flush()
    return float(server.stdout.readline())


async def _load(port: int, subscribers: int, messages: int) -> None:
    """Subscribers that count bytes, a publisher that keeps 100 messages under way."""
    channel = b"bench-%d" % time.monotonic_ns()
    one = len(b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$16\r\n\r\n" % (len(channel), channel)) + 16
    readers = []
    writers = []
    for _ in range(subscribers):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%b\r\n" % (len(channel), channel))
        await reader.readexactly(len(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"))
        readers.append(reader)
        writers.append(writer)

    async def drain(reader: asyncio.StreamReader) -> None:
        left = one * messages
        while left:
            left -= len(await reader.read(1 << 18))

    command = b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$16\r\n0123456789abcdef\r\n" % (
        len(channel),
        channel,
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writers.append(writer)

    async def send() -> None:
        for _ in range(messages // 100):
            writer.write(command * 100)
            for _ in range(100):
                await reader.readline()

    await asyncio.gather(send(), *map(drain, readers))
    for each in writers:
        each.close()
        await each.wait_closed()


# The objects.

OBJECTS = {
    "tuple of 3": ("", "(a, b, c)"),
    "value, 3 fields": (
        "from headgate.core.model.value import value\n"
        "@value\nclass V:\n a: int\n b: int\n c: int\n",
        "V(a, b, c)",
    ),
    "slotted dataclass, 3 fields": (
        "from dataclasses import dataclass\n"
        "@dataclass(slots=True)\nclass V:\n a: int\n b: int\n c: int\n",
        "V(a, b, c)",
    ),
    "frozen slotted dataclass, 3": (
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True, slots=True)\nclass V:\n a: int\n b: int\n c: int\n",
        "V(a, b, c)",
    ),
    "NamedTuple, 3 fields": (
        "from typing import NamedTuple\nclass V(NamedTuple):\n a: int\n b: int\n c: int\n",
        "V(a, b, c)",
    ),
    "a fact: Delivered": (
        "from headgate.core.facts import Delivered as V",
        "V(1.0, b'q', '', b'm', 7, 0)",
    ),
    "a command: Send": (
        "from headgate.core.commands import Send as V",
        "V(7, 1, b'q', None)",
    ),
    "matching x == 42": (
        "from headgate.expr.predicate import compile_expression as c\n"
        "m = c('x == 42').matches\np = {'x': 42}",
        "m(p)",
    ),
    "matching two terms": (
        "from headgate.expr.predicate import compile_expression as c\n"
        "m = c('false || (i == 42 && s == \"foo\")').matches\np = {'i': 42, 's': 'foo'}",
        "m(p)",
    ),
    "undo: note": (
        "from headgate.core.turn.undo import Undo\nu = Undo()\nn = u.note\nf = print",
        "n(f, a)",
    ),
}


def objects() -> None:
    print("\nObjects: ns each")
    for name, (setup, statement) in OBJECTS.items():
        timer = timeit.Timer(statement, f"{setup}\na, b, c = 1, 2, 3")
        best = min(timer.repeat(5, 200_000)) / 200_000
        print(f"{name:>30} {best * 1e9:>6.0f}")


# Group commit.

DOMAIN = Domain("bench", Mode.EXCLUSIVE, max_messages=None)
BODY = bytes(1024)


def commit() -> None:
    print("\nSQLite, WAL, synchronous=FULL, 1 KB bodies, closed loop: send, receipt and delivery,")
    print("confirm; one subscriber per client, in the router's process")
    print(
        f"{'clients':>8} {'cycles/s':>9} {'receipt p50 ms':>15} {'p99 ms':>8} {'commands/turn':>14}"
    )
    for clients, seconds in ((1, 3.0), (100, 3.0), (1000, 5.0)):
        with tempfile.TemporaryDirectory() as folder:
            rate, p50, p99, batch = asyncio.run(_cycles(Path(folder), clients, seconds))
        print(f"{clients:>8} {rate:>9.0f} {p50 * 1e3:>15.2f} {p99 * 1e3:>8.2f} {batch:>14.1f}")
    one, many = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            one.append(asyncio.run(_sends(Path(folder), together=1, seconds=1.0)))
        with tempfile.TemporaryDirectory() as folder:
            many.append(asyncio.run(_sends(Path(folder), together=100, seconds=1.0)))
    ratio = statistics.median(m / o for o, m in zip(one, many, strict=True))
    print(
        f"durable sends/s: one per commit {statistics.median(one):.0f},"
        f" 100 per commit {statistics.median(many):.0f};"
        f" ratio {ratio:.1f} (goal: at least {GOAL_COMMIT:.0f})"
    )


async def _cycles(folder: Path, clients: int, seconds: float) -> tuple[float, float, float, float]:
    router = Router(store=SqliteStore(folder / "q.db"), domains={"bench": DOMAIN}, limits=Limits())
    await router.start()
    receipts: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> int:
        queue = QueueId(b"queue %d" % number)
        session = InProcessSession(router, "")
        await session.ask(Create, queue, "bench", subscribe=True)
        cycles = 0
        while (began := time.perf_counter()) < end:
            message = Message(MessageId(b"%d" % cycles), BODY, began)
            receipt = await session.ask(Send, queue, message)
            assert isinstance(receipt, Receipt)
            receipts.append(time.perf_counter() - began)
            delivery = await session.delivery()
            await session.ask(Confirm, queue, (delivery.message.id,))
            cycles += 1
        return cycles

    began = time.perf_counter()
    cycles = sum(await asyncio.gather(*map(client, range(clients))))
    rate = cycles / (time.perf_counter() - began)
    receipts.sort()
    batch = router.turns.commands / router.turns.count
    await router.stop()
    return rate, receipts[len(receipts) // 2], receipts[len(receipts) * 99 // 100], batch


async def _sends(folder: Path, together: int, seconds: float) -> float:
    """Durable sends per second with so many of them asked for at once."""
    router = Router(store=SqliteStore(folder / "q.db"), domains={"bench": DOMAIN}, limits=Limits())
    await router.start()
    session = InProcessSession(router, "")
    queue = QueueId(b"queue")
    await session.ask(Create, queue, "bench")
    began, sent = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        messages = [Message(MessageId(b"%d" % (sent + n)), BODY, began) for n in range(together)]
        await asyncio.gather(*(session.ask(Send, queue, message) for message in messages))
        sent += together
    rate = sent / (time.perf_counter() - began)
    await router.stop()
    return rate


if __name__ == "__main__":
    main(sys.argv[1:])
