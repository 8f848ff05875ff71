"""The rate at which devices are registered from one address."""

from __future__ import annotations

from typing import Final

from headgate.errors import LimitReached

MINUTE: Final = 60.0


class RegistrationRate:
    """A count of the registrations of each address within a minute. All are forgotten together when
    it is over, so what is held is bounded by who came in one minute."""

    __slots__ = ("_counts", "_since", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: dict[str, int] = {}
        self._since = 0.0

    def count(self, network: str, now: float) -> None:
        """Count one more registration from an address, or raise `LimitReached`."""
        if now - self._since >= MINUTE:
            self._since = now
            self._counts.clear()
        counted = self._counts.get(network, 0)
        if counted >= self.most:
            raise LimitReached("registrations_per_minute", self.most)
        self._counts[network] = counted + 1
