"""The marks of a quota: when a queue or its domain becomes nearly full, full, or neither."""

from __future__ import annotations

from headgate.core.facts import CapacityChanged
from headgate.core.shared import Capacity, Meter, SharedQueue
from headgate.core.turn import Turn


def judge(queue: SharedQueue, turn: Turn) -> None:
    """Say when a queue or its domain crosses a mark, once each way."""
    domain, meter, whole = queue.domain, queue.meter, queue.state.meter
    capacity = meter.judge(domain.max_messages, domain.max_bytes)
    if capacity is not meter.capacity:
        name = queue.id.decode(errors="backslashreplace")
        _crossed(meter, name, capacity, queue, turn)
    capacity = whole.judge(domain.domain_max_messages, domain.domain_max_bytes)
    if capacity is not whole.capacity:
        _crossed(whole, domain.name, capacity, queue, turn)


def _crossed(meter: Meter, name: str, capacity: Capacity, queue: SharedQueue, turn: Turn) -> None:
    detail = queue.detail() if capacity is not Capacity.NORMAL else ""
    turn.undo.assign(meter, "capacity", capacity)
    turn.facts.append(CapacityChanged(turn.now, meter.scope, name, capacity.value, detail))
