"""INFO: how the router does, in sections."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

from headgate import compiled
from headgate.core.channels.audience import Kind
from headgate.wire.resp.codec.replies import Reply, Verbatim
from headgate.wire.resp.commands.connection import VERSION
from headgate.wire.resp.commands.table import CommandTable

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

table = CommandTable()

Fields: TypeAlias = "dict[str, str | int]"

HEADGATE_VERSION = version("headgate")
INFO_STEPS = 50
SESSIONS_A_STEP = 8
"""Sessions that are asked whether they wait, in a step."""
ALL = frozenset((b"all", b"everything", b"default"))
SUMMED = {
    "connected_clients",
    "blocked_clients",
    "used_memory",
    "used_memory_rss",
    "total_connections_received",
    "total_commands_processed",
    "expired_keys",
    "published_messages",
    "delivered_messages",
    "dispatch_queue_subscriber_bytes",
    "slow_clients",
}
"""The figures that are sums over all workers. The rest is the same for all, or worker 0's."""
HUMAN = {"used_memory_human": "used_memory", "used_memory_rss_human": "used_memory_rss"}


def _steps(session: RespSession, args: list[bytes]) -> int:
    """The steps of counting those that wait."""
    return INFO_STEPS + len(session.hub.sessions) // SESSIONS_A_STEP


@table.command(
    "info", -1, flags=("loading", "stale"), categories=("slow", "dangerous"), steps=_steps
)
def info(session: RespSession, args: list[bytes]) -> Reply:
    return report(args, [fields_of(session.hub)])


def fields_of(hub: Hub) -> dict[str, Fields]:
    """All sections of one worker."""
    return {name: fields(hub) for name, fields in SECTIONS.items()}


def report(args: list[bytes], workers: list[dict[str, Fields]]) -> Reply:
    """The sections that were asked for, of a router with these workers. Worker 0 is the first."""
    asked = {name.lower() for name in args}
    if not asked or asked & ALL:
        asked = {name.lower().encode() for name in SECTIONS}
    parts = []
    for name, fields in workers[0].items():
        if name.lower().encode() in asked:
            for key in SUMMED & fields.keys():
                fields[key] = sum(int(each[name][key]) for each in workers)
            for key, of in HUMAN.items():
                if key in fields:
                    fields[key] = human(int(fields[of]))
            lines = [f"{key}:{value}\r\n" for key, value in fields.items()]
            parts.append(f"# {name}\r\n" + "".join(lines))
    return Verbatim("\r\n".join(parts))


def _server(hub: Hub) -> Fields:
    uptime = int(hub.shell.clock() - hub.began)
    return {
        "redis_version": VERSION,
        "headgate_version": HEADGATE_VERSION,
        "headgate_compiled": "no" if compiled.is_pure() else "yes",
        "redis_mode": "standalone" if hub.cluster is None else "cluster",
        "process_id": hub.settings.process_id,
        "tcp_port": hub.settings.port,
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime // 86400,
    }


def _clients(hub: Hub) -> Fields:
    reading = sum(session.waits_for_messages for session in hub.sessions.values())
    return {
        "connected_clients": len(hub.sessions),
        "maxclients": hub.settings.max_clients,
        "blocked_clients": len(hub.waiting) + reading,
    }


def _memory(hub: Hub) -> Fields:
    size = hub.shell.memory()
    return {
        "used_memory": size,
        "used_memory_human": human(size),
        "used_memory_rss": size,
        "used_memory_rss_human": human(size),
        "maxmemory": 0,
        "maxmemory_policy": "noeviction",
    }


def _persistence(hub: Hub) -> Fields:
    return {"loading": 0, "rdb_bgsave_in_progress": 0, "aof_enabled": 0}


def _stats(hub: Hub) -> Fields:
    channels, budget = hub.channels, hub.budget
    return {
        "total_connections_received": hub.connections,
        "total_commands_processed": hub.commands,
        "expired_keys": hub.expired,
        "pubsub_channels": channels.count(Kind.EXACT),
        "pubsub_patterns": channels.count(Kind.PATTERN),
        "pubsubshard_channels": channels.count(Kind.SHARDED),
        "published_messages": channels.published,
        "delivered_messages": channels.deliveries,
        "dispatch_queue_subscriber_bytes": budget.bytes,
        "slow_clients": len(budget.slow),
    }


def _replication(hub: Hub) -> Fields:
    return {"role": "master", "connected_slaves": 0}


def _modules(hub: Hub) -> Fields:
    return {}


def _cluster(hub: Hub) -> Fields:
    return {"cluster_enabled": int(hub.cluster is not None)}


def _keyspace(hub: Hub) -> Fields:
    return {
        f"db{db}": f"keys={keys},expires={expires},avg_ttl=0"
        for db, keys, expires in hub.keys.sizes()
        if keys
    }


SECTIONS: dict[str, Callable[[Hub], Fields]] = {
    "Server": _server,
    "Clients": _clients,
    "Memory": _memory,
    "Persistence": _persistence,
    "Stats": _stats,
    "Replication": _replication,
    "Modules": _modules,
    "Cluster": _cluster,
    "Keyspace": _keyspace,
}
"""In the order of Redis, whatever the order in which they are asked for."""


def human(size: int) -> str:
    """Bytes as Redis abbreviates them: ``1.27M``."""
    for power, unit in ((3, "G"), (2, "M"), (1, "K")):
        if size >= 1024**power:
            return f"{size / 1024**power:.2f}{unit}"
    return f"{size}B"
