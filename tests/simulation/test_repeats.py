"""Worlds in which senders do not know what arrived: nothing is taken twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from headgate.core.facts import Repeated
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.turn.store_requests import Batch
from headgate.store.memory import MemoryStore
from headgate.testing.checkers import Checker
from headgate.testing.checkers.base import is_exclusive
from headgate.testing.faults import Weather
from headgate.testing.simulated_router import Taken
from headgate.testing.trace import Violation
from headgate.testing.world import World, narrow


class Repeats(Checker):
    """A shared queue has each id once, over all crashes, whatever was confirmed before them."""

    name = "repeats"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._known: dict[tuple[QueueId, MessageId], int] = {}
        self._crashes = 0
        self.recognised = 0
        """Ids of before a crash that came again after it."""

    def applied(self, taken: Taken) -> None:
        for parcel in taken.changes.appended:
            if is_exclusive(parcel.queue):
                continue
            if (parcel.queue, parcel.id) in self._known:
                self.fail(f"{parcel.id!r} is in {parcel.queue!r} once more")
            self._known[parcel.queue, parcel.id] = self._crashes

    def turn(self, taken: Taken) -> None:
        for fact in taken.outcome.facts:
            if isinstance(fact, Repeated):
                crashes = self._known.get((fact.queue, fact.message), self._crashes)
                self.recognised += crashes < self._crashes

    def crashed(self) -> None:
        self._crashes += 1


HASTY = Weather(
    loss=0.2, latency=(0.001, 0.3), store_delay=(0.0, 0.01), store_failure=0.0, crash=0.1
)
"""A consumer is often faster than a receipt, which is often lost, and then the router as well."""

SEEDS = 40


def played(seed: int, store: MemoryStore | None = None) -> Repeats:
    """A world in which ids are remembered for longer than it lasts."""
    limits = replace(narrow(Random(seed)), remembered_ids=10_000)
    world = World(seed, weather=HASTY, limits=limits)
    if store is not None:
        world.store.inner = store
    checker = Repeats(world)
    world.checkers.append(checker)
    world.run(1500)
    world.finish()
    return checker


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_taken_twice_though_the_router_crashes(part: int) -> None:
    """BMQ-59."""
    recognised = [played(seed).recognised for seed in range(part, SEEDS, 4)]
    assert sum(recognised) > 0, "no sender had to ask again"


class Forgetful(MemoryStore):
    """Keeps no ids of what is gone."""

    async def apply(self, batch: Batch) -> None:
        await super().apply(replace(batch, remember={}))


def test_a_store_that_keeps_no_ids_is_caught() -> None:
    """Else the worlds above would prove nothing."""
    with pytest.raises(Violation, match="once more"):
        assert not [played(seed, Forgetful()) for seed in range(SEEDS)]
