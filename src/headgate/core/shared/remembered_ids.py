"""Ids of messages accepted lately, to recognise repeated ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from headgate.core.model.ids import MessageId
from headgate.core.model.message import Arrival, Known, MessageEntry
from headgate.core.turn.undo import Undo

OUTDATED_SHARE = 0.1
"""Share of the time for which ids are remembered: ids older than that by so much are removed from
the store."""


class RememberedIds:
    """The ids of a queue's recent messages, and the times of those that the store has.

    Owned by `SharedQueue`. A message in the queue has its id with it; the store has a row only for
    the ids of removed ones.
    """

    __slots__ = ("arrivals", "kept")

    def __init__(self) -> None:
        self.arrivals: OrderedDict[MessageId, Arrival] = OrderedDict()
        """Of the message of each id, oldest first. The first of a plain dictionary is behind
        everything that was deleted before it."""
        self.kept: tuple[float, float] | None = None
        """The oldest and the newest time of the ids with a row in the store."""

    def __contains__(self, message: MessageId) -> bool:
        return message in self.arrivals

    def add(self, entry: MessageEntry, undo: Undo) -> None:
        undo.put(self.arrivals, entry.id, Arrival(entry.arrived, entry.seq))

    def find(self, message: MessageId, now: float, seconds: float) -> Arrival | None:
        """The message of this id, if it was accepted within so many seconds."""
        arrival = self.arrivals.get(message)
        return arrival if arrival is not None and now - arrival.at <= seconds else None

    def known(self, entries: Iterable[MessageEntry], now: float, seconds: float) -> Known:
        """The ids of these messages that were accepted within so many seconds."""
        find = self.arrivals.get
        return {
            entry.id: arrival
            for entry in entries
            if (arrival := find(entry.id)) is not None and now - arrival.at <= seconds
        }

    def oldest(self) -> float | None:
        first = next(iter(self.arrivals.values()), None)
        return None if first is None else first.at

    def newest(self) -> float | None:
        last = next(reversed(self.arrivals.values()), None)
        return None if last is None else last.at

    def forget(self, now: float, seconds: float, keep: int | None = None) -> None:
        """Forget ids whose time is over, and the oldest beyond a bound. Not undone: what is over
        stays over, and the bound is kept after a turn, not in it."""
        arrivals, most = self.arrivals, len(self.arrivals) if keep is None else keep
        while arrivals:
            if len(arrivals) <= most and now - next(iter(arrivals.values())).at <= seconds:
                return
            arrivals.popitem(last=False)

    def adopt(self, known: Known, entries: Iterable[MessageEntry], keep: int) -> None:
        """Take over the ids in the store and those of the queue's messages; of all of them the
        newest."""
        if known:
            self.store(known)
        ids = {**known, **{entry.id: Arrival(entry.arrived, entry.seq) for entry in entries}}
        ordered = sorted(ids.items(), key=lambda item: item[1].at)
        self.arrivals = OrderedDict(ordered[max(0, len(ordered) - keep) :])

    def store(self, known: Known) -> None:
        """The store has these as well."""
        times = [*(arrival.at for arrival in known.values()), *(self.kept or ())]
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
