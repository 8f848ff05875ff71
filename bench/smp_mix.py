"""SMP on loads that look like real use: `make bench-smp-mix`.

    python -m bench.smp_mix --quick                 one short round of each: a look, not a result
    python -m bench.smp_mix --cells small-100       some; an unknown name prints the list
    python -m bench.smp_mix --against PROGRAM       another checkout's `headgate`, in turns

Half of the sessions send and half receive, each pair over a queue of its own, with durable commits.
A sender says some messages at a time, small ones together in a block; the recipient opens each,
compares it with what was sent, and acknowledges it; now and then somebody PINGs. How many and how
long is drawn from a seed for each pair. Nobody else speaks this protocol with durable commits, so
there is no peer but the commit before.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import truediv
from pathlib import Path
from random import Random

from bench.crowd import allow_descriptors
from bench.queues_load import Address, connected, expect, told
from bench.queues_router import Served, serving
from bench.queues_services import percentile, progress
from bench.queues_store import Crowd, place, sync_us
from bench.servers import describe
from headgate.client.smp.recipient import Request
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.replies import Msg, Ok, Pong, Reply, Sok
from headgate.wire.smp.codec.sealed import Body, open_message, parse_message

FULL_BYTES = 16_000
SMALL_MEDIAN, SMALL_SPREAD, SMALL_BYTES = 200.0, 0.8, (20, 4_000)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is drawn."""

    name: str
    sessions: int
    full_share: float
    """Messages that fill a block."""
    together: tuple[int, int] = (1, 4)
    """Messages that a sender says at a time, from and to."""
    ping_share: float = 0.05
    """Of the times that a recipient has nothing more to do."""


CELLS = (
    Shape("small-100", 100, 0.0),
    Shape("full-100", 100, 1.0),
    Shape("mixed-100", 100, 0.3),
    Shape("small-1000", 1_000, 0.0),
    Shape("full-1000", 1_000, 1.0),
)
ROUNDS = 3
SECONDS = 5.0
QUICK_SECONDS = 1.0


@dataclass(slots=True)
class MixPair:
    """A sender and a recipient of one queue, and what they have still to say."""

    sender: SmpClient
    recipient: SmpClient
    crowd: Crowd
    n: int
    shape: Shape
    random: Random
    messages: int = 0
    arrived_s: list[float] = field(default_factory=list)
    """From the first SEND of some until a message is there."""

    async def start(self) -> None:
        (granted,) = await self.recipient.ask(self._request(c.Sub()))
        assert isinstance(granted, Sok), granted

    async def go_on_until(self, end: float) -> None:
        while time.perf_counter() < end:
            await self._say_some()
            if self.random.random() < self.shape.ping_share:
                (reply,) = await self.recipient.ask(Request(c.Ping()))
                assert isinstance(reply, Pong), reply

    async def _say_some(self) -> None:
        bodies = [self._body() for _ in range(self.random.randint(*self.shape.together))]
        crowd, n = self.crowd, self.n
        sends = [
            Request(c.SmpSend(False, body), crowd.sender(n), crowd.sender_key) for body in bodies
        ]
        blocks = pack([self.sender.encode(send) for send in sends])
        began = time.perf_counter()
        for block in blocks:
            await self.sender.send_block(block)
        answer: Reply = Ok()
        for body in bodies:
            # The answer to an ACK is the next message, if that is there by then.
            message = answer if isinstance(answer, Msg) else (await told(self.recipient))[1]
            assert isinstance(message, Msg), f"{message}, not MSG"
            self.arrived_s.append(time.perf_counter() - began)
            opened = parse_message(open_message(crowd.secret, message.message_id, message.sealed))
            assert isinstance(opened, Body), "a message"
            assert opened.body == body, "the message that was sent, in its order"
            (block,) = pack([self.recipient.encode(self._request(c.SmpAck(message.message_id)))])
            await self.recipient.send_block(block)
            _, answer = await told(self.recipient)
            assert isinstance(answer, Ok | Msg), f"{answer} to an ACK"
            self.messages += 1
        for _ in bodies:
            await expect(self.sender, Ok)

    def _request(self, command: c.Command) -> Request:
        return Request(command, self.crowd.id(self.n), self.crowd.key(self.n))

    def _body(self) -> bytes:
        random = self.random
        size = FULL_BYTES
        if random.random() >= self.shape.full_share:
            size = int(random.lognormvariate(0, SMALL_SPREAD) * SMALL_MEDIAN)
            size = max(SMALL_BYTES[0], min(size, SMALL_BYTES[1]))
        return random.randbytes(size)


