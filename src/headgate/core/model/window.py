"""How much may be on its way to a subscription without being confirmed."""

from __future__ import annotations

from headgate.core.model.value import value


@value
class Window:
    """How many messages, and how many bytes, may be unconfirmed. Zero means paused."""

    messages: int
    bytes: int | None = None
