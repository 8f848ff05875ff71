"""Cluster mode on the wire: what is served, what clients are told, and what a move does."""

from __future__ import annotations

import json

import pytest

from headgate.core.facts import SlotsMoved
from headgate.core.redis.cluster import SLOTS, Cluster, Node, slot_of
from tests.support.resp_hub import House
from tests.wire.resp.commands.test_acl import Client

OWN = Node("a" * 40, "10.0.0.1", 7000)
OTHER = Node("b" * 40, "10.0.0.2", 7001)
REPLICA = Node("c" * 40, "10.0.0.3", 7002)
LAST = SLOTS - 1

FOO, BAR = slot_of(b"foo"), slot_of(b"bar")
"""12182, which is OTHER's in `halves`, and 5061, which is ours."""

CROSSSLOT = "CROSSSLOT Keys in request don't hash to the same slot"
DISABLED = "ERR This instance has cluster support disabled"


def shard(node: Node, *ranges: tuple[int, int], **more: object) -> dict[str, object]:
    return {
        "slot_ranges": [{"start": first, "end": last} for first, last in ranges],
        "master": {"id": node.id, "ip": node.host, "port": node.port},
        **more,
    }


def configure(client: Client, *shards: object) -> str:
    """Tell a node who owns what; return its answer."""
    answer: str = client.ask("DFLYCLUSTER", "CONFIG", json.dumps(shards))
    return answer


@pytest.fixture
def client() -> Client:
    """Of a node that was told nothing."""
    return Client(House(cluster=Cluster(OWN)))


@pytest.fixture
def halves(client: Client) -> Client:
    """Of a node that serves the first half of the slots."""
    assert configure(client, shard(OWN, (0, 8191)), shard(OTHER, (8192, LAST))) == "OK"
    return client


# What is served.


@pytest.mark.parametrize(
    "command",
    ["PUBLISH bar x", "SUBSCRIBE bar", "PSUBSCRIBE bar", "UNSUBSCRIBE", "PUNSUBSCRIBE"],
)
def test_plain_channels_are_refused_in_cluster_mode(halves: Client, command: str) -> None:
    """RESP-72, S002-65, S002-66."""
    assert halves.ask("SSUBSCRIBE", "bar") == ["ssubscribe", "bar", 1]
    name, *args = command.split()
    assert halves.ask(name, *args) == f"ERR {name} is not supported in cluster mode yet"
    assert list(halves.session.interests.sharded) == [b"bar"]
    assert len(halves.session.interests) == 1


def test_a_sharded_channel_is_served_by_the_owner_of_its_slot_only(halves: Client) -> None:
    """RESP-72, S002-67: plain ones by none, in a transaction or not."""
    assert halves.ask("SPUBLISH", "bar", "x") == 0
    assert halves.ask("SPUBLISH", "foo", "x").startswith("MOVED ")
    assert halves.ask("SSUBSCRIBE", "foo").startswith("MOVED ")
    halves.ask("MULTI")
    assert halves.ask("SPUBLISH", "bar", "x") == "QUEUED"
    assert halves.ask("SPUBLISH", "foo", "x").startswith("MOVED ")
    assert halves.ask("PUBLISH", "bar", "x").startswith("ERR PUBLISH is not supported")
    assert halves.ask("EXEC").startswith("EXECABORT")


def test_a_transaction_is_of_one_slot_as_a_whole(halves: Client) -> None:
    """RESP-72, S002-67, S002-69: though each of its commands is of one that is served here."""
    for second, answer in (("{bar}2", [0, 0]), ("b", "CROSSSLOT")):
        halves.ask("MULTI")
        assert halves.ask("SPUBLISH", "bar", "x") == "QUEUED"
        assert halves.ask("SPUBLISH", second, "x") == "QUEUED"
        found = halves.ask("EXEC")
        assert found == answer or found.startswith(f"{answer} ")
    assert halves.ask("PING") == "PONG"


def test_select_is_refused_but_of_the_only_database(halves: Client) -> None:
    """RESP-72."""
    assert halves.ask("SELECT", "0") == "OK"
    assert halves.ask("SELECT", "1") == "ERR SELECT is not allowed in cluster mode"


