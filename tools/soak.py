"""The long counts, by hand: `make soak` plays 20,000 worlds, as many of agents and as many of a
notification server, kills a router 200 times, one of the SMP wire 100 times, one of BlazingMQ's 60
times, agents and a notification server with their routers 100 times each and a pipeline 50 times,
and writes docs/soak.md."""

from __future__ import annotations

import argparse
import asyncio
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from headgate.ntf_server.testing.world import NtfWorld
from headgate.testing.actors import Operator, Ticker
from headgate.testing.agents.router_world import STEPS as SMALL_STEPS
from headgate.testing.agents.router_world import RouterWorld
from headgate.testing.agents.world import AgentWorld
from headgate.testing.sealing import SealingActor
from headgate.testing.trace import Violation
from headgate.testing.world import play
from tests.crash.agents import Connections, Queues
from tests.crash.agents import run as run_agents
from tests.crash.bmq import run as run_bmq
from tests.crash.ntf import run as run_ntf
from tests.crash.pipelines import PLAYS
from tests.crash.pipelines import run as run_pipelines
from tests.crash.rounds import Ledger
from tests.crash.rounds import play as play_round
from tests.crash.smp import Round, Routers
from tools.soak_failovers import fail_over_bmq, fail_over_smp

KILLS = """\
| what | result |
|---|---|
| rounds of kill -9 under load, on one database and one journal | {rounds} |
| first seed | {seed} |
| receipts given | {receipts} |
| confirms answered | {confirms} |
| receipts lost | {lost} |
| confirmed messages that came back | {risen} |
| facts that differ from the store, or are there twice | {untold} |
| seconds | {seconds:.0f} |

A round starts a router on SQLite (WAL, synchronous=FULL) with five exclusive queues and one
fanout queue under load, kills its sealer now and then and itself at a random moment, reopens the
database and compares it with every receipt and every answered confirm of all rounds so far, and
with what the facts of the journal say. CI runs 10 rounds.
"""

SMP_KILLS = """\
| what | result |
|---|---|
| rounds of kill -9 under load over TLS, on one database and one journal | {rounds} |
| first seed | {seed} |
| SENDs answered with OK | {taken} |
| ACKs answered | {acks} |
| SENDs answered with QUOTA | {markers} |
| requests that a kill cut off | {cut_off} |
| messages read after a kill | {drained} |
| differences between answers, deliveries, store, tallies and facts | {wrong} |
| seconds | {seconds:.0f} |

A round starts `headgate serve` on SQLite, and before anything else its services get their ids,
their recounted tallies and what waits, half of the queues are read to their end, and deleted and
secured queues answer as such. Then ten clients send, receive, make, change, delete and take some
50 queues from each other until the router is killed at a random moment. The store is compared with
every answer, with a recount of its tallies and with the facts of the journal. CI runs 10 rounds,
and 3 on PostgreSQL.
"""

BMQ_KILLS = """\
| what | result |
|---|---|
| kill -9 of a router while clients of BlazingMQ's SDK post to it and read from it | {rounds} |
| first seed | {seed} |
| messages posted and acknowledged in the end | {posted} |
| of which so many were acknowledged when their router was killed | {acked} |
| messages lost, doubled or out of order, by app | {wrong} |
| seconds | {seconds:.0f} |

For each {life} kills a fanout queue on SQLite has three apps: one that nobody reads, one with a
filter, and one that is read and confirmed all along. The clients connect again by themselves and
send again what was not acknowledged. In the end the first two hold each message once, in order, and
the third was given each at least once. CI runs 3 kills.
"""

WORLDS = """\
| what | result |
|---|---|
| seeds | 0 to {last}; every fourth has a journal |
| steps each | {steps} |
| violations | {violations} |
| seconds | {seconds:.0f} |

CI runs 300 seeds, and 60 with a journal.
"""

AGENT_WORLDS = """\
| what | result |
|---|---|
| seeds | 0 to {last} |
| steps each | {steps} |
| violations | {violations} |
| seconds | {seconds:.0f} |

CI runs 2,000 seeds.
"""

AGENT_KILLS = """\
| what | result |
|---|---|
| rounds | {rounds} |
| first seed | {seed} |
| kill -9 of the router, of the agent that {verbs} | {kills} |
| messages sent | {sent} |
| messages that were shown more than once, as they were not acknowledged | {again} |
| messages whose sender was killed before it knew that they are stored | {unanswered} |
| messages lost, out of order, or shown after their acknowledgement; tables that differ | {wrong} |
| seconds | {seconds:.0f} |

{scene} Each agent is a process with a file. A round kills one of the three, both agents, or
all. In the end everything that was sent has come. CI runs 10 rounds.
"""
QUEUES_SCENE = """\
For each {life} rounds a router on SQLite has three queues, which one agent reads and another sends
to."""
CONNECTIONS_SCENE = """\
For each {life} rounds one agent makes three invitations at a router on SQLite, another joins them,
and both write to each other. Up to six are killed before all are connected."""

