"""A provider that does what a test says, and keeps what it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from headgate.notify.outcomes import Delivered, PushOutcome
from headgate.notify.push_content import Push
from headgate.wire.ntf.devices import Device


@dataclass
class KeepingProvider:
    """Takes every push, unless the test has another answer."""

    answers: list[PushOutcome | Exception] = field(default_factory=list)
    """What it answers next, the first first."""
    pushed: list[tuple[Device, Push]] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.go.set()

    async def push(self, device: Device, push: Push) -> PushOutcome:
        self.pushed.append((device, push))
        answer = self.answers.pop(0) if self.answers else Delivered()
        await self.go.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.is_closed = True


def when(holds: Callable[[], object]) -> Callable[[], Awaitable[bool]]:
    """A condition that needs no waiting, for `until`."""

    async def is_so() -> bool:
        return bool(holds())

    return is_so
