"""Announcements: the connections that the application believes to be up."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.agent.model import ConnectionId


class Announcements:
    """Announced connections, each with the number of queues that hold it up, over all slots.

    A connection is held by every queue that is active or was counted by an answer of its own. It is
    announced when it is held and was not announced; it leaves with the last queue that held it.
    """

    def __init__(self) -> None:
        self.up: set[ConnectionId] = set()
        self._held: dict[ConnectionId, int] = {}

    def hold(self, connection: ConnectionId) -> None:
        self._held[connection] = self._held.get(connection, 0) + 1

    def raise_up(self, connections: Iterable[ConnectionId]) -> tuple[ConnectionId, ...]:
        """Count one more queue for each; return those that were not up, each once."""
        # S000-72: on whatever path, a connection comes up once.
        fresh = tuple(dict.fromkeys(c for c in connections if c not in self.up))
        self.up.update(fresh)
        return fresh

    def release(self, connections: Iterable[ConnectionId]) -> tuple[ConnectionId, ...]:
        """Count one queue less for each; return those that were up and have none left, each
        once."""
        down = []
        for connection in connections:
            held = self._held.get(connection, 0) - 1
            if held > 0:
                self._held[connection] = held
                continue
            self._held.pop(connection, None)
            # S000-82: each connection once, however many queues it had.
            if connection in self.up:
                self.up.discard(connection)
                down.append(connection)
        return tuple(down)