@asynccontextmanager
async def mixed(address: Address, crowd: Crowd, shape: Shape) -> AsyncIterator[list[MixPair]]:
    async with connected(address, shape.sessions) as clients:
        found = [
            MixPair(clients[2 * n], clients[2 * n + 1], crowd, n, shape, Random(n))
            for n in range(shape.sessions // 2)
        ]
        for pair in found:
            await pair.start()
        yield found


@dataclass(slots=True)
class Measured:
    """The rounds of one router."""

    rates: list[float] = field(default_factory=list)
    router_us: list[float] = field(default_factory=list)
    client_us: list[float] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)


async def round_of(
    served: Served, crowd: Crowd, shape: Shape, seconds: float, seen: Measured
) -> None:
    """One round, after a short one that is not counted."""
    async with mixed(served.address, crowd, shape) as pairs:
        await asyncio.gather(*(p.go_on_until(time.perf_counter() + seconds / 5) for p in pairs))
        for pair in pairs:
            pair.messages, pair.arrived_s = 0, []
        cpu, own, began = served.server.cpu_ns(), time.process_time_ns(), time.perf_counter()
        await asyncio.gather(*(pair.go_on_until(began + seconds) for pair in pairs))
        took = time.perf_counter() - began
        cpu, own = served.server.cpu_ns() - cpu, time.process_time_ns() - own
        count = sum(pair.messages for pair in pairs)
        seen.rates.append(count / took)
        seen.router_us.append(cpu / count / 1e3)
        seen.client_us.append(own / count / 1e3)
        for pair in pairs:
            seen.arrived_s += pair.arrived_s


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    allow_descriptors(2 * max(shape.sessions for shape in options.cells) + 500)
    print(describe())
    print(f"a small write takes {sync_us():.0f} us to be on this disk; SQLite, no journal;")
    print(f"medians of {options.rounds} rounds of {options.seconds:g} s; us: CPU for each message")
    print(
        f"{'cell':<11} {'router':<9} {'messages/s':>10} {'range':>13} {'MSG p50 ms':>10}"
        f" {'p99':>7} {'router us':>9} {'client us':>9}"
    )
    sides: dict[str, Path | None] = {"headgate": None}
    if options.against is not None:
        sides = {"another": options.against, "headgate": None}
    for shape in options.cells:
        progress(shape.name)
        table = {name: Measured() for name in sides}
        for turn in range(options.rounds):
            # Who comes first takes turns, too.
            for name, program in list(sides.items())[:: 1 if turn % 2 else -1]:
                crowd = Crowd("pairs", shape.sessions // 2)
                with place("sqlite", crowd) as found, serving(found, other=program) as served:
                    gc.collect()
                    asyncio.run(round_of(served, crowd, shape, options.seconds, table[name]))
        for name, seen in table.items():
            print_row(shape, name, seen)
        if options.against is not None:
            ours, other = table["headgate"], table["another"]
            ratios = list(map(truediv, ours.router_us, other.router_us))
            print(
                f"{shape.name:<11} headgate over another: CPU {statistics.median(ratios):.2f}"
                f" ({min(ratios):.2f} - {max(ratios):.2f}), rate"
                f" {statistics.median(map(truediv, ours.rates, other.rates)):.2f}",
                flush=True,
            )


def print_row(shape: Shape, name: str, seen: Measured) -> None:
    print(
        f"{shape.name:<11} {name:<9} {statistics.median(seen.rates):>10.0f}"
        f" {f'{min(seen.rates):.0f} - {max(seen.rates):.0f}':>13}"
        f" {percentile(seen.arrived_s, 50) * 1e3:>10.2f}"
        f" {percentile(seen.arrived_s, 99) * 1e3:>7.2f}"
        f" {statistics.median(seen.router_us):>9.0f} {statistics.median(seen.client_us):>9.0f}",
        flush=True,
    )


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("bench.smp_mix", None, __doc__, formatter_class=shown)
    known = {shape.name: shape for shape in CELLS}
    parser.add_argument("--cells", metavar="NAME,...")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", type=Path, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    names = options.cells.split(",") if options.cells else list(known)
    if unknown := set(names) - set(known):
        parser.error(f"no cell {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.cells = [known[name] for name in names]
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.seconds = QUICK_SECONDS if options.quick else SECONDS
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
