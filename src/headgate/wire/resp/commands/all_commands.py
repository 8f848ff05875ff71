"""All commands, family by family."""

from __future__ import annotations

from headgate.wire.resp.commands import (
    acl,
    client,
    cluster,
    config,
    connection,
    generic,
    info,
    introspection,
    monitor,
    pubsub,
    strings,
    transactions,
)
from headgate.wire.resp.commands.table import CommandTable

COMMANDS = CommandTable(
    connection.table,
    client.table,
    pubsub.table,
    strings.table,
    generic.table,
    transactions.table,
    acl.table,
    cluster.table,
    introspection.table,
    info.table,
    config.table,
    monitor.table,
)
