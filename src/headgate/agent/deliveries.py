"""Deliveries: messages that routers wait for an acknowledgement of, and in which session."""

from __future__ import annotations

from typing import TypeAlias

from headgate.agent.model import QueueKey, SessionKey

Place: TypeAlias = tuple[QueueKey, bytes]
"""A message as its router knows it: the queue, and the broker id."""


class Source:
    """A session that brings messages. When it is over, what it brought comes again in another,
    and an acknowledgement of it would reach nobody."""

    __slots__ = ("is_over", "key")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.is_over = False


class Held:
    """Messages that were received and not acknowledged, with the sessions that brought them.

    The same message may be at several places: sent twice, or through two queues.
    """

    def __init__(self) -> None:
        self._rows: dict[Place, tuple[int, Source]] = {}
        self._places: dict[int, set[Place]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, place: Place) -> tuple[int, Source] | None:
        """The row of the message, and who brought it last."""
        return self._rows.get(place)

    def put(self, place: Place, id: int, source: Source) -> None:
        self._rows[place] = id, source
        self._places.setdefault(id, set()).add(place)

    def take(self, id: int) -> list[tuple[Place, Source]]:
        """Let go of a message: where it has to be acknowledged."""
        return [(place, self._rows.pop(place)[1]) for place in self._places.pop(id, ())]

    def forget(self, source: Source, unless: set[int] | frozenset[int] = frozenset()) -> None:
        """Let go of what a session brought, except these rows, which will be shown."""
        for place, (id, by) in list(self._rows.items()):
            if by is source and id not in unless:
                del self._rows[place]
                places = self._places[id]
                places.discard(place)
                if not places:
                    del self._places[id]
