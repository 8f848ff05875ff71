"""Address to roster, copied on change, exclusive or shared.

A roster is a moment: it is never changed, only replaced. So a reader needs no lock, may go on
with the roster it has for as long as it likes, and can ask whether the moment has passed by
comparing identity. Old rosters go when their last reader does; Python counts references.

The registry is split by the hash of the address. Inside one event loop that buys nothing, and
the number is a parameter for the day when several readers run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeAlias, TypeVar, cast

from headgate.core.names import SessionId

A = TypeVar("A", bound=bytes)
S = TypeVar("S")

Roster: TypeAlias = Mapping[SessionId, S]
"""The subscriptions of an address at one moment, by session."""

NOBODY: Roster[object] = MappingProxyType({})


class One(Mapping[SessionId, S]):
    """A roster of one. A dictionary of one costs six times as much, and a router of a million
    exclusive queues holds a million of these."""

    __slots__ = ("session", "subscription")

    def __init__(self, session: SessionId, subscription: S) -> None:
        self.session = session
        self.subscription = subscription

    def __getitem__(self, session: SessionId) -> S:
        if session == self.session:
            return self.subscription
        raise KeyError(session)

    def __iter__(self) -> Iterator[SessionId]:
        yield self.session

    def __len__(self) -> int:
        return 1


class Registry(Generic[A, S]):
    """One class for queues, services, channels: only the parameters differ."""

    def __init__(
        self,
        *,
        exclusive: bool = False,
        shards: int = 16,
        before_change: Callable[[], None] | None = None,
    ) -> None:
        self.exclusive = exclusive
        self._shards: list[dict[A, Roster[S]]] = [{} for _ in range(shards)]
        self._nobody = cast("Roster[S]", NOBODY)
        self._before_change = before_change

    def roster(self, address: A) -> Roster[S]:
        return self._shard(address).get(address, self._nobody)

    def subscribe(self, address: A, session: SessionId, subscription: S) -> Roster[S]:
        """Add or replace a session's subscription. Return the part of the roster it displaced."""
        return self.change(session, add=((address, subscription),)).get(address, self._nobody)

    def unsubscribe(self, address: A, session: SessionId) -> bool:
        """Remove a session's subscription, and only that session's."""
        if session not in self.roster(address):
            return False
        self.change(session, remove=(address,))
        return True

    def change(
        self,
        session: SessionId,
        *,
        add: Iterable[tuple[A, S]] = (),
        remove: Iterable[A] = (),
    ) -> dict[A, Roster[S]]:
        """Apply a session's changes, one copy per address; return who was displaced where.

        Removing what is not there changes nothing: the late clean-up of an old session must
        not take away the subscription of a newer one.
        """
        wanted: dict[A, S | None] = dict.fromkeys(remove)
        wanted.update(add)
        if wanted and self._before_change is not None:
            self._before_change()
        displaced: dict[A, Roster[S]] = {}
        for address, subscription in wanted.items():
            before = self.roster(address)
            if subscription is None:
                if session in before:
                    self._replace(address, {s: o for s, o in before.items() if s != session})
            elif self.exclusive:
                if before and session not in before:
                    displaced[address] = before
                self._shard(address)[address] = One(session, subscription)
            else:
                self._replace(address, {**before, session: subscription})
        return displaced

    def clear(self, addresses: Collection[A]) -> dict[A, Roster[S]]:
        """Take everybody off these addresses; return who that was."""
        if addresses and self._before_change is not None:
            self._before_change()
        cleared = {a: r for a in addresses if (r := self._shard(a).pop(a, None)) is not None}
        return cleared

    def restore(self, address: A, roster: Roster[S]) -> None:
        """Put back an earlier moment of an address."""
        if self._before_change is not None:
            self._before_change()
        if roster:
            self._shard(address)[address] = roster
        else:
            self._shard(address).pop(address, None)

    def __iter__(self) -> Iterator[A]:
        """Addresses with somebody on their roster."""
        for shard in self._shards:
            yield from shard

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def _shard(self, address: A) -> dict[A, Roster[S]]:
        return self._shards[hash(address) % len(self._shards)]

    def _replace(self, address: A, roster: dict[SessionId, S]) -> None:
        if roster:
            self._shard(address)[address] = MappingProxyType(roster)
        else:
            self._shard(address).pop(address, None)
