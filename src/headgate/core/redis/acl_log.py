"""The log that ACL LOG shows: what clients were refused lately."""

from __future__ import annotations

from itertools import islice

MOST = 128
"""Entries; of more, the oldest go."""
GROUPED = 10
"""Among so many of the latest a repetition is sought, and counted instead of told again."""
GROUPED_SECONDS = 60.0
OBJECT_BYTES = 128
"""So much is kept of the name of a key or a channel."""


class AclLogEntry:
    """Something that a user was refused, and how often in a row."""

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
        """Who it was the last time."""

    def is_like(self, other: AclLogEntry) -> bool:
        return (self.reason, self.context, self.object, self.user) == (
            other.reason,
            other.context,
            other.object,
            other.user,
        ) and other.updated - self.updated <= GROUPED_SECONDS


class AclLog:
    """The latest first."""

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
