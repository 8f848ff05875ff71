"""Two sets of subscriptions on recent messages: who gets what before, and who after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.model.message import Properties
from headgate.core.turn.slices import Slices
from headgate.errors import ExpressionError
from headgate.expr.predicate import Predicate, compile_expression
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import CompareAnswer, Moved
from headgate.server.desk.asking import ComparedSubscription, CompareQuestion, shown
from headgate.server.desk.kept import RecentMessage

SUBSCRIPTIONS_MAX = 200
MOVED_ROWS = 20
COMPILE_UNITS = 100
EVERYTHING = "everything"


class Rule(NamedTuple):
    """A subscription of a set."""

    text: str
    predicate: Predicate | None
    app: str
    priority: int

    def matches(self, properties: Properties) -> bool:
        return self.predicate is None or self.predicate.matches(properties)


def compared(asked: CompareQuestion, rows: Sequence[RecentMessage]) -> Slices[CompareAnswer]:
    """How many messages go elsewhere, with an example of each way. Windows count for nothing here:
    the highest priority that matches gets a message, and of equals the one that is listed first."""
    before = yield from _rules(asked.before)
    after = yield from _rules(asked.after)
    apps = list(dict.fromkeys(rule.app for rule in (*before, *after)))
    moved: Counter[tuple[str, str | None, str | None]] = Counter()
    samples: dict[tuple[str, str | None, str | None], RecentMessage] = {}
    unchanged = orphaned = matched = 0
    for row in rows:
        yield 1 + (len(before) + len(after)) // 4
        ways = [
            (app, _taker(before, app, row.properties), _taker(after, app, row.properties))
            for app in apps
        ]
        changed = [way for way in ways if way[1] != way[2]]
        unchanged += not changed
        had, has = (any(way[side] is not None for way in ways) for side in (1, 2))
        orphaned += had and not has
        matched += has and not had
        for way in changed:
            moved[way] += 1
            samples.setdefault(way, row)
    return CompareAnswer(
        recent=len(rows),
        unchanged=unchanged,
        moved=[
            Moved(
                count=count,
                app=shown(way[0]),
                before=None if way[1] is None else shown(way[1]),
                after=None if way[2] is None else shown(way[2]),
                sample=samples[way].row(),
            )
            for way, count in moved.most_common(MOVED_ROWS)
        ],
        orphaned=orphaned,
        newly_matched=matched,
    )


def _rules(given: Sequence[ComparedSubscription]) -> Slices[list[Rule]]:
    if len(given) > SUBSCRIPTIONS_MAX:
        raise Refusal(400, f"a set has at most {SUBSCRIPTIONS_MAX} subscriptions", "too_many")
    rules = []
    for each in given:
        try:
            predicate = None if each.expression is None else compile_expression(each.expression)
        except ExpressionError as error:
            raise Refusal(
                400, f"{shown(str(each.expression))}: {error}", "bad_expression"
            ) from None
        rules.append(Rule(each.expression or EVERYTHING, predicate, each.app, each.priority))
        yield COMPILE_UNITS
    return sorted(rules, key=lambda rule: -rule.priority)  # equals stay in their order


def _taker(rules: Sequence[Rule], app: str, properties: Properties) -> str | None:
    return next((r.text for r in rules if r.app == app and r.matches(properties)), None)