NTF_WORLDS = """\
| what | result |
|---|---|
| seeds | 0 to {last} |
| steps each | {steps} |
| violations | {violations} |
| seconds | {seconds:.0f} |

CI runs 800 seeds.
"""

NTF_KILLS = """\
| what | result |
|---|---|
| rounds | {rounds} |
| first seed | {seed} |
| kill -9 of the router, of the notification server | {kills} |
| devices that were registered and verified | {devices} |
| subscriptions in the end; removed before | {subscriptions}; {removed} |
| messages sent while something was killed | {sent} |
| messages sent after a restart, each of them pushed | {pushed} |
| tokens or subscriptions lost, messages not pushed, tallies that differ | {wrong} |
| seconds | {seconds:.0f} |

For each {life} rounds there are a router and a notification server on SQLite, each a process, with
apps and senders over TLS. A round starts what is down and looks at everything: tokens and
subscriptions that were answered are there, all become active, and a message to every queue is
pushed, down to its id. Then a new app registers and subscribes, another removes, messages come, and
the server, the router or both are killed after 1 to 60 answers. CI runs 10 rounds.
"""

PIPELINES = """\
| what | result |
|---|---|
| kills of the pipeline, Spark included | {pipelines} |
| kills of a second one, at work on the same tables | {seconds_killed} |
| of these, at a moment that was drawn | {moments} |
| kills of the router that it sends to | {routers} |
| kills of the router whose facts it reads | {readers} |
| first seed | {seed} |
| facts in the tables | {facts} |
| messages sent | {sent} |
| looks at the tables meanwhile, with Spark, DuckDB and pyiceberg | {looks} |
| differences between journal, tables, looks, stores and queue | {wrong} |
| seconds | {seconds:.0f} |

One process makes tables of a journal and sends a message for each that was accepted to a queue of
another router; in half of the rounds a second one makes the same tables, without the lease. All are
killed: the pipelines at a moment that is drawn, between two files, before and after a manifest,
amid compaction, between two Iceberg tables, or at any time. In the end it catches up, and every
fact is in the tables once, the tables tell what the store has, and every message was sent once.
Whoever looked at `facts`, `messages` and `deliveries` meanwhile saw each fact up to some number
once. CI runs 5 rounds.
"""

HEAD = """\
# Soak

What `make soak` found when it was last run: {when}, Python {python}, {machine}.
"""

NTF_LIFE = 10
"""Rounds after which a notification server and its router are made anew."""
AGENT_LIFE = 20
"""Rounds after which queues of agents are read to their end."""
CONNECTION_LIFE = 10
"""Rounds after which agents connect anew."""
PIPELINE_PATIENCE_SECONDS = 300.0
"""A soak may run beside others, and a pipeline is to come to the moment that is drawn for it."""
BMQ_LIFE = 6
"""Kills after which a queue is read to its end."""
STEPS = 600
CHUNK = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--smp", type=int, default=100)
    parser.add_argument("--bmq", type=int, default=60)
    parser.add_argument("--failovers", type=int, default=200)
    parser.add_argument("--bmq-failovers", type=int, default=24)
    parser.add_argument("--agents", type=int, default=20_000)
    parser.add_argument("--agent-kills", type=int, default=100)
    parser.add_argument("--ntf", type=int, default=20_000)
    parser.add_argument("--ntf-kills", type=int, default=100)
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--report", type=Path, default=Path("docs/soak.md"))
    options = parser.parse_args()
    is_well = True
    for title, count, play_all in (
        ("Kills", options.rounds, kill),
        ("Kills over SMP", options.smp, kill_smp),
        ("Kills over BlazingMQ's wire", options.bmq, kill_bmq),
        ("Failovers over SMP", options.failovers, fail_over_smp),
        ("Failovers over BlazingMQ's wire", options.bmq_failovers, fail_over_bmq),
        ("Worlds", options.worlds, simulate),
        ("Worlds of agents", options.agents, simulate_agents),
        ("Kills of agents", options.agent_kills, kill_agents),
        ("Kills of agents that are connected", options.agent_kills, kill_connections),
        ("Worlds of a notification server", options.ntf, simulate_ntf),
        ("Kills of a notification server", options.ntf_kills, kill_ntf),
        ("Pipelines", options.pipelines, kill_pipelines),
    ):
        if count:
            text, is_unharmed = play_all(count, options.seed)
            write(options.report, title, text)
            is_well = is_well and is_unharmed
    return 0 if is_well else 1


