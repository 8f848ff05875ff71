"""Why an expression has no value for a message, counted and in the words that everybody is told."""

from __future__ import annotations

from headgate.expr.explain import FAILED, missing_property
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.types import Properties


def missing_of(predicate: Predicate, properties: Properties, failure: Failure) -> str | None:
    """The property that is missing, if that is the failure."""
    return missing_property(predicate, properties) if failure is Failure.NAME else None


def undecided_reason(failure: Failure, missing: str | None) -> str:
    """A failure in words, as `headgate explain` has it."""
    return f"{failure}: {FAILED[failure].format(missing=missing or 'a property')}"
