"""The agent that is measured, in a process of its own: run by `bench.agent`, not by hand.

What it is to do is in the arguments, and what it took is printed as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.queues_sampled import Groups, Sampler
from bench.queues_services import percentile
from bench.servers import Server
from headgate.agent import Agent, Down, Message, ServiceUp, Up
from headgate.client.smp.link import Link
from headgate.client.smp.requests import ping
from headgate.wire.smp.codec.replies import Pong

ROUTER = 1
"""The only one that the file has."""

PING_SECONDS = 0.1
"""Between two PINGs of `slow`."""

AGENT_GROUPS: Final[Groups] = (
    ("client/smp/outgoing.py", "", "signing and encoding requests"),
    ("client/smp/session_keys.py", "", "signing and encoding requests"),
    ("client/smp/recipient.py", "", "signing and encoding requests"),
    ("agent/stored_keys.py", "", "keys"),
    ("crypto/box.py", "", "sealing and opening blocks"),
    ("wire/smp/codec/ciphers.py", "", "sealing and opening blocks"),
    ("headgate/wire/", "", "parsing answers"),
    ("client/smp/", "", "the link"),
    ("agent/engine/", "", "the engine"),
    ("agent/records/", "", "records, this side"),
    ("agent/record_line.py", "", "records, this side"),
    ("agent/receiving.py", "", "receiving"),
    ("agent/acknowledging.py", "", "acknowledging"),
    ("headgate/agent/", "", "the rest of the agent"),
    ("/ssl.py", "", "TLS and sockets"),
    ("asyncio/sslproto.py", "", "TLS and sockets"),
    ("asyncio/selector_events.py", "", "TLS and sockets"),
    ("/asyncio/", "", "asyncio"),
    ("selectors.py", "", "asyncio"),
)


class Measure:
    """What this process took from here on."""

    def __init__(self) -> None:
        self._own = Server("agent", os.getpid(), "", 0)
        self._own.forget_peak()
        self._rss = self._own.rss()
        self._began = time.perf_counter()
        self._cpu = time.process_time()

    def taken(self, agent: Agent) -> dict[str, float]:
        records = agent._records
        return {
            "seconds": time.perf_counter() - self._began,
            "cpu_s": time.process_time() - self._cpu,
            "peak": self._own.peak_rss(),
            "more": self._own.peak_rss() - self._rss,
            "statements": records.statements,
            "commits": records.commits,
        }


def count_blocks(counts: Counter[str]) -> None:
    """Have links count what they write."""
    put: Callable[..., Any] = Link._put

    def counting(link: Link, *arguments: Any) -> Any:  # noqa: ANN401
        counts["blocks"] += 1
        return put(link, *arguments)

    setattr(Link, "_put", counting)  # noqa: B010


async def start(options: argparse.Namespace) -> dict[str, float]:
    """Open the agent, until all its queues are up or its service is."""
    counts: Counter[str] = Counter()
    count_blocks(counts)
    measure = Measure()
    up = 0
    async with Agent.open(options.path, services=options.services) as agent:
        opened = time.perf_counter() - measure._began
        async for event in agent.events():
            match event:
                case Up(connections=some):
                    up += len(some)
                case ServiceUp(drift=drift):
                    assert drift is None, "the service has its queues"
            if up == options.count or isinstance(event, ServiceUp):
                break
        return measure.taken(agent) | {"opened_s": opened, "blocks": counts["blocks"]}


async def receive(options: argparse.Namespace) -> dict[str, Any]:
    """Read so many messages, and acknowledge each."""
    sampler = None
    if options.samples is not None:
        sampler = Sampler(options.samples, AGENT_GROUPS)
        signal.signal(signal.SIGALRM, sampler.look)
        sampler.toggle(0, None)
    acking: set[asyncio.Task[None]] = set()
    async with Agent.open(options.path) as agent:
        measure, left = None, options.count
        async for event in agent.events():
            if not isinstance(event, Message):
                continue
            if measure is None:
                measure = Measure()
                before = agent._records.statements, agent._records.commits
            if options.together:
                task = asyncio.create_task(event.ack())
                acking.add(task)
                task.add_done_callback(acking.discard)
            else:
                await event.ack()
            left -= 1
            if not left:
                break
        await asyncio.gather(*acking)
        assert measure is not None, "messages came"
        found = measure.taken(agent)
        found["statements"] -= before[0]
        found["commits"] -= before[1]
        if sampler is not None:
            sampler.toggle(0, None)
        return found


async def slow(options: argparse.Namespace) -> dict[str, float]:
    """Read one message each few milliseconds, while all the others wait."""
    measure, read, downs = Measure(), 0, 0
    async with Agent.open(options.path) as agent:
        pings: list[float] = []
        pinging = asyncio.create_task(ping_on(agent, pings))
        end = time.perf_counter() + options.seconds
        async for event in agent.events():
            if time.perf_counter() > end:
                break
            downs += isinstance(event, Down)
            if isinstance(event, Message):
                await event.ack()
                read += 1
                await asyncio.sleep(options.pause)
        pinging.cancel()
        bodies = agent._receiving.bodies.count
        stored = await agent._records.read(
            lambda tables: tables.one("SELECT count(*) FROM received WHERE acked = 0")
        )
        assert stored is not None, "a count"
        found = measure.taken(agent)
        return found | {
            "read": read,
            "downs": downs,
            "pings": len(pings),
            "ping_p50_s": percentile(pings, 50),
            "ping_p99_s": percentile(pings, 99),
            "bodies": bodies,
            "waiting": stored[0],
        }


async def ping_on(agent: Agent, took: list[float]) -> None:
    """What an answer takes in the session that brings the messages."""
    while True:
        began = time.perf_counter()
        _, (answer,) = await agent._shell.ask(agent.user, ROUTER, None, [ping()])
        assert answer == Pong(), "the session goes on"
        took.append(time.perf_counter() - began)
        await asyncio.sleep(PING_SECONDS)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.agent_run")
    parser.add_argument("what", choices=["start", "receive", "slow"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--services", action="store_true")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pause", type=float, default=0.01)
    options = parser.parse_args(arguments)
    does = {"start": start, "receive": receive, "slow": slow}
    print(json.dumps(asyncio.run(does[options.what](options))))


if __name__ == "__main__":
    main(sys.argv[1:])
