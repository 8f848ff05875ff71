"""The reasons why expressions have no value for messages, in the words of ``headgate explain``.

The router counts how many; which property is missing is found here, on some of the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.cli.admin import Admin
from headgate.cli.queue_name import path_of
from headgate.errors import ExpressionError, RouterError
from headgate.expr.predicate import Failure, compile_expression
from headgate.expr.types import Value
from headgate.expr.undecided import failure_reason

MESSAGES = 50
"""On so many of them it is looked for."""


def sampled(admin: Admin, queue: str, app: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Messages that an app put aside, or else that came lately."""
    try:
        if app["aside"]:
            found = admin.get(f"{path_of(queue)}/aside", app=app["app"], limit=MESSAGES)
        else:
            found = admin.get("/recent", queue=queue, limit=MESSAGES)
    except RouterError:
        return []  # it went while somebody looked, or nothing is remembered
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def why_undecided(expression: str | None, messages: Iterable[Mapping[str, Any]]) -> str:
    """Why an expression has no value for some of these messages, the most frequent reason first;
    nothing if it has one for all."""
    return "; ".join(reason for reason, _ in _reasons(expression, messages).most_common())


def why_never_decided(expression: str | None, messages: Sequence[Mapping[str, Any]]) -> str:
    """The same if it has a value for none of them, else nothing."""
    reasons = _reasons(expression, messages)
    is_never = bool(messages) and reasons.total() == len(messages)
    return "; ".join(reason for reason, _ in reasons.most_common()) if is_never else ""


def _reasons(expression: str | None, messages: Iterable[Mapping[str, Any]]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    try:
        predicate = compile_expression(expression or "")
    except ExpressionError:  # none, or it was cut
        return reasons
    for message in messages:
        properties = {name: _value(item) for name, item in message["properties"].items()}
        result = predicate.evaluate(properties)
        if isinstance(result, Failure):
            reasons[failure_reason(predicate, properties, result)] += 1
    return reasons


def _value(item: Any) -> Value:  # noqa: ANN401
    """A property as the API writes it."""
    if isinstance(item, dict):
        return bytes.fromhex(item["hex"])
    value: Value = item
    return value
