"""How much clients of other workers notice when one is killed, under load on all three wires.

    python -m tests.server.workers.stranger [SECONDS]

A stranger of each wire, on a worker that is never killed, asks for something again and again: a
PUBLISH that another of them hears, a SEND, a PUT. Half of the time another worker is killed every
two seconds. What is printed are percentiles of both halves, and their ratio. Nothing is asserted
about them: they are of this machine, as it is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis.asyncio

from tests.server.workers.test_durable_workers import (
    MORE,
    Ledger,
    bmq_client,
    load,
    smp_client,
)
from tests.support.resp_workers import Workers, started
from tests.support.smp_asking import OK

COUNT = 3
KILLED = 1
PAUSE_SECONDS = 0.005
BETWEEN_KILLS = 2.0
ROUNDS = 2
PUBLISHERS = 4

Ask = Callable[[], Awaitable[object]]


async def elsewhere(workers: Workers, wire: str, connect: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """A client that is on none of the workers that are killed."""
    while True:
        client = await connect()
        await asyncio.sleep(0.5)
        rows = workers.api(f"/api/v1/sessions?wire={wire}&sort=newest&limit=1")["rows"]
        if rows and rows[0]["worker"] not in (0, KILLED):
            return client
        close = client.close()
        if close is not None:
            await close


async def strangers(workers: Workers) -> dict[str, Ask]:
    """What one of each wire asks for."""
    port = workers.port
    subscriber = workers.client_on(2)
    assert subscriber.connection is not None
    subscriber.connection.send_command("SUBSCRIBE", "stranger")  # type: ignore[no-untyped-call]
    subscriber.connection.read_response()
    while True:
        publisher = redis.asyncio.Redis(port=port, single_connection_client=True)
        if int(await publisher.client_id()) % COUNT == 2:
            break
        await publisher.aclose()
    hearing = asyncio.get_running_loop()

    async def publish() -> None:
        assert subscriber.connection is not None
        await publisher.publish("stranger", "x")
        await hearing.run_in_executor(None, subscriber.connection.read_response)

    smp = await elsewhere(workers, "smp", lambda: smp_client(workers))
    queue = await smp.new_queue(subscribe=False)

    async def send() -> None:
        assert await smp.send(queue, b"x") == OK

    bmq = await elsewhere(workers, "bmq", lambda: bmq_client(workers))
    posting = await bmq.open("bmq://orders/stranger", read=False, write=True)
    return {"resp": publish, "smp": send, "bmq": lambda: posting.post(b"x")}


async def measure(ask: Ask, end: float) -> list[float]:
    found = []
    while time.monotonic() < end:
        began = time.perf_counter()
        await ask()
        found.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    return found


async def killing(workers: Workers, end: float, kills: list[float]) -> None:
    while time.monotonic() + BETWEEN_KILLS < end:
        await asyncio.sleep(BETWEEN_KILLS)
        with suppress(OSError, ValueError):
            os.kill(await asyncio.to_thread(workers.process_of, KILLED), signal.SIGKILL)
            kills.append(time.monotonic())


async def run(workers: Workers, seconds: float) -> None:
    asks = await strangers(workers)
    quiet: dict[str, list[float]] = {name: [] for name in asks}
    hit: dict[str, list[float]] = {name: [] for name in asks}
    kills: list[float] = []
    for _ in range(ROUNDS):
        for found, is_killing in ((quiet, False), (hit, True)):
            end = time.monotonic() + seconds / ROUNDS / 2
            jobs = [measure(ask, end) for ask in asks.values()]
            fate = killing(workers, end, kills) if is_killing else asyncio.sleep(0)
            times, _ = await asyncio.gather(asyncio.gather(*jobs), fate)
            for name, some in zip(asks, times, strict=True):
                found[name] += some
    print(f"{len(kills)} kills of worker {KILLED} of {COUNT}, load {os.getloadavg()[0]:.1f}")
    for name in asks:
        before, after = ends(quiet[name]), ends(hit[name])
        print(
            f"{name}: {len(quiet[name])} and {len(hit[name])} asked; ms p50, p99, most without"
            f" {show(before)} and with kills {show(after)}: p99 {after[1] / before[1]:.2f}"
        )


def ends(times: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(times, n=100)
    return cuts[49], cuts[98], max(times)


def show(found: tuple[float, ...]) -> str:
    return " ".join(f"{1e3 * each:.1f}" for each in found)


async def bear(workers: Workers) -> None:
    """The load, in a process of its own, until it is ended; what it lost is an error."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def publish() -> None:
        while True:
            with suppress(redis.ConnectionError, OSError):
                async with redis.asyncio.Redis(port=workers.port) as client:
                    while True:
                        await client.publish("load", "x" * 100)
            await asyncio.sleep(0.05)

    publishing = [asyncio.create_task(publish()) for _ in range(PUBLISHERS)]
    ledger = Ledger()
    async with load(workers, ledger):
        await stop.wait()
        for task in publishing:
            task.cancel()
    print(f"{len(ledger.smp)} SENDs and {len(ledger.bmq)} PUTs accepted, none lost or doubled")


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        workers = Workers(Path(sys.argv[2]), None, COUNT)  # type: ignore[arg-type]
        asyncio.run(bear(workers))
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), COUNT, more=MORE) as workers,
    ):
        line = [sys.executable, "-m", "tests.server.workers.stranger", "load", folder]
        bearing = subprocess.Popen(line)
        try:
            asyncio.run(run(workers, seconds))
        finally:
            bearing.send_signal(signal.SIGTERM)
            code = bearing.wait()
        print("nothing lost" if not code else f"the load failed with {code}")


if __name__ == "__main__":
    main()
