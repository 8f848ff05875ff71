"""Slots of a cluster: the slot of a name, and the node that serves it.

Operators configure the owners; nodes do not find out by themselves. So this is one node's
knowledge, and each change returns the slots that this node lost, whose channels have to be dropped.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from headgate.core.model.value import value
from headgate.errors import Refused

SLOTS = 16384

Range: TypeAlias = tuple[int, int]
"""The first slot and the last."""


class SlotError(Refused):
    """Slots cannot be assigned like that; nothing was changed."""


@value
class Node:
    """A node of the cluster, as its map names it."""

    id: str
    """Forty hexadecimal digits."""
    host: str
    port: int
    health: str = "online"


@value
class ClusterShard:
    """Some slots, the node that owns them, and its replicas."""

    master: Node
    ranges: tuple[Range, ...]
    replicas: tuple[Node, ...] = ()


def slot_of(name: bytes) -> int:
    """The slot of a key or a channel. If the name has characters between its first ``{`` and the
    ``}`` that follows, only those count: so names can be kept together."""
    start = name.find(b"{") + 1
    if start:
        end = name.find(b"}", start)
        if end > start:
            name = name[start:end]
    # S002-69, RESP-71: the same name has the same slot on every node.
    return crc_hqx(name, 0) % SLOTS


def slots_in(ranges: Iterable[Range]) -> set[int]:
    """The slots of ranges, which do not overlap."""
    slots: set[int] = set()
    for first, last in ranges:
        if first not in range(SLOTS) or last not in range(SLOTS):
            raise SlotError("Invalid or out of range slot")
        if first > last:
            raise SlotError(f"start slot number {first} is greater than end slot number {last}")
        more = range(first, last + 1)
        if not slots.isdisjoint(more):
            raise SlotError(f"Slot {min(slots & {*more})} specified multiple times")
        slots.update(more)
    return slots


class Cluster:
    """The owners of slots, as one node knows them.

    Owned by the hub of a listener in cluster mode; CLUSTER commands change it. Every slot has one
    owner or none.
    """

    def __init__(self, own: Node) -> None:
        self.own = own
        self.is_configured = False
        """Whether the owners were ever configured."""
        self._masters: dict[str, Node] = {own.id: own}
        self._replicas: dict[str, tuple[Node, ...]] = {}
        self._owners: list[str | None] = [None] * SLOTS

    # Questions.

    def owner(self, slot: int) -> Node | None:
        id = self._owners[slot]
        return None if id is None else self._masters[id]

    def owns(self, slot: int) -> bool:
        return self._owners[slot] == self.own.id

    def assigned(self) -> int:
        """Number of slots with an owner."""
        return SLOTS - self._owners.count(None)

    def ranges(self) -> list[tuple[int, int, Node]]:
        """The slots with an owner, as ranges."""
        found, first = [], 0
        for id, run in groupby(self._owners):
            last = first + len([*run]) - 1
            if id is not None:
                found.append((first, last, self._masters[id]))
            first = last + 1
        return found

    def shards(self) -> list[ClusterShard]:
        """The shards: one for each master, with or without slots."""
        ranges: dict[str, list[Range]] = {id: [] for id in self._masters}
        for first, last, node in self.ranges():
            ranges[node.id].append((first, last))
        return [
            ClusterShard(node, tuple(ranges[id]), self._replicas.get(id, ()))
            for id, node in self._masters.items()
        ]

    def replicas(self, master: Node) -> tuple[Node, ...]:
        return self._replicas.get(master.id, ())

    def nodes(self) -> list[Node]:
        return [
            node for master in self._masters.values() for node in (master, *self.replicas(master))
        ]

    # Changes. Each returns the slots that this node no longer owns.

    def configure(self, shards: Sequence[ClusterShard]) -> set[int]:
        """Replace all owners."""
        slots_in(each for shard in shards for each in shard.ranges)
        nodes = {node.id: node for shard in shards for node in (shard.master, *shard.replicas)}
        if len(nodes) < sum(1 + len(shard.replicas) for shard in shards):
            raise SlotError("A node is named more than once")
        self.own = nodes.get(self.own.id, self.own)
        self._masters = {shard.master.id: shard.master for shard in shards}
        if self.own.id not in nodes:
            self._masters[self.own.id] = self.own
        self._replicas = {shard.master.id: shard.replicas for shard in shards}
        owners: list[str | None] = [None] * SLOTS
        for shard in shards:
            for slot in slots_in(shard.ranges):
                owners[slot] = shard.master.id
        return self._take_over(owners)

    def add_slots(self, slots: Iterable[int]) -> set[int]:
        """Assign free slots to this node."""
        owners = self._owners.copy()
        for slot in sorted(slots):
            if owners[slot] is not None:
                raise SlotError(f"Slot {slot} is already busy")
            owners[slot] = self.own.id
        return self._take_over(owners)

    def delete_slots(self, slots: Iterable[int]) -> set[int]:
        """Take slots from their owners."""
        owners = self._owners.copy()
        for slot in sorted(slots):
            if owners[slot] is None:
                raise SlotError(f"Slot {slot} is already unassigned")
            owners[slot] = None
        return self._take_over(owners)

    def set_slot(self, slot: int, id: str) -> set[int]:
        """Assign a slot to a known node."""
        if id not in self._masters:
            raise SlotError(f"Unknown node {id}")
        owners = self._owners.copy()
        owners[slot] = id
        return self._take_over(owners)

    def _take_over(self, owners: list[str | None]) -> set[int]:
        own = self.own.id
        both = enumerate(zip(self._owners, owners, strict=True))
        lost = {slot for slot, (before, after) in both if before == own != after}
        self._owners = owners
        self.is_configured = True
        return lost
