"""``headgate pipeline run``, ``status`` and ``sql``: the tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.frames import frame_options, show
from headgate.cli.output import emit, json_option
from headgate.cli.pipeline.following import follow, heeding_signals
from headgate.cli.pipeline.place import Place, Spark, one_line, place_options, spark_options
from headgate.cli.units import count, counted, duration, size
from headgate.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@click.command()
@click.option("--once", is_flag=True, help="Catch up with the journal, then end.")
@click.option("--keep-days", type=click.IntRange(1), help="Remove rows of older days.")
@click.option("--max-facts", type=click.IntRange(1), help="Facts of a batch at most.")
@click.option("--max-bytes", type=click.IntRange(1), help="Bytes of its messages at most.")
@click.option(
    "--on-expired",
    type=click.Choice(["fail", "skip"]),
    help="What to do about facts that the journal dropped before they were read.",
)
@click.option(
    "--metrics",
    "metrics_at",
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus there; a port alone is on loopback.",
)
@click.option(
    "--show", "queries", multiple=True, metavar="QUERY", help="Ask the tables in the end."
)
@place_options
@spark_options
def run(
    once: bool,
    keep_days: int | None,
    max_facts: int | None,
    max_bytes: int | None,
    on_expired: str | None,
    metrics_at: str | None,
    queries: tuple[str, ...],
    place: Place,
    spark: Spark,
) -> None:
    """Keep the tables up to date, until it is stopped.

    SIGTERM, Ctrl-C and "pipeline stop" end it after the batch that is at work, a second signal at
    once. The exit code is 0, or 130 after Ctrl-C or if it had to catch up and has not.
    """
    place.check_journal()
    from headgate.pipeline.tables import keeper, lease, mirrors, stopping, upkeep
    from headgate.pipeline.tables.archive import Archive
    from headgate.pipeline.tables.metrics import Metrics, served
    from headgate.pipeline.tables.reading import name_tables

    archive, started = Archive(place.tables), time.time()
    metrics = Metrics(place.source, place.tables)
    given = {"maxFacts": max_facts, "maxBytes": max_bytes, "onExpired": on_expired}
    source = {**place.source, **{name: str(it) for name, it in given.items() if it is not None}}
    keeper.check(source, place.tables)
    with one_line(), served(metrics, metrics_at) if metrics_at else nullcontext() as url:
        session = spark()
        with (
            heeding_signals() as noted,
            keeper.keeping(session, source, place.tables, once=once) as query,
        ):
            click.echo(f"the tables are in {place.tables}", err=True)
            if url is not None:
                click.echo(f"metrics are at {url}", err=True)
            printed = Printed(query)
            with (
                mirrors.beside(archive, failed=metrics.failed),
                nullcontext()
                if once
                else upkeep.beside(session, archive, keep_days, failed=metrics.failed),
            ):
                is_asked = partial(stopping.is_asked, archive.storage, started)
                if not follow(query, printed.go_on, is_asked, noted):
                    if once:
                        raise KeyboardInterrupt
                    return
        if once:
            with suppress(lease.Held):  # somebody else does it
                upkeep.tidy(session, archive, keep_days)
        name_tables(session, place.tables)
        for asked in queries:
            click.echo()
            show(session.sql(asked))


@dataclass
class Printed:
    """The batches of a query that have been printed so far."""

    query: StreamingQuery
    seen: int = -1

    def go_on(self) -> None:
        for progress in self.query.recentProgress:
            if progress.batchId > self.seen and progress.numInputRows:
                seconds = progress.durationMs.get("triggerExecution", 0) / 1000
                click.echo(
                    f"batch {progress.batchId}: {counted(progress.numInputRows, 'fact')} in"
                    f" {seconds:.1f} s",
                    err=True,
                )
            self.seen = max(self.seen, progress.batchId)


@click.command()
@click.option("--keep-days", type=click.IntRange(1), help="Remove rows of older days.")
@place_options
@spark_options
def tidy(keep_days: int | None, place: Place, spark: Spark) -> None:
    """Merge small files of the tables, and remove what is too old.

    What counts no more is removed too. The tables may be kept and read meanwhile. "run" does the
    same beside its batches.
    """
    place.check_tables()
    session = spark()
    from headgate.pipeline.tables import upkeep
    from headgate.pipeline.tables.archive import Archive

    with one_line():
        done = upkeep.tidy(session, Archive(place.tables), keep_days)
    parts = [
        f"merged {counted(done.merged, 'file')} into {done.made}" if done.merged else "",
        f"let go of {counted(done.expired, 'file')} of older days" if done.expired else "",
        f"deleted {counted(done.deleted, 'file')}" if done.deleted else "",
    ]
    click.echo(", ".join(filter(None, parts)) or "nothing to merge, and nothing to remove")


@click.command()
@click.option(
    "--table", "names", multiple=True, metavar="TABLE", help="Only this one; may be repeated."
)
@click.option(
    "--from", "first", type=click.IntRange(1), default=1, help="The first fact, by number."
)
@click.option("--to", "last", type=click.IntRange(1), help="The last one.")
@click.option(
    "--source",
    "origin",
    type=click.Choice(["journal", "facts"]),
    default="journal",
    show_default=True,
    help="What to make them of; the table facts has what the journal has dropped.",
)
@place_options
@spark_options
def rebuild(
    names: tuple[str, ...], first: int, last: int | None, origin: str, place: Place, spark: Spark
) -> None:
    """Make rows of the tables again, of all facts or of a range.

    Readers see the old rows until all new ones are there. The tables may be kept meanwhile.
    """
    from headgate.pipeline.tables.manifests import END
    from headgate.pipeline.tables.tables import TABLES

    for name in names:
        if name not in TABLES:
            raise PipelineError(f"there is no table {name}; there are {', '.join(TABLES)}")
    if origin == "facts" and "facts" in names:
        raise PipelineError("the table facts is made of the journal: leave out --source")
    chosen = names or tuple(name for name in TABLES if origin == "journal" or name != "facts")
    place.check_tables()
    if origin == "journal":
        place.check_journal()
    session = spark()
    from headgate.pipeline.tables import mirrors
    from headgate.pipeline.tables.archive import Archive
    from headgate.pipeline.tables.rebuild import Range
    from headgate.pipeline.tables.rebuild import rebuild as rebuilt

    source = place.source if origin == "journal" else None
    with one_line():
        done = rebuilt(session, source, place.tables, chosen, Range(first - 1, last or END))
        mirrors.bring_along(Archive(place.tables))
    click.echo(
        f"made the rows of facts {done.facts.after + 1} to {done.facts.upto} again, in all files"
        f" that touch the range: {counted(done.replaced, 'file')} replaced by {done.made}"
    )


@click.command()
@click.option(
    "--catalog",
    metavar="NAME",
    default="",
    help="A catalog of pyiceberg's configuration.  [default: a file beside the tables]",
)
@click.option("--namespace", default="headgate", show_default=True, help="Of the tables there.")
@place_options
def iceberg(catalog: str, namespace: str, place: Place) -> None:
    """Have the tables shown as Iceberg tables, from now on.

    They are the same files: nothing is copied. "run", "tidy" and "rebuild" keep them up to date. To
    end it, remove the file _iceberg.json from the folder of the tables.
    """
    from headgate.pipeline.tables.archive import Archive
    from headgate.pipeline.tables.mirrors import Settings, turn_on

    mirror = turn_on(Archive(place.tables), Settings(catalog, namespace))
    with one_line():
        mirror.follow()
    click.echo(f"the tables in {place.tables} are mirrored to {mirror.where}")


@click.command()
@place_options
def stop(place: Place) -> None:
    """Have whoever keeps the tables end after the batch at hand.

    It reaches a "run" on this machine or another, and a query that a killed client of Spark Connect
    has left behind, which ends before its next batch. A "run" that starts later is not stopped.
    """
    from headgate.pipeline.tables import stopping
    from headgate.pipeline.tables.archive import Archive

    place.check_tables()
    stopping.ask(Archive(place.tables).storage)
    click.echo(f"asked whoever keeps the tables in {place.tables} to stop")


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also show what is right.")
@place_options
@spark_options
@frame_options
@click.pass_context
def check(
    ctx: click.Context, everything: bool, place: Place, spark: Spark, output: Mapping[str, Any]
) -> None:
    """See whether the tables add up: facts, each other, no gaps.

    Where the router's store is a file of this configuration, its messages are compared with the
    tables. Exits with 3 if something does not add up.
    """
    place.check_tables()
    from headgate.journal.snapshot import take_messages
    from headgate.pipeline.source.feed import feed_of
    from headgate.pipeline.tables.archive import Archive

    archive = Archive(place.tables)
    unreadable = len(feed_of(place.source).quarantined())
    # Beside the tables, which whoever runs Spark can read.
    with TemporaryDirectory(prefix="_check-", dir=archive.storage.local) as folder:
        upto = None
        if place.store is not None:
            taken = Path(folder) / "store"
            upto = take_messages(place.store, taken, journal=Path(place.source["path"]))
        session = spark()
        from headgate.pipeline.jobs.checks import Kept, checks

        with one_line():
            kept = None
            if upto is not None and upto <= archive.state().upto:
                kept = Kept(session.read.parquet(f"{taken}/messages"), upto)
            found = checks(session, archive, unreadable, kept).cache()
            wrong = found.where("not is_right")
            show(found if everything else wrong, **output)
            count, differing = found.count(), wrong.count()
    if upto is not None and kept is None:
        click.echo(
            f"the store was not compared: it is at fact {upto}, and the tables hold the facts up to"
            f" {archive.state().upto}: headgate pipeline run --once, or a run that keeps up",
            err=True,
        )
    click.echo(f"{count} checks, {differing} of them found something", err=True)
    ctx.exit(FOUND if differing else 0)


FOUND = 3
"""The exit code of a command that has found what it looked for."""


@click.command()
@place_options
@json_option
def status(place: Place, as_json: bool) -> None:
    """Say how far the tables are behind the journal.

    It also says how long batches take. Spark need not be installed for this.
    """
    from headgate.pipeline.tables.status import status as status_of

    emit([status_of(place.source, place.tables)], _status_text, as_json)


def _status_text(row: Mapping[str, Any]) -> str:
    shown = {
        "tables": row["tables"],
        "journal": counted(row["facts_in_journal"], "fact"),
        "in the tables": counted(row["facts_in_tables"], "fact"),
        "behind": counted(row["lag_facts"], "fact")
        + (f", for {duration(row['lag_seconds'])}" if row["lag_seconds"] else ""),
        "batches": "none yet: headgate pipeline run makes the tables",
        "files": f"{count(row['files'])}, {size(row['bytes'])}",
    }
    if row["batch"] is not None:
        took, most = duration(row["batch_seconds"]), duration(row["batch_seconds_max"])
        facts = counted(int(row["batch_facts"]), "fact")
        shown["batches"] = f"the last is {row['batch']}; lately {took} for {facts}, at most {most}"
    if row["segments_corrupt"]:
        shown["unreadable"] = (
            f"{counted(row['segments_corrupt'], 'segment')}: headgate journal verify"
        )
    width = max(map(len, shown))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in shown.items())


@click.command()
@click.argument("query", metavar="QUERY")
@click.option(
    "--from",
    "origins",
    multiple=True,
    metavar="NAME=DIR",
    help="Tables of a router; several are read together, with the name in the column origin.",
)
@place_options
@spark_options
@frame_options
def sql(
    query: str, origins: tuple[str, ...], place: Place, spark: Spark, output: Mapping[str, Any]
) -> None:
    """Ask the tables by name: "select address, accepted from minutes".

    QUERY is any SQL that Spark knows. "show tables" names the tables, "describe minutes" the
    columns of one, and other Parquet is read as parquet.`PATH`.
    """
    from headgate.pipeline.tables.reading import name_tables, name_together, roots_of

    roots = roots_of(origins)
    if not roots:
        place.check_tables()
    session = spark()
    with one_line():
        if roots:
            name_together(session, roots)
        else:
            name_tables(session, place.tables)
        show(session.sql(query), **output)


@click.command()
@click.argument("table", metavar="TABLE")
@place_options
def files(table: str, place: Place) -> None:
    """Print the files of a table that count now.

    They are for DuckDB, polars or anybody who reads Parquet, and stay for ten minutes after they
    were replaced. Of minutes and matches they hold parts that add up, and of subscriptions events;
    the docs say what a row of each is.
    """
    from headgate.pipeline.tables.archive import Archive
    from headgate.pipeline.tables.tables import TABLES

    if table not in TABLES:
        raise PipelineError(f"there is no table {table}; there are {', '.join(TABLES)}")
    place.check_tables()
    archive = Archive(place.tables)
    for file in archive.state().table(table):
        click.echo(archive.storage.uri(file.path))
