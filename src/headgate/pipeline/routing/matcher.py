"""The matcher, which runs on executors between Arrow and Arrow: it asks expressions, and decides.

`asked` is for the expressions that no join can find: the router's own index, over batches of
messages. `Decisions` makes of the expressions that match a message what becomes of it.

Rows come in one order: that of a message itself, whose expression is `EVERY`, and then those of
the expressions that match it. Everything needed comes in arguments; an index is kept from one
task of a worker to the next, since building one costs more than a small batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.errors import PipelineError
from headgate.expr.index import PredicateIndex
from headgate.expr.predicate import compile_expression
from headgate.expr.types import Value
from headgate.pipeline.routing.subscriptions import Subscriptions

EVERY = 0
"""The number of no expression, which is true for every message."""

Numbered: TypeAlias = tuple[tuple[int, str], ...]
"""Texts of expressions with their numbers."""

Numbers: TypeAlias = npt.NDArray[np.int64]

INDEXES = 4
"""Kept per worker."""

DECIDED = 1 << 18
"""Messages times apps that are decided at once."""

OUTCOMES = AUTO_CONFIRMED, ROUTED, PUT_ASIDE = "auto-confirmed", "routed", "put-aside"


# Asking.


@lru_cache(maxsize=INDEXES)
def index_of(texts: Numbered) -> PredicateIndex[int]:
    index: PredicateIndex[int] = PredicateIndex()
    for number, text in texts:
        index.add(compile_expression(text), number)
    return index


def asked(
    batches: Iterable[pa.RecordBatch], texts: Numbered, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Add a row for every expression that matches, after the row of its message.

    The last columns of a batch are properties, with these names; only the row of a message
    itself has them. They are not in the result.
    """
    index = index_of(texts)
    for batch in batches:
        kept = batch.num_columns - len(names)
        numbers = batch["expression"].to_numpy()
        places = np.flatnonzero(numbers == EVERY)
        messages = batch.select(range(kept, batch.num_columns)).take(pa.array(places))
        found = [list(index.matching(each)) for each in properties_of(messages, names)]
        sizes = np.ones(len(numbers), np.int64)
        sizes[places] += np.fromiter(map(len, found), np.int64, len(found))
        rows = np.repeat(np.arange(len(numbers)), sizes)
        added = np.ones(len(rows), bool)
        added[np.cumsum(sizes) - sizes] = False
        numbers = numbers[rows]
        numbers[added] = [number for each in found for number in each]
        out = batch.select(range(kept)).take(pa.array(rows))
        place = out.schema.get_field_index("expression")
        yield out.set_column(place, out.schema.field(place), pa.array(numbers))


def properties_of(messages: pa.RecordBatch, names: Sequence[str]) -> list[dict[str, Value]]:
    """The messages as an evaluator takes them; a property has a column for each of its types."""
    found: list[dict[str, Value]] = [{} for _ in range(messages.num_rows)]
    for name, column in zip(names, messages.columns, strict=True):
        for properties, value in zip(found, _values(column), strict=True):
            if value is not None:
                properties[name] = value
    return found


def _values(column: pa.Array) -> list[Value | None]:
    try:
        values: list[Value | None] = column.to_pylist()
    except UnicodeDecodeError:  # Spark does not look whether a text is UTF-8
        raws = column.cast(pa.binary()).to_pylist()
        return [None if raw is None else raw.decode("utf-8", "surrogateescape") for raw in raws]
    return values


# Deciding.


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of numbers for each number."""

    starts: Numbers
    sizes: Numbers
    items: Numbers

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        items = np.fromiter((item for each in lists for item in each), np.int64, sizes.sum())
        return cls(np.cumsum(sizes) - sizes, sizes, items)

    def at(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Their lists in a row, and for each item the place of the number that it is of."""
        sizes = self.sizes[numbers]
        before = np.cumsum(sizes) - sizes
        places = np.repeat(np.arange(len(numbers)), sizes)
        items = self.items[np.arange(len(places)) + np.repeat(self.starts[numbers] - before, sizes)]
        return places, items


