"""What one read of several queues is given of each."""

from __future__ import annotations

from headgate.core.model.limits import Limits
from headgate.core.model.value import value


@value
class ReadShare:
    """Messages and bytes of one queue that a read is given at once."""

    messages: int
    bytes: int


def share_of(limits: Limits, queues: int) -> ReadShare:
    """The share of each of so many queues. The answer is made in one piece, and so is that of a
    range: all of them together give as much as a range has."""
    return ReadShare(
        min(limits.pull_messages, max(1, limits.range_messages // queues)),
        min(limits.pull_bytes, limits.range_bytes // queues),
    )
