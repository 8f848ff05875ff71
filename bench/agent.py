"""The agent: what many queues, many messages and a slow application cost it.

    make bench-agent                                     all of it, at full size
    python -m bench.agent --only b                       one part
    python -m bench.agent --queues 2000 --messages 500 --waiting 1000 --seconds 5

(a) From `Agent.open` until 100,000 queues at one router are active, and until a service of as many
    is up.
(b) Messages received, stored and acknowledged, of one queue and of 100, and where the time goes.
(c) An application that reads a message every 10 ms while 20,000 wait for it.
(d) A ratchet: encrypting and decrypting, in a chain and with a turn of the conversation each time.

Router and agent are processes of their own, the router on one core and the agent on the other.
Both write to the disk: the router's store and the agent's file are SQLite and durable. Messages are
in the router's store before the agent is opened. Bodies are 15,000 bytes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agent_records import BODY, fill_agent, put_messages
from bench.queues_router import Served, serving
from bench.queues_services import MB, progress
from bench.queues_store import Crowd, Place, hashed, place, sync_us
from bench.servers import describe
from headgate.crypto.ratchet_keys import PrivatePair
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, answer_ratchet, join_ratchet
from headgate.wire.smp.agent.skipped_keys import SkippedKeys
from headgate.wire.smp.codec.router_address import RouterAddress

SINGLE_S, SINGLE_BYTES = 60.0, 300 * MB
SERVICE_S = 1.0
SLOW_BYTES = 150 * MB
PROFILE_ROWS = 12
RATCHET_BYTES = 56
RATCHET_PADDED = 15_840
RATCHET_ROUNDS = 2_000


@dataclass(frozen=True, slots=True)
class Ran:
    """What the agent and the router took."""

    agent: Mapping[str, Any]
    router_cpu_s: float
    router_rss: int
    statements: int
    """Of the router's store."""


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    print(describe())
    print(
        f"a small write takes {sync_us():.0f} us to be on this disk; bodies of {len(BODY)} bytes;"
        f" medians of {options.rounds} rounds"
    )
    parts = {"a": starts, "b": messages, "c": slow, "d": ratchets}
    for name, part in parts.items():
        if options.only in (None, name):
            part(options)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.agent", None, __doc__, formatter_class=shown)
    parser.add_argument("--queues", type=int, default=100_000, metavar="N", help="of part a")
    parser.add_argument("--messages", type=int, default=4_000, metavar="N", help="of part b")
    parser.add_argument("--waiting", type=int, default=20_000, metavar="N", help="of part c")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="of part c")
    parser.add_argument("--only", choices=["a", "b", "c", "d"])
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    return parser.parse_args(arguments)


@contextmanager
def prepared(crowd: Crowd, each: int = 0) -> Iterator[tuple[Place, Path]]:
    """A router's store with the crowd and so many messages in each queue, and an agent's file."""
    with place("sqlite", crowd) as found:
        if each:
            put_messages(found, crowd, each)
        with serving(found) as served:  # its identity is made at its first start
            address = address_of(served)
        path = found.folder / "agent.db"
        fill_agent(path, address, crowd, found.service)
        yield found, path


def address_of(served: Served) -> RouterAddress:
    host, port, fingerprint = served.address
    return RouterAddress((host,), port, fingerprint)


def run(found: Place, path: Path, *arguments: str) -> Ran:
    """An agent over a copy of the file, with a fresh router over a copy of the store."""
    with copied(found, path) as (router, own), serving(router) as served:
        move(own, address_of(served))
        (statements, _), cpu = served.counts(), served.server.cpu_ns()
        line = [sys.executable, "-m", "bench.agent_run", *arguments, str(own)]
        done = subprocess.run(
            line, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=True
        )
        return Ran(
            json.loads(done.stdout),
            (served.server.cpu_ns() - cpu) / 1e9,
            served.server.rss(),
            served.counts()[0] - statements,
        )


