"""Statistics of an app's expressions: how often each was true, and why it was not.

A message must not cost time for expressions that cannot match, so most are never evaluated. Matches
are counted where they happen; the other messages of the app are the misses. Why an expression has
no value is known only if it is evaluated in full, which is done for a few in turns, with every
tick.
"""

from __future__ import annotations

from headgate.core.model.message import Properties
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.undecided import missing_of, undecided_reason

SAMPLE_APPS = 8
SAMPLE_GROUPS = 8
"""Expressions of each app, and apps, evaluated in full in one tick, on one message that the app has
seen since its last turn. The first time an expression has to be compiled for it, which takes a
quarter of a millisecond."""


class ExpressionStats:
    """Counts of one expression: how often it was true, and why it was not.

    Owned by its `Group`, which counts; `explain` and the page read them.
    """

    __slots__ = ("failures", "matched", "missing", "sampled", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        """Messages that the app had seen when the expression came."""
        self.matched = 0
        """Messages for which it was evaluated and true, and that no higher priority took."""
        self.sampled = 0
        """Messages on which it was evaluated in full."""
        self.failures: dict[Failure, int] = dict.fromkeys(Failure, 0)
        """How many of these it had no value for, by reason."""
        self.missing: dict[str, int] = {}
        """How many of these lacked a property, by name. An expression is short and names few."""

    def sample(
        self, predicate: Predicate, properties: Properties
    ) -> tuple[Failure | None, str | None]:
        """Evaluate in full; return the arguments for `unsample`."""
        result = predicate.evaluate(properties)
        self.sampled += 1
        if not isinstance(result, Failure):
            return None, None
        self.failures[result] += 1
        missing = missing_of(predicate, properties, result)
        if missing is not None:
            self.missing[missing] = self.missing.get(missing, 0) + 1
        return result, missing

    def unsample(self, failure: Failure | None, missing: str | None) -> None:
        """Take back a `sample`."""
        self.sampled -= 1
        if failure is not None:
            self.failures[failure] -= 1
        if missing is not None:
            self.missing[missing] -= 1
            if not self.missing[missing]:
                del self.missing[missing]

    def reason(self) -> str:
        """The most frequent reason for no value, in words; empty if it always had one."""
        failure = max(self.failures, key=self.failures.__getitem__)
        if not self.failures[failure]:
            return ""
        most = max(self.missing, key=self.missing.__getitem__, default=None)
        return undecided_reason(failure, most)