def test_sharded_channels_of_own_slots_are_served(halves: Client) -> None:
    """S002-67, S002-69."""
    listener = Client(halves.world)
    assert listener.ask("SSUBSCRIBE", "bar", "{bar}2") == ["ssubscribe", "bar", 1]
    assert listener.next() == ["ssubscribe", "{bar}2", 2]
    assert halves.ask("SPUBLISH", "bar", "x") == 1
    assert listener.next() == ["smessage", "bar", "x"]
    assert listener.ask("SUNSUBSCRIBE", "bar", "{bar}2") == ["sunsubscribe", "bar", 1]


@pytest.mark.parametrize(
    "command",
    ["SPUBLISH foo bar", "SSUBSCRIBE foo", "SUNSUBSCRIBE foo", "GET foo", "MSET foo 1 {foo}2 2"],
)
def test_what_another_node_serves_is_redirected(halves: Client, command: str) -> None:
    """RESP-73, S002-68, S002-70."""
    assert halves.ask(*command.split()) == f"MOVED {FOO} 10.0.0.2:7001"


@pytest.mark.parametrize(
    "command",
    ["SSUBSCRIBE foo bar", "SUNSUBSCRIBE bar foo", "MGET foo bar", "MSET bar 1 foo 2"],
)
def test_several_slots_in_one_command_are_refused_before_anything_else(
    halves: Client, command: str
) -> None:
    """RESP-73, S002-68."""
    assert halves.ask(*command.split()) == CROSSSLOT


def test_a_slot_of_nobody_is_not_served(halves: Client) -> None:
    """RESP-73."""
    configure(halves, shard(OWN, (0, 10)))
    assert halves.ask("SSUBSCRIBE", "foo") == "CLUSTERDOWN Hash slot not served"
    assert halves.ask("GET", "bar") == "CLUSTERDOWN Hash slot not served"


def test_before_it_is_configured_a_node_serves_no_slots(client: Client) -> None:
    assert client.ask("SPUBLISH", "foo", "x") == "ERR Cluster is not yet configured"
    assert client.ask("PING") == "PONG"


def test_leaving_all_sharded_channels_is_always_served(client: Client) -> None:
    assert client.ask("SUNSUBSCRIBE") == ["sunsubscribe", None, 0]


def test_slots_are_looked_at_in_subscriber_mode_too(halves: Client) -> None:
    halves.ask("SSUBSCRIBE", "bar")
    assert halves.ask("SSUBSCRIBE", "foo") == f"MOVED {FOO} 10.0.0.2:7001"


def test_outside_of_cluster_mode_slots_do_not_matter() -> None:
    client = Client(House())
    assert client.ask("SSUBSCRIBE", "foo", "bar") == ["ssubscribe", "foo", 1]


def test_a_transaction_has_to_stay_in_one_slot(halves: Client) -> None:
    """Else nothing of it is carried out, and it is over."""
    halves.ask("MULTI")
    assert halves.ask("SET", "bar", "1") == "QUEUED"
    assert halves.ask("SET", "kostas", "2") == "QUEUED"
    assert halves.ask("EXEC") == CROSSSLOT
    assert halves.ask("EXEC") == "ERR EXEC without MULTI"
    assert halves.ask("GET", "bar") is None


def test_a_transaction_whose_slot_moved_meanwhile_is_redirected(halves: Client) -> None:
    halves.ask("MULTI")
    assert halves.ask("SPUBLISH", "bar", "x") == "QUEUED"
    Client(halves.world).ask("CLUSTER", "SETSLOT", str(BAR), "NODE", OTHER.id)
    assert halves.ask("EXEC") == f"MOVED {BAR} 10.0.0.2:7001"
    assert halves.ask("PING") == "PONG"


# What a move does.


def test_who_was_subscribed_to_slots_that_left_is_told_so(halves: Client) -> None:
    """RESP-75, RESP-76, S002-72, S002-73, S002-74, S002-75: the count is of those that remain."""
    old, new = Client(halves.world), Client(halves.world)
    new.ask("HELLO", "3")
    for listener in (old, new):
        for name in ("bar", "{bar}2", "kostas"):
            listener.ask("SSUBSCRIBE", name)
    old.raw = new.raw = b""
    halves.send("SPUBLISH", "bar", "last")
    assert halves.ask("CLUSTER", "SETSLOT", str(BAR), "NODE", OTHER.id) == 2
    assert halves.next() == "OK"
    assert old.next() == ["smessage", "bar", "last"]
    told = [old.next(), old.next()]
    assert [count for _, _, count in told] == [2, 1]
    assert {name for _, name, _ in told} == {"bar", "{bar}2"}
    assert new.raw.replace(b">", b"*") == old.raw
    assert new.raw.count(b">3\r\n$12\r\nsunsubscribe\r\n") == 2
    assert list(old.session.interests.sharded) == [b"kostas"]
    assert halves.ask("SPUBLISH", "kostas", "x") == 2
    assert halves.ask("SPUBLISH", "bar", "x") == f"MOVED {BAR} 10.0.0.2:7001"
    assert halves.world.facts[-1] == SlotsMoved(halves.world.now, 1, 2)


