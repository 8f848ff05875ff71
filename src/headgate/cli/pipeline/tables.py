"""``headgate pipeline run``, ``status`` and ``sql``: the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.frames import frame_options, show
from headgate.cli.output import emit, json_option
from headgate.cli.pipeline.following import stopping
from headgate.cli.pipeline.place import Place, Spark, one_line, place_options, spark_options
from headgate.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@click.command()
@place_options
@spark_options
@click.option("--once", is_flag=True, help="Catch up with the journal, then end.")
@click.option("--keep-days", type=click.IntRange(1), help="Remove rows of older days.")
@click.option("--show", "shown", multiple=True, metavar="TABLE", help="Print it in the end.")
def run(
    place: Place, spark: Spark, once: bool, keep_days: int | None, shown: tuple[str, ...]
) -> None:
    """Keep the tables up to date, until it is stopped."""
    from headgate.pipeline import keeping
    from headgate.pipeline.archive import Archive
    from headgate.pipeline.tables import TABLES

    for name in shown:
        if name not in TABLES:
            raise PipelineError(f"no table {name}; there are {', '.join(TABLES)}")
    session = spark()

    query = keeping.start(session, place.source, place.tables, once=once, keep_days=keep_days)
    click.echo(f"the tables are in {place.tables}", err=True)
    with stopping(query), one_line():
        seen = -1
        while query.isActive:
            query.awaitTermination(1)
            seen = _tell_batches(query, seen)
        _tell_batches(query, seen)
        if error := query.exception():
            raise error
        for name in shown:
            click.echo(f"\n{name}: {TABLES[name].about}")
            show(Archive(place.tables).read(session, TABLES[name]).drop("day"))


def _tell_batches(query: StreamingQuery, seen: int) -> int:
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
    from headgate.pipeline.status import status as tell

    emit([tell(place.source, place.tables)], _status_text, as_json)


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
    from headgate.pipeline.archive import Archive
    from headgate.pipeline.tables import TABLES

    with one_line():
        archive = Archive(place.tables)
        for name, table in TABLES.items():
            archive.read(session, table).createOrReplaceTempView(name)
        show(session.sql(query), **output)
