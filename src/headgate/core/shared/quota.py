"""Quota: what a shared queue and its domain hold, their limits, and when to warn."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from headgate.core.facts import CapacityChanged
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo
from headgate.errors import QuotaReached

if TYPE_CHECKING:
    from headgate.core.shared.queue import DomainState, SharedQueue

HIGH_MARK = 0.8
"""The share of a quota from which on it counts as high."""


class Capacity(Enum):
    """How full a queue or a domain is: a change is recorded as a fact."""

    NORMAL = "normal"
    HIGH = "high"
    FULL = "full"


class Meter:
    """Counts the messages and bytes of a queue or a domain, against its limits.

    Owned by the queue or the domain; accepting and releasing change it, in turns that may be
    undone.
    """

    __slots__ = ("bytes", "capacity", "messages", "scope")

    def __init__(self, scope: str, messages: int = 0, bytes: int = 0) -> None:
        self.scope = scope
        self.messages = messages
        self.bytes = bytes
        self.capacity = Capacity.NORMAL

    def has_room(self, size: int, messages_max: int | None, bytes_max: int | None) -> bool:
        return (messages_max is None or self.messages < messages_max) and (
            bytes_max is None or self.bytes + size <= bytes_max
        )

    def check(self, size: int, messages_max: int | None, bytes_max: int | None) -> None:
        """Raise unless there is room for one more message of this size."""
        # BMQ-82: a limit of N admits N.
        if messages_max is not None and self.messages >= messages_max:
            raise QuotaReached(self.scope, "messages", messages_max)
        # BMQ-84: the message that would go over is refused.
        if bytes_max is not None and self.bytes + size > bytes_max:
            raise QuotaReached(self.scope, "bytes", bytes_max)

    def count(self, messages: int, bytes: int) -> None:
        self.messages += messages
        self.bytes += bytes

    def change(self, messages: int, bytes: int, undo: Undo) -> None:
        self.count(messages, bytes)
        undo.note(self.count, -messages, -bytes)

    def judge(self, messages_max: int | None, bytes_max: int | None) -> Capacity:
        # Most meters are far from their marks: below four fifths, in integers.
        if (messages_max is None or 5 * self.messages < 4 * messages_max) and (
            bytes_max is None or 5 * self.bytes < 4 * bytes_max
        ):
            return Capacity.NORMAL
        share = self.share(messages_max, bytes_max)
        if share >= 1:
            return Capacity.FULL
        return Capacity.HIGH if share >= HIGH_MARK else Capacity.NORMAL

    def share(self, messages_max: int | None, bytes_max: int | None) -> float:
        """The used share of the limits: the larger of both."""
        return max(_share(self.messages, messages_max), _share(self.bytes, bytes_max))


def _share(amount: int, limit: int | None) -> float:
    if limit is None:
        return 0.0
    return amount / limit if limit else 1.0


def judge(queue: SharedQueue, turn: Turn) -> None:
    """Say when a queue or its domain crosses a mark, once each way."""
    state, meter = queue.state, queue.meter
    domain = state.domain
    capacity = meter.judge(domain.max_messages, domain.max_bytes)
    # BMQ-86: one alarm for each crossing.
    if capacity is not meter.capacity:
        name = queue.id.decode(errors="backslashreplace")
        _crossed(meter, name, capacity, queue, turn)
    judge_domain(state, queue, turn)


def judge_less(queue: SharedQueue, turn: Turn) -> None:
    """Judge a queue after a message has left: it can only have become less full."""
    if (
        queue.meter.capacity is not Capacity.NORMAL
        or queue.state.meter.capacity is not Capacity.NORMAL
    ):
        judge(queue, turn)


def judge_domain(state: DomainState, queue: SharedQueue | None, turn: Turn) -> None:
    """Judge a domain for one of its queues, which may not be in memory."""
    domain, meter = state.domain, state.meter
    capacity = meter.judge(domain.domain_max_messages, domain.domain_max_bytes)
    if capacity is not meter.capacity:
        _crossed(meter, domain.name, capacity, queue, turn)


def _crossed(
    meter: Meter, name: str, capacity: Capacity, queue: SharedQueue | None, turn: Turn
) -> None:
    detail = ""
    if queue is not None and capacity is not Capacity.NORMAL:
        detail = queue.detail()
    turn.undo.assign(meter, "capacity", capacity)
    turn.facts.append(CapacityChanged(turn.now, meter.scope, name, capacity.value, detail))
