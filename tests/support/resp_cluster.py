"""Two servers that share the slots of a cluster, of either program."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.resp_client import OK, Client
from tests.support.resp_servers import (
    Server,
    eventually,
    free_port,
    number_of,
    start_headgate,
    start_redis,
    text_of,
)

SLOTS = 16384
HALF = SLOTS // 2


@dataclass(frozen=True)
class Cluster:
    """Node 0 starts with the lower half of the slots, node 1 with the upper."""

    nodes: tuple[Server, Server]
    ids: tuple[str, str]
    owners: list[int | None]

    @property
    def is_redis(self) -> bool:
        return self.nodes[0].is_redis

    def moved(self, slot: int, node: int) -> str:
        host, port = self.nodes[node].address
        return f"MOVED {slot} {host}:{port}"

    def assign(self, slots: list[int], node: int | None) -> None:
        """Give these slots to a node, or to nobody."""
        owners = self.owners.copy()
        for slot in slots:
            owners[slot] = node
        self._apply(owners)

    def restore(self) -> None:
        self._apply([*[0] * HALF, *[1] * HALF])

    def _apply(self, owners: list[int | None]) -> None:
        if self.is_redis:
            self._tell_redis(owners)
        else:
            self._tell_headgate(owners)
        self.owners[:] = owners

    def _tell_redis(self, owners: list[int | None]) -> None:
        # The one that gives is told first, so that never two claim a slot.
        with Client(self.nodes[0].address) as first, Client(self.nodes[1].address) as second:
            clients = (first, second)
            for slot, (old, new) in enumerate(zip(self.owners, owners, strict=True)):
                if old == new:
                    continue
                if new is None:
                    assert old is not None, "it has an owner that gives it away"
                    assert clients[old].ask("CLUSTER", "DELSLOTS", slot) == OK
                elif old is None:
                    assert clients[new].ask("CLUSTER", "ADDSLOTS", slot) == OK
                else:
                    for client in (clients[old], clients[new]):
                        assert client.ask("CLUSTER", "SETSLOT", slot, "NODE", self.ids[new]) == OK

    def _tell_headgate(self, owners: list[int | None]) -> None:
        shards = [
            {
                "slot_ranges": [
                    {"start": start, "end": end} for start, end in ranges_of(owners, node)
                ],
                "master": {
                    "id": self.ids[node],
                    "ip": server.address[0],
                    "port": server.port,
                    "health": "online",
                },
                "replicas": [],
            }
            for node, server in enumerate(self.nodes)
        ]
        for server in self.nodes:
            with Client(server.address) as client:
                assert client.ask("DFLYCLUSTER", "CONFIG", json.dumps(shards)) == OK


def ranges_of(owners: list[int | None], node: int) -> list[tuple[int, int]]:
    """The slots of a node as ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for slot, owner in enumerate(owners):
        if owner != node:
            continue
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return ranges


@contextlib.contextmanager
def start_headgate_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with (
        start_headgate(tmp_path, cluster=True) as first,
        start_headgate(tmp_path, cluster=True) as second,
    ):
        cluster = Cluster((first, second), (node_id(first), node_id(second)), [None] * SLOTS)
        cluster.restore()
        yield cluster


@contextlib.contextmanager
def start_redis_cluster(tmp_path: Path) -> Iterator[Cluster]:
    bus = free_port()
    with _redis_node(tmp_path, free_port()) as first, _redis_node(tmp_path, bus) as second:
        owners: list[int | None] = [*[0] * HALF, *[1] * HALF]
        with Client(first.address) as one, Client(second.address) as two:
            assert one.ask("CLUSTER", "ADDSLOTSRANGE", 0, HALF - 1) == OK
            assert two.ask("CLUSTER", "ADDSLOTSRANGE", HALF, SLOTS - 1) == OK
            assert one.ask("CLUSTER", "MEET", second.address[0], second.port, bus) == OK
            eventually(
                lambda: knows_all_slots(one) and knows_all_slots(two), "the nodes know each other"
            )
        yield Cluster((first, second), (node_id(first), node_id(second)), owners)


def knows_all_slots(client: Client) -> bool:
    reply = client.ask("CLUSTER", "SLOTS")
    is_well = "cluster_state:ok" in text_of(client.ask("CLUSTER", "INFO"))
    return isinstance(reply, list) and len(reply) == 2 and is_well


def node_id(server: Server) -> str:
    with Client(server.address) as client:
        reply = client.ask("CLUSTER", "MYID")
    assert isinstance(reply, bytes), reply
    assert len(reply) == 40
    return reply.decode()


def slot_of(client: Client, key: bytes | str) -> int:
    return number_of(client.ask("CLUSTER", "KEYSLOT", key))


@contextlib.contextmanager
def _redis_node(tmp_path: Path, bus: int) -> Iterator[Server]:
    with start_redis(
        tmp_path,
        cluster_enabled="yes",
        cluster_port=bus,
        cluster_announce_ip="127.0.0.1",
        cluster_require_full_coverage="no",
        cluster_node_timeout=5000,
    ) as server:
        yield server
