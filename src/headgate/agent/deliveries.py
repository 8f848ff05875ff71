"""Deliveries: unacknowledged messages of routers, and their sessions."""

from __future__ import annotations

from typing import TypeAlias

from headgate.agent.model import QueueKey, SessionKey

Place: TypeAlias = tuple[QueueKey, bytes]
"""A message as its router knows it: the queue, and the broker id."""


class Source:
    """A session that delivers messages. When it is over, they come again in another, and their
    acknowledgement would be lost."""

    __slots__ = ("is_over", "key")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.is_over = False


class Held:
    """Received messages that are not acknowledged, with the sessions that delivered them.

    The same message may be in several places: sent twice, or through two queues.
    """

    def __init__(self) -> None:
        self._rows: dict[Place, tuple[int, Source]] = {}
        self._places: dict[int, set[Place]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, place: Place) -> tuple[int, Source] | None:
        """The row of the message, and the last session that delivered it."""
        return self._rows.get(place)

    def put(self, place: Place, id: int, source: Source) -> None:
        self._rows[place] = id, source
        self._places.setdefault(id, set()).add(place)

    def take(self, id: int) -> list[tuple[Place, Source]]:
        """Remove a message; return the places at which to acknowledge it."""
        return [(place, self._rows.pop(place)[1]) for place in self._places.pop(id, ())]

    def forget(self, source: Source, unless: set[int] | frozenset[int] = frozenset()) -> None:
        """Remove the messages of a session, except those of these rows, which will be shown."""
        for place, (id, by) in list(self._rows.items()):
            if by is source and id not in unless:
                del self._rows[place]
                places = self._places[id]
                places.discard(place)
                if not places:
                    del self._places[id]
