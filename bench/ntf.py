"""The notification server: what many subscriptions and many notices cost it.

    make bench-ntf                                       all of it, at full size
    python -m bench.ntf --only b                         one part
    python -m bench.ntf --subscriptions 3000 --seconds 5

(a) From the start until 100,000 subscriptions of 10,000 devices at three routers are active: one by
    one, for the first time as a service, as a service again, and with a tally that is trusted. The
    same with a tenth of them: what each costs must not grow with their number.
(b) From NMSG to push at 100 messages a second, with a provider that takes everything at once.
(c) Pushes a second: a notice of every device at once.

Three routers and the server are processes of their own, the routers on one core and the server on
the other. All write to the disk: the stores are SQLite and durable.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agent import address_of, profile
from bench.ntf_records import OF_A_TOKEN, WatchedCrowd, fill
from bench.queues_router import Served, serving
from bench.queues_services import MB, progress
from bench.queues_store import place, sync_us
from bench.servers import describe
from headgate.client.smp import requests
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec.replies import Ok

ROOT = Path(__file__).parents[1]
ROUTERS = 3
RATE = 100
"""Messages a second of part b."""
BODY = bytes(1000)


@dataclass(frozen=True)
class Scene:
    """Routers that run, and a server's folder with subscriptions at them."""

    served: Sequence[tuple[Served, WatchedCrowd]]
    folder: Path

    @property
    def count(self) -> int:
        return sum(crowd.size for _, crowd in self.served)

    def router_cpu_s(self) -> float:
        return sum(served.server.cpu_ns() for served, _ in self.served) / 1e9

    def line(self, what: str, *options: str) -> list[str]:
        program = [sys.executable, "-m", "bench.ntf_run", what, str(self.folder)]
        return [*program, "--count", str(self.count), *options]

    def run(self, what: str, *options: str) -> Mapping[str, Any]:
        before = self.router_cpu_s()
        done = subprocess.run(
            self.line(what, *options), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"router_cpu_s": self.router_cpu_s() - before}

    def profile(self, what: str, *options: str) -> str:
        samples = self.folder / "samples.json"
        found = self.run(what, *options, "--samples", str(samples))
        count = int(found.get("pushes", self.count))
        return profile(json.loads(samples.read_text()), count)


@contextmanager
def scene(subscriptions: int) -> Iterator[Scene]:
    each = subscriptions // ROUTERS // OF_A_TOKEN * OF_A_TOKEN
    with ExitStack() as stack:
        served = []
        folder = None
        for number in range(ROUTERS):
            progress(f"filling router {number + 1}")
            crowd = WatchedCrowd(f"watched {number}", each, shares_key=True)
            found = stack.enter_context(place("sqlite", crowd))
            served.append((stack.enter_context(serving(found)), crowd))
            folder = folder or found.folder / "server"
        assert folder is not None, "there are routers"
        folder.mkdir(mode=0o700)
        progress("filling the server")
        fill(folder, [(address_of(router), crowd) for router, crowd in served])
        yield Scene(served, folder)


def main(arguments: Sequence[str]) -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.ntf", None, __doc__, formatter_class=shown)
    parser.add_argument("--subscriptions", type=int, default=100_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="of part b")
    parser.add_argument("--only", choices=["a", "b", "c"])
    options = parser.parse_args(arguments)
    print(describe())
    print(f"a small write takes {sync_us():.0f} us to be on this disk")
    parts = {"a": starts, "b": latency, "c": pushes}
    for size in (options.subscriptions // 10, options.subscriptions):
        with scene(size) as found:
            print(f"\n{found.count} subscriptions of {found.count // OF_A_TOKEN} devices")
            for name, part in parts.items():
                if options.only in (None, name):
                    part(found, options)


def starts(found: Scene, options: argparse.Namespace) -> None:
    print("(a) from the start until all are active; us: CPU for each; more: memory above that of")
    print("    the imported program")
    print(
        f"{'how':<16} {'seconds':>8} {'CPU s':>7} {'us':>6} {'routers CPU s':>13} {'peak MB':>8}"
        f" {'more MB':>8} {'statements':>10} {'commits':>8}"
    )
    for name, given in (
        ("one by one", []),
        ("service, first", ["--services"]),
        ("service, again", ["--services"]),
        ("tally trusted", ["--services", "--trust-tally"]),
    ):
        progress(f"a: {name}")
        seen = found.run("start", *given)
        print(
            f"{name:<16} {seen['seconds']:>8.2f} {seen['cpu_s']:>7.2f}"
            f" {seen['cpu_s'] / found.count * 1e6:>6.0f} {seen['router_cpu_s']:>13.2f}"
            f" {seen['peak'] / MB:>8.0f} {seen['more'] / MB:>8.0f} {seen['statements']:>10}"
            f" {seen['commits']:>8}",
            flush=True,
        )
    progress("a: profile")
    print(f"\nservice, again, where the CPU goes:\n{found.profile('start', '--services')}\n")


def latency(found: Scene, options: argparse.Namespace) -> None:
    print(f"(b) {RATE} messages a second for {options.seconds:.0f} s, from NMSG to push")
    with subprocess.Popen(
        found.line("serve", "--services"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n", "the server is ready"
        sent = asyncio.run(send(found, options.seconds))
        time.sleep(2.0)
        server.stdin.close()
        seen = json.loads(server.stdout.read())
    print(
        f"    {sent} messages, {seen['pushes']} pushes; p50 {seen['p50_s'] * 1e3:.1f} ms,"
        f" p99 {seen['p99_s'] * 1e3:.1f} ms; {seen['cpu_s'] / sent * 1e6:.0f} us of CPU,"
        f" {seen['statements'] / sent:.1f} statements and {seen['commits'] / sent:.2f} commits"
        " each",
        flush=True,
    )


async def send(found: Scene, seconds: float) -> int:
    """Messages to queues by chance, one each few milliseconds."""
    draw = random.Random(1)
    clients = [await SmpClient.connect(*served.address) for served, _ in found.served]
    asking: set[asyncio.Task[None]] = set()
    count, began = int(seconds * RATE), time.perf_counter()

    async def send_one(client: SmpClient, crowd: WatchedCrowd) -> None:
        sender = crowd.sender(draw.randrange(crowd.size))
        asked = requests.send(sender, BODY, crowd.sender_key, notify=True)
        assert await client.ask(asked) == [Ok()], "it is sent"

    for n in range(count):
        await asyncio.sleep(max(0.0, began + n / RATE - time.perf_counter()))
        place = n % ROUTERS
        task = asyncio.create_task(send_one(clients[place], found.served[place][1]))
        asking.add(task)
        task.add_done_callback(asking.discard)
    await asyncio.gather(*asking)
    for client in clients:
        client.close()
    return count


def pushes(found: Scene, options: argparse.Namespace) -> None:
    print("(c) a notice of every device at once")
    seen = found.run("flood", "--services")
    count = seen["pushes"]
    print(
        f"    {count} pushes, {count / seen['seconds']:.0f} a second,"
        f" {seen['cpu_s'] / count * 1e6:.0f} us of CPU, {seen['statements'] / count:.1f} statements"
        f" and {seen['commits'] / count:.3f} commits each, {seen['more'] / MB:.0f} MB more",
        flush=True,
    )
    print(f"\nwhere the CPU of pushes goes:\n{found.profile('flood', '--services')}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
