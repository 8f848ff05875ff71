"""Impact of a new subscription: which messages it would take from others. It asks the code that
dispatches, so the two cannot disagree."""

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
"""Units that the search for a message's present group counts for."""


@value
class Impact:
    """Messages that a new subscription would get of those that one group gets now."""

    count: int
    expression: str | None
    priority: int | None
    """None if no group gets them."""
    shares: bool
    """Whether the priority is the same: the new subscription takes turns with the group if the
    expression is the same too, and otherwise gets the messages that the group has no room for."""


def impact(
    predicate: Predicate, priority: int, domain: Domain, app: App, messages: Iterable[Properties]
) -> Slices[list[Impact]]:
    """The messages that a subscription with this expression and priority would take, by their
    present group, the most first. Groups are asked in the order of dispatch; windows do not count,
    since a message that waits for a full group is that group's."""
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
