"""Routing of many messages by many subscriptions, as the router would, on Spark.

A message makes a row for itself and one for each of its probes (`shapes.py`). A broadcast table of
expressions is joined to these rows, and the whole expression decides whether a row stays.
Expressions without a probe are evaluated in Python (`matcher.py`), in the same pass over the
messages. Nothing is shuffled: the rows of a message stay together, so `route` decides each message
where it is, and works on streams too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from operator import and_
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from headgate.errors import PipelineError
from headgate.expr.nodes import Binary, Tree
from headgate.expr.types import Kind
from headgate.pipeline.routing.columns import (
    FIELDS,
    TYPES,
    Lookup,
    Operand,
    condition,
    in_map,
    matches,
)
from headgate.pipeline.routing.matcher import EVERY, Decisions, Numbered, asked
from headgate.pipeline.routing.shapes import (
    CODE_MAX,
    Part,
    Plan,
    Probe,
    Shape,
    kinds_read,
    planned,
    slot_kind,
)
from headgate.pipeline.routing.subscriptions import Subscriptions

DECISION = (
    StructType()
    .add("app", StringType())
    .add("outcome", StringType())
    .add("priority", IntegerType())
    .add("winners", ArrayType(StringType()))
)
"""The columns of `route`, after the key."""


def matching(
    messages: DataFrame,
    subscriptions: Subscriptions,
    *,
    properties: str | None = "properties",
    key: str = "number",
    code_max: int = CODE_MAX,
) -> DataFrame:
    """A row for each message and each consumer's subscription that matches it: the key, and the
    subscription's ``id``, ``app`` and ``priority``. Priorities and filters are not applied.

    `properties` is a map from names to structs as in the journal, or to values of one type;
    None if the columns themselves are the properties.
    """
    consumers = subscriptions.consumers
    search = _search(subscriptions, False, code_max)
    found = search.found(messages, properties, key)
    if search.texts:
        schema = StructType([found.schema["expression"], found.schema["key"]])
        found = found.drop("mark").mapInArrow(search.asking, schema)
    table = {
        "expression": pa.array([search.numbers[each.expression] for each in consumers], pa.int32()),
        "id": pa.array([each.id for each in consumers], pa.string()),
        "app": pa.array([each.app for each in consumers], pa.string()),
        "priority": pa.array([each.priority for each in consumers], pa.int32()),
    }
    whose = messages.sparkSession.createDataFrame(pa.table(table))
    joined = found.join(F.broadcast(whose), "expression")
    return joined.select(F.col("key").alias(key), "id", "app", "priority")


def route(
    messages: DataFrame,
    subscriptions: Subscriptions,
    *,
    properties: str | None = "properties",
    key: str = "number",
    code_max: int = CODE_MAX,
) -> DataFrame:
    """A row for each message and each app: the key, ``app``, and what the router would do.

    ``outcome`` is "auto-confirmed" if the app has filters and none is true; "routed" with the
    ``priority`` at which something matches and all active subscriptions of it as ``winners``, in
    the order in which they are tried first; or "put-aside" if nothing matches.
    """
    search = _search(subscriptions, True, code_max)
    found = search.found(messages, properties, key)
    asking = search.asking if search.texts else iter
    decisions = search.decisions

    def decided(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decisions.decided(asking(batches))

    schema = StructType([found.schema["key"], *DECISION])
    return found.mapInArrow(decided, schema).withColumnRenamed("key", key)


class _Flat(NamedTuple):
    """A property's values of one type, and their column."""

    name: str
    kind: Kind
    column: str


Asking: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SEARCHES = 4
"""Kept, for what is routed by the same subscriptions again and again, as a stream is."""


@lru_cache(maxsize=SEARCHES)
def _search(subscriptions: Subscriptions, with_filters: bool, code_max: int) -> _Search:
    return _Search(subscriptions, with_filters, code_max)


