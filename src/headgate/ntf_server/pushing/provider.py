"""The provider that brings pushes to devices, as the server uses it."""

from __future__ import annotations

from typing import Protocol

from headgate.notify.outcomes import Delivered, PushOutcome
from headgate.notify.push_content import Push
from headgate.wire.ntf.devices import Device


class PushProvider(Protocol):
    """One provider. It has bounds of its own for time and size; whatever it raises counts as
    failed."""

    async def push(self, device: Device, push: Push) -> PushOutcome:
        """Bring it to the device. A connection that broke is tried once more by the provider."""
        ...

    async def close(self) -> None: ...


class NullProvider:
    """A provider that takes every push and brings none: for whoever tries a server."""

    async def push(self, device: Device, push: Push) -> PushOutcome:
        return Delivered()

    async def close(self) -> None:
        pass
