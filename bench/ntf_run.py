"""The notification server that is measured, in a process of its own: run by `bench.ntf`, not by
hand.

What it is to do is in the arguments, and what it took is printed as JSON. `serve` prints `ready`
first, and works until its input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.ntf_records import number_of
from bench.queues_sampled import Groups, Sampler
from bench.queues_services import percentile
from bench.servers import Server
from headgate.agent.engine.engine import SlotStatus
from headgate.notify.outcomes import Delivered, PushOutcome
from headgate.notify.push_content import Push
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.pushing.turns import PushKind
from headgate.ntf_server.records import Tables
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from headgate.wire.ntf.devices import ApnsDevice, Device, Provider

LOOK_SECONDS = 0.02
METADATA_BYTES = 144
"""Of what a router seals."""

NTF_GROUPS: Final[Groups] = (
    ("client/smp/outgoing.py", "", "signing and encoding requests"),
    ("client/smp/session_keys.py", "", "signing and encoding requests"),
    ("client/smp/recipient.py", "", "signing and encoding requests"),
    ("ntf_server/routers/keys.py", "", "keys"),
    ("wire/smp/codec/ciphers.py", "", "sealing and opening blocks"),
    ("crypto/box.py", "BlockCipher", "sealing and opening blocks"),
    ("notify/push_content.py", "", "sealing pushes"),
    ("headgate/wire/", "", "parsing answers"),
    ("client/smp/", "", "the link"),
    ("agent/engine/", "", "the engine"),
    ("ntf_server/records/", "", "records, this side"),
    ("store/writer.py", "", "records, this side"),
    ("agent/record_line.py", "", "records, this side"),
    ("ntf_server/routers/intake.py", "", "notices in"),
    ("ntf_server/pushing/", "", "the queue of pushes"),
    ("headgate/agent/", "", "the shell"),
    ("ntf_server/routers/", "", "the shell"),
    ("/ssl.py", "", "TLS and sockets"),
    ("asyncio/sslproto.py", "", "TLS and sockets"),
    ("asyncio/selector_events.py", "", "TLS and sockets"),
    ("/asyncio/", "", "asyncio"),
    ("selectors.py", "", "asyncio"),
)


class TimedProvider:
    """Takes every push, and notes how long the notices of its token had waited."""

    def __init__(self) -> None:
        self.waiting: dict[int, float] = {}
        """When the first notice of a device came that was in no push."""
        self.took: list[float] = []
        self.pushes = 0

    async def push(self, device: Device, push: Push) -> PushOutcome:
        assert isinstance(device, ApnsDevice), "devices of the benchmark"
        self.pushes += 1
        came = self.waiting.pop(number_of(device), None)
        if came is not None:
            self.took.append(time.perf_counter() - came)
        return Delivered()

    async def close(self) -> None:
        pass


class Measure:
    """What this process took from here on."""

    def __init__(self) -> None:
        self._own = Server("ntf", os.getpid(), "", 0)
        self._own.forget_peak()
        self._rss = self._own.rss()
        self._began = time.perf_counter()
        self._cpu = time.process_time()

    def taken(self) -> dict[str, float]:
        return {
            "seconds": time.perf_counter() - self._began,
            "cpu_s": time.process_time() - self._cpu,
            "peak": self._own.peak_rss(),
            "more": self._own.peak_rss() - self._rss,
        }


@asynccontextmanager
async def opened(options: argparse.Namespace, provider: TimedProvider) -> AsyncIterator[NtfServer]:
    folder = options.folder
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    settings = NtfSettings(
        port=0,
        services=options.services,
        trust_tally=options.trust_tally,
        apps=AppSettings(providers=frozenset({Provider.APNS_TEST})),
    )
    providers = {Provider.APNS_TEST: provider}
    async with await NtfServer.open(NtfHost(), identity, folder, settings, providers) as server:
        yield server


def has(status: list[SlotStatus], count: int) -> bool:
    """Whether so many are confirmed by routers, one by one or as part of services."""
    is_busy = any(slot.pending or slot.is_reading for slot in status)
    found = sum(slot.active + slot.tally.count for slot in status)
    return not is_busy and found >= count


async def active(server: NtfServer, count: int) -> None:
    engine = server.notifiers._engine
    while not has(server.notifiers.status(), count) or engine.is_busy():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    await server.records.read(_nothing)


def _nothing(tables: Tables) -> None:
    """What was to be written before it is written."""


async def start(options: argparse.Namespace) -> dict[str, float]:
    """Open the server, until all its subscriptions are active."""
    sampler = sampling(options)
    measure = Measure()
    async with opened(options, TimedProvider()) as server:
        await active(server, options.count)
        found = measure.taken()
        found["statements"] = server.records.statements
        found["commits"] = server.records.commits
        finish(sampler)
    return found


async def serve(options: argparse.Namespace) -> dict[str, float]:
    """Push what routers send, and note how long it takes."""
    provider = TimedProvider()
    async with opened(options, provider) as server:
        take, names = server.intake.take, await server.records.read(_owners)

        def timed(router: RouterNumber, notice: RouterNotice) -> None:
            provider.waiting.setdefault(names[notice.notifier], time.perf_counter())
            take(router, notice)

        server.notifiers._took = timed
        await active(server, options.count)
        print("ready", flush=True)
        measure = Measure()
        before = server.records.statements, server.records.commits
        await asyncio.to_thread(sys.stdin.read)
        found = measure.taken()
        found["statements"] = server.records.statements - before[0]
        found["commits"] = server.records.commits - before[1]
    return found | {
        "pushes": provider.pushes,
        "p50_s": percentile(provider.took, 50),
        "p99_s": percentile(provider.took, 99),
    }


def _owners(tables: Tables) -> dict[bytes, int]:
    rows = tables.ask(
        "SELECT s.notifier, t.device FROM subscriptions AS s JOIN tokens AS t ON t.id = s.token"
    )
    return {notifier: int(device[3:]) for notifier, device in rows}


async def flood(options: argparse.Namespace) -> dict[str, float]:
    """A notice of each device at once, until all were pushed."""
    provider = TimedProvider()
    async with opened(options, provider) as server:
        await active(server, options.count)
        rows = await server.records.read(_first_of_each)
        before = server.records.statements, server.records.commits
        sampler = sampling(options)
        measure = Measure()
        for router, notifier in rows:
            sealed = secrets.token_bytes(METADATA_BYTES)
            server.intake.take(router, RouterNotice(notifier, 1, bytes(24), sealed))
        while provider.pushes < len(rows):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        await server.records.read(_nothing)
        found = measure.taken()
        found["statements"] = server.records.statements - before[0]
        found["commits"] = server.records.commits - before[1]
        finish(sampler)
        outcomes = server.pusher.outcomes
        delivered = outcomes[Provider.APNS_TEST, PushKind.NOTICES, "delivered"]
        assert delivered >= len(rows) - len(server.pusher), outcomes
    return found | {"pushes": len(rows)}


def _first_of_each(tables: Tables) -> list[tuple[RouterNumber, bytes]]:
    rows = tables.ask("SELECT router, min(notifier) FROM subscriptions GROUP BY token, router")
    return [(router, notifier) for router, notifier in rows]


def sampling(options: argparse.Namespace) -> Sampler | None:
    if options.samples is None:
        return None
    sampler = Sampler(options.samples, NTF_GROUPS)
    signal.signal(signal.SIGALRM, sampler.look)
    sampler.toggle(0, None)
    return sampler


def finish(sampler: Sampler | None) -> None:
    if sampler is not None:
        sampler.toggle(0, None)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.ntf_run")
    parser.add_argument("what", choices=["start", "serve", "flood"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--services", action="store_true")
    parser.add_argument("--trust-tally", action="store_true")
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args(arguments)
    does: dict[str, Any] = {"start": start, "serve": serve, "flood": flood}
    print(json.dumps(asyncio.run(does[options.what](options))))


if __name__ == "__main__":
    main(sys.argv[1:])
