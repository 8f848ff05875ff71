"""Times that providers take: each push is timed on its way through."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final

from headgate.notify.outcomes import PushOutcome
from headgate.notify.push_content import Push
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.wire.ntf.devices import Device, Provider

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""The upper bounds of the buckets."""


class PushTimes:
    """A histogram of the times that pushes of a provider took, those that failed included."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(SECONDS, seconds)] += 1
        self.seconds += seconds


class TimedProvider:
    """A provider, and how long its pushes took."""

    def __init__(
        self, provider: PushProvider, times: PushTimes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._times = times
        self._clock = clock

    async def push(self, device: Device, push: Push) -> PushOutcome:
        began = self._clock()
        try:
            return await self._provider.push(device, push)
        finally:
            self._times.add(self._clock() - began)

    async def close(self) -> None:
        await self._provider.close()


def timed(
    providers: Mapping[Provider, PushProvider], times: Mapping[Provider, PushTimes]
) -> dict[Provider, PushProvider]:
    """The same providers, timed."""
    return {name: TimedProvider(each, times[name]) for name, each in providers.items()}
