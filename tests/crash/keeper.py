"""A pipeline that expects to be killed: it keeps the tables of a journal, and sends a message for
each that was accepted into a queue of another router.

    python -m tests.crash.keeper FOLDER ROUTER [--once | --die MOMENT TIMES]
    python -m tests.crash.keeper FOLDER --second [--die MOMENT TIMES]

It says "ready" when both streams run, and may be told at which moment to die. A second one only
keeps the tables, at the same time as the first and without asking for the lease: as one that was
taken for dead, or on a machine that the lock does not reach.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.pipeline.session import open_session
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import keeper, lease, mirrors, upkeep
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.storage import Storage
from tests.crash.moments import Moment, die_at
from tests.crash.routers import QUEUE
from tests.pipeline.conftest import SETTINGS

FACTS_AT_ONCE = 200
"""Small batches, so that a kill finds many of them."""

FACTS_TO_CATCH_UP = 20_000
"""As many as a batch of a sink may have messages."""

FILES_TOGETHER = 4
"""Compaction of fewer files than usual, so that a short life has some."""

NOTED = "moments"
"""The file that says at which moments somebody has died."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("router", nargs="?", default="")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--second", action="store_true")
    parser.add_argument("--die", nargs=2, metavar=("MOMENT", "TIMES"))
    options = parser.parse_args()
    upkeep.TOGETHER = FILES_TOGETHER
    if options.die is not None:
        moment, times = options.die
        die_at(Moment(moment), int(times), Path(options.folder) / NOTED)
    session = register(open_session(master="local[2]", settings=SETTINGS))
    if options.second:
        compete(session, options.folder)
        return
    with started(session, options.folder, options.router, options.once) as queries:
        print("ready", flush=True)
        while any(query.isActive for query in queries):
            time.sleep(0.1)
        for query in queries:
            if error := query.exception():
                raise error


@contextmanager
def not_held(storage: Storage, name: str) -> Iterator[None]:
    """A lease that keeps nobody out."""
    yield


def compete(session: SparkSession, folder: str) -> None:
    """Keep the tables too, until the first one or a kill ends it."""
    lease.held = not_held
    source = {"path": f"{folder}/journal", "maxFacts": str(FACTS_AT_ONCE)}
    print("ready", flush=True)
    while True:
        with (
            suppress(Exception),  # who is told that another one was faster tries again
            keeper.keeping(session, source, f"{folder}/tables", seconds=0.1) as query,
            upkeep.beside(session, Archive(f"{folder}/tables"), None, pause=1.0),
            mirrors.beside(Archive(f"{folder}/tables"), pause=0.3),
        ):
            query.awaitTermination()
        time.sleep(0.1)


@contextmanager
def started(
    session: SparkSession, folder: str, router: str, once: bool
) -> Iterator[list[StreamingQuery]]:
    source = {
        "path": f"{folder}/journal",
        "maxFacts": str(FACTS_TO_CATCH_UP if once else FACTS_AT_ONCE),
    }
    facts = session.readStream.format("headgate").options(**source).load()
    accepted = facts.where(F.col("kind") == "Accepted").select(F.col("message").alias("body"))
    sending = (
        accepted.writeStream.format("headgate")
        .options(router=router, queue=QUEUE)
        .option("checkpointLocation", f"{folder}/sending")
    )
    sending = sending.trigger(availableNow=True) if once else sending
    tables = f"{folder}/tables"
    with (
        keeper.keeping(session, source, tables, once=once, seconds=0.1) as keeping,
        upkeep.beside(session, Archive(tables), None, pause=1.0),
        mirrors.beside(Archive(tables), pause=0.3),
    ):
        yield [keeping, sending.start()]


if __name__ == "__main__":
    main()