def test_who_lost_its_last_channel_is_no_subscriber_any_more(halves: Client) -> None:
    """RESP-75, S002-75."""
    listener = Client(halves.world)
    listener.ask("SSUBSCRIBE", "bar")
    assert listener.session.is_subscriber
    assert configure(halves, shard(OTHER, (0, LAST))) == "OK"
    assert listener.next() == ["sunsubscribe", "bar", 0]
    assert not listener.session.is_subscriber
    assert listener.ask("ECHO", "x") == "x"
    assert halves.world.facts[-1] == SlotsMoved(halves.world.now, 8192, 1)


def test_a_session_that_is_gone_meanwhile_is_passed_over(halves: Client) -> None:
    """S002-76."""
    listener = Client(halves.world)
    listener.ask("SSUBSCRIBE", "bar")
    listener.raw = b""
    halves.world.hub.disconnect(listener.session.id)
    assert configure(halves, shard(OTHER, (0, LAST))) == "OK"
    assert listener.raw == b""


@pytest.mark.parametrize("command", ["DELSLOTS 5061", "DELSLOTSRANGE 5000 5100"])
def test_deleted_slots_lose_their_channels(halves: Client, command: str) -> None:
    listener = Client(halves.world)
    listener.ask("SSUBSCRIBE", "bar")
    assert halves.ask("CLUSTER", *command.split()) == "OK"
    assert listener.next() == ["sunsubscribe", "bar", 0]
    assert halves.ask("SSUBSCRIBE", "bar") == "CLUSTERDOWN Hash slot not served"


def test_what_is_configured_again_as_it_was_disturbs_nobody(halves: Client) -> None:
    listener = Client(halves.world)
    listener.ask("SSUBSCRIBE", "bar")
    configure(halves, shard(OTHER, (8192, LAST)), shard(OWN, (0, 8191)))
    assert listener.next() is False
    assert not any(isinstance(fact, SlotsMoved) for fact in halves.world.facts)


# What clients ask.


def test_slots_lists_ranges_with_their_nodes(halves: Client) -> None:
    replicas = [{"id": REPLICA.id, "ip": REPLICA.host, "port": REPLICA.port}]
    configure(halves, shard(OWN, (0, 5), (9, 9)), shard(OTHER, (6, 8), replicas=replicas))
    own, other = [OWN.host, OWN.port, OWN.id, []], [OTHER.host, OTHER.port, OTHER.id, []]
    third = [REPLICA.host, REPLICA.port, REPLICA.id, []]
    assert halves.ask("CLUSTER", "SLOTS") == [[0, 5, own], [6, 8, other, third], [9, 9, own]]
    halves.ask("HELLO", "3")
    halves.raw = b""
    halves.ask("CLUSTER", "SLOTS")
    assert halves.raw.startswith(
        b"*3\r\n*3\r\n:0\r\n:5\r\n*4\r\n$8\r\n10.0.0.1\r\n:7000\r\n$40\r\n"
    )
    assert b"%0\r\n" in halves.raw


def test_shards_lists_nodes_with_their_slots(halves: Client) -> None:
    replicas = [{"id": REPLICA.id, "ip": REPLICA.host, "port": REPLICA.port, "health": "loading"}]
    configure(halves, shard(OWN, (0, 5), (9, 9)), shard(OTHER, (6, 8), replicas=replicas))
    halves.ask("HELLO", "3")

    def described(node: Node, role: str, health: str = "online") -> dict[str, object]:
        return {
            **{"id": node.id, "port": node.port, "ip": node.host, "endpoint": node.host},
            **{"role": role, "replication-offset": 0, "health": health},
        }

    assert halves.ask("CLUSTER", "SHARDS") == [
        {"slots": [0, 5, 9, 9], "nodes": [described(OWN, "master")]},
        {
            "slots": [6, 8],
            "nodes": [described(OTHER, "master"), described(REPLICA, "replica", "loading")],
        },
    ]


