"""How the expressions of an app do: how often each was true, and why it was not.

A message must not pay for expressions that cannot match, so most are never asked. What is found
is counted where it is found; the rest of what the app looked at is the difference. Why an
expression has no value is known only if it is evaluated in full: that is done for a few, in turns,
when time passes.
"""

from __future__ import annotations

from headgate.core.model.message import Properties
from headgate.expr.predicate import Failure, Predicate

SAMPLE_APPS = 8
SAMPLE_GROUPS = 8
"""So many expressions of so many apps are evaluated in full in one tick, on one message that the
app looked at since it had its turn. The first time an expression has to be compiled for it, which
takes a quarter of a millisecond."""


class ExpressionStats:
    """How often one expression was true, and why it was not."""

    __slots__ = ("failures", "matched", "sampled", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        """Messages that the app had looked at when the expression came."""
        self.matched = 0
        """Messages for which it was asked and true, and that nothing of a higher priority took."""
        self.sampled = 0
        """Messages on which it was evaluated in full."""
        self.failures: dict[Failure, int] = dict.fromkeys(Failure, 0)
        """How many of these it had no value for, and why."""

    def sample(self, predicate: Predicate, properties: Properties) -> Failure | None:
        """Evaluate in full; return what `unsample` takes."""
        result = predicate.evaluate(properties)
        failure = result if isinstance(result, Failure) else None
        self.sampled += 1
        if failure is not None:
            self.failures[failure] += 1
        return failure

    def unsample(self, failure: Failure | None) -> None:
        """Take back a `sample`."""
        self.sampled -= 1
        if failure is not None:
            self.failures[failure] -= 1
