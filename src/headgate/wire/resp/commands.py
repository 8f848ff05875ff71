"""All commands, family by family."""

from __future__ import annotations

from headgate.wire.resp import (
    clients,
    config,
    greeting,
    info,
    inspection,
    keyspace,
    monitor,
    pubsub,
    slots,
    strings,
    transactions,
    users,
)
from headgate.wire.resp.table import Table

COMMANDS = Table(
    greeting.table,
    clients.table,
    pubsub.table,
    strings.table,
    keyspace.table,
    transactions.table,
    users.table,
    slots.table,
    inspection.table,
    info.table,
    config.table,
    monitor.table,
)