def test_nodes_is_one_line_each(halves: Client) -> None:
    replicas = [{"id": REPLICA.id, "ip": REPLICA.host, "port": REPLICA.port}]
    configure(halves, shard(OWN, (0, 5), (9, 9)), shard(OTHER, (6, 8), replicas=replicas))
    assert halves.ask("CLUSTER", "NODES") == (
        f"{OWN.id} 10.0.0.1:7000@17000 myself,master - 0 0 0 connected 0-5 9\n"
        f"{OTHER.id} 10.0.0.2:7001@17001 master - 0 0 0 connected 6-8\n"
        f"{REPLICA.id} 10.0.0.3:7002@17002 slave {OTHER.id} 0 0 0 connected\n"
    )


def test_info_tells_the_state(client: Client) -> None:
    text = client.ask("CLUSTER", "INFO")
    assert "cluster_state:fail\r\ncluster_slots_assigned:0\r\n" in text
    assert "cluster_known_nodes:1\r\ncluster_size:0\r\n" in text
    configure(client, shard(OWN, (0, 8191)), shard(OTHER, (8192, LAST)))
    text = client.ask("CLUSTER", "INFO")
    assert "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n" in text
    assert "cluster_known_nodes:2\r\ncluster_size:2\r\n" in text


def test_myid_keyslot_and_the_keys_of_a_slot(halves: Client) -> None:
    """RESP-71."""
    assert halves.ask("CLUSTER", "MYID") == OWN.id
    assert halves.ask("CLUSTER", "KEYSLOT", "{a}x") == 15495
    halves.ask("MSET", "bar", "1", "{bar}2", "2")
    assert halves.ask("CLUSTER", "COUNTKEYSINSLOT", str(BAR)) == 2
    too_long = "{bar}" + "x" * halves.session.hub.broker.limits.name_bytes
    assert "name_bytes" in halves.ask("MSET", "{bar}3", "3", too_long, "4")
    assert halves.ask("CLUSTER", "COUNTKEYSINSLOT", str(BAR)) == 2
    assert halves.ask("CLUSTER", "COUNTKEYSINSLOT", "0") == 0
    assert halves.ask("CLUSTER", "COUNTKEYSINSLOT", "16384") == "ERR Invalid slot"
    assert halves.ask("CLUSTER", "COUNTKEYSINSLOT", "x") == (
        "ERR value is not an integer or out of range"
    )


@pytest.mark.parametrize("command", ["READONLY", "READWRITE", "ASKING"])
def test_words_of_cluster_clients_are_taken(client: Client, command: str) -> None:
    assert client.ask(command) == "OK"


@pytest.mark.parametrize(
    "command",
    [
        "CLUSTER SLOTS",
        "CLUSTER SHARDS",
        "CLUSTER NODES",
        "CLUSTER INFO",
        "CLUSTER KEYSLOT x",
        "CLUSTER MYID",
        "CLUSTER COUNTKEYSINSLOT 0",
        "CLUSTER ADDSLOTS 1",
        "CLUSTER HELP",
        "CLUSTER ADDSLOTSRANGE 1 2",
        "CLUSTER DELSLOTS 1",
        "CLUSTER DELSLOTSRANGE 1 2",
        "CLUSTER SETSLOT 1 NODE x",
        "READONLY",
        "READWRITE",
        "ASKING",
        "DFLYCLUSTER CONFIG []",
    ],
)
def test_outside_of_cluster_mode_they_are_refused(command: str) -> None:
    assert Client(House()).ask(*command.split()) == DISABLED


def test_help_names_every_subcommand(client: Client) -> None:
    lines = client.ask("CLUSTER", "HELP")
    entry = client.world.hub.table.get(b"cluster")
    assert entry is not None
    for name in entry.subcommands:
        assert any(line.split()[0] == name.decode() for line in lines)


# How a node is told.


