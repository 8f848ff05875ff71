"""Sharded channels on two nodes, and what happens to subscribers when slots move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.resp_client import OK, Client, Error, Frame, Pairs, Word
from tests.support.resp_cluster import HALF, SLOTS, Cluster, node_id, slot_of
from tests.support.resp_servers import (
    Dial,
    Server,
    info,
    items_of,
    mapping,
    start_headgate,
    text_of,
)

LOWER, LOWER_SLOT = b"kostas", 2833
LOWER_TOO, LOWER_TOO_SLOT = b"bar", 5061
UPPER, UPPER_SLOT = b"foo", 12182
CROSS = Error("CROSSSLOT Keys in request don't hash to the same slot")


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 12739),
        (b"foo", 12182),
        (b"bar", 5061),
        (b"kostas", 2833),
        (b"", 0),
        (b"a", 15495),
        (b"{a}x", 15495),
        (b"{a}{b}", 15495),
        (b"{}x", 10595),
        (b"x{}", 2608),
        (b"{a", 10276),
        (b"{{a}}b", 10276),
        (b"a}", 5921),
    ],
)
def test_keys_have_slots(cluster: Cluster, dial: Dial, key: bytes, slot: int) -> None:
    """RESP-71, S002-69."""
    assert [slot_of(dial(node), key) for node in cluster.nodes] == [slot, slot]


@pytest.mark.parametrize(
    "words",
    [
        ["PUBLISH", "c", "x"],
        ["SUBSCRIBE", "c"],
        ["UNSUBSCRIBE", "c"],
        ["PSUBSCRIBE", "c"],
        ["PUNSUBSCRIBE", "c"],
        ["UNSUBSCRIBE"],
        ["PUNSUBSCRIBE"],
    ],
)
def test_plain_channels_are_refused(
    headgate_cluster: Cluster, dial: Dial, words: list[str]
) -> None:
    """RESP-72, S002-65, S002-66."""
    client = dial(headgate_cluster.nodes[0])
    assert client.ask(*words) == Error(f"ERR {words[0]} is not supported in cluster mode yet")
    assert client.ask(words[0].lower(), *words[1:]) == Error(
        f"ERR {words[0]} is not supported in cluster mode yet"
    )
    assert client.ask("PUBSUB", "NUMSUB", "c") == [b"c", 0]
    assert client.ask("PUBSUB", "NUMPAT") == 0
    assert client.ask("ECHO", "not in subscriber mode") == b"not in subscriber mode"


def test_there_is_one_database(headgate_cluster: Cluster, dial: Dial) -> None:
    """RESP-72."""
    client = dial(headgate_cluster.nodes[0])
    assert client.ask("SELECT", 0) == OK
    assert client.ask("SELECT", 1) == Error("ERR SELECT is not allowed in cluster mode")


def test_a_node_serves_its_own_slots(cluster: Cluster, dial: Dial, protocol: int) -> None:
    """RESP-73, S002-67, S002-68, S002-70."""
    node, other = cluster.nodes
    subscriber, publisher = dial(node, protocol), dial(node)
    assert subscriber.ask("SSUBSCRIBE", LOWER) == subscriber.pushed(b"ssubscribe", LOWER, 1)
    assert publisher.ask("SPUBLISH", LOWER, "x") == 1
    assert subscriber.read() == subscriber.pushed(b"smessage", LOWER, b"x")
    moved = Error(cluster.moved(LOWER_SLOT, 0))
    stranger = dial(other)
    assert stranger.ask("SSUBSCRIBE", LOWER) == moved
    assert stranger.ask("SPUBLISH", LOWER, "x") == moved
    assert stranger.ask("SUNSUBSCRIBE", LOWER) == moved
    assert stranger.ask("GET", LOWER) == moved
    assert stranger.ask("SUNSUBSCRIBE") == [b"sunsubscribe", None, 0]
    assert stranger.ask("PUBSUB", "SHARDNUMSUB", LOWER) == [LOWER, 0]
    assert subscriber.ask("SUNSUBSCRIBE") == subscriber.pushed(b"sunsubscribe", LOWER, 0)


def test_channels_of_one_command_have_one_slot(cluster: Cluster, dial: Dial) -> None:
    """RESP-73, S002-68: and a refusal changes nothing."""
    client = dial(cluster.nodes[0])
    commands: list[list[Word]] = [
        ["SSUBSCRIBE", LOWER, LOWER_TOO],
        ["SSUBSCRIBE", LOWER, UPPER],
        ["SSUBSCRIBE", UPPER, UPPER + b"1"],
        ["SUNSUBSCRIBE", LOWER, LOWER_TOO],
        ["MGET", LOWER, LOWER_TOO],
        ["DEL", LOWER, UPPER],
    ]
    for words in commands:
        assert client.ask(*words) == CROSS
    assert client.ask("PUBSUB", "SHARDCHANNELS") == []
    tagged = [b"{kostas}.%d" % number for number in range(3)]
    client.send("SSUBSCRIBE", *tagged)
    assert client.read_many(3) == [
        [b"ssubscribe", channel, number + 1] for number, channel in enumerate(tagged)
    ]
    client.send("SUNSUBSCRIBE", *tagged)
    client.read_many(3)


def test_slots_matter_in_subscriber_mode_too(cluster: Cluster, dial: Dial) -> None:
    """RESP-73, S002-70."""
    client = dial(cluster.nodes[0])
    client.ask("SSUBSCRIBE", LOWER)
    assert client.ask("SSUBSCRIBE", UPPER) == Error(cluster.moved(UPPER_SLOT, 1))
    assert client.ask("SSUBSCRIBE", LOWER, LOWER_TOO) == CROSS
    assert client.ask("SSUBSCRIBE", LOWER_TOO) == [b"ssubscribe", LOWER_TOO, 2]


def test_a_slot_of_nobody_is_not_served(cluster: Cluster, dial: Dial) -> None:
    """RESP-73."""
    cluster.assign([LOWER_SLOT], None)
    client = dial(cluster.nodes[0])
    unserved = Error("CLUSTERDOWN Hash slot not served")
    assert client.ask("SSUBSCRIBE", LOWER) == unserved
    assert client.ask("SPUBLISH", LOWER, "x") == unserved
    assert client.ask("SSUBSCRIBE", LOWER_TOO) == [b"ssubscribe", LOWER_TOO, 1]


def test_a_node_that_was_not_told_of_slots_serves_none(tmp_path: Path, dial: Dial) -> None:
    """RESP-73."""
    with start_headgate(tmp_path, cluster=True) as node:
        client = dial(node)
        unconfigured = Error("ERR Cluster is not yet configured")
        assert client.ask("SSUBSCRIBE", LOWER) == unconfigured
        assert client.ask("SPUBLISH", LOWER, "x") == unconfigured


def channels_of(client: Client) -> set[Frame]:
    return {c for c in items_of(client.ask("PUBSUB", "SHARDCHANNELS")) if isinstance(c, bytes)}


def test_when_slots_leave_their_subscribers_are_told(
    cluster: Cluster, dial: Dial, protocol: int
) -> None:
    """RESP-75, RESP-76, S002-54, S002-72, S002-73, S002-74: after what was published before."""
    node, other = cluster.nodes
    subscriber, publisher = dial(node, protocol), dial(node)
    twin = b"{kostas}.twin"
    for number, channel in enumerate((LOWER, twin, LOWER_TOO)):
        confirmed = subscriber.pushed(b"ssubscribe", channel, number + 1)
        assert subscriber.ask("SSUBSCRIBE", channel) == confirmed
    publishes = [("SPUBLISH", LOWER, str(number)) for number in range(100)]
    assert publisher.pipeline(publishes) == [1] * 100
    cluster.assign([LOWER_SLOT], 1)
    messages = subscriber.read_many(100)
    assert messages == [subscriber.pushed(b"smessage", LOWER, b"%d" % n) for n in range(100)]
    lost = [items_of(frame) for frame in subscriber.read_many(2)]
    assert all(type(frame) is type(subscriber.pushed()) for frame in lost)
    assert [frame[0] for frame in lost] == [b"sunsubscribe"] * 2
    assert {frame[1] for frame in lost} == {LOWER, twin}
    assert [frame[2] for frame in lost] == [2, 1], "the number that remains"
    moved = Error(cluster.moved(LOWER_SLOT, 1))
    assert publisher.ask("SPUBLISH", LOWER, "x") == moved
    assert publisher.ask("SSUBSCRIBE", LOWER) == moved
    assert channels_of(publisher) == {LOWER_TOO}
    assert publisher.ask("SPUBLISH", LOWER_TOO, "still here") == 1
    assert subscriber.before_fence() == [subscriber.pushed(b"smessage", LOWER_TOO, b"still here")]
    assert dial(other).ask("SSUBSCRIBE", LOWER) == [b"ssubscribe", LOWER, 1]


def test_who_loses_the_last_channel_leaves_subscriber_mode(cluster: Cluster, dial: Dial) -> None:
    """RESP-75, S002-75."""
    subscriber = dial(cluster.nodes[0])
    subscriber.ask("SSUBSCRIBE", LOWER)
    assert isinstance(subscriber.ask("GET", LOWER), Error)
    cluster.assign([LOWER_SLOT], 1)
    assert subscriber.read() == [b"sunsubscribe", LOWER, 0]
    assert subscriber.ask("ECHO", "x") == b"x"


def test_who_died_before_slots_leave_is_skipped(cluster: Cluster, dial: Dial) -> None:
    """RESP-75, S002-76."""
    subscribers = [dial(cluster.nodes[0]) for _ in range(10)]
    for subscriber in subscribers:
        subscriber.ask("SSUBSCRIBE", LOWER)
    for subscriber in subscribers[:5]:
        subscriber.close()
    cluster.assign([LOWER_SLOT], 1)
    for subscriber in subscribers[5:]:
        assert subscriber.read() == [b"sunsubscribe", LOWER, 0]


def test_slots_that_come_are_served(cluster: Cluster, dial: Dial) -> None:
    """RESP-73, RESP-76."""
    cluster.assign([LOWER_SLOT], 1)
    client = dial(cluster.nodes[1])
    assert client.ask("SSUBSCRIBE", LOWER) == [b"ssubscribe", LOWER, 1]
    cluster.assign([UPPER_SLOT], 0)
    assert client.before_fence() == []


# What clients of clusters ask before anything else


def test_the_map_of_slots(cluster: Cluster, dial: Dial, protocol: int) -> None:
    """RESP-74."""
    client = dial(cluster.nodes[0], protocol)
    entries = sorted((items_of(e) for e in items_of(client.ask("CLUSTER", "SLOTS"))), key=str)
    ranges = []
    for entry in entries:
        start, end, master, *replicas = entry
        host, port, number, extra = items_of(master)
        ranges.append((start, end, host, port, number))
        assert replicas == []
        assert extra == (Pairs() if protocol == 3 else [])
    assert sorted(ranges, key=str) == sorted(
        [
            (start, end, server.address[0].encode(), server.port, number.encode())
            for (start, end), server, number in zip(
                [(0, HALF - 1), (HALF, SLOTS - 1)], cluster.nodes, cluster.ids, strict=True
            )
        ],
        key=str,
    )


def test_the_map_of_shards(cluster: Cluster, dial: Dial, protocol: int) -> None:
    """RESP-74."""
    client = dial(cluster.nodes[1], protocol)
    reply = items_of(client.ask("CLUSTER", "SHARDS"))
    seen = {}
    for shard in map(mapping, reply):
        (node,) = items_of(shard[b"nodes"])
        told = mapping(node)
        assert told[b"role"] == b"master"
        assert told[b"health"] == b"online"
        assert isinstance(told[b"replication-offset"], int)
        assert told[b"ip"] == told[b"endpoint"] == b"127.0.0.1"
        seen[told[b"id"]] = (told[b"port"], shard[b"slots"])
    assert seen == {
        cluster.ids[0].encode(): (cluster.nodes[0].port, [0, HALF - 1]),
        cluster.ids[1].encode(): (cluster.nodes[1].port, [HALF, SLOTS - 1]),
    }


def test_the_list_of_nodes(cluster: Cluster, dial: Dial) -> None:
    """RESP-74."""
    text = text_of(dial(cluster.nodes[0]).ask("CLUSTER", "NODES"))
    assert text.endswith("\n")
    lines = {line.split(" ")[0]: line.split(" ") for line in text.splitlines()}
    assert set(lines) == set(cluster.ids)
    mine, others = lines[cluster.ids[0]], lines[cluster.ids[1]]
    assert (mine[2], mine[3], mine[7], mine[8:]) == ("myself,master", "-", "connected", ["0-8191"])
    assert (others[2], others[3], others[8:]) == ("master", "-", ["8192-16383"])
    for line, server in ((mine, cluster.nodes[0]), (others, cluster.nodes[1])):
        assert re.match(rf"127\.0\.0\.1:{server.port}@\d+", line[1])


def test_the_state_of_the_cluster(cluster: Cluster, dial: Dial) -> None:
    """RESP-74."""
    client = dial(cluster.nodes[0])
    lines = text_of(client.ask("CLUSTER", "INFO")).split("\r\n")
    told = dict(line.split(":", 1) for line in lines if line)
    assert told["cluster_state"] == "ok"
    assert told["cluster_slots_assigned"] == "16384"
    assert told["cluster_known_nodes"] == "2"
    assert told["cluster_size"] == "2"
    everything = info(client)
    assert everything["redis_mode"] == "cluster"
    assert everything["cluster_enabled"] == "1"
    assert mapping(client.ask("HELLO"))[b"mode"] == b"cluster"
    assert client.ask("CLUSTER", "MYID") == cluster.ids[0].encode()
    assert client.ask("CLUSTER", "COUNTKEYSINSLOT", LOWER_SLOT) == 0
    for word in ("READONLY", "READWRITE", "ASKING"):
        assert client.ask(word) == OK


def test_outside_of_a_cluster_there_are_no_slots(server: Server, dial: Dial, name: str) -> None:
    """RESP-73: several slots in one command are fine there."""
    client = dial(server)
    assert client.ask("CLUSTER", "SLOTS") == Error("ERR This instance has cluster support disabled")
    client.send("SSUBSCRIBE", name + "a", name + "b")
    assert client.read_many(2) == [
        [b"ssubscribe", f"{name}{letter}".encode(), number + 1]
        for number, letter in enumerate("ab")
    ]


def test_ids_of_nodes_differ(cluster: Cluster) -> None:
    """RESP-74."""
    assert len({node_id(node) for node in cluster.nodes}) == 2
