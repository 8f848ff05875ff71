"""A subscription of a reader to messages of a queue."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.model.limits import KiB, MiB
from headgate.core.model.value import value
from headgate.errors import BadSubscription, ExpressionError, Prohibited
from headgate.expr.parser import ExpressionLimits, parse
from headgate.expr.types import INT64_MAX
from headgate.wire.bmq.requests import PRIORITIES

LENIENT = ExpressionLimits(bytes=64 * KiB, operators=4096)
"""The router limits the length of expressions, and reports its limit."""


@value
class Subscription:
    """Messages for which an expression is true, or all of them.

    A message goes to the highest priority of the subscriptions that it matches, of all consumers.
    Equal ones take turns.
    """

    expression: str | None = None
    priority: int = 0
    max_unconfirmed_messages: int = 1000
    """Unconfirmed messages at which the router stops delivering; 0 pauses."""
    max_unconfirmed_bytes: int = 32 * MiB
    """The same in bytes of bodies and properties. One message may exceed it."""


def checked(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions, if all of them can be parsed. Some brokers treat a wrong expression as
    always true, so it is not even sent."""
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
