"""The window of a subscription: how much of it may be unconfirmed."""

from __future__ import annotations

from headgate.core.model.value import value


@value
class Window:
    """Number of messages, and of bytes, that may be unconfirmed. Zero means paused."""

    messages: int
    bytes: int | None = None
