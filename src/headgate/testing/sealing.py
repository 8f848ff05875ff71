"""A journal in a world: a sealer that dies, and a checker that plays its segments back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.core.broker import Broker
from headgate.core.commands import Sealed
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq
from headgate.core.model.limits import Limits
from headgate.core.turn.outbox import FactTuple, OutboxRow
from headgate.testing.checkers import Checker
from headgate.testing.rig import at_once

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World

BEAT_SECONDS = (0.05, 1.5)
DEATHS = ("", "", "", "before the rename", "before the report")
"""The fate of the sealer at a beat; mostly none."""


class SealingActor:
    """An actor that does to the store of a world what the sealer process does to the outbox of a
    router.

    A world with one has `build=actor.build`, so that its routers write facts.
    """

    def __init__(self) -> None:
        self.world: World | None = None
        self.last = 0
        """The last number in a segment, as its name says."""
        self.sealed: dict[int, FactTuple] = {}
        """The facts in the segments, by number."""

    def build(self, domains: Mapping[str, Domain], limits: Limits, last: Seq) -> Broker:
        """A router that goes on with the numbers where store and segments end."""
        last_fact, size = (0, 0) if self.world is None else at_once(self._store.unsealed())
        number = max(last_fact, self.last)
        broker = Broker(domains, limits, last, number, journal=True)
        if size:
            broker.shard.outbox.found(number, size)
        return broker

    def begin(self, world: World) -> None:
        self.world = world
        self._store = world.store.inner
        world.checkers.append(JournalChecker(world, self))
        self._plan(world)

    def crashed(self, world: World) -> None:
        """End the sealer with its router; the next begins with the same files."""

    def ended(self, world: World) -> None:
        """Its checker looks at what it leaves."""

    def watermark(self, broker: Broker) -> int:
        """The number up to which the router lets it seal."""
        return broker.shard.outbox.watermark

    def rows(self, watermark: int) -> list[OutboxRow]:
        """The rows that it finds in the store: not sealed yet, and not beyond the watermark."""
        found = sorted(self._store.outbox.values(), key=lambda row: row.first)
        return [row for row in found if row.first > self.last and row.last <= watermark]

    def name(self, rows: list[OutboxRow], watermark: int) -> int:
        """The last number of the segment: that of the last fact in it."""
        return rows[-1].last

    def _plan(self, world: World) -> None:
        world.clock.after(world.random.uniform(*BEAT_SECONDS), lambda: self._beat(world))

    def _beat(self, world: World) -> None:
        death = world.random.choice(DEATHS)
        if world.router is not None:
            watermark = self.watermark(world.router.broker)
            rows = self.rows(watermark)
            if rows and death != "before the rename":
                for row in rows:
                    self.sealed.update(enumerate(row.facts, row.first))
                self.last = self.name(rows, watermark)
                world.trace.add("sealer", f"seals up to {self.last}")
            if self.last and death != "before the report":
                world.router.insist([Sealed(self.last)])
            if death:
                world.trace.add("sealer", f"dies {death}")
        if not world.resting:
            self._plan(world)


class JournalChecker(Checker):
    """Every fact of a committed turn is in a segment or still in the outbox, once, as it was
    written; every message that was stored has been told; and nothing else is there."""

    name = "journal"

    def __init__(self, world: World, actor: SealingActor) -> None:
        super().__init__(world)
        self._actor = actor
        self._committed: dict[int, FactTuple] = {}

    def applied(self, taken: Taken) -> None:
        batch = taken.batch
        row = batch.outbox if batch is not None else None
        accepted = set()
        if row is not None:
            for number, fact in enumerate(row.facts, row.first):
                if number in self._committed:
                    self.fail(f"number {number} was given twice")
                self._committed[number] = fact
                if fact[0] == "Accepted":
                    accepted.add(fact[3])
        for stored in batch.append.values() if batch is not None else ():
            if stored.message.id not in accepted:
                self.fail(f"{stored.message.id!r} was stored and not told")

    def ended(self, world: World) -> None:
        kept = dict(self._actor.sealed)
        for row in world.store.inner.outbox.values():
            for number, fact in enumerate(row.facts, row.first):
                if row.last > self._actor.last and number in kept:
                    self.fail(f"number {number} is in a segment and not sealed")
                kept[number] = fact
        missing = sorted(self._committed.keys() - kept.keys())
        if missing:
            self.fail(f"{len(missing)} facts are nowhere, the first has number {missing[0]}")
        if kept != self._committed:
            self.fail("the journal has facts that did not happen")
