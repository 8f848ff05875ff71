"""Cluster mode: who serves which slots, how a node is told, and what it refuses to serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from headgate.core.channels.audience import Kind
from headgate.core.facts import SlotsMoved
from headgate.core.redis.cluster import (
    SLOTS,
    Cluster,
    ClusterShard,
    Node,
    Range,
    SlotError,
    slot_of,
    slots_in,
)
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Parts,
    Reply,
    Simple,
    Verbatim,
    text_of,
)
from headgate.wire.resp.command_cost import portions
from headgate.wire.resp.commands.table import CommandEntry, CommandTable

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

table = CommandTable()

NOT_IN_CLUSTERS = frozenset(
    # S002-67: the sharded ones are not among them.
    ("publish", "subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
)
"""A message of theirs would have to reach every node."""

DISABLED = "ERR This instance has cluster support disabled"
BAD_SLOT = "ERR Invalid or out of range slot"
BAD_SETSLOT = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"
BUS_PORT = 10_000
"""The port of a node for other nodes is its port plus this; clients expect to read one."""

ASKING = ("stale",)
ADMIN = ("admin", "stale", "no_async_loading")
SLOW = ("slow",)
DANGEROUS = ("admin", "slow", "dangerous")
CONNECTION = ("fast", "connection")
SLOT_STEPS = 2
"""Of a key whose slot is calculated."""


def keys_of(entry: CommandEntry, command: list[bytes]) -> list[bytes]:
    """The arguments that are keys, or sharded channels."""
    first, last, step = entry.keys
    if entry.find_keys is not None:
        return entry.find_keys(command)
    if not first:
        return []
    return command[first : (last if last >= 0 else len(command) + last) + 1 : step]


def check_slots(session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
    """Refuse what another node has to serve, or none can. A transaction is looked at again as a
    whole when it is to be carried out: slots may have moved since."""
    cluster = session.hub.cluster
    assert cluster is not None, "asked in cluster mode only"
    # S002-65, S002-66, RESP-72: refused by name, before anything changes.
    if entry.name in NOT_IN_CLUSTERS:
        raise CommandError(f"ERR {entry.name.upper()} is not supported in cluster mode yet")
    if entry.name != "exec" or session.queued is None:
        _check_owner(cluster, keys_of(entry, command))
        return
    try:
        _check_owner(cluster, [key for queued in session.queued for key in keys_of(*queued)])
    except CommandError:
        session.queued = None
        raise


def _check_owner(cluster: Cluster, keys: Iterable[bytes]) -> None:
    slots = {slot_of(key) for key in keys}
    if not slots:
        return
    # RESP-73: one command, one slot.
    if len(slots) > 1:
        raise CommandError("CROSSSLOT Keys in request don't hash to the same slot")
    if not cluster.is_configured:
        raise CommandError("ERR Cluster is not yet configured")
    [slot] = slots
    # S002-70, RESP-73: another's slot is named with its owner.
    if cluster.owns(slot):
        return
    owner = cluster.owner(slot)
    if owner is None:
        raise CommandError("CLUSTERDOWN Hash slot not served")
    raise CommandError(f"MOVED {slot} {owner.host}:{owner.port}")


# What clients ask.


@table.command("cluster|slots", 2, flags=ASKING, categories=SLOW)
def slots(session: RespSession, args: list[bytes]) -> Reply:
    cluster = _cluster(session)
    reply: list[Reply] = []
    for first, last, master in cluster.ranges():
        nodes = (master, *cluster.replicas(master))
        reply.append([first, last, *([node.host, node.port, node.id, {}] for node in nodes)])
    return reply


@table.command("cluster|shards", 2, flags=ASKING, categories=SLOW)
def shards(session: RespSession, args: list[bytes]) -> Reply:
    return [
        {
            "slots": [slot for each in shard.ranges for slot in each],
            "nodes": [
                _described(shard.master, "master"),
                *(_described(node, "replica") for node in shard.replicas),
            ],
        }
        for shard in _cluster(session).shards()
    ]


def _described(node: Node, role: str) -> Reply:
    return {
        "id": node.id,
        "port": node.port,
        "ip": node.host,
        "endpoint": node.host,
        "role": role,
        "replication-offset": 0,
        "health": node.health,
    }


@table.command("cluster|nodes", 2, flags=ASKING, categories=SLOW)
def nodes(session: RespSession, args: list[bytes]) -> Reply:
    cluster = _cluster(session)

    def line(node: Node, role: str, master: str, ranges: Iterable[Range] = ()) -> str:
        address = f"{node.host}:{node.port}@{node.port + BUS_PORT}"
        flags = f"myself,{role}" if node.id == cluster.own.id else role
        served = [f"{first}-{last}" if first < last else str(first) for first, last in ranges]
        return " ".join([node.id, address, flags, master, "0 0 0 connected", *served]) + "\n"

    lines = []
    for shard in cluster.shards():
        lines.append(line(shard.master, "master", "-", shard.ranges))
        lines += [line(node, "slave", shard.master.id) for node in shard.replicas]
    return Verbatim("".join(lines))


@table.command("cluster|info", 2, flags=ASKING, categories=SLOW)
def info(session: RespSession, args: list[bytes]) -> Reply:
    cluster = _cluster(session)
    assigned = cluster.assigned()
    numbers = {
        "cluster_state": "ok" if assigned == SLOTS else "fail",
        "cluster_slots_assigned": assigned,
        "cluster_slots_ok": assigned,
        "cluster_slots_pfail": 0,
        "cluster_slots_fail": 0,
        "cluster_known_nodes": len(cluster.nodes()),
        "cluster_size": sum(bool(shard.ranges) for shard in cluster.shards()),
        "cluster_current_epoch": 0,
        "cluster_my_epoch": 0,
    }
    return Verbatim("".join(f"{name}:{number}\r\n" for name, number in numbers.items()))


@table.command("cluster|myid", 2, flags=ASKING, categories=SLOW)
def myid(session: RespSession, args: list[bytes]) -> Reply:
    return _cluster(session).own.id


@table.command("cluster|keyslot", 3, flags=ASKING, categories=SLOW)
def keyslot(session: RespSession, args: list[bytes]) -> Reply:
    _cluster(session)
    return slot_of(args[0])


def _all_steps(session: RespSession, args: list[bytes]) -> int:
    hub: Hub = session.hub
    return SLOT_STEPS * hub.keys.size(0)


@table.command(
    "cluster|countkeysinslot",
    3,
    flags=ASKING,
    categories=SLOW,
    steps=_all_steps,
    is_sliced=True,
)
def countkeysinslot(session: RespSession, args: list[bytes]) -> Reply:
    _cluster(session)
    slot = integer(args[0])
    if slot not in range(SLOTS):
        raise CommandError("ERR Invalid slot")
    return Parts(_counted(session.hub, slot))


def _counted(hub: Hub, slot: int) -> Iterator[Reply]:
    count = 0
    for portion in portions(hub.keys.items(0)):
        names = hub.keys.living(portion, hub.shell.clock())
        count += sum(slot_of(name) == slot for name in names)
        yield NOTHING
    yield count


@table.command("cluster|help", 2, flags=("loading", "stale"), categories=SLOW)
def help(session: RespSession, args: list[bytes]) -> Reply:
    _cluster(session)
    lines = (
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ADDSLOTS <slot> [<slot> ...]",
        "    Give this node slots that no node has.",
        "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "    As ADDSLOTS, of all slots from one to another.",
        "COUNTKEYSINSLOT <slot>",
        "    How many keys this node has in a slot.",
        "DELSLOTS <slot> [<slot> ...]",
        "    Have slots served by no node, as far as this one knows.",
        "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "    As DELSLOTS, of all slots from one to another.",
        "INFO",
        "    The state of the cluster, in numbers.",
        "KEYSLOT <key>",
        "    The slot of a key or a sharded channel.",
        "MYID",
        "    The id of this node.",
        "NODES",
        "    The nodes, one per line.",
        "SETSLOT <slot> NODE <node-id>",
        "    Give a slot to a node that is known.",
        "SHARDS",
        "    The nodes with their slots.",
        "SLOTS",
        "    The slots with their nodes.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]


@table.command("readonly", 1, flags=("loading", "stale", "fast"), categories=CONNECTION)
@table.command("readwrite", 1, flags=("loading", "stale", "fast"), categories=CONNECTION)
@table.command("asking", 1, flags=("fast",), categories=CONNECTION)
def allow(session: RespSession, args: list[bytes]) -> Reply:
    """There is nothing to allow: a node serves its slots to whoever asks."""
    _cluster(session)
    return OK


# How it is told.


@table.command("cluster|addslots", -3, flags=ADMIN, categories=DANGEROUS)
def addslots(session: RespSession, args: list[bytes]) -> Reply:
    _cluster(session).add_slots(slots_in(_singles(args)))
    return OK


@table.command("cluster|addslotsrange", -4, flags=ADMIN, categories=DANGEROUS)
def addslotsrange(session: RespSession, args: list[bytes]) -> Reply:
    _cluster(session).add_slots(slots_in(_pairs("cluster|addslotsrange", args)))
    return OK


@table.command("cluster|delslots", -3, flags=ADMIN, categories=DANGEROUS)
def delslots(session: RespSession, args: list[bytes]) -> Reply:
    return _give_up(session, _cluster(session).delete_slots(slots_in(_singles(args))))


@table.command("cluster|delslotsrange", -4, flags=ADMIN, categories=DANGEROUS)
def delslotsrange(session: RespSession, args: list[bytes]) -> Reply:
    ranges = _pairs("cluster|delslotsrange", args)
    return _give_up(session, _cluster(session).delete_slots(slots_in(ranges)))


@table.command("cluster|setslot", -4, flags=ADMIN, categories=DANGEROUS)
def setslot(session: RespSession, args: list[bytes]) -> Reply:
    cluster = _cluster(session)
    [slot] = slots_in(_singles(args[:1]))
    if len(args) != 3 or args[1].upper() != b"NODE":
        raise CommandError(BAD_SETSLOT)
    return _give_up(session, cluster.set_slot(slot, text_of(args[2])))


class NodeText(msgspec.Struct, forbid_unknown_fields=True):
    """A node as the topology names it."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")]
    ip: Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,255}\Z")]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    health: Literal["online", "loading", "fail"] = "online"