def write(report: Path, title: str, text: str) -> None:
    """Replace one section of the report. What was not played keeps what it had."""
    before = report.read_text() if report.exists() else ""
    _, *parts = before.split("\n## ")
    sections = dict(part.split("\n\n", 1) for part in parts)
    sections[title] = text
    head = HEAD.format(
        when=datetime.now(UTC).strftime("%Y-%m-%d"),
        python=platform.python_version(),
        machine=platform.machine(),
    )
    told = [f"## {name}\n\n{section.rstrip()}\n" for name, section in sections.items()]
    report.write_text("\n".join([head, *told]))


def kill(rounds: int, seed: int) -> tuple[str, bool]:
    ledger = Ledger()
    confirms, lost, risen, untold = 0, 0, 0, 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            result = play_round(Path(folder), ledger, seed + number)
            confirms += result.confirms
            lost, risen = lost + len(result.lost), risen + len(result.risen)
            untold += len(result.untold)
            print(
                f"round {number + 1}/{rounds} seed {seed + number}: {result.receipts} receipts,"
                f" {len(result.lost)} lost, {len(result.untold)} facts wrong",
                file=sys.stderr,
            )
    told = KILLS.format(
        rounds=rounds,
        seed=seed,
        receipts=len(ledger.receipts),
        confirms=confirms,
        lost=lost,
        risen=risen,
        untold=untold,
        seconds=time.monotonic() - began,
    )
    return told, not (lost or risen or untold)