@contextmanager
def copied(found: Place, path: Path) -> Iterator[tuple[Place, Path]]:
    """What a round may change."""
    folder = found.folder / "round"
    folder.mkdir()
    try:
        shutil.copytree(found.folder / "identity", folder / "identity")
        for file in found.folder.glob("queues.db*"):
            shutil.copy(file, folder)
        url = f"sqlite:{folder / 'queues.db'}"
        own = folder / "own" / path.name
        own.parent.mkdir()
        shutil.copy(path, own)
        yield Place(found.kind, url, folder, None, found.service), own
    finally:
        shutil.rmtree(folder)


def move(path: Path, address: RouterAddress) -> None:
    """The router has another port each time."""
    with sqlite3.connect(path) as file:
        file.execute("UPDATE routers SET port = ?, written_port = ?", [address.port] * 2)
    file.close()


def middle(runs: Sequence[Ran], name: str) -> float:
    return float(statistics.median(run.agent[name] for run in runs))


# (a) Many queues.


def starts(options: argparse.Namespace) -> None:
    print(f"\n(a) {options.queues} queues of one agent at one router, from `Agent.open` on;")
    print(f"    goals: single under {SINGLE_S:.0f} s and {SINGLE_BYTES / MB:.0f} MB, service under")
    print(f"    {SERVICE_S:.0f} s; more: peak of memory above that of the imported program")
    print(
        f"{'how':<9} {'seconds':>8} {'agent CPU s':>11} {'router CPU s':>12} {'peak MB':>8}"
        f" {'more MB':>8} {'router MB':>9} {'blocks':>7} {'statements':>10} {'router st.':>10}"
    )
    single = Crowd("single", options.queues)
    service = Crowd("service", options.queues, shares_key=True, has_service=True)
    for name, crowd in (("single", single), ("service", service)):
        progress(f"a: filling {name}")
        with prepared(crowd) as (found, path):
            given = ["start", "--count", str(crowd.size)]
            if crowd.has_service:
                given.append("--services")
            runs = []
            for number in range(options.rounds):
                progress(f"a: {name}, {number + 1}")
                runs.append(run(found, path, *given))
        cpu = statistics.median(each.router_cpu_s for each in runs)
        rss = statistics.median(each.router_rss for each in runs)
        statements = statistics.median(each.statements for each in runs)
        print(
            f"{name:<9} {middle(runs, 'seconds'):>8.2f} {middle(runs, 'cpu_s'):>11.2f}"
            f" {cpu:>12.2f} {middle(runs, 'peak') / MB:>8.0f} {middle(runs, 'more') / MB:>8.0f}"
            f" {rss / MB:>9.0f} {middle(runs, 'blocks'):>7.0f} {middle(runs, 'statements'):>10.0f}"
            f" {statements:>10.0f}",
            flush=True,
        )


# (b) Messages.


