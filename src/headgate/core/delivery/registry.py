"""Address to roster, copied on change, exclusive or shared.

A roster is an immutable snapshot of the subscriptions of an address: it is replaced, not changed.
So a reader needs no lock, may keep its roster for as long as it likes, and sees by comparing
identity whether there is a newer one. Python frees an old roster after its last reader.

A roster that no reader has seen is changed in place: a crowd that comes or goes is copied once for
each look, not once for each of its members.

The registry is split by the hash of the address. Inside one event loop that has no advantage; the
number is a parameter for parallel readers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeAlias, TypeVar, cast

from headgate.core.model.ids import SessionId

A = TypeVar("A", bound=bytes)
S = TypeVar("S")

Roster: TypeAlias = Mapping[SessionId, S]
"""The subscriptions of an address at one moment, by session."""

NOBODY: Roster[object] = MappingProxyType({})


class SingleRoster(Mapping[SessionId, S]):
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
        return iter((self.session,))

    def __len__(self) -> int:
        return 1


class Registry(Generic[A, S]):
    """The subscriptions of queues, services or channels: only the parameters differ.

    Owned by the way to subscribe that uses it. A roster that was read is never changed, only
    replaced.
    """

    def __init__(
        self,
        *,
        exclusive: bool = False,
        # S002-7: sixteen parts, by the hash of the name.
        shards: int = 16,
        before_change: Callable[[], None] | None = None,
    ) -> None:
        self.exclusive = exclusive
        # S000-5, S000-9: rosters are changed only here, each address by itself.
        self._shards: list[dict[A, Roster[S]]] = [{} for _ in range(shards)]
        """A plain dictionary is a roster that no reader has seen."""
        self.copied = 0
        """Subscriptions copied since the start."""
        self._nobody = cast("Roster[S]", NOBODY)
        self._before_change = before_change

    def roster(self, address: A) -> Roster[S]:
        """The present roster of an address, to keep. `count` and `has` do not mark it as seen."""
        shard = self._shard(address)
        found = shard.get(address, self._nobody)
        if type(found) is dict:
            found = shard[address] = MappingProxyType(found)
        return found

    def count(self, address: A) -> int:
        """Number of sessions on a roster."""
        return len(self._shard(address).get(address, self._nobody))

    def has(self, address: A, session: SessionId) -> bool:
        """Whether a session is on a roster."""
        return session in self._shard(address).get(address, self._nobody)

    def subscribe(self, address: A, session: SessionId, subscription: S) -> Roster[S]:
        """Add or replace a session's subscription. Return the part of the roster it displaced."""
        return self.change(session, add=((address, subscription),)).get(address, self._nobody)

    def unsubscribe(self, address: A, session: SessionId) -> bool:
        """Remove a session's subscription, and only that session's."""
        # S000-4, S002-22: a removal names its session, so a newer one stays.
        if not self.has(address, session):
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
        """Apply a session's changes, one copy per address at most; return the displaced sessions by
        address.

        Removing an absent subscription changes nothing: the late clean-up of an old session must
        not remove the subscription of a newer one.
        """
        # S002-16: each name is changed once, however often a command names it.
        wanted: dict[A, S | None] = dict.fromkeys(remove)
        wanted.update(add)
        if wanted and self._before_change is not None:
            self._before_change()
        displaced: dict[A, Roster[S]] = {}
        for address, subscription in wanted.items():
            shard = self._shard(address)
            before = shard.get(address, self._nobody)
            if subscription is None:
                if session in before:
                    self._remove(shard, address, session)
            elif self.exclusive:
                # S000-14, SMP-4: subscribing again displaces no other session.
                if before and session not in before:
                    displaced[address] = before
                # S000-1, SMP-1: the newest session is the whole roster.
                shard[address] = SingleRoster(session, subscription)
            else:
                # S002-13, S002-20: only the roster of this address is replaced.
                self._own(shard, address)[session] = subscription
        return displaced

    def clear(self, addresses: Collection[A]) -> dict[A, Roster[S]]:
        """Remove all sessions from these addresses; return them."""
        if addresses and self._before_change is not None:
            self._before_change()
        return {a: r for a in addresses if (r := self._shard(a).pop(a, None)) is not None}

    def restore(self, address: A, roster: Roster[S]) -> None:
        """Put back an earlier roster of an address."""
        if self._before_change is not None:
            self._before_change()
        if roster:
            self._shard(address)[address] = roster
        else:
            self._shard(address).pop(address, None)

    def __iter__(self) -> Iterator[A]:
        """Addresses with subscriptions."""
        for shard in self._shards:
            yield from shard

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def _shard(self, address: A) -> dict[A, Roster[S]]:
        # S000-6: found by its hash, however many there are.
        return self._shards[hash(address) % len(self._shards)]

    def _own(self, shard: dict[A, Roster[S]], address: A) -> dict[SessionId, S]:
        """The roster of an address to change: a copy, if a reader has seen it."""
        roster = shard.get(address, self._nobody)
        # S002-2, S002-11, S002-12: a roster that was seen is never changed.
        if type(roster) is not dict:
            self.copied += len(roster)
            roster = shard[address] = dict(roster)
        return roster

    def _remove(self, shard: dict[A, Roster[S]], address: A, session: SessionId) -> None:
        # S002-14, S002-21: no roster is empty.
        if len(shard[address]) == 1:
            del shard[address]
        else:
            # S002-19: the other sessions stay.
            del self._own(shard, address)[session]
