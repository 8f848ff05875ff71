"""``headgate pipeline dryrun`` and ``audit``: what would happen, and does it add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.output import emit, json_option
from headgate.cli.pipeline.place import (
    Place,
    Spark,
    compiled,
    facts_of,
    one_line,
    place_options,
    since_option,
    spark_options,
)
from headgate.cli.units import counted
from headgate.core.model.drift import Drift
from headgate.errors import PipelineError
from headgate.journal.snapshot import take
from headgate.server.state_directory import database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.jobs.audit import State


@click.command()
@click.argument("expression", metavar="EXPR")
@click.option("--domain", required=True, help="The domain whose messages are asked about.")
@click.option("--app", help="Only compare with subscriptions of this app.")
@click.option("--priority", default=0, show_default=True, help="That the new one would have.")
@click.option("--samples", default=5, show_default=True, help="Matching messages to show.")
@since_option
@place_options
@spark_options
@json_option
def dryrun(
    expression: str,
    domain: str,
    app: str | None,
    priority: int,
    samples: int,
    since: float,
    place: Place,
    spark: Spark,
    as_json: bool,
) -> None:
    """Say what an expression would have matched, and who would lose."""
    predicate = compiled(expression)
    place.check_journal()
    session = spark()
    from headgate.pipeline.jobs.dryrun import Question, ask

    with one_line():
        facts = facts_of(session, place)
        question = Question(predicate, domain, app, priority, since)
        answer = ask(facts, question, samples)
    if not answer.messages:
        click.echo(f"the journal has no messages of {domain} in that time", err=True)
    row = {name: getattr(answer, name) for name in answer.__slots__}
    emit([{"expression": predicate.text, **row}], _answer_text, as_json)


def _answer_text(row: Mapping[str, Any]) -> str:
    share = f" ({row['matched'] / row['messages']:.1%})" if row["messages"] else ""
    lines = [f"{row['matched']} of {row['messages']} messages match{share}"]
    for kind, count in row["undecided"].items():
        if count:
            lines.append(f"  undecided for {count}: {kind}")
    for sample in row["samples"]:
        shown = ", ".join(f"{name}={value!r}" for name, value in sample["properties"].items())
        lines.append(f"  for example {sample['time']}  {sample['address']}  {shown}")
    for other in row["others"]:
        text = other["expression"] or "everything"
        lines.append(
            f"  session {other['session']} ({text}, priority {other['priority']}, app"
            f" {other['app'] or '-'}): both match {other['both']}, only it {other['only_this']},"
            f" only the new one {other['only_new']}; it gets {other['gets']}, would lose"
            f" {other['loses']} and share {other['shares']}"
        )
    return "\n".join(lines)


@click.command()
@click.option(
    "--from",
    "origin",
    type=click.Choice(["store", "facts"]),
    default="store",
    show_default=True,
    help="What to count: the queues of the store, or what the facts say of them.",
)
@click.option("--incremental", is_flag=True, help="Go on from the last audit of the facts.")
@click.option("--all", "everything", is_flag=True, help="Also show services that do not drift.")
@place_options
@spark_options
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    origin: str,
    incremental: bool,
    everything: bool,
    place: Place,
    spark: Spark,
    as_json: bool,
) -> None:
    """Count the queues of each service again.

    The router's tallies are held against that. The store is copied in one read, so the router may
    go on. Exits with 3 if a service drifts; with --from facts the queues on which store and facts
    differ are named.
    """
    store = database(place.config)
    if store is None:
        raise PipelineError("the store in memory cannot be audited: it has no file")
    journal = Path(place.source["path"]) if "path" in place.source else None
    with TemporaryDirectory(prefix="headgate-audit-") as folder:
        snapshot = Path(folder) / "snapshot"
        taken = take(store, snapshot, journal=journal, progress=_progress)
        click.echo(f"{counted(taken.queues, 'queue')} of services in the store", err=True)
        session = spark()
        with one_line():
            rows = list(_audited(session, place, str(snapshot), origin, incremental))
    drifting = [row for row in rows if row.get("drift") != Drift.NONE.value]
    emit(rows if everything else drifting, _drift_text, as_json)
    services = sum("drift" in row for row in rows)
    click.echo(
        f"{counted(services, 'service')}, {sum('drift' in row for row in drifting)} of them drift",
        err=True,
    )
    ctx.exit(3 if drifting else 0)


def _progress(rows: int) -> None:
    click.echo(f"copied {counted(rows, 'queue')}", err=True)


def _audited(
    session: SparkSession, place: Place, snapshot: str, origin: str, incremental: bool
) -> Iterator[dict[str, Any]]:
    """The services, then the queues on which facts and store differ."""
    from headgate.pipeline.jobs import audit as auditing
    from headgate.pipeline.source.feed import feed_of

    kept = auditing.kept_tallies(session, snapshot)
    if origin == "store" and not incremental:
        recomputed = auditing.from_snapshot(session, snapshot)
        owned = None
    else:
        facts = auditing.facts_at(session, snapshot, facts_of(session, place))
        first = min((each.first for each in feed_of(place.source).segments()), default=1)
        if incremental:
            state = _advanced(session, f"{place.tables}/_audit", facts, snapshot, first)
            recomputed, owned = state.tallies, auditing.owned(state.associations)
        elif first > 1:
            raise PipelineError(
                f"the journal begins with fact {first}, and what came before is only in the store:"
                " use --incremental, which begins with the store and goes on with the facts"
            )
        else:
            recomputed = auditing.from_facts(facts)
            owned = auditing.owned(auditing.associations(facts))
    for row in auditing.compare(recomputed, kept).orderBy("service").collect():
        yield {name: _named(value) for name, value in row.asDict().items() if value is not None}
    if owned is not None:
        stored = auditing.stored(session, snapshot)
        for row in auditing.differences(owned, stored).limit(DIFFERENCES_MAX).collect():
            yield {
                "queue": _named(row.digest),
                "facts": _named(row.one),
                "store": _named(row.other),
            }


def _advanced(
    session: SparkSession, path: str, facts: DataFrame, snapshot: str, first: int
) -> State:
    """The audit of the facts, brought up to the snapshot. The first one begins with the store, if
    the first facts are gone."""
    from headgate.pipeline.jobs import audit as auditing

    before = auditing.load(session, path)
    if before is None and first > 1:
        return auditing.begin(session, path, snapshot)
    if before is not None and before.number < first - 1:
        raise PipelineError(
            f"the last audit was at fact {before.number} and the journal begins with {first}:"
            f" remove {path} to begin with the store"
        )
    return auditing.advance(session, path, facts, auditing.good_for(session, snapshot))


DIFFERENCES_MAX = 10_000
"""Queues that are named; where more differ, something else is wrong."""


def _named(value: Any) -> Any:  # noqa: ANN401
    """Services and queues are named by digests, in hex."""
    return value.hex() if isinstance(value, bytes | bytearray) else value


def _drift_text(row: Mapping[str, Any]) -> str:
    if "queue" in row:
        return (
            f"queue {row['queue']} is {row['facts'] or 'nobody'}'s by the facts and"
            f" {row['store'] or 'nobody'}'s by the store"
        )
    suspect = f"; it may be queue {row['suspect']}" if "suspect" in row else ""
    return (
        f"service {row['service']}: {counted(row['counted'], 'queue')} counted,"
        f" {row['told']} in its tally, drift: {row['drift']}{suspect}"
    )
