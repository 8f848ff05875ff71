"""``headgate pipeline replay`` and ``route``: history sent again, and any data routed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.frames import show
from headgate.cli.output import json_option
from headgate.cli.pipeline.following import follow
from headgate.cli.pipeline.place import (
    Place,
    Since,
    Spark,
    compiled,
    one_line,
    place_options,
    since_option,
    spark_options,
)
from headgate.cli.queue_name import QueueName
from headgate.cli.units import counted
from headgate.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headgate.pipeline.jobs.replay import Tally


@click.command()
@click.option("--domain", required=True, help="The domain whose messages are sent.")
@click.option("--where", "expression", metavar="EXPR", help="Only messages that match.")
@click.option("--until", type=Since(), metavar="MOMENT", help="Up to when, as --since.")
@click.option(
    "--to",
    required=True,
    type=QueueName(),
    metavar="QUEUE",
    help="bmq://DOMAIN/NAME, on the router.",
)
@click.option(
    "--job", metavar="NAME", help="A name of its own: what another replay has sent is sent again."
)
@since_option
@place_options
@spark_options
def replay(
    domain: str,
    expression: str | None,
    until: float | None,
    to: str,
    job: str | None,
    since: float,
    place: Place,
    spark: Spark,
) -> None:
    """Send messages of the journal again, each once.

    What the same options but for the window have sent before is left out. A replay that was
    interrupted goes on where it was. Needs domains with journal_bodies.
    """
    predicate = compiled(expression) if expression is not None else None
    place.check_journal()
    place.check_router()
    session = spark()
    from headgate.pipeline.jobs import replay as replaying

    wanted = replaying.Wanted(domain, to, predicate, since, until)
    with one_line():
        done = replaying.play(
            session, place.source, place.sink, place.tables, wanted, _followed, job
        )
    name, found = job or wanted.job, done.found
    messages = counted(found.messages, "message")
    if done.resumed:
        left = counted(done.resumed, "message")
        click.echo(f"sent {left} that an interrupted run had left", err=True)
    if found.before:
        click.echo(f"{found.before} of {messages} sent before", err=True)
    if found.bodiless:
        click.echo(f"{found.bodiless} of {messages} without a body", err=True)
    click.echo(f"sent {done.sent} of {messages} to {to} as {name}")
    if done.missing:
        raise PipelineError(
            f"{counted(done.missing, 'message')} found and not sent: see whether the journal lost"
            " segments meanwhile, and send them with --job and another name"
        )


def _followed(query: StreamingQuery, tally: Tally) -> None:
    """Tell how far it is, whenever it has gone on."""
    printed = 0

    def go_on() -> None:
        nonlocal printed
        if (sent := tally.total()) > printed:
            click.echo(f"sent {counted(sent, 'message')} so far", err=True)
            printed = sent

    if not follow(query, go_on):
        raise KeyboardInterrupt


@click.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="TABLE|PATH",
    help="A table by its name, such as messages, or Parquet with properties.",
)
@click.option(
    "--subscriptions",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON, one a line: app, id, expression, priority, or filter of an app.",
)
@click.option("--to", "target", metavar="PATH", help="Write the result as Parquet.")
@click.option("--key", default="number", show_default=True, help="The column that names a message.")
@place_options
@spark_options
@json_option
def route(
    source: str,
    subscriptions: Path,
    target: str | None,
    key: str,
    place: Place,
    spark: Spark,
    as_json: bool,
) -> None:
    """Route any data set: which app and subscriptions get a message."""
    from headgate.pipeline.routing.subscriptions import Subscriptions
    from headgate.pipeline.tables.tables import TABLES

    wanted = Subscriptions.read(subscriptions)
    if source in TABLES:
        place.check_tables()
    session = spark()
    from headgate.pipeline.routing.routing import route as routed
    from headgate.pipeline.tables.archive import Archive

    with one_line():
        if source in TABLES:
            messages = Archive(place.tables).read(session, TABLES[source])
        else:
            messages = session.read.parquet(source)
        show(routed(messages, wanted, key=key), as_json, target)
