"""Expressions tried on what a router has seen: what every part comes to, which recent messages
match, and whose messages a new subscription would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.model.ids import QueueId
from headgate.core.model.message import Properties
from headgate.core.shared.impact import impact
from headgate.core.turn.slices import Slices
from headgate.errors import ExpressionError
from headgate.expr.explain import Traced, explain, hint, traced
from headgate.expr.nodes import Binary, Boolean, Integer, Property, Text, Unary, names_of, text_of
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.undecided import missing_of, undecided_reason
from headgate.server.desk.answers import (
    ExpressionAnswer,
    ImpactRow,
    TreePart,
    Tried,
)
from headgate.server.desk.asking import ExpressionQuestion, properties_of, shown
from headgate.server.desk.kept import RecentMessage, RecentMessages

if TYPE_CHECKING:
    from headgate.server.router import Router

SAMPLES = 5
IMPACT_ROWS = 10
COMPILE_UNITS = 200
"""The cost of explaining and compiling an expression: a millisecond or two."""
TRIES = 50
"""Messages that an expression is tried on in a row."""


def tried(
    router: Router, recent: RecentMessages, asked: ExpressionQuestion
) -> Slices[ExpressionAnswer]:
    """Try an expression on a message that the caller made up, and on recent ones."""
    properties = properties_of(asked.properties)
    try:
        explained = explain(asked.expression)
    except ExpressionError as error:
        return _wrong(error)
    yield COMPILE_UNITS
    predicate = Predicate(explained.text, explained.tree)
    yield COMPILE_UNITS
    rows = list(recent.of(asked.domain or _domain_of(asked.queue)))
    counts = yield from _counted(predicate, rows)
    matching = [row for row in reversed(rows) if predicate.matches(row.properties)][:SAMPLES]
    root = traced(explained.tree, properties)
    yield COMPILE_UNITS
    return ExpressionAnswer(
        ok=True,
        tree=_part(root),
        names=list(names_of(explained.tree)),
        keys=None if explained.keys is None else [str(key) for key in explained.keys],
        warnings=list(explained.warnings),
        result=written(root.value),
        reason=_reason(predicate, properties, root.value),
        tried=Tried(
            true=counts["true"],
            false=counts["false"],
            name=counts["NAME"],
            type=counts["TYPE"],
            arithmetic=counts["ARITHMETIC"],
        ),
        recent=len(rows),
        samples=[row.row() for row in matching],
        impact=(yield from _impact(router, asked, predicate, rows)),
    )


def _reason(predicate: Predicate, properties: Properties, result: object) -> str:
    if not isinstance(result, Failure):
        return ""
    return shown(undecided_reason(result, missing_of(predicate, properties, result)))


def _wrong(error: ExpressionError) -> ExpressionAnswer:
    source = error.text.encode("utf-8", "replace")
    return ExpressionAnswer(
        ok=False,
        code=error.code,
        message=error.message,
        offset=len(source[: error.offset].decode("utf-8", "ignore")),
        hint=hint(error) or "",
    )


def _counted(predicate: Predicate, rows: Sequence[RecentMessage]) -> Slices[Counter[str]]:
    counts: Counter[str] = Counter()
    for number, row in enumerate(rows):
        counts[written(predicate.evaluate(row.properties))] += 1
        if number % TRIES == 0:
            yield TRIES
    return counts


def _impact(
    router: Router, asked: ExpressionQuestion, predicate: Predicate, rows: Sequence[RecentMessage]
) -> Slices[list[ImpactRow]]:
    queue = router.broker.shard.shared.queues.get(QueueId(asked.queue.encode()))
    app = queue.apps.get(asked.app) if queue is not None else None
    if queue is None or app is None:
        return []
    messages = [row.properties for row in rows]
    found = yield from impact(predicate, asked.priority, queue.domain, app, messages)
    return [
        ImpactRow(
            count=each.count,
            expression=None if each.expression is None else shown(each.expression),
            priority=each.priority,
            shares=each.shares,
        )
        for each in found[:IMPACT_ROWS]
    ]


def _part(part: Traced) -> TreePart:
    tree = part.tree
    match tree:
        case Unary(op, _) | Binary(op, _, _):
            label, is_literal = op, False
        case _:
            label, is_literal = text_of(tree), isinstance(tree, Integer | Text | Boolean)
    is_property = isinstance(tree, Property)
    return TreePart(
        label=shown(label),
        kind="literal" if is_literal else "property" if is_property else "operator",
        value=written(part.value) if part.is_reached else None,
        parts=[_part(each) for each in part.parts],
    )


def written(value: object) -> str:
    """A value as an expression has it; a failure by its name."""
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return f"0x{value[:100].hex()}"
        case str() if type(value) is str:
            return shown(text_of(Text(value)))
    return str(value)


def _domain_of(queue: str) -> str:
    return queue.removeprefix("bmq://").partition("/")[0]
