"""Somebody who reads the tables with three engines while their pipelines are killed.

    python -m tests.crash.onlooker FOLDER

Each look is a line on standard output: by whom, which table, up to which fact it said to be, and
what was there: rows, distinct numbers of facts and their sum. Spark and DuckDB read the files that
the log names; pyiceberg and DuckDB those of the Iceberg snapshot. It says "ready" first, and ends
after a last look when its standard input does.
"""

from __future__ import annotations

import argparse
import select
import sys
import time
from collections.abc import Iterator

import duckdb
import msgspec
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sqlalchemy.exc import OperationalError

from headgate.pipeline.session import open_session
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.iceberg import FACTS, Mirror
from headgate.pipeline.tables.mirrors import mirror_of
from headgate.pipeline.tables.tables import TABLES
from tests.pipeline.conftest import SETTINGS

LOOKED_AT = ("facts", "messages", "deliveries")
"""Tables with a row for each fact of their kinds."""
PAUSE_SECONDS = 0.3
QUERY = "select count(*), count(distinct number), coalesce(sum(number), 0)::bigint from {}"


class Look(msgspec.Struct, frozen=True):
    """What somebody saw of a table."""

    by: str
    table: str
    upto: int
    rows: int
    distinct: int
    sum: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    archive = Archive(f"{parser.parse_args().folder}/tables")
    mirror = mirror_of(archive)
    assert mirror is not None, "it is turned on"
    session = open_session(master="local[1]", settings={**SETTINGS, "spark.driver.memory": "1g"})
    print("ready", flush=True)
    is_over, pause = False, PAUSE_SECONDS
    while not is_over:
        readable, _, _ = select.select([sys.stdin], [], [], pause)
        is_over, began = bool(readable), time.monotonic()
        for look in looks(session, archive, mirror):
            print(msgspec.json.encode(look).decode(), flush=True)
        pause = max(PAUSE_SECONDS, time.monotonic() - began)  # the others are to get on, too
    session.stop()


def looks(session: SparkSession, archive: Archive, mirror: Mirror) -> Iterator[Look]:
    state = archive.state()
    for name in LOOKED_AT if state.batch is not None else ():
        rows = archive.read(session, TABLES[name], state)
        number = F.col("number")
        (counted,) = rows.select(
            F.count("*"), F.countDistinct(number), F.coalesce(F.sum(number), F.lit(0))
        ).collect()
        yield Look("spark", name, state.upto, *counted)
        files = [archive.storage.uri(file.path) for file in state.table(name)]
        yield Look("duckdb", name, state.upto, *_by_duckdb(files))
    for name in LOOKED_AT:
        try:
            table = mirror.table(name)
        except (NoSuchTableError, OperationalError):
            continue  # no batch was there yet, or the catalog was held for too long
        snapshot = table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            continue
        upto = int(snapshot.summary[FACTS] or 0)
        numbers = table.scan(selected_fields=("number",)).to_arrow()["number"]
        seen = len(numbers), pc.count_distinct(numbers).as_py(), pc.sum(numbers).as_py() or 0
        yield Look("pyiceberg", name, upto, *seen)
        files = [task.file.file_path for task in table.scan().plan_files()]
        yield Look("duckdb of iceberg", name, upto, *_by_duckdb(files))


def _by_duckdb(files: list[str]) -> tuple[int, int, int]:
    if not files:
        return 0, 0, 0
    with duckdb.connect() as connection:
        found = connection.execute(QUERY.format("read_parquet($1)"), [files]).fetchone()
    assert found is not None, "a query of counts has a row"
    return found[0], found[1], found[2]


if __name__ == "__main__":
    main()
