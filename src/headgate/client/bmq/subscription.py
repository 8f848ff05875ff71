"""A subscription: what a reader wants of a queue."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.model.limits import KiB, MiB
from headgate.core.model.value import value
from headgate.errors import BadSubscription, ExpressionError, Prohibited
from headgate.expr.parser import ExpressionLimits, parse
from headgate.expr.types import INT64_MAX
from headgate.wire.bmq.requests import PRIORITIES

LENIENT = ExpressionLimits(bytes=64 * KiB, operators=4096)
"""How long an expression may be is for the router to say, which tells its limit."""


@value
class Subscription:
    """Messages for which an expression is true, or all of them.

    A message goes to the highest priority of those subscriptions that it matches, whoever has
    them. Of equal ones, each gets one in turn.
    """

    expression: str | None = None
    priority: int = 0
    max_unconfirmed_messages: int = 1000
    """The router delivers no more before some are confirmed; 0 is nothing at all."""
    max_unconfirmed_bytes: int = 32 * MiB
    """The same in bytes of bodies and properties. One message may go beyond it."""


def checked(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions, if all of them can be read. There are brokers that take a wrong
    expression for one that is always true, so it is not even sent."""
    wanted = tuple(subscriptions)
    for subscription in wanted:
        if subscription.priority not in PRIORITIES:
            raise Prohibited("the priority of a subscription has 32 bits")
        if not (
            0 <= subscription.max_unconfirmed_messages <= INT64_MAX
            and 0 <= subscription.max_unconfirmed_bytes <= INT64_MAX
        ):
            raise Prohibited("the window of a subscription has 63 bits, and is not negative")
        if subscription.expression is not None:
            try:
                parse(subscription.expression, LENIENT)
            except ExpressionError as error:
                raise BadSubscription(error) from error
    return wanted
