"""A pipeline that expects to be killed: it keeps the tables of a journal, and sends a message for
each that was accepted into a queue of another router.

    python -m tests.crash.keeper FOLDER ROUTER [--once]

It says "ready" when both streams run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.pipeline.session import open_session
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import keeper, upkeep
from headgate.pipeline.tables.archive import Archive
from tests.crash.routers import QUEUE
from tests.pipeline.conftest import SETTINGS

FACTS_AT_ONCE = 200
"""Small batches, so that a kill finds many of them."""

FACTS_TO_CATCH_UP = 20_000
"""As many as a batch of a sink may have messages."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("router")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    session = register(open_session(master="local[2]", settings=SETTINGS))
    with started(session, options.folder, options.router, options.once) as queries:
        print("ready", flush=True)
        while any(query.isActive for query in queries):
            time.sleep(0.1)
        for query in queries:
            if error := query.exception():
                raise error


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
    ):
        yield [keeping, sending.start()]


if __name__ == "__main__":
    main()