class Decisions:
    """Decisions about messages, by the numbers of the expressions that match them."""

    def __init__(self, subscriptions: Subscriptions, numbers: Mapping[str | None, int]) -> None:
        self.apps = subscriptions.apps
        place_of = {app: place for place, app in enumerate(self.apps)}
        groups = subscriptions.groups()
        used: list[list[int]] = [[] for _ in range(len(numbers))]
        for place, group in enumerate(groups):
            used[numbers[group.expression]].append(place)
        passed: list[list[int]] = [[] for _ in range(len(numbers))]
        for each in dict.fromkeys(subscriptions.filters):
            passed[numbers[each.expression]].append(place_of[each.app])
        self._groups = Lists.of(used)
        """Of an expression. A group with a lower number is tried first."""
        self._passed = Lists.of(passed)
        """Apps that an expression lets the message pass to."""
        self._filtered = np.isin(
            np.arange(len(self.apps)), [place_of[each.app] for each in subscriptions.filters]
        )
        self._app = np.array([place_of[group.app] for group in groups], np.int64)
        self._priority = np.array([group.priority for group in groups], np.int64)
        sizes = np.cumsum([0] + [len(group.active) for group in groups])
        self._active = Lists.of([range(*ends) for ends in pairwise(sizes)])
        self._ids = pa.array([name for group in groups for name in group.active], pa.string())

    def decided(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For each message a row per app. The batches have the columns ``expression``, ``key`` and
        ``mark``, which is a number that the rows of a message share and others hardly have; a
        message may begin in one batch and end in another."""
        left: list[pa.RecordBatch] = []
        for batch in batches:
            starts = np.flatnonzero(batch["expression"].to_numpy() == EVERY)
            if len(starts):
                yield from self._of(pa.Table.from_batches([*left, batch.slice(0, starts[-1])]))
                left = []
            left.append(batch.slice(starts[-1] if len(starts) else 0))
        if left:
            yield from self._of(pa.Table.from_batches(left))

    def _of(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """For whole messages, some at a time."""
        if not table.num_rows or not self.apps:
            return
        numbers = table["expression"].to_numpy().astype(np.int64)
        starts = np.flatnonzero(numbers == EVERY)
        messages = np.cumsum(numbers == EVERY) - 1
        marks = table["mark"].to_numpy()
        if numbers[0] != EVERY or not np.array_equal(marks, marks[starts][messages]):
            raise PipelineError(
                "the rows of a message came apart: this session does not broadcast tables that"
                " it is told to; unset spark.sql.optimizer.disableHints"
            )
        keys = table["key"].combine_chunks().take(pa.array(starts))
        step = max(1, DECIDED // len(self.apps))
        ends = np.append(starts, len(numbers))
        for first in range(0, len(starts), step):
            last = min(first + step, len(starts))
            some = slice(ends[first], ends[last])
            part = keys.slice(first, last - first)
            yield self._batch(part, numbers[some], messages[some] - first)

    def _batch(self, keys: pa.Array, numbers: Numbers, messages: Numbers) -> pa.RecordBatch:
        """`messages` are the places of the messages among the keys, for each number."""
        apps, cells = len(self.apps), len(keys) * len(self.apps)
        places, passed = self._passed.at(numbers)
        confirmed = np.tile(self._filtered, len(keys))
        confirmed[messages[places] * apps + passed] = False

        places, groups = self._groups.at(numbers)
        cell = messages[places] * apps + self._app[groups]
        wanted = ~confirmed[cell]
        cell, groups = cell[wanted], groups[wanted]
        order = np.lexsort((groups, -self._priority[groups], cell))
        cell, groups = cell[order], groups[order]
        priority = self._priority[groups]
        first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1])[: len(cell)])
        best = np.repeat(priority[first], np.diff(np.append(first, len(cell))))
        cell, groups = cell[priority == best], groups[priority == best]

        places, active = self._active.at(groups)
        sizes = np.bincount(cell[places], minlength=cells)
        routed = sizes > 0
        priorities = np.zeros(cells, np.int64)
        priorities[cell] = self._priority[groups]
        outcome = np.where(confirmed, 0, np.where(routed, 1, 2))
        offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
        return pa.RecordBatch.from_arrays(
            [
                keys.take(pa.array(np.repeat(np.arange(len(keys)), apps))),
                pa.array(self.apps).take(pa.array(np.tile(np.arange(apps), len(keys)))),
                pa.array(OUTCOMES).take(pa.array(outcome)),
                pa.array(priorities, pa.int32(), mask=~routed),
                pa.ListArray.from_arrays(offsets, self._ids.take(pa.array(active))),
            ],
            names=["key", "app", "outcome", "priority", "winners"],
        )
