"""The subscriptions of one session: its channels, its patterns, its sharded channels."""

from __future__ import annotations

from headgate.core.channels.audience import Kind, PureLine


class SessionChannels:
    """The names that one session is subscribed to.

    Owned by `ChannelSubscriptions`, which makes it for the first name and drops it with the last.
    """

    __slots__ = ("exact", "line", "pattern", "sharded", "weight")

    def __init__(self) -> None:
        self.weight = 0
        """Sum of the weights of its patterns."""
        self.exact: dict[bytes, None] = {}
        self.pattern: dict[bytes, None] = {}
        self.sharded: dict[bytes, None] = {}
        self.line: PureLine | None = None
        """The buffer for its frames of a pass, while it gets a blob of its own."""

    def of(self, kind: Kind) -> dict[bytes, None]:
        return {Kind.EXACT: self.exact, Kind.PATTERN: self.pattern}.get(kind, self.sharded)

    def count(self, kind: Kind) -> int:
        """The number in a confirmation: exact channels and patterns count together."""
        if kind is Kind.SHARDED:
            return len(self.sharded)
        # S002-23, RESP-27: channels and patterns count together, sharded ones apart.
        return len(self.exact) + len(self.pattern)

    def __len__(self) -> int:
        return len(self.exact) + len(self.pattern) + len(self.sharded)


NO_CHANNELS = SessionChannels()