def kill_smp(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        played = asyncio.run(play_smp(Routers(Path(folder)), rounds, seed))
    counts = {
        name: sum(getattr(one, name) for one in played)
        for name in ("taken", "acks", "markers", "cut_off", "drained")
    }
    wrong = sum(len(one.wrong) for one in played)
    told = SMP_KILLS.format(
        rounds=rounds, seed=seed, wrong=wrong, seconds=time.monotonic() - began, **counts
    )
    return told, not wrong


async def play_smp(routers: Routers, rounds: int, seed: int) -> list[Round]:
    """One round more than that, which only reads what is left."""
    played = []
    for number in range(rounds + 1):
        is_last = number == rounds
        result = await (routers.finish(seed) if is_last else routers.play(seed + number))
        for line in result.wrong:
            print(line, file=sys.stderr)
        print(
            f"SMP round {number + 1}/{rounds + 1} seed {seed + number}: {result.taken} taken,"
            f" {result.cut_off} cut off, {len(result.wrong)} wrong",
            file=sys.stderr,
        )
        played.append(result)
    return played


def kill_bmq(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    results = []
    for first in range(0, rounds, BMQ_LIFE):
        with tempfile.TemporaryDirectory() as folder:
            kills = min(BMQ_LIFE, rounds - first)
            result = asyncio.run(run_bmq(Path(folder), kills, seed + first))
        results.append(result)
        for line in result.wrong:
            print(line, file=sys.stderr)
        print(f"BlazingMQ kills {first + kills}/{rounds}: {result}", file=sys.stderr)
    wrong = sum(len(result.wrong) for result in results)
    told = BMQ_KILLS.format(
        rounds=rounds,
        life=BMQ_LIFE,
        seed=seed,
        posted=sum(len(result.posted) for result in results),
        acked=sum(sum(result.acked_at_kills) for result in results),
        wrong=wrong,
        seconds=time.monotonic() - began,
    )
    return told, not wrong


def kill_agents(rounds: int, seed: int) -> tuple[str, bool]:
    return kill_family(Queues, AGENT_LIFE, QUEUES_SCENE, rounds, seed)


def kill_connections(rounds: int, seed: int) -> tuple[str, bool]:
    return kill_family(Connections, CONNECTION_LIFE, CONNECTIONS_SCENE, rounds, seed)


def kill_family(
    family: type[Queues | Connections], most: int, scene: str, rounds: int, seed: int
) -> tuple[str, bool]:
    began = time.monotonic()
    results = []
    for first in range(0, rounds, most):
        with tempfile.TemporaryDirectory() as folder:
            life = min(most, rounds - first)
            result = asyncio.run(run_agents(Path(folder), life, seed + first, family))
        results.append(result)
        for line in result.wrong:
            print(line, file=sys.stderr)
        print(f"rounds of agents {first + life}/{rounds}: {result}", file=sys.stderr)
    wrong = sum(len(result.wrong) for result in results)
    kills = ", ".join(
        str(sum(result.kills[name] for result in results)) for name in ("router", *family.verbs)
    )
    text = AGENT_KILLS.format(
        rounds=rounds,
        seed=seed,
        scene=scene.format(life=most),
        verbs=", of the one that ".join(f"{verb}s" for verb in family.verbs),
        kills=kills,
        sent=sum(result.sent for result in results),
        again=sum(result.shown_again for result in results),
        unanswered=sum(result.unanswered for result in results),
        wrong=wrong,
        seconds=time.monotonic() - began,
    )
    return text, not wrong


def kill_ntf(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    results = []
    for first in range(0, rounds, NTF_LIFE):
        with tempfile.TemporaryDirectory() as folder:
            life = min(NTF_LIFE, rounds - first)
            result = asyncio.run(run_ntf(Path(folder), life, seed + first))
        results.append(result)
        for line in result.wrong:
            print(line, file=sys.stderr)
        print(f"rounds of notification servers {first + life}/{rounds}: {result}", file=sys.stderr)
    counts = {
        name: sum(getattr(result, name) for result in results)
        for name in ("devices", "subscriptions", "removed", "sent", "pushed")
    }
    wrong = sum(len(result.wrong) for result in results)
    kills = ", ".join(
        str(sum(result.kills[name] for result in results)) for name in ("router", "server")
    )
    text = NTF_KILLS.format(
        rounds=rounds,
        seed=seed,
        life=NTF_LIFE,
        kills=kills,
        wrong=wrong,
        seconds=time.monotonic() - began,
        **counts,
    )
    return text, not wrong


def simulate(count: int, seed: int) -> tuple[str, bool]:
    return play_worlds(WORLDS, STEPS, play_chunk, count)


def simulate_agents(count: int, seed: int) -> tuple[str, bool]:
    return play_worlds(AGENT_WORLDS, SMALL_STEPS, play_agents_chunk, count)


def simulate_ntf(count: int, seed: int) -> tuple[str, bool]:
    return play_worlds(NTF_WORLDS, SMALL_STEPS, play_ntf_chunk, count)


def play_worlds(
    text: str, steps: int, play_some: Callable[[int], list[str]], count: int
) -> tuple[str, bool]:
    began = time.monotonic()
    done, violations = 0, 0
    with ProcessPoolExecutor() as pool:
        for found in pool.map(play_some, range(0, count, CHUNK)):
            done += CHUNK
            violations += len(found)
            for line in found:
                print(line, file=sys.stderr)
            print(f"{done}/{count} worlds, {violations} violations", file=sys.stderr)
    text = text.format(
        last=count - 1, steps=steps, violations=violations, seconds=time.monotonic() - began
    )
    return text, not violations


def kill_pipelines(rounds: int, seed: int) -> tuple[str, bool]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = run_pipelines(Path(folder), rounds, seed, PIPELINE_PATIENCE_SECONDS)
    for line in result.wrong:
        print(line, file=sys.stderr)
    told = PIPELINES.format(
        pipelines=result.kills["pipeline"],
        routers=result.kills["router"],
        seconds_killed=result.kills["second pipeline"],
        moments=", ".join(f"{name} {times}" for name, times in sorted(result.moments.items())),
        looks=result.looks.total(),
        readers=rounds * PLAYS + 1,
        seed=seed,
        facts=result.facts,
        sent=result.sent,
        wrong=len(result.wrong),
        seconds=time.monotonic() - began,
    )
    return told, not result.wrong


def play_chunk(first: int) -> list[str]:
    """The violations of so many worlds, a line each."""
    found = []
    for seed in range(first, first + CHUNK):
        settings = {}
        if seed % 4 == 3:
            actor = SealingActor()
            settings = {"actors": [Ticker(), Operator(), actor], "build": actor.build}
        try:
            play(seed, STEPS, **settings)
        except Violation as violation:
            found.append(f"seed {seed}: {violation.checker}: {violation.what}")
    return found


def play_agents_chunk(first: int) -> list[str]:
    """The same for worlds of agents."""
    return play_small_chunk(AgentWorld, first)


def play_ntf_chunk(first: int) -> list[str]:
    """The same for worlds of a notification server."""
    return play_small_chunk(NtfWorld, first)


def play_small_chunk(make: Callable[[int], RouterWorld], first: int) -> list[str]:
    found = []
    for seed in range(first, first + CHUNK):
        try:
            make(seed).play()
        except Violation as violation:
            found.append(f"seed {seed}: {violation.checker}: {violation.what}")
    return found


if __name__ == "__main__":
    sys.exit(main())
