"""The log for ACL LOG: the latest denials."""

from __future__ import annotations

from itertools import islice

MOST = 128
"""Most entries; beyond that the oldest are dropped."""
GROUPED = 10
"""Number of latest entries searched for the same denial, which is then counted."""
GROUPED_SECONDS = 60.0
OBJECT_BYTES = 128
"""Bytes kept of the name of a key or a channel."""


class AclLogEntry:
    """A denial of a user, and how often it was repeated."""

    __slots__ = (
        "client",
        "context",
        "count",
        "created",
        "number",
        "object",
        "reason",
        "updated",
        "user",
    )

    def __init__(
        self, number: int, reason: str, context: str, object: bytes, user: str, now: float
    ) -> None:
        self.number = number
        self.reason = reason
        """``auth``, ``command``, ``key`` or ``channel``."""
        self.context = context
        """``toplevel``, or ``multi`` inside of a transaction."""
        self.object = object
        self.user = user
        self.created = self.updated = now
        self.count = 0
        self.client = ""
        """The client of the latest denial."""

    def is_like(self, other: AclLogEntry) -> bool:
        return (self.reason, self.context, self.object, self.user) == (
            other.reason,
            other.context,
            other.object,
            other.user,
        ) and other.updated - self.updated <= GROUPED_SECONDS


class AclLog:
    """The denials of commands, keys, channels and logins, the latest first.

    Owned by the hub, which adds to it; ACL LOG reads it. It is bounded, and equal denials are one
    entry for a while.
    """

    def __init__(self) -> None:
        self._entries: list[AclLogEntry] = []
        self._last = 0

    def add(
        self, reason: str, context: str, object: bytes, user: str, client: str, now: float
    ) -> None:
        denial = AclLogEntry(self._last, reason, context, object[:OBJECT_BYTES], user, now)
        for place, earlier in enumerate(islice(self._entries, GROUPED)):
            if earlier.is_like(denial):
                denial = self._entries.pop(place)
                break
        else:
            self._last += 1
        denial.count += 1
        denial.updated, denial.client = now, client
        self._entries.insert(0, denial)
        del self._entries[MOST:]

    def last(self, count: int) -> list[AclLogEntry]:
        return self._entries[: max(0, count)]

    def reset(self) -> None:
        self._entries.clear()
