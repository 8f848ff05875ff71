"""The share of each queue in a read of several queues."""

from __future__ import annotations

from headgate.core.model.limits import Limits
from headgate.core.model.value import value


@value
class ReadShare:
    """Messages and bytes of one queue that a read gets at once."""

    messages: int
    bytes: int


def share_of(limits: Limits, queues: int) -> ReadShare:
    """The share of each of so many queues. An answer is made in one piece, so all shares together
    are as much as one range may give."""
    return ReadShare(
        min(limits.pull_messages, max(1, limits.range_messages // queues)),
        min(limits.pull_bytes, limits.range_bytes // queues),
    )
