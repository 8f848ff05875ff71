"""Ids of messages accepted lately, to recognise repeated ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import itemgetter

from headgate.core.model.ids import MessageId
from headgate.core.model.message import Known, MessageEntry

OUTDATED_SHARE = 0.1
"""Share of the time for which ids are remembered: ids older than that by so much are removed from
the store."""


class RememberedIds:
    """The ids of a queue's recent messages, and the times of those that the store has.

    Owned by `SharedQueue`. A message in the queue has its id with it; the store has a row only for
    the ids of removed ones.
    """

    __slots__ = ("kept", "times")

    def __init__(self) -> None:
        self.times: OrderedDict[MessageId, float] = OrderedDict()
        """Arrival of the message with each id, oldest first. Not a plain dictionary: finding its
        first item means passing all that were deleted before it."""
        self.kept: tuple[float, float] | None = None
        """The oldest and the newest time of the ids with a row in the store."""

    def __contains__(self, message: MessageId) -> bool:
        return message in self.times

    def is_known(self, message: MessageId, now: float, seconds: float) -> bool:
        """Whether a message of this id was accepted within so many seconds."""
        at = self.times.get(message)
        return at is not None and now - at <= seconds

    def oldest(self) -> float | None:
        return next(iter(self.times.values()), None)

    def newest(self) -> float | None:
        return next(reversed(self.times.values()), None)

    def forget(self, now: float, seconds: float, keep: int | None = None) -> None:
        """Drop ids that are too old, and the oldest beyond a bound. Not undone: they stay too old,
        and the bound is enforced after a turn, not in it."""
        times, most = self.times, len(self.times) if keep is None else keep
        while times:
            if len(times) <= most and now - times[next(iter(times))] <= seconds:
                return
            times.popitem(last=False)

    def adopt(self, known: Known, entries: Iterable[MessageEntry], keep: int) -> None:
        """Take over the ids in the store and those of the queue's messages; of all of them the
        newest."""
        if known:
            self.store(known)
        ids = {**known, **{entry.id: entry.arrived for entry in entries}}
        ordered = sorted(ids.items(), key=itemgetter(1))
        self.times = OrderedDict(ordered[max(0, len(ordered) - keep) :])

    def store(self, known: Known) -> None:
        """Note that the store has these as well."""
        times = [*known.values(), *(self.kept or ())]
        self.kept = min(times), max(times)

    def outdated(self, now: float, seconds: float) -> float | None:
        """The time before which ids may be removed from the store; None if there are few of them,
        since removing them costs a transaction."""
        if self.kept is None:
            return None
        oldest = self.oldest()
        end = max(now if oldest is None else oldest, now - seconds)
        few = max(0.0, now - end) * OUTDATED_SHARE
        return end if end - self.kept[0] > few else None

    def drop(self, before: float) -> None:
        """Note that the store no longer has ids from before this time."""
        assert self.kept is not None, "only what was kept is dropped"
        until = self.kept[1]
        self.kept = (before, until) if until >= before else None
