"""Queues and services over the SMP wire: what many of them cost.

    make bench-queues                                    all of it, at full size
    python -m bench.queues --store sqlite --only c       one part, one store
    python -m bench.queues --queues 2000 --service-queues 20000 --clients 20 --sessions 50

(a) Subscribing to many queues in blocks of 135, against one question to the store for each queue.
(b) One SUBS of a service with many queues, and what somebody else notices of its sweep.
(c) SEND, MSG, ACK: cycles per second when every commit is on the disk, and where the time goes.
(d) Memory: of queues that rest, of queues that were used, of sessions that do nothing.

Each part has a store of its own that is filled first, which is not timed, and a fresh router for
every measurement. The router is on one core, the clients, which are one process, on the other;
PostgreSQL takes either. Bodies are 16,000 bytes. Recipients sign with Ed25519, senders
authenticate with X25519, as SimpleX clients do. A client that subscribes signs before it is timed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.crowd import allow_descriptors
from bench.queues_load import BLOCK_QUEUES, pairs, subscribed
from bench.queues_router import Served, serving
from bench.queues_services import MB, memory, percentile, progress, services
from bench.queues_store import BODY, Crowd, Place, place, sync_us
from bench.servers import describe
from headgate.core.turn.store_requests import Load

WINDOWS = (1, 4)
"""Blocks under way: one waits for the other, or the router always has the next."""
EVERY = 10
"""One of so many queues has a message, in (a)."""
PROFILE_ROWS = 12
CLIENT_BUSY = 0.85
"""Of a core, from where on the clients may be slower than the router."""


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    allow_descriptors(2 * max(options.clients, options.sessions) + 500)
    stores = ["sqlite", "postgresql"] if options.store == "both" else [options.store]
    print(describe())
    print(
        f"a small write takes {sync_us():.0f} us to be on this disk; bodies of {len(BODY)} bytes;"
        f" journal {'on' if options.journal else 'off'}; medians of {options.rounds} rounds"
    )
    parts = {"a": blocks, "b": services, "c": cycles, "d": memory}
    for name, part in parts.items():
        if options.only in (None, name):
            part(options, stores)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.queues", None, __doc__, formatter_class=shown)
    parser.add_argument("--queues", type=int, default=300_000, metavar="N", help="of part a")
    parser.add_argument(
        "--service-queues", type=int, default=1_000_000, metavar="N", help="of parts b and d"
    )
    parser.add_argument("--clients", type=int, default=100, metavar="N", help="of part c")
    parser.add_argument("--sessions", type=int, default=1_000, metavar="N", help="of part d")
    parser.add_argument("--store", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--only", choices=["a", "b", "c", "d"])
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of a round of c")
    parser.add_argument("--journal", action="store_true", help="with the journal, which has a cost")
    return parser.parse_args(arguments)


# (a) Subscribing.


def blocks(options: argparse.Namespace, stores: list[str]) -> None:
    crowd = Crowd("plain", options.queues, EVERY)
    print(
        f"\n(a) {crowd.size} queues, {crowd.pending} with a message, subscribed in"
        f" {-(-crowd.size // BLOCK_QUEUES)} blocks of {BLOCK_QUEUES}"
    )
    print("    load: the store alone, asked in our own process; wire: all of it, with signatures;")
    print("    goal: one statement a block; SOK s, MSG s: until the last; us: CPU for each queue")
    print(
        f"{'store':<11} {'how':<22} {'statements':>10} {'a block':>8} {'turns':>6} {'SOK s':>7}"
        f" {'MSG s':>7} {'us/queue':>8} {'of single':>9} {'router us':>9} {'client us':>9}"
        f" {'MB':>5}"
    )
    for kind in stores:
        progress(f"a: filling {kind}")
        with place(kind, crowd) as found:
            progress("a: loads")
            many = asyncio.run(loads(found, crowd, BLOCK_QUEUES))
            single = asyncio.run(loads(found, crowd, 1))
            for name, (statements, seconds) in (("load, one by one", single), ("load, 135", many)):
                row = f"{kind:<11} {name:<22} {statements:>10} {per_block(statements, crowd):>8.2f}"
                each = seconds / crowd.size * 1e6
                print(
                    f"{row} {'':>6} {'':>7} {seconds:>7.2f} {each:>8.1f}"
                    f" {seconds / single[1]:>9.3f}",
                    flush=True,
                )
            for window in WINDOWS:
                progress(f"a: wire, {window} under way")
                runs = [wire(found, crowd, window, options) for _ in range(options.rounds)]
                print_wire(kind, window, runs, crowd, single[1])


def per_block(statements: float, crowd: Crowd) -> float:
    return statements / -(-crowd.size // BLOCK_QUEUES)


async def loads(found: Place, crowd: Crowd, together: int) -> tuple[int, float]:
    """Ask the store for the heads of all queues, so many at a time: statements and seconds."""
    ids = [crowd.id(n) for n in range(crowd.size)]
    store = found.store()
    await store.open()
    try:
        before, began = store.statements, time.perf_counter()
        messages = 0
        for start in range(0, len(ids), together):
            loaded = await store.load(Load(heads=dict.fromkeys(ids[start : start + together], 1)))
            messages += sum(head.messages for head in loaded.heads.values())
        seconds = time.perf_counter() - began
        assert messages == crowd.pending, "every message was seen"
        return store.statements - before, seconds
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Wire:
    statements: float
    turns: float
    granted_s: float
    delivered_s: float
    router_us: float
    """CPU of the router for each queue."""
    client_us: float
    rss: float


def wire(found: Place, crowd: Crowd, window: int, options: argparse.Namespace) -> Wire:
    async def run(served: Served) -> Wire:
        (statements, turns), cpu = served.counts(), served.server.cpu_ns()
        async with subscribed(served.address, crowd, crowd.size, window) as seen:
            cpu = served.server.cpu_ns() - cpu
            after = served.counts()
            return Wire(
                after[0] - statements,
                after[1] - turns,
                seen.granted_s,
                seen.delivered_s,
                cpu / crowd.size / 1e3,
                seen.client_cpu_s / crowd.size * 1e6,
                served.server.rss(),
            )

    with serving(found, journal=options.journal) as served:
        return asyncio.run(run(served))


def print_wire(kind: str, window: int, runs: list[Wire], crowd: Crowd, single_s: float) -> None:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    seconds = middle("delivered_s")
    print(
        f"{kind:<11} {f'wire, {window} under way':<22} {middle('statements'):>10.0f}"
        f" {per_block(middle('statements'), crowd):>8.2f} {middle('turns'):>6.0f}"
        f" {middle('granted_s'):>7.2f} {seconds:>7.2f} {seconds / crowd.size * 1e6:>8.1f}"
        f" {seconds / single_s:>9.3f} {middle('router_us'):>9.1f} {middle('client_us'):>9.1f}"
        f" {middle('rss') / MB:>5.0f}",
        flush=True,
    )


# (c) Messages on their way.


def cycles(options: argparse.Namespace, stores: list[str]) -> None:
    crowd = Crowd("pairs", options.clients)
    print("\n(c) SEND, MSG, ACK, each with its OK and a durable commit; a client is two sessions;")
    print(
        "    us: CPU for each cycle, the store's own if it is another process; router, client: of"
    )
    print("    a core; a turn: SENDs and ACKs that one turn carried out")
    print(
        f"{'store':<11} {'clients':>7} {'cycles/s':>9} {'range':>13} {'MSG p50 ms':>10} {'p99':>7}"
        f" {'router us':>9} {'client us':>9} {'store us':>8} {'router':>7} {'client':>7}"
        f" {'a turn':>7}"
    )
    profiles = []
    for kind in stores:
        with place(kind, crowd) as found:
            for clients in dict.fromkeys((1, options.clients)):
                progress(f"c: {kind}, {clients} clients")
                with serving(found, journal=options.journal) as served:
                    asyncio.run(print_cycles(found, served, crowd, clients, options))
                with serving(found, journal=options.journal, is_sampled=True) as served:
                    profile = asyncio.run(profiled(served, crowd, clients, options.seconds))
                    profiles.append((f"{kind}, {clients} clients", profile))
    for name, profile in profiles:
        print(f"\n{name}, where the router's CPU goes:\n{profile}")


async def print_cycles(
    found: Place, served: Served, crowd: Crowd, clients: int, options: argparse.Namespace
) -> None:
    gc.collect()
    rates, turned = [], []
    router: list[float] = []
    client: list[float] = []
    store: list[float] = []
    async with pairs(served.address, crowd, clients) as running:
        for _ in range(options.rounds):
            before = served.server.cpu_ns(), time.process_time_ns(), found.cpu_ns()
            cycled, turns = sum(p.cycles for p in running), served.counts()[1]
            began = time.perf_counter()
            await asyncio.gather(*(p.cycle_until(began + options.seconds) for p in running))
            took = time.perf_counter() - began
            after = served.server.cpu_ns(), time.process_time_ns(), found.cpu_ns()
            count = sum(p.cycles for p in running) - cycled
            rates.append(count / took)
            turned.append(2 * count / (served.counts()[1] - turns))
            for spent, a, b in zip((router, client, store), before, after, strict=True):
                spent.append((b - a) / 1e3 / count)
    arrived = [took for pair in running for took in pair.arrived_s]
    rate = statistics.median(rates)
    each = [statistics.median(spent) for spent in (router, client, store)]
    note = "  the clients may be what limits" if each[1] * rate / 1e6 > CLIENT_BUSY else ""
    print(
        f"{found.kind:<11} {clients:>7} {rate:>9.0f} {f'{min(rates):.0f} - {max(rates):.0f}':>13}"
        f" {percentile(arrived, 50) * 1e3:>10.2f} {percentile(arrived, 99) * 1e3:>7.2f}"
        f" {each[0]:>9.0f} {each[1]:>9.0f} {each[2]:>8.0f} {each[0] * rate / 1e6:>7.0%}"
        f" {each[1] * rate / 1e6:>7.0%} {statistics.median(turned):>7.2f}{note}",
        flush=True,
    )


async def profiled(served: Served, crowd: Crowd, clients: int, seconds: float) -> str:
    """A run that is looked at, as text."""
    async with pairs(served.address, crowd, clients) as running:
        user, system = served.user_and_system()
        served.sample()
        began = time.perf_counter()
        await asyncio.gather(*(p.cycle_until(began + seconds) for p in running))
        seen, after = served.sampled(), served.user_and_system()
    count = sum(pair.cycles for pair in running)
    whole = sum(seen["groups"].values())
    lines = [
        f"  {count / seconds:.0f} cycles/s while looked at, {seen['samples']} samples; the program"
        f" {after[0] - user:.2f} s, the kernel {after[1] - system:.2f} s"
    ]
    for head, rows in (("by group", seen["groups"]), ("by function", seen["functions"])):
        lines.append(f"  {'share':>6} {'us/cycle':>9}  {head}")
        for name, spent in sorted(rows.items(), key=lambda row: -row[1])[:PROFILE_ROWS]:
            lines.append(f"  {spent / whole:>6.1%} {spent / max(count, 1) * 1e6:>9.1f}  {name}")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
