"""``headgate pipeline run``, ``status`` and ``sql``: the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.frames import frame_options, show
from headgate.cli.output import emit, json_option
from headgate.cli.pipeline.following import stopping
from headgate.cli.pipeline.place import Place, Spark, one_line, place_options, spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@click.command()
@place_options
@spark_options
@click.option("--once", is_flag=True, help="Catch up with the journal, then end.")
@click.option("--keep-days", type=click.IntRange(1), help="Remove rows of older days.")
@click.option("--show", "queries", multiple=True, metavar="QUERY", help="Asked in the end.")
def run(
    place: Place, spark: Spark, once: bool, keep_days: int | None, queries: tuple[str, ...]
) -> None:
    """Keep the tables up to date, until it is stopped."""
    session = spark()
    from headgate.pipeline.tables import keeper

    with one_line():
        query = keeper.start(session, place.source, place.tables, once=once, keep_days=keep_days)
    click.echo(f"the tables are in {place.tables}", err=True)
    with stopping(query), one_line():
        seen = -1
        while query.isActive:
            query.awaitTermination(1)
            seen = _print_batches(query, seen)
        _print_batches(query, seen)
        if error := query.exception():
            raise error
        _named(session, place)
        for asked in queries:
            click.echo()
            show(session.sql(asked))


def _print_batches(query: StreamingQuery, seen: int) -> int:
    for progress in query.recentProgress:
        if progress.batchId > seen and progress.numInputRows:
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            click.echo(
                f"batch {progress.batchId}: {progress.numInputRows} facts in {seconds:.1f} s",
                err=True,
            )
        seen = max(seen, progress.batchId)
    return seen


@click.command()
@place_options
@json_option
def status(place: Place, as_json: bool) -> None:
    """Say how far the tables are behind the journal, and how long batches take."""
    from headgate.pipeline.tables.status import status as status_of

    emit([status_of(place.source, place.tables)], _status_text, as_json)


def _status_text(row: Mapping[str, object]) -> str:
    width = max(map(len, row))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {value}" for name, value in row.items())


@click.command()
@click.argument("query", metavar="QUERY")
@place_options
@spark_options
@frame_options
def sql(query: str, place: Place, spark: Spark, output: Mapping[str, Any]) -> None:
    """Ask the tables by name: "select address, accepted from minutes"."""
    session = spark()
    with one_line():
        _named(session, place)
        show(session.sql(query), **output)


def _named(session: SparkSession, place: Place) -> None:
    """Make the tables known by their names."""
    from headgate.pipeline.tables.archive import Archive
    from headgate.pipeline.tables.tables import TABLES

    archive = Archive(place.tables)
    for name, table in TABLES.items():
        archive.read(session, table).createOrReplaceTempView(name)
