"""Somebody whose queue has nothing to do with what else the router is at, in a process of its own.

Run by `bench.queues`: a message is sent and read every few milliseconds, until standard input is
closed; then when each was sent and how long it took, by the clock that processes share, is
printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.queues_load import Address, pairs
from bench.queues_store import Crowd

PAUSE_SECONDS = 0.005
START_SECONDS = 20.0
READY = "ready"


class Probe:
    """The end of it that stays here."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def stop(self) -> list[tuple[float, float]]:
        """When each message was sent, and how many seconds later it was there."""
        output, _ = self._process.communicate("", START_SECONDS)
        seen: list[list[float]] = json.loads(output)
        return [(at, took) for at, took in seen]


@contextmanager
def probing(address: Address, crowd: Crowd) -> Iterator[Probe]:
    host, port, fingerprint = address
    given = [host, str(port), fingerprint.hex(), crowd.name, str(crowd.size)]
    with subprocess.Popen(
        [sys.executable, "-m", "bench.queues_probe", *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        text=True,
    ) as process:
        try:
            assert process.stdout is not None, "a pipe was asked for"
            assert process.stdout.readline().strip() == READY, "the probe did not start"
            yield Probe(process)
        finally:
            process.kill()


async def main(host: str, port: str, fingerprint: str, name: str, size: str) -> None:
    crowd = Crowd(name, int(size), shares_key=True)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with pairs((host, int(port), bytes.fromhex(fingerprint)), crowd, 1) as (pair,):
        print(READY, flush=True)
        while not ended.done():
            await pair.cycle()
            await asyncio.sleep(PAUSE_SECONDS)
    print(json.dumps(list(zip(pair.began_at, pair.arrived_s, strict=True))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
