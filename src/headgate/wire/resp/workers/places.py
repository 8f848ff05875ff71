"""Where commands are carried out: on the session's own worker, worker 0, or all."""

from __future__ import annotations

from headgate.wire.resp.commands.table import CommandEntry

HOME = 0
"""The worker that has the state that exists once."""

KEY_FLAGS = frozenset(("readonly", "write"))
CHANGES = frozenset(("config|set", "config|resetstat", "acl|setuser", "acl|deluser", "acl|load"))
"""Carried out by all workers, worker 0 first."""
AT_HOME = CHANGES | frozenset(
    ("config|get", "acl|list", "acl|users", "acl|getuser", "acl|log", "acl|save")
)
EVERYWHERE = frozenset(("client|list", "client|kill", "client|unblock", "info"))
LISTINGS = frozenset(
    f"pubsub|{kind}{what}" for kind in ("", "shard") for what in ("channels", "numsub")
)
OF_THE_SESSION = (
    EVERYWHERE
    | LISTINGS
    | frozenset(("client|info", "client|setinfo", "monitor", "ping", "pubsub|numpat"))
)
"""Carried out by the session's own worker, also in a transaction with keys."""
MIXED = (
    "EXECABORT Transaction discarded because of: keys and streams cannot be in one where a router"
    " has workers"
)
NO_HOME = "LOADING the worker that has keys and users is being started again"


def is_of_keys(entry: CommandEntry) -> bool:
    """Whether a command concerns keys, not channels or streams."""
    if entry.takes_turns:
        return False
    return bool(KEY_FLAGS & {*entry.flags}) or entry.name == "watch"


def is_at_home(entry: CommandEntry) -> bool:
    return is_of_keys(entry) or entry.name in AT_HOME
