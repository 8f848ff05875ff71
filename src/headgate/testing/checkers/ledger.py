"""A ledger of what the store was made to do, written down a second time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.core.model.ids import AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Stored
from headgate.core.model.parties import QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Batch, GroupRecord

if TYPE_CHECKING:
    pass


@dataclass(slots=True, eq=False)
class Parcel:
    """A message from the moment it was committed. Numbers of messages may come again after a
    restart, and so may ids of messages that are forgotten; a parcel's number does not."""

    number: int
    stored: Stored
    left: set[AppId]
    gone: dict[AppId, int] = field(default_factory=dict)
    """The turn in which an app was done with it."""
    excused: set[AppId] = field(default_factory=set)
    """Apps that its domain lost, for a while at least: they may let go of it."""

    @property
    def id(self) -> MessageId:
        return self.stored.message.id

    @property
    def queue(self) -> QueueId:
        return self.stored.queue


@dataclass(slots=True)
class Changes:
    """Changes that one batch came to."""

    appended: list[Parcel] = field(default_factory=list)
    released: list[tuple[Parcel, AppId]] = field(default_factory=list)
    """Apps that are done with a message."""
    referred: list[tuple[Parcel, AppId]] = field(default_factory=list)
    """Apps that were made to want a message that was there or kept."""
    deleted: list[Parcel] = field(default_factory=list)
    """Messages that left the store by themselves, whoever was done with them."""
    swept_away: list[Parcel] = field(default_factory=list)
    """Messages that went with their queue."""
    created: list[QueueId] = field(default_factory=list)
    removed: list[QueueId] = field(default_factory=list)
    before: dict[QueueId, QueueRecord] | None = None
    """The records of all queues before it, if it changed any of them."""


class Ledger:
    """The contents of the store, by the batches that were applied."""

    def __init__(self) -> None:
        self.records: dict[QueueId, QueueRecord] = {}
        self.parcels: dict[Seq, Parcel] = {}
        self.by_id: dict[tuple[QueueId, MessageId], Parcel] = {}
        """The latest of this id, whether or not it is still there."""
        self.groups: dict[QueueId, dict[AppId, GroupRecord]] = {}
        """The groups that clients made."""
        self._count = 0

    def apply(self, batch: Batch, turn: int) -> Changes:
        changes = Changes()
        if batch.remove or batch.create or batch.associate:
            changes.before = dict(self.records)
        for queue in sorted(batch.remove):
            self._remove(queue, turn, changes)
        for queue, record in batch.create.items():
            self.records[queue] = record
            changes.created.append(queue)
        for (queue, app), group in batch.groups.items():
            if group is None:
                self.groups.get(queue, {}).pop(app, None)
            else:
                self.groups.setdefault(queue, {})[app] = group
        for seq in sorted(batch.append):
            self._append(batch.append[seq], changes)
        for seq, apps in batch.hold.items():
            if seq in self.parcels:
                self._release(self.parcels[seq], set(apps), turn, changes)
        for seq in sorted(batch.delete):
            if seq in self.parcels:
                changes.deleted.append(self.parcels[seq])
                self._release(self.parcels.pop(seq), set(), turn, changes)
        for queue, service in batch.associate.items():
            record = self.records[queue]
            self.records[queue] = QueueRecord(queue, record.domain, service)
        return changes

    def _remove(self, queue: QueueId, turn: int, changes: Changes) -> None:
        if self.records.pop(queue, None) is not None:
            changes.removed.append(queue)
            self.groups.pop(queue, None)
        for parcel in [p for p in self.parcels.values() if p.queue == queue]:
            parcel.gone.update(dict.fromkeys(parcel.left, turn))
            changes.swept_away.append(self.parcels.pop(parcel.stored.seq))

    def _append(self, stored: Stored, changes: Changes) -> None:
        self._count += 1
        parcel = Parcel(self._count, stored, set(stored.apps))
        self.parcels[stored.seq] = parcel
        self.by_id[stored.queue, parcel.id] = parcel
        changes.appended.append(parcel)

    @staticmethod
    def _release(parcel: Parcel, left: set[AppId], turn: int, changes: Changes) -> None:
        for app in sorted(parcel.left - left):
            parcel.gone[app] = turn
            changes.released.append((parcel, app))
        for app in sorted(left - parcel.left):
            parcel.gone.pop(app, None)
            changes.referred.append((parcel, app))
        parcel.left = left

    def before(self, changes: Changes) -> Mapping[QueueId, QueueRecord]:
        """The records before changes that were the last."""
        return changes.before if changes.before is not None else self.records

    def tally(self, service: ServiceId) -> Tally:
        return tally_of(self.records, service)

    def services(self) -> set[ServiceId]:
        return {r.service for r in self.records.values() if r.service is not None}


def tally_of(records: Mapping[QueueId, QueueRecord], service: ServiceId) -> Tally:
    return Tally.of(q for q, record in records.items() if record.service == service)


# Checkers.
