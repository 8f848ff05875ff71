"""Parts (b) and (d) of the benchmark of queues: a service of many queues, and memory."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time

from bench.queues_load import connected, ping, subscribed, sweep
from bench.queues_probe import probing
from bench.queues_router import Served, serving
from bench.queues_store import Crowd, Place, place

MB = 1_000_000
SERVICE_EVERY = 100
"""One of so many queues of a service has a message."""
TOUCHED = 10
"""One of so many is used, in (d)."""
UNDER_WAY = 4
"""Blocks that a session subscribes with at a time."""
WARM_UP = 10
"""Sessions that come and go before memory is measured."""
IDLE_SECONDS = 5.0
SOKS_SECONDS = 0.05
SLOWER = 3.0
REST_BYTES = 300 * MB
SESSION_BYTES = 34_000


# (b) A service.


def services(options: argparse.Namespace, stores: list[str]) -> None:
    crowd, plain = service_crowds(options)
    print(
        f"\n(b) one SUBS for {crowd.size} queues, {crowd.pending} with a message;"
        " beside it, SEND to MSG of a queue of somebody else"
    )
    for kind in stores:
        progress(f"b: filling {kind}")
        with (
            place(kind, crowd, plain) as found,
            serving(found, journal=options.journal) as served,
        ):
            print_sweeps(kind, found, served, crowd, plain, options.rounds)


def service_crowds(options: argparse.Namespace) -> tuple[Crowd, Crowd]:
    """The queues of a service, and some of nobody."""
    size: int = options.service_queues
    return (
        Crowd("service", size, SERVICE_EVERY, shares_key=True, has_service=True),
        Crowd("plain", max(1, size // TOUCHED), shares_key=True),
    )


def print_sweeps(
    kind: str, found: Place, served: Served, crowd: Crowd, plain: Crowd, rounds: int
) -> None:
    assert found.service is not None, "it was filled with a service's queues"
    seen, cpu, memory = [], [], []
    served.server.forget_peak()
    with probing(served.address, plain) as probe:
        for number in range(rounds):
            progress(f"b: idle, then sweep {number + 1}")
            time.sleep(IDLE_SECONDS)
            before = served.server.rss()
            router = served.server.cpu_ns()
            seen.append(asyncio.run(sweep(served.address, found.service, crowd)))
            cpu.append((served.server.cpu_ns() - router) / 1e9)
            memory.append((before, served.server.rss()))
        time.sleep(IDLE_SECONDS)
        samples = probe.stop()
    during = [took for at, took in samples if any(s.began <= at <= s.ended for s in seen)]
    # What comes right after a sweep still pays for the client that leaves.
    idle = [took for at, took in samples if not any(s.began - 1 <= at <= s.ended + 1 for s in seen)]
    soks, alls = [s.soks_s for s in seen], statistics.median(s.alls_s for s in seen)
    busy = statistics.median(s.client_cpu_s / s.alls_s for s in seen)
    router_busy = statistics.median(c / s.alls_s for c, s in zip(cpu, seen, strict=True))
    print(
        f"{kind}: SOKS after {statistics.median(soks) * 1e3:.1f} ms, the slowest"
        f" {max(soks) * 1e3:.1f} (goal {SOKS_SECONDS * 1e3:.0f}:"
        f" {verdict(max(soks) <= SOKS_SECONDS)}); ALLS after {alls:.2f} s,"
        f" {alls / crowd.size * 1e6:.1f} us a queue; CPU {router_busy:.0%} of a core, the"
        f" client's {busy:.0%}"
    )
    print(
        f"  memory {memory[0][0] / MB:.0f} MB before, {memory[0][1] / MB:.0f} after the first,"
        f" {memory[-1][1] / MB:.0f} after the last, {served.server.peak_rss() / MB:.0f} at the peak"
    )
    if len(during) < 10 or len(idle) < 10:
        print("  too few messages of somebody else to compare")
        return
    print(
        f"  {'somebody else, ms':<20} {'messages':>8} {'p50':>7} {'p90':>7} {'p99':>7} {'max':>7}"
    )
    for name, taken in (("idle", idle), ("during the sweep", during)):
        spread = [percentile(taken, p) * 1e3 for p in (50, 90, 99)]
        shown = " ".join(f"{ms:>7.2f}" for ms in (*spread, max(taken) * 1e3))
        print(f"  {name:<20} {len(taken):>8} {shown}")
    ratio = percentile(during, 99) / percentile(idle, 99)
    print(f"  p99: {ratio:.2f} x idle (goal {SLOWER:.0f}: {verdict(ratio <= SLOWER)})", flush=True)


# (d) Memory.


def memory(options: argparse.Namespace, stores: list[str]) -> None:
    crowd, plain = service_crowds(options)
    print(f"\n(d) memory of the router, MB; {crowd.size + plain.size} queues in the store")
    for kind in stores:
        progress(f"d: filling {kind}")
        with place(kind, crowd, plain) as found:
            progress("d: queues")
            with serving(found, journal=options.journal) as served:
                time.sleep(1)
                asyncio.run(print_touched(kind, served, plain))
            progress("d: sessions")
            with serving(found, journal=options.journal) as served:
                asyncio.run(print_idle(kind, served, options.sessions))


async def print_touched(kind: str, served: Served, plain: Crowd) -> None:
    rest = served.server.rss()
    async with subscribed(served.address, plain, plain.size, UNDER_WAY):
        held = served.server.rss()
    await asyncio.sleep(2)
    left = served.server.rss()
    print(
        f"{kind}: at rest {rest / MB:.1f} (goal {REST_BYTES / MB:.0f}:"
        f" {verdict(rest <= REST_BYTES)}); {plain.size} subscribed to {held / MB:.1f},"
        f" {(held - rest) / plain.size:.0f} bytes each; when their subscriber left {left / MB:.1f}"
        f" (goal {REST_BYTES / MB:.0f}: {verdict(left <= REST_BYTES)})",
        flush=True,
    )


async def print_idle(kind: str, served: Served, count: int) -> None:
    """Sessions that said one thing. Some come and go before, for what the first of all cost."""
    async with connected(served.address, WARM_UP) as clients:
        await ping(clients)
    await asyncio.sleep(1)
    before = served.server.rss()
    async with connected(served.address, count) as clients:
        await asyncio.sleep(1)
        greeted = (served.server.rss() - before) / count
        await ping(clients)
        await asyncio.sleep(1)
        spoken = (served.server.rss() - before) / count
    print(
        f"{kind}: {count} idle sessions, {greeted / 1e3:.1f} KB each after the handshake,"
        f" {spoken / 1e3:.1f} KB after a block (goal {SESSION_BYTES / 1e3:.0f}:"
        f" {verdict(spoken <= SESSION_BYTES)})",
        flush=True,
    )


# Telling.


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def percentile(taken: list[float], percent: int) -> float:
    return sorted(taken)[min(len(taken) - 1, len(taken) * percent // 100)]
