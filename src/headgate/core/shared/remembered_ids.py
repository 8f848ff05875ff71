"""Ids of messages that were accepted lately, so that a repeated one is recognised."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import itemgetter

from headgate.core.model.ids import MessageId
from headgate.core.model.message import Known, MessageEntry

OUTDATED_SHARE = 0.1
"""Of the time for which ids are remembered: what is older than that by so much leaves the store."""


class RememberedIds:
    """The ids that a queue was sent lately, and since when the store has which of them.

    Owned by `SharedQueue`. A message that is in the queue has its id with it; the store has a row
    only for the ids of those that are gone.
    """

    __slots__ = ("kept", "times")

    def __init__(self) -> None:
        self.times: OrderedDict[MessageId, float] = OrderedDict()
        """When a message of each id was accepted, oldest first. The first of a plain dictionary is
        behind everything that was deleted before it."""
        self.kept: tuple[float, float] | None = None
        """The oldest and the newest time of the ids that have a row in the store."""

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
        """Forget ids whose time is over, and the oldest beyond a bound. Not undone: what is over
        stays over, and the bound is kept after a turn, not in it."""
        times, most = self.times, len(self.times) if keep is None else keep
        while times:
            if len(times) <= most and now - times[next(iter(times))] <= seconds:
                return
            times.popitem(last=False)

    def adopt(self, known: Known, entries: Iterable[MessageEntry], keep: int) -> None:
        """Take what the store has, and the ids of what is in the queue, the newest of all."""
        if known:
            self.store(known)
        ids = {**known, **{entry.id: entry.arrived for entry in entries}}
        ordered = sorted(ids.items(), key=itemgetter(1))
        self.times = OrderedDict(ordered[max(0, len(ordered) - keep) :])

    def store(self, known: Known) -> None:
        """The store has these as well."""
        times = [*known.values(), *(self.kept or ())]
        self.kept = min(times), max(times)

    def outdated(self, now: float, seconds: float) -> float | None:
        """Ids of before this time need no longer be in the store; none if there are few of them:
        to remove them costs a transaction."""
        if self.kept is None:
            return None
        oldest = self.oldest()
        end = max(now if oldest is None else oldest, now - seconds)
        few = max(0.0, now - end) * OUTDATED_SHARE
        return end if end - self.kept[0] > few else None

    def drop(self, before: float) -> None:
        """The store no longer has ids of before this time."""
        assert self.kept is not None, "only what was kept is dropped"
        until = self.kept[1]
        self.kept = (before, until) if until >= before else None
