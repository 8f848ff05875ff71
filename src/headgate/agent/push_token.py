"""A device at a notification server, as an application holds it, and what a push to it brings."""

from __future__ import annotations

from dataclasses import field

from headgate.agent.events import NamedQueue
from headgate.core.model.value import value
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Device


@value
class PushToken:
    """A device that an agent registered. What pushes are signed and opened with is in the agent's
    file."""

    server: NtfAddress
    device: Device
    id: bytes
    is_verified: bool
    """Whether the server has taken the code that it pushed to the device."""
    push_key: bytes = field(repr=False)


@value
class PushedNotice:
    """The notice that a queue has a message, as a push brought it."""

    queue: NamedQueue
    message_id: bytes
    """The router's."""
    seconds: int
    """When the router took it."""
