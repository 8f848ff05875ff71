"""Hosts of endpoints that gave no answer, and for how long they are not asked.

Anybody can register endpoints that hang. Each push to one would hold a place for as long as a push
may take, so after the first ones its host is left alone: longer each time, until it answers.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import Final, TypeVar

T = TypeVar("T")

REST_SECONDS: Final = 10
REST_SECONDS_MAX: Final = 600
HOSTS_MAX: Final = 10_000
"""That are remembered. Anybody can name a new one."""


class RestingHosts:
    """Hosts that rest after failures, as those know who ask them. The time is given."""

    __slots__ = ("_answered", "_resting", "hosts_max")

    def __init__(self, hosts_max: int = HOSTS_MAX) -> None:
        self.hosts_max = hosts_max
        self._resting: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Until when, and for how many seconds it was."""
        self._answered: OrderedDict[str, float] = OrderedDict()
        """When a host answered last."""

    def seconds_left(self, host: str, now: float) -> int:
        """How long a host is not to be asked; zero if it may."""
        until, seconds = self._resting.get(host, (now, 0))
        left = ceil(until - now)
        # A clock that was set back makes nobody rest for longer.
        return left if 0 < left <= seconds else 0

    def answered(self, host: str, now: float) -> None:
        """It gave an answer, whatever that was."""
        self._resting.pop(host, None)
        _keep(self._answered, host, now, self.hosts_max)

    def failed(self, host: str, began: float, now: float) -> None:
        """It gave none to what began then. A host that answered others meanwhile goes on, and one
        that rests already is not made to rest longer by those who had begun before."""
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
