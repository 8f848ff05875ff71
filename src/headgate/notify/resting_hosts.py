"""Hosts of endpoints that did not answer, and how long they are left alone.

Anybody can register endpoints that hang. Each push to one would take a place for its full timeout,
so after the first failures its host is left alone: longer each time, until it answers.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import Final, TypeVar

T = TypeVar("T")

REST_SECONDS: Final = 10
REST_SECONDS_MAX: Final = 600
HOSTS_MAX: Final = 10_000
"""Hosts remembered. Anybody can name new ones."""


class RestingHosts:
    """Hosts that rest after failures. The caller passes the time."""

    __slots__ = ("_answered", "_resting", "hosts_max")

    def __init__(self, hosts_max: int = HOSTS_MAX) -> None:
        self.hosts_max = hosts_max
        self._resting: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When the rest ends, and its seconds."""
        self._answered: OrderedDict[str, float] = OrderedDict()
        """When a host last answered."""

    def seconds_left(self, host: str, now: float) -> int:
        """Seconds until a host may be contacted; zero if it may."""
        until, seconds = self._resting.get(host, (now, 0))
        left = ceil(until - now)
        # After the clock was set back, no host rests for longer.
        return left if 0 < left <= seconds else 0

    def answered(self, host: str, now: float) -> None:
        """Note that a host answered, in whatever way."""
        self._resting.pop(host, None)
        _keep(self._answered, host, now, self.hosts_max)

    def failed(self, host: str, began: float, now: float) -> None:
        """Note that a host did not answer a push begun at this time. A host that answered since
        does not rest, and one that rests already does not rest longer for pushes begun before."""
        if self._answered.get(host, began) > began:
            return
        until, before = self._resting.get(host, (began, 0))
        if until > began:
            return
        seconds = min(before * 2 or REST_SECONDS, REST_SECONDS_MAX)
        _keep(self._resting, host, (now + seconds, seconds), self.hosts_max)


def _keep(kept: OrderedDict[str, T], host: str, what: T, most: int) -> None:
    kept[host] = what
    kept.move_to_end(host)
    if len(kept) > most:
        kept.popitem(last=False)
