"""The long counts of failovers: owners of a database that are killed and stopped, in rounds."""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from headgate.testing.postgres import PostgresCluster
from tests.crash.failover import KILL, STOP, Failover, Failovers
from tests.crash.failover_bmq import run as run_bmq
from tests.crash.smp import Round

LIFE = 6
"""Failovers after which a queue of BlazingMQ's wire is read to its end."""

SMP = """\
| what | result |
|---|---|
| failovers between two routers on PostgreSQL, under load over TLS | {rounds} |
| first seed | {seed} |
| owners killed: seconds until the other one served, median, 99 of 100, most | {kills} |
| owners stopped, `owner_timeout` 3 s: the same | {stops} |
| SENDs answered with OK | {taken} |
| ACKs answered | {acks} |
| requests that were cut off | {cut_off} |
| answers of an owner that went on after it was stopped | {late} |
| messages read after a failover | {drained} |
| differences between answers, deliveries, store, tallies and the facts of both journals | {wrong} |
| seconds | {seconds:.0f} |

In turns the owner is killed, and stopped with SIGSTOP, at a drawn moment. When the other router
serves, the store is looked into; who was stopped goes on with its clients still connected, and must
neither answer what is not so nor change the store. Then clients and the load of the next round are
at the new owner. In the end the facts of both journals together tell what the store has. CI runs 3
failovers.
"""

BMQ = """\
| what | result |
|---|---|
| failovers of two routers behind one address, under clients of BlazingMQ's SDK | {rounds} |
| first seed | {seed} |
| owners killed: seconds until the other one served, median, 99 of 100, most | {kills} |
| owners stopped, `owner_timeout` 3 s: the same | {stops} |
| messages posted and acknowledged in the end | {posted} |
| of which so many were acknowledged before their owner failed | {acked} |
| messages lost, doubled, poisoned or out of order, by app | {wrong} |
| seconds | {seconds:.0f} |

As with kills of one router; and a message that is given back once is given to nobody any more
(`max_delivery_attempts = 1`), which a failover must not count as. CI runs 2 failovers.
"""


def fail_over_smp(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, PostgresCluster(fsync=False) as cluster:
        url = cluster.url(cluster.create_database())
        played, last = asyncio.run(_play(Failovers(Path(folder), url), rounds, seed))
    wrong = sum(len(one.wrong) for one in (*played, last))
    counts = {
        name: sum(getattr(one, name) for one in played)
        for name in ("taken", "acks", "cut_off", "late", "drained")
    }
    told = SMP.format(
        rounds=len(played),
        seed=seed,
        kills=_shown(one.seconds for one in played if one.how == KILL),
        stops=_shown(one.seconds for one in played if one.how == STOP),
        wrong=wrong,
        seconds=time.monotonic() - began,
        **counts,
    )
    return told, not wrong


async def _play(failovers: Failovers, rounds: int, seed: int) -> tuple[list[Failover], Round]:
    played = []
    try:
        await failovers.pair.start()
        for number in range(rounds):
            result = await failovers.play(seed + number, (KILL, STOP)[number % 2])
            played.append(result)
            for line in result.wrong:
                print(line, file=sys.stderr)
            print(f"failover {number + 1}/{rounds} seed {seed + number}: {result}", file=sys.stderr)
        last = await failovers.finish(seed)
        for line in last.wrong:
            print(line, file=sys.stderr)
    finally:
        failovers.pair.kill()
    return played, last


def fail_over_bmq(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    results, seconds = [], []
    with PostgresCluster(fsync=False) as cluster:
        for first in range(0, rounds, LIFE):
            with tempfile.TemporaryDirectory() as folder:
                url = cluster.url(cluster.create_database())
                many = min(LIFE, rounds - first)
                result, routers = asyncio.run(run_bmq(Path(folder), url, many, seed + first))
            results.append(result)
            seconds += routers.seconds
            for line in result.wrong:
                print(line, file=sys.stderr)
            print(f"BlazingMQ failovers {first + many}/{rounds}: {result}", file=sys.stderr)
    wrong = sum(len(result.wrong) for result in results)
    told = BMQ.format(
        rounds=rounds,
        seed=seed,
        kills=_shown(taken for how, taken in seconds if how == KILL),
        stops=_shown(taken for how, taken in seconds if how == STOP),
        posted=sum(len(result.posted) for result in results),
        acked=sum(sum(result.acked_at_kills) for result in results),
        wrong=wrong,
        seconds=time.monotonic() - began,
    )
    return told, not wrong


def _shown(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    if not found:
        return "none"
    nearly_all = found[math.ceil(len(found) * 0.99) - 1]
    return f"{median(found):.2f}, {nearly_all:.2f}, {found[-1]:.2f}"
