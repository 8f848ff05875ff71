"""What a standby costs the owner: turns on PostgreSQL with and without `store.standby`.

    python -m bench.ownership [--turns N] [--rounds N]

Both in one process, in turns, so that a busy machine is busy for both. CPU of the process, with the
loop and the store's thread in it; that of PostgreSQL is spent on the same statements.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from statistics import median

from headgate.core.commands import Confirm, Create, Send, Subscribe
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.server.clock import steady
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store import open_store
from headgate.store.ownership import Ownership
from headgate.testing.postgres import PostgresCluster

LINE = Domain("line", Mode.EXCLUSIVE, max_messages=None)
QUEUE = QueueId(b"queue")
BODY = bytes(1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with PostgresCluster(fsync=False) as cluster:
        asyncio.run(compare(cluster, options.turns, options.rounds))


async def compare(cluster: PostgresCluster, turns: int, rounds: int) -> None:
    """Print microseconds of CPU for a turn of each kind, and the medians of their ratios."""
    kinds = {"a message sent and confirmed (two turns)": cycle, "SUB from memory": subscribe}
    routers = [await started(cluster, ownership) for ownership in (None, Ownership(3.0, steady))]
    for name, work in kinds.items():
        taken: list[tuple[float, float]] = []
        for _ in range(rounds):
            alone, owned = [await measured(work, session, turns) for _, session in routers]
            taken.append((alone, owned))
        alone, owned = (median(column) for column in zip(*taken, strict=True))
        ratio = median(owned / alone for alone, owned in taken)
        print(f"{name}: {alone:.1f} us alone, {owned:.1f} us with a standby, ratio {ratio:.3f}")
    for router, _ in routers:
        await router.stop()


async def started(
    cluster: PostgresCluster, ownership: Ownership | None
) -> tuple[Router, InProcessSession]:
    store = open_store(cluster.url(cluster.create_database()), Path(), ownership)
    router = Router(store=store, domains={"line": LINE}, limits=Limits())
    await router.start()
    session = InProcessSession(router, "bench")
    await session.ask(Create, QUEUE, "line", subscribe=True)
    return router, session


async def measured(work: object, session: InProcessSession, turns: int) -> float:
    assert callable(work)
    begun = time.process_time()
    for number in range(turns):
        await work(session, number)
    return (time.process_time() - begun) / turns * 1e6


async def cycle(session: InProcessSession, number: int) -> None:
    id = MessageId(b"%d" % number)
    await session.ask(Send, QUEUE, Message(id, BODY, 0.0))
    await session.delivery()
    await session.ask(Confirm, QUEUE, (id,))


async def subscribe(session: InProcessSession, number: int) -> None:
    await session.ask(Subscribe, QUEUE)


if __name__ == "__main__":
    main()