class _Search:
    """The search for the expressions that match a message."""

    def __init__(self, subscriptions: Subscriptions, with_filters: bool, code_max: int) -> None:
        texts = dict.fromkeys(each.expression for each in subscriptions.consumers)
        if with_filters:
            texts |= dict.fromkeys(each.expression for each in subscriptions.filters)
        trees = {text: subscriptions.trees[text] for text in texts if text is not None}
        self.numbers: dict[str | None, int] = {None: EVERY}
        self.numbers |= {text: number for number, text in enumerate(trees, EVERY + 1)}
        self._subscriptions = subscriptions
        self._plan = plan = planned(trees, code_max)
        self.texts: Numbered = tuple((self.numbers[text], text) for text in plan.rest)
        """The expressions that are left to the matcher."""
        rest = kinds_read(trees[text] for text in plan.rest)
        joined = kinds_read(tree for shape in plan.shapes for tree in shape.trees)
        nothing: frozenset[Kind] = frozenset()
        self._flat = [
            _Flat(name, kind, f"p{place}_{FIELDS[kind]}")
            for place, name in enumerate(dict.fromkeys((*rest, *joined)))
            for kind in Kind
            if kind in rest.get(name, nothing) | joined.get(name, nothing)
        ]
        self._asked = [each for each in self._flat if each.kind in rest.get(each.name, nothing)]

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self._subscriptions, self.numbers)

    @cached_property
    def _table(self) -> pa.Table:
        return _table(self._plan, self.numbers)

    @property
    def asking(self) -> Asking:
        """The matcher, for batches of what was found."""
        texts, names = self.texts, [each.name for each in self._asked]
        return lambda batches: asked(batches, texts, names)

    def found(self, messages: DataFrame, properties: str | None, key: str) -> DataFrame:
        """Rows of ``mark``, ``expression``, ``key`` and what the matcher reads: of each message one
        for itself, then those of the expressions that match it."""
        source = _source(messages, properties)
        rows = messages.select(
            F.rand().alias("mark"),
            F.col(key).alias("key"),
            *(_of(each.kind, source(each.name)).alias(each.column) for each in self._flat),
        )
        reads = [each.column for each in self._asked]
        if not self._plan.rows:
            return rows.select("mark", F.lit(EVERY).alias("expression"), "key", *reads)
        probes = [
            _probe(number, probe, self._lookup) for number, probe in enumerate(self._plan.probes, 1)
        ]
        itself = F.lit(None).cast("bigint")
        rows = rows.select("*", F.posexplode(F.array(itself, *probes)).alias("probe", "hash"))
        table = _filed(messages.sparkSession.createDataFrame(self._table), self._plan.probes)
        # An outer join keeps the message itself, and only the table can be broadcast for it.
        rows = rows.join(F.broadcast(table), "hash", "left")
        is_itself = F.col("probe") == 0
        is_match = (F.col("probe") == F.col("filed")) & _decided(self._plan, self._lookup)
        return rows.where(is_itself | is_match).select(
            "mark",
            F.when(is_itself, F.lit(EVERY)).otherwise(F.col("number")).alias("expression"),
            "key",
            *(F.when(is_itself, F.col(column)).alias(column) for column in reads),
        )

    def _lookup(self, name: str) -> Operand:
        """The columns of a property, or of a slot."""
        kind = slot_kind(name)
        if kind is not None:
            return {kind: F.col(name[1:])}
        return {each.kind: F.col(each.column) for each in self._flat if each.name == name}


# Messages.


def _source(messages: DataFrame, properties: str | None) -> Lookup:
    """Where the properties of messages are."""
    if properties is None:
        kinds = {field.name: _kind(field.dataType) for field in messages.schema}

        def of_column(name: str) -> Operand:
            kind = kinds.get(name)
            return {} if kind is None else {kind: messages[f"`{name}`"].cast(TYPES[kind])}

        return of_column
    if properties not in messages.columns:
        raise PipelineError(
            f"the messages have no column {properties!r}, but {', '.join(messages.columns)}:"
            " say which one holds the properties"
        )
    held = messages.schema[properties].dataType
    if isinstance(held, MapType) and isinstance(held.valueType, StructType):
        return in_map(properties)
    kind = _kind(held.valueType) if isinstance(held, MapType) else None
    if kind is None:
        raise PipelineError(
            f"the column {properties!r} holds {held.simpleString()}, no properties: it should be"
            " map<string,struct<i:bigint,s:string,b:boolean>>, or a map to one of these types"
        )
    return lambda name: {kind: F.try_element_at(properties, F.lit(name)).cast(TYPES[kind])}


def _kind(held: DataType) -> Kind | None:
    """The type of a plain column for an expression; none if it is of another type."""
    if isinstance(held, BooleanType):
        return Kind.BOOLEAN
    if isinstance(held, IntegralType):
        return Kind.INTEGER
    return Kind.STRING if isinstance(held, StringType) else None


def _of(kind: Kind, operand: Operand) -> Column:
    return operand.get(kind, F.lit(None).cast(TYPES[kind]))


def _probe(number: int, probe: Probe, lookup: Lookup) -> Column:
    """The key that a message is looked up by; NULL if it lacks a part."""
    values = [lookup(part.name)[part.kind] for part in probe]
    whole = reduce(and_, (value.isNotNull() for value in values))
    return F.when(whole, _hash(number, map(_taken, probe, values)))