def messages(options: argparse.Namespace) -> None:
    print(f"\n(b) {options.messages} messages received, stored, shown and acknowledged;")
    print("    us: CPU for each message; a message: statements and commits of the agent's file")
    print(
        f"{'queues':>6} {'acknowledged':<18} {'a second':>9} {'agent us':>9} {'router us':>9}"
        f" {'statements':>10} {'commits':>8} {'more MB':>8}"
    )
    profiles = []
    for queues in (1, 100):
        crowd = Crowd("mail", queues)
        each = max(1, options.messages // queues)
        progress(f"b: filling {queues}")
        with prepared(crowd, each) as (found, path):
            count = each * queues
            for name, how in (("one by one", []), ("without waiting", ["--together"])):
                given = ["receive", "--count", str(count), *how]
                progress(f"b: {queues} queues, {name}")
                runs = [run(found, path, *given) for _ in range(options.rounds)]
                router = statistics.median(each.router_cpu_s for each in runs) / count * 1e6
                print(
                    f"{queues:>6} {name:<18} {count / middle(runs, 'seconds'):>9.0f}"
                    f" {middle(runs, 'cpu_s') / count * 1e6:>9.0f} {router:>9.0f}"
                    f" {middle(runs, 'statements') / count:>10.2f}"
                    f" {middle(runs, 'commits') / count:>8.2f}"
                    f" {middle(runs, 'more') / MB:>8.0f}",
                    flush=True,
                )
                samples = found.folder / "samples.json"
                run(found, path, *given, "--samples", str(samples))
                profiles.append((f"{queues} queues, {name}", count, samples.read_text()))
    for name, count, text in profiles:
        print(f"\n{name}, where the agent's CPU goes:\n{profile(json.loads(text), count)}")


def profile(seen: Mapping[str, Any], count: int) -> str:
    whole = sum(seen["groups"].values())
    lines = []
    for head, rows in (("by group", seen["groups"]), ("by function", seen["functions"])):
        lines.append(f"  {'share':>6} {'us/message':>10}  {head}")
        for name, spent in sorted(rows.items(), key=lambda row: -row[1])[:PROFILE_ROWS]:
            lines.append(f"  {spent / whole:>6.1%} {spent / count * 1e6:>10.1f}  {name}")
    return "\n".join(lines)


# (c) An application that is slow.


def slow(options: argparse.Namespace) -> None:
    print(f"\n(c) {options.waiting} messages of as many queues, one read every 10 ms for")
    print(f"    {options.seconds:.0f} s; goal: at most {SLOW_BYTES / MB:.0f} MB more, no loss")
    crowd = Crowd("slow", options.waiting)
    progress("c: filling")
    with prepared(crowd, 1) as (found, path):
        progress("c: reading")
        seen = run(found, path, "slow", "--seconds", str(options.seconds)).agent
    print(
        f"    {seen['read']} read, {seen['waiting']} stored and waiting, {seen['bodies']} bodies in"
        f" memory, {seen['more'] / MB:.0f} MB more, {seen['cpu_s']:.1f} s of CPU, {seen['downs']}"
        f" losses;\n    {seen['pings']} PINGs in the session were answered, p50"
        f" {seen['ping_p50_s'] * 1e3:.0f} ms, p99 {seen['ping_p99_s'] * 1e3:.0f} ms",
        flush=True,
    )


# (d) The ratchet.


def ratchets(options: argparse.Namespace) -> None:
    def drawn(name: str) -> bytes:
        return hashed(RATCHET_BYTES, "ratchet", name)

    offered = OfferedKeys(PrivatePair(drawn("a1"), drawn("a2")))
    keys = PrivatePair(drawn("b1"), drawn("b2"))
    joined = join_ratchet(offered.offer(), keys, drawn("b3"))
    theirs, ours = joined.ratchet, answer_ratchet(offered, joined.parameters)
    none = SkippedKeys()

    def chain() -> None:
        nonlocal theirs, ours
        theirs, message = theirs.encrypt(BODY, RATCHET_PADDED)
        ours = ours.decrypt(none, message, drawn("fresh")).ratchet

    def turn() -> None:
        nonlocal theirs, ours
        chain()
        ours, message = ours.encrypt(BODY, RATCHET_PADDED)
        theirs = theirs.decrypt(none, message, drawn("fresh")).ratchet

    print("\n(d) encrypt and decrypt a message of a connection, without a KEM")
    for name, step, count, sealed in (
        ("in a chain", chain, RATCHET_ROUNDS, 1),
        ("with a turn each time", turn, RATCHET_ROUNDS // 10, 2),
    ):
        rates = []
        for _ in range(options.rounds):
            began = time.process_time()
            for _ in range(count):
                step()
            rates.append(count * sealed / (time.process_time() - began))
        rate = statistics.median(rates)
        print(f"    {name:<22} {rate:>8.0f} messages/s {1e6 / rate:>8.0f} us", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