def test_slots_can_be_added_and_given_one_by_one(client: Client) -> None:
    assert client.ask("CLUSTER", "ADDSLOTS", "5", "7") == "OK"
    assert client.ask("CLUSTER", "ADDSLOTSRANGE", "10", "20", "30", "30") == "OK"
    served = [(first, last) for first, last, _ in client.ask("CLUSTER", "SLOTS")]
    assert served == [(5, 5), (7, 7), (10, 20), (30, 30)]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("ADDSLOTS 100", "Slot 100 is already busy"),
        ("ADDSLOTS 9000 9000", "Slot 9000 specified multiple times"),
        ("ADDSLOTS x", "Invalid or out of range slot"),
        ("ADDSLOTS 16384", "Invalid or out of range slot"),
        ("ADDSLOTS -1", "Invalid or out of range slot"),
        ("ADDSLOTSRANGE 9", "wrong number of arguments for 'cluster|addslotsrange' command"),
        ("ADDSLOTSRANGE 9 8", "start slot number 9 is greater than end slot number 8"),
        ("ADDSLOTSRANGE 1 2 3", "wrong number of arguments for 'cluster|addslotsrange' command"),
        ("DELSLOTSRANGE 1 2 3", "wrong number of arguments for 'cluster|delslotsrange' command"),
        ("DELSLOTS 9000", "Slot 9000 is already unassigned"),
        ("DELSLOTSRANGE 100 9000", "Slot 8192 is already unassigned"),
        ("SETSLOT x NODE y", "Invalid or out of range slot"),
        ("SETSLOT 5 NODE y", "Unknown node y"),
        (
            "SETSLOT 5 STABLE",
            "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    client: Client, command: str, answer: str
) -> None:
    client.ask("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
    assert client.ask("CLUSTER", *command.split()) == f"ERR {answer}"
    assert client.ask("CLUSTER", "SLOTS") == [
        [0, 8191, [OWN.host, OWN.port, OWN.id, []]],
    ]


BAD_NODE = {"id": OWN.id, "ip": OWN.host, "port": OWN.port}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Input data was truncated"),
        ("{", "Expected `array`, got `object`"),
        ("nonsense", "JSON is malformed"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        ('["x"]', "Expected `object`, got `str` - at `$[0]`"),
        ("[{}]", "Object missing required field `slot_ranges` - at `$[0]`"),
        (json.dumps([shard(OWN, (0, 1), more=1)]), "Object contains unknown field `more`"),
        (
            json.dumps([{"slot_ranges": [], "master": {**BAD_NODE, "x": 1}}]),
            "Object contains unknown field `x` - at `$[0].master`",
        ),
        (
            json.dumps([{"slot_ranges": [], "master": {**BAD_NODE, "id": "short"}}]),
            "Expected `str` matching regex",
        ),
        (
            json.dumps([{"slot_ranges": [], "master": {**BAD_NODE, "ip": "a b"}}]),
            "Expected `str` matching regex",
        ),
        (
            json.dumps([{"slot_ranges": [], "master": {**BAD_NODE, "port": 65536}}]),
            "Expected `int` <= 65535 - at `$[0].master.port`",
        ),
        (
            json.dumps([{"slot_ranges": [], "master": {**BAD_NODE, "health": "fine"}}]),
            "Invalid enum value 'fine' - at `$[0].master.health`",
        ),
        (json.dumps([shard(OWN, (0, 7), (7, 9))]), "Slot 7 specified multiple times"),
        (
            json.dumps([shard(OWN, (0, 7)), shard(OTHER, (5, 9))]),
            "Slot 5 specified multiple times",
        ),
        (json.dumps([shard(OWN, (7, 0))]), "start slot number 7 is greater"),
        (json.dumps([shard(OWN, (0, 16384))]), "Invalid or out of range slot"),
        (json.dumps([shard(OWN, (0, 1)), shard(OWN, (2, 3))]), "A node is named more than once"),
    ],
)
def test_a_wrong_configuration_is_refused_and_changes_nothing(
    halves: Client, text: str, reason: str
) -> None:
    before = halves.ask("CLUSTER", "SLOTS")
    answer = halves.ask("DFLYCLUSTER", "CONFIG", text)
    assert answer.startswith("ERR Invalid cluster configuration: ")
    assert reason in answer
    assert halves.ask("CLUSTER", "SLOTS") == before


def test_during_a_migration_the_source_goes_on_serving(halves: Client) -> None:
    migration = {"slot_ranges": [{"start": 0, "end": 8191}], "node_id": OTHER.id}
    moving = [{**migration, "ip": OTHER.host, "port": OTHER.port}]
    configured = configure(
        halves, shard(OWN, (0, 8191), migrations=moving), shard(OTHER, (8192, LAST))
    )
    assert configured == "OK"
    assert halves.ask("SSUBSCRIBE", "bar") == ["ssubscribe", "bar", 1]