def _taken(part: Part, value: Column) -> Column:
    match part.kind:
        case Kind.INTEGER:
            return value if part.grain < 0 else F.shiftright(value, part.grain)
        case Kind.STRING:
            return value if part.grain < 0 else F.substring(value.cast("binary"), 1, part.grain)
        case Kind.BOOLEAN:
            return value.cast("bigint")


def _hash(number: int, values: Iterable[Column]) -> Column:
    """One number for the values of a probe. Others may have the same: it finds more than it
    should, and the expression decides. For Spark a text and its bytes have one hash."""
    return F.xxhash64(F.lit(number), *values)


# The table of expressions.


def _table(plan: Plan, numbers: Mapping[str | None, int]) -> pa.Table:
    """A row for each row of the plan: ``filed`` (the number of its probe), ``shape``, ``number``
    (of its expression), its literals ``i0``, ``s0`` ... and the values that it is filed under.

    The value of a probe's part is in ``one_i0`` or ``one_s0`` ...; if there are two cells, the
    other is in ``other_i0`` or ``other_s0`` ..., and else the same again."""
    rows = [placed.row for placed in plan.rows]
    columns = {
        "filed": pa.array([placed.probe + 1 for placed in plan.rows], pa.int32()),
        "shape": pa.array([placed.shape for placed in plan.rows], pa.int32()),
        "number": pa.array([numbers[placed.text] for placed in plan.rows], pa.int32()),
    }
    for place in range(max(len(row.integers) for row in rows)):
        held = [row.integers[place] if place < len(row.integers) else None for row in rows]
        columns[f"i{place}"] = pa.array(held, pa.int64())
    for place in range(max(len(row.texts) for row in rows)):
        texts = [row.texts[place] if place < len(row.texts) else None for row in rows]
        columns[f"s{place}"] = pa.array(texts, pa.string())
    for place in range(max(map(len, plan.probes))):
        values = [row.values[place] if place < len(row.values) else (None,) for row in rows]
        for name, which in (("one", 0), ("other", -1)):
            cells = [each[which] for each in values]
            integers = [cell if isinstance(cell, int) else None for cell in cells]
            raws = [cell if isinstance(cell, bytes) else None for cell in cells]
            columns[f"{name}_i{place}"] = pa.array(integers, pa.int64())
            columns[f"{name}_s{place}"] = pa.array(raws, pa.binary())
    return pa.table(columns)


def _filed(table: DataFrame, probes: Sequence[Probe]) -> DataFrame:
    """The table under ``hash``: a row for each cell, and only one if both have the same hash."""
    cases = []
    for number, probe in enumerate(probes, 1):
        one, other = (
            _hash(number, (F.col(f"{name}_{_letter(part)}{n}") for n, part in enumerate(probe)))
            for name in ("one", "other")
        )
        has_cells = any(part.grain >= 0 for part in probe)
        hashes = F.array_distinct(F.array(one, other)) if has_cells else F.array(one)
        cases.append((F.col("filed") == number, hashes))
    kept = [name for name in table.columns if not name.startswith(("one_", "other_"))]
    return table.select(F.explode(_case(cases)).alias("hash"), *kept)


def _letter(part: Part) -> str:
    return "s" if part.kind is Kind.STRING else "i"


# Conditions.


def _decided(plan: Plan, lookup: Lookup) -> Column:
    """Whether a message and a row of the table match."""
    cases = ((F.col("shape") == at, _true(each, lookup)) for at, each in enumerate(plan.shapes))
    return _case(cases)


def _case(cases: Iterable[tuple[Column, Column]]) -> Column:
    (first, value), *others = cases
    return reduce(lambda column, case: column.when(*case), others, F.when(first, value))


def _true(shape: Shape, lookup: Lookup) -> Column:
    parts = [_conjunction(shape.tree, lookup)]
    if shape.own is not None:
        parts.append(condition(shape.own, lookup))
    parts += [~matches(tree, lookup) for tree in shape.earlier]
    return reduce(and_, parts)


def _conjunction(tree: Tree, lookup: Lookup) -> Column:
    """True where the tree is; else false or NULL. Both sides of a && must be true in whatever
    order they are looked at, so here Spark's own AND will do."""
    if isinstance(tree, Binary) and tree.op == "&&":
        return _conjunction(tree.left, lookup) & _conjunction(tree.right, lookup)
    return condition(tree, lookup)
