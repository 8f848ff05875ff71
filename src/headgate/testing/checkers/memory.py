"""A turn that failed leaves no trace in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.model.ids import Seq
from headgate.core.shard import Shard
from headgate.testing.checkers.base import Checker, is_broadcast, is_exclusive
from headgate.testing.picture import CACHES, differences, snapshot

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken


PASSED_OVER = CACHES | {"sessions", "outbox"}
"""What changes in memory while a turn waits, besides what may remember one that failed."""


class Memory(Checker):
    """A failed turn leaves memory as it was, and what memory caches is what the store has."""

    name = "memory"

    def turn(self, taken: Taken) -> None:
        shard = taken.router.broker.shard
        if taken.failed:
            after = snapshot(shard, PASSED_OVER)
            if taken.before is not None and after != taken.before:
                lines = "; ".join(differences(taken.before, after)[:5])
                self.fail(f"turn {taken.number} failed and left a trace: {lines}")
        if taken.failed or taken.number % 8 == 0:
            self._compare(shard)

    def _compare(self, shard: Shard) -> None:
        ledger = self.world.ledger
        for queue, cached in shard.cache._cache.items():
            if not is_exclusive(queue):
                continue
            kept = [p.stored for p in ledger.parcels.values() if p.queue == queue]
            if cached.record != ledger.records.get(queue):
                self.fail(f"{queue!r} is {cached.record}, stored is {ledger.records.get(queue)}")
            if cached.messages != len(kept) or list(cached.first) != kept[: len(cached.first)]:
                self.fail(f"{queue!r} is remembered with other messages than are stored")
        for queue, shared in shard.shared.queues.items():
            if is_broadcast(queue):
                continue
            stored = {p.stored.seq: p.left for p in ledger.parcels.values() if p.queue == queue}
            here = {seq: set(entry.apps) for seq, entry in shared.entries.items()}
            if not here.keys().isdisjoint(shared.kept.seqs):
                self.fail(f"{queue!r} has messages in line that are history")
            here |= {Seq(seq): set() for seq in shared.kept.seqs}
            if {*shared.joined} != {*ledger.groups.get(queue, ())}:
                self.fail(f"{queue!r} has the groups {shared.joined}, stored are others")
            # An app that the domain lost while the router was down is let go of in memory only.
            if stored.keys() != here.keys() or any(not here[seq] <= stored[seq] for seq in here):
                self.fail(f"{queue!r} is remembered as {here}, stored is {stored}")
            if shared.meter.messages != len(here):
                self.fail(f"{queue!r} counts {shared.meter.messages} messages, has {len(here)}")
