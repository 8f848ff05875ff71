"""Why an expression has no value for a message, in the same words for `explain`, the page and the
API."""

from __future__ import annotations

from headgate.expr.predicate import Failure, Predicate
from headgate.expr.types import Properties

UNREADABLE = b""
"""Bytes, which a message can have and no expression can use."""

REASONS = {
    Failure.NAME: "the message lacks {missing}",
    Failure.TYPE: "a value is of a type that does not fit",
    Failure.ARITHMETIC: "division by zero, or an integer of more than 64 bits",
}


def missing_property(predicate: Predicate, properties: Properties) -> str:
    """The missing property that ends an evaluation with NAME: a value that cannot be read, in its
    place and no other, ends it at the same point, with TYPE."""
    return next(
        name
        for name in predicate.properties
        if name not in properties
        and predicate.evaluate({**properties, name: UNREADABLE}) is Failure.TYPE
    )


def missing_of(predicate: Predicate, properties: Properties, failure: Failure) -> str | None:
    """The missing property, if that is the failure."""
    return missing_property(predicate, properties) if failure is Failure.NAME else None


def undecided_reason(failure: Failure, missing: str | None) -> str:
    """A failure in words."""
    return f"{failure}: {REASONS[failure].format(missing=missing or 'a property')}"


def failure_reason(predicate: Predicate, properties: Properties, failure: Failure) -> str:
    """The reason without the name of the failure, for an evaluation that ended with it."""
    missing = missing_of(predicate, properties, failure)
    return REASONS[failure].format(missing=missing)
