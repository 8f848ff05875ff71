"""A provider of pushes that is slow, raises, hangs, wants pushes later, or takes devices for
dead."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import Push
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.statuses import InvalidReason

if TYPE_CHECKING:
    from headgate.ntf_server.testing.world import NtfWorld

HANG_SECONDS = 10.0
"""After which a provider gives up on its own."""


class ProviderFailed(Exception):
    """The failure that a provider raises."""


class WorldProvider:
    """A provider, owned by one process of a server; the devices are the world's."""

    def __init__(self, world: NtfWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self.answers: Counter[str] = Counter()
        """By the name of the outcome."""

    async def push(self, device: Device, push: Push) -> PushOutcome:
        self._world.attempted(device, push)
        weather = self._world.weather
        await asyncio.sleep(self._random.uniform(0.0, weather.latency))
        try:
            outcome = await self._outcome()
        except ProviderFailed:
            self.answers["Failed"] += 1
            self._world.trace.add("provider", "raises")
            raise
        self.answers[type(outcome).__name__] += 1
        self._world.trace.add("provider", f"answers {outcome}")
        if isinstance(outcome, Delivered):
            self._world.delivered(device, push)
        elif isinstance(outcome, Dead):
            self._world.died(device)
        return outcome

    async def close(self) -> None:
        pass

    async def _outcome(self) -> PushOutcome:
        weather = self._world.weather
        if self._random.random() < weather.death:
            return Dead(self._random.choice(list(InvalidReason)))
        if self._random.random() >= weather.push_failure:
            return Delivered()
        match self._random.randrange(4):
            case 0:
                raise ProviderFailed
            case 1:
                await asyncio.sleep(HANG_SECONDS)
                raise ProviderFailed
            case 2:
                return Later(self._random.choice((1, 60, 3600)))
            case _:
                return Failed("400")
