"""Advice on expressions: the warnings of `headgate expr check`, cached for long lists of them."""

from __future__ import annotations

from functools import lru_cache

from headgate.errors import ExpressionError
from headgate.expr.explain import explain

ADVICE_UNITS = 200
"""The cost of reading an expression: a millisecond or two, the first time."""


@lru_cache(256)
def warnings_of(expression: str) -> tuple[str, ...]:
    """The warnings of an expression that was taken."""
    try:
        return explain(expression).warnings
    except ExpressionError:  # the router's limits are wider than the usual ones
        return ()


def advice_of(expression: str) -> str:
    """The first of them; empty if there is none."""
    return next(iter(warnings_of(expression)), "")
