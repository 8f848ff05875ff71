"""Rows made again: of some tables, for a range of facts, in one manifest.

It is needed after a mistake of ours, for a table or a column that is new, and for facts that could
not be read when their turn came. Files are replaced whole, so a range is widened to the files that
touch it. Batches go on meanwhile; upkeep waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.errors import PipelineError
from headgate.pipeline.source.feed import Listing, feed_of
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import lease, match_counts
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.manifests import File, Outdated, State
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.wishes import Wishes, changes_in, changes_since_start

FACTS = TABLES["facts"]


@dataclass(frozen=True, slots=True)
class Range:
    """A range of facts: those after a number and up to another."""

    after: int
    upto: int

    def touches(self, file: File) -> bool:
        return file.after < self.upto and file.upto > self.after

    def has(self) -> Column:
        return (F.col("number") > self.after) & (F.col("number") <= self.upto)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The outcome of a rebuild: its range, and how many files it replaced and made."""

    facts: Range
    replaced: int
    """Files that count no more."""
    made: int


def widened(state: State, tables: Collection[str], wanted: Range) -> Range:
    """A range that no file of these tables is partly in, as far as the tables go."""
    upto = min(wanted.upto, state.upto)
    while True:
        files = [
            file
            for name in tables
            for file in state.table(name)
            if Range(wanted.after, upto).touches(file)
        ]
        wider = Range(
            min([wanted.after, *(file.after for file in files)]),
            max([upto, *(file.upto for file in files)]),
        )
        if wider == Range(wanted.after, upto):
            return wider
        wanted, upto = wider, wider.upto


def rebuild(
    session: SparkSession,
    source: Mapping[str, str] | None,
    root: str,
    tables: Collection[str],
    wanted: Range,
) -> Rebuilt:
    """Make the rows of some tables again, of the journal's facts or, without a source, of those in
    the table of facts."""
    archive = Archive(root)
    archive.storage.make()
    with lease.held(archive.storage, lease.TIDIER):
        state = archive.state()
        chosen = widened(state, {*tables, FACTS.name}, wanted)
        old = [file for file in state.table(FACTS.name) if chosen.touches(file)]
        kept = archive.stored(session, FACTS, old)
        facts = kept if source is None else _of_journal(session, source, kept, chosen)
        attempt = attempt_of("rebuild")
        if FACTS.name in tables:
            archive.write(FACTS, attempt, facts)
            files = archive.written(FACTS, attempt, chosen.after, chosen.upto)
            facts = archive.stored(session, FACTS, files)
        for name in tables:
            make = TABLES[name].make
            if name != FACTS.name and make is not None:
                rows = make(t.of_kinds(facts, TABLES[name].kind_names))
                archive.write(TABLES[name], attempt, rows)
        if "matches" in tables:
            before = archive.stored(session, FACTS, state.table(FACTS.name))
            _write_matches(archive, attempt, facts, before, chosen)
        removed = {
            name: [file.path for file in state.table(name) if chosen.touches(file)]
            for name in tables
        }
        added = {
            name: archive.written(TABLES[name], attempt, chosen.after, chosen.upto)
            for name in tables
        }
        try:
            archive.commit(added, removed, revises=FACTS.name in tables)
        except Outdated as error:
            raise PipelineError(f"{error}: somebody else changed the tables; try again") from None
    return Rebuilt(chosen, sum(map(len, removed.values())), sum(map(len, added.values())))


def _of_journal(
    session: SparkSession, source: Mapping[str, str], kept: DataFrame, chosen: Range
) -> DataFrame:
    """The facts of a range as the journal has them, if that is not less than is kept."""
    _check_whole(feed_of(source).look(), chosen)
    facts = register(session).read.format("headgate").options(**source).load()
    found = t.facts(facts.where(chosen.has()))
    there, before = found.count(), kept.where(chosen.has()).count()
    if there < before:
        raise PipelineError(
            f"the journal has {there} facts from {chosen.after + 1} to {chosen.upto}, and the table"
            f" facts {before}: make the others of that table, with --source facts"
        )
    return found


def _check_whole(now: Listing, chosen: Range) -> None:
    oldest = min((first for first, _ in now.ranges), default=None)
    if oldest is None or (oldest > chosen.after + 1 and chosen.after > 0):
        begins = "is empty" if oldest is None else f"begins with fact {oldest}"
        raise PipelineError(
            f"the journal {begins}, and the facts from {chosen.after + 1} on are wanted: name later"
            " ones with --from, or make the tables of the table facts, with --source facts"
        )
    for segment in now.quarantined:
        if segment.first <= chosen.upto and segment.last > chosen.after:
            raise PipelineError(
                f"{segment.name} cannot be read ({segment.problem}): repair it and remove its mark,"
                " or leave out its facts with --from and --to"
            )


def _write_matches(
    archive: Archive, attempt: str, facts: DataFrame, all_facts: DataFrame, chosen: Range
) -> None:
    """As the batches did it: with who wanted what before, since the router's last start."""
    wishes = Wishes()
    wishes.follow(changes_since_start(all_facts, chosen.after))
    wishes.follow(changes_in(facts))
    if wishes.spans:
        accepted = facts.where(F.col("kind") == f.Accepted.__name__)
        archive.write(TABLES["matches"], attempt, match_counts.count(accepted, wishes))
