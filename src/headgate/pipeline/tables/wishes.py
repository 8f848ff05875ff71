"""Wishes: the expressions that sessions want on queues, followed from change to change.

The wishes as of a batch are kept in a file beside the tables, as Arrow has them (`wanted`). The
facts that change it are few, or as many as there are subscribers when a router starts anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.wanted import WANTED

CHANGES = tuple(kind.__name__ for kind in (f.RouterStarted, f.Interested, f.Unsubscribed))
"""The kinds of facts that say who wants what."""

Who: TypeAlias = tuple[bytes, str, int]
"""Queue, app and session."""

Subject: TypeAlias = tuple[bytes, str, str]
"""Queue, app and expression: those who want the same are counted together."""

Spans: TypeAlias = list[tuple[int, int | None]]
"""From a number on, and up to one, or without an end."""


class Change(NamedTuple):
    """A change of a session's expressions, with the fields of its fact that matter here."""

    number: int
    kind: str
    queue: bytes | None
    app: str | None
    session: int | None
    place: int | None
    expression: str | None


def changes_in(facts: DataFrame) -> Iterator[Change]:
    """The changes among some facts, in the order of their numbers. They come as Arrow, and only
    what is needed of them: there may be a hundred thousand, when a router starts anew."""
    yield from changes_of(t.of_kinds(facts, CHANGES).select(*Change._fields).toArrow())


def changes_since_start(facts: DataFrame, upto: int) -> Iterator[Change]:
    """The changes up to a fact that still matter: those since the router's last start."""
    earlier = t.of_kinds(facts, CHANGES).where(F.col("number") <= upto)
    is_start = F.col("kind") == f.RouterStarted.__name__
    (start,) = earlier.where(is_start).agg(F.max("number").alias("number")).collect()
    yield from changes_in(earlier.where(F.col("number") >= (start.number or 0)))


def changes_of(facts: pa.Table) -> Iterator[Change]:
    """The changes of subscriptions in facts that are already in memory."""
    found = facts.filter(pc.is_in(facts["kind"], pa.array(CHANGES))).select(Change._fields)
    for batch in found.sort_by("number").to_batches(max_chunksize=10_000):
        yield from map(Change._make, zip(*(each.to_pylist() for each in batch), strict=True))


@dataclass(slots=True)
class Wishes:
    """The expressions that sessions want as of a fact, and the spans of numbers in which each was
    wanted."""

    wanted: dict[Who, tuple[str, ...]] = field(default_factory=dict)
    spans: dict[Subject, Spans] = field(default_factory=dict)
    """From a number on, and up to one; closed spans are those of this batch."""
    _holders: Counter[Subject] = field(default_factory=Counter)
    """How many sessions want it."""

    @classmethod
    def read(cls, table: pa.Table) -> Wishes:
        """The wishes in a table that `table` returned."""
        wishes = cls()
        for batch in table.to_batches(max_chunksize=10_000):
            columns = (column.to_pylist() for column in batch)
            for queue, app, session, expressions in zip(*columns, strict=True):
                wishes._set((queue, app, session), tuple(expressions), 0)
        return wishes

    def table(self) -> pa.Table:
        """The wishes of now."""
        who = [[each[place] for each in self.wanted] for place in range(3)]
        return pa.table([*who, [*self.wanted.values()]], schema=WANTED)

    def go_on(self) -> None:
        """Begin with the next batch: what is wanted now was wanted before it."""
        self.spans = {
            subject: [(0, None)] for subject, spans in self.spans.items() if spans[-1][1] is None
        }
        self._holders = +self._holders

    def follow(self, changes: Iterable[Change]) -> None:
        """Changes in the order of their numbers."""
        for number, kind, queue, app, session, place, expression in changes:
            who = queue or b"", app or "", session or 0
            match kind:
                case "RouterStarted":
                    for each in list(self.wanted):
                        self._set(each, (), number)
                case "Unsubscribed":
                    self._set(who, (), number)
                case "Interested":
                    before = self.wanted.get(who, ()) if place else ()
                    expressions = (expression,) if expression is not None else ()
                    self._set(who, (*before, *expressions), number)

    def _set(self, who: Who, expressions: tuple[str, ...], number: int) -> None:
        queue, app, _ = who
        before = self.wanted.pop(who, ())
        if expressions:
            self.wanted[who] = expressions
        for text in {*expressions} - {*before}:
            subject = queue, app, text
            if not self._holders[subject]:
                self.spans.setdefault(subject, []).append((number, None))
            self._holders[subject] += 1
        for text in {*before} - {*expressions}:
            subject = queue, app, text
            self._holders[subject] -= 1
            if not self._holders[subject]:
                spans = self.spans[subject]
                spans[-1] = spans[-1][0], number