class RangeText(msgspec.Struct, forbid_unknown_fields=True):
    """A range of slots as the topology names it."""

    start: int
    end: int


class MigrationText(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing follows from it: until the slots are another's, this node goes on serving them."""

    slot_ranges: list[RangeText]
    node_id: str
    ip: str
    port: int


class ShardText(msgspec.Struct, forbid_unknown_fields=True):
    """A shard as the topology names it."""

    slot_ranges: list[RangeText]
    master: NodeText
    replicas: list[NodeText] = []
    migrations: list[MigrationText] = []


decode_shards = msgspec.json.Decoder(list[ShardText]).decode


@table.command("dflycluster|config", 3, flags=ADMIN, categories=DANGEROUS)
def config(session: RespSession, args: list[bytes]) -> Reply:
    """The whole configuration in JSON, in Dragonfly's words, given to each node."""
    cluster = _cluster(session)
    try:
        lost = cluster.configure([_shard(text) for text in decode_shards(args[0])])
    except (msgspec.DecodeError, SlotError) as wrong:
        raise CommandError(f"ERR Invalid cluster configuration: {wrong}") from None
    return _give_up(session, lost)


def _shard(text: ShardText) -> ClusterShard:
    ranges = tuple((each.start, each.end) for each in text.slot_ranges)
    return ClusterShard(_node(text.master), ranges, tuple(map(_node, text.replicas)))


def _node(text: NodeText) -> Node:
    return Node(text.id, text.ip, text.port, text.health)


def _give_up(session: RespSession, lost: set[int]) -> Reply:
    """Give up slots that are another's now, with their channels."""
    if lost:
        hub = session.hub
        # S002-72, RESP-75, RESP-76: the channels of these slots, and no others.
        gone = [name for name in hub.channels.names(Kind.SHARDED) if slot_of(name) in lost]
        hub.evict(gone)
        hub.shell.announce([SlotsMoved(hub.shell.clock(), len(lost), len(gone))])
    return OK


def _cluster(session: RespSession) -> Cluster:
    if session.hub.cluster is None:
        raise CommandError(DISABLED)
    return session.hub.cluster


def _singles(args: list[bytes]) -> list[Range]:
    return [(slot, slot) for slot in (integer(arg, BAD_SLOT) for arg in args)]


def _pairs(name: str, args: list[bytes]) -> list[Range]:
    if len(args) % 2:
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    numbers = [integer(arg, BAD_SLOT) for arg in args]
    return list(zip(numbers[::2], numbers[1::2], strict=True))
