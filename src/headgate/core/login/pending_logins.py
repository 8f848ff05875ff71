"""Pending logins: connected clients that have not shown who they are.

Each takes resources of the router, so there is a limit for all of them, and one for each address.
At the limit a silent client makes room for the next: one of the address with the most, and only
after the time that an honest client needs.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from headgate.errors import LimitReached

T = TypeVar("T")

MOMENT_SECONDS = 2.0
"""Seconds that a client is left alone, unless its address has more pending clients than the next
one's."""

NETWORK_GROUPS = 4
"""Groups of an IPv6 address that name the network. The owner of one address has all of it."""


def network_of(host: str) -> str:
    """The network that is counted as one: an IPv4 address, or the network of an IPv6 address."""
    if ":" not in host or "." in host:
        return host
    before, _, after = host.partition("%")[0].partition("::")
    groups = before.split(":") if before else []
    zeros = 8 - len(groups) - len(after.split(":") if after else [])
    whole = [*groups, *["0"] * zeros, *(after.split(":") if after else [])]
    return ":".join(whole[:NETWORK_GROUPS])


def network_of_peer(peer: str) -> str:
    """The network of an address with its port, as ``127.0.0.1:6379`` or ``[::1]:6379``."""
    return network_of(peer.rpartition(":")[0].strip("[]"))


class PendingLogins(Generic[T]):
    """The clients that have not authenticated yet, in the order in which they connected.

    Owned by the endpoint of a listener, which passes the time.
    """

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._since: dict[T, tuple[str, float]] = {}
        """In the order of connection, each with its address and time."""
        self._by_address: dict[str, dict[T, None]] = {}
        self._ranks: dict[int, dict[str, None]] = {}
        """The addresses with so many pending clients."""
        self._top = 0
        """The number of the address with the most."""

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, who: object) -> bool:
        return who in self._since

    def add(self, address: str, who: T, now: float) -> tuple[T, LimitReached] | None:
        """Add a client. Return another one that has to go for it, if any, with the limit; raise the
        limit if the new one has to go."""
        going = self._in_the_way(address, now)
        if going is not None:
            self.remove(going[0])
        self._since[who] = address, now
        mine = self._by_address.setdefault(address, {})
        mine[who] = None
        self._rank(address, len(mine) - 1, len(mine))
        return going

    def remove(self, who: T) -> None:
        """Remove a client that is gone or known; do nothing if it is not here."""
        found = self._since.pop(who, None)
        if found is None:
            return
        address = found[0]
        mine = self._by_address[address]
        del mine[who]
        self._rank(address, len(mine) + 1, len(mine))
        if not mine:
            del self._by_address[address]

    def _in_the_way(self, address: str, now: float) -> tuple[T, LimitReached] | None:
        mine = self._by_address.get(address, {})
        if len(mine) >= self._most_per_address:
            reached = LimitReached("handshakes_per_address", self._most_per_address)
            return self._silent(next(iter(mine)), now, reached), reached
        if len(self._since) < self._most:
            return None
        reached = LimitReached("handshakes", self._most)
        if self._top > len(mine) + 1:
            [greedy, *_] = self._ranks[self._top]
            return next(iter(self._by_address[greedy])), reached
        return self._silent(next(iter(self._since)), now, reached), reached

    def _silent(self, oldest: T, now: float, reached: LimitReached) -> T:
        """The oldest client, if it has had its time; else raise, since the new one has to go."""
        if now - self._since[oldest][1] < MOMENT_SECONDS:
            raise reached
        return oldest

    def _rank(self, address: str, before: int, after: int) -> None:
        if before:
            others = self._ranks[before]
            del others[address]
            if not others:
                del self._ranks[before]
        if after:
            self._ranks.setdefault(after, {})[address] = None
        self._top = max(self._top, after)
        if self._top not in self._ranks:
            self._top = after if after in self._ranks else 0
