"""Pushes under way to each host, and turns that wait because a host has enough of them.

Endpoints are hosts that strangers name. Without a bound for each, one that hangs would take all the
places of its provider.
"""

from __future__ import annotations

from typing import Final

from headgate.ntf_server.pushing.turns import Turn, TurnKey

LANE_MAX: Final = 25
"""Pushes that one host has not answered: a quarter of those that a provider may have."""


class Lanes:
    """The lanes of one provider, by host. Waiting turns are bounded by the number of tokens."""

    __slots__ = ("_keys", "_lane_max", "_under_way", "_waiting")

    def __init__(self, lane_max: int = LANE_MAX) -> None:
        self._lane_max = lane_max
        self._under_way: dict[str, int] = {}
        self._waiting: dict[str, dict[TurnKey, Turn]] = {}
        self._keys: set[TurnKey] = set()
        """Of all that wait."""

    def __len__(self) -> int:
        """How many turns wait."""
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        """Whether a turn with this key waits."""
        return key in self._keys

    def enter(self, lane: str, turn: Turn) -> bool:
        """Whether the turn may be carried out now. Otherwise it waits, once for its token."""
        under_way = self._under_way.get(lane, 0)
        if under_way < self._lane_max:
            self._under_way[lane] = under_way + 1
            return True
        if turn.key not in self._keys:
            self._keys.add(turn.key)
            self._waiting.setdefault(lane, {})[turn.key] = turn
        return False

    def leave(self, lane: str) -> Turn | None:
        """A turn that had entered is over. The one to be begun instead, if one waits."""
        self._under_way[lane] -= 1
        if not self._under_way[lane]:
            del self._under_way[lane]
        waiting = self._waiting.get(lane)
        if not waiting:
            return None
        turn = waiting.pop(next(iter(waiting)))
        self._keys.discard(turn.key)
        if not waiting:
            del self._waiting[lane]
        return turn
