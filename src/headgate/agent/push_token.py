"""A device at a notification server, as an application knows it, and the notices in pushes to
it."""

from __future__ import annotations

from dataclasses import field

from headgate.agent.events import NamedQueue
from headgate.core.model.value import value
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Device


@value
class PushToken:
    """A device that an agent registered. The keys for it are in the agent's file."""

    server: NtfAddress
    device: Device
    id: bytes
    is_verified: bool
    """Whether the server has accepted the code that it pushed to the device."""
    push_key: bytes = field(repr=False)


@value
class PushedNotice:
    """The notice in a push that a queue has a message."""

    queue: NamedQueue
    message_id: bytes
    """The router's."""
    seconds: int
    """When the router accepted it."""
