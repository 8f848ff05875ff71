"""Impact of a new subscription: whose messages it would take, asked of the code that dispatches, so
that the two cannot disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headgate.core.model.domain import Domain
from headgate.core.model.message import Properties
from headgate.core.model.value import value
from headgate.core.shared.app import App
from headgate.core.turn.slices import Slices
from headgate.expr.predicate import Predicate

MESSAGE_UNITS = 2
"""What it counts for to look for the group that gets a message now."""


@value
class Impact:
    """Messages that a new subscription would get, of one group that gets them now."""

    count: int
    expression: str | None
    priority: int | None
    """None if nobody gets them."""
    shares: bool
    """The priority is the same: it gets its turn of them if the expression is the same too, and
    else what that group has no room for."""


def impact(
    predicate: Predicate, priority: int, domain: Domain, app: App, messages: Iterable[Properties]
) -> Slices[list[Impact]]:
    """What a subscription with this expression and priority would take, and from whom; the most
    first. Groups are asked in the order of dispatch; windows count for nothing here, since what
    waits for a full group is that group's."""
    taken: Counter[tuple[str | None, int | None, bool]] = Counter()
    for properties in messages:
        yield MESSAGE_UNITS
        if not predicate.matches(properties) or not domain.wants(app.id, properties):
            continue
        now = next(iter(app.groups.matching(properties)), None)
        if now is None:
            taken[None, None, False] += 1
        elif now.priority <= priority:
            taken[now.text, now.priority, now.priority == priority] += 1
    return [Impact(count, *whose) for whose, count in taken.most_common()]
