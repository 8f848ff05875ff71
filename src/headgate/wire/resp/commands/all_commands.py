"""All commands, family by family."""

from __future__ import annotations

from headgate.wire.resp.commands import (
    acl,
    asking,
    client,
    cluster,
    config,
    connection,
    generic,
    info,
    introspection,
    monitor,
    pubsub,
    scripting,
    stream_claims,
    stream_groups,
    stream_ranges,
    stream_reading,
    streams,
    strings,
    transactions,
)
from headgate.wire.resp.commands.table import CommandTable

FAMILIES = (
    connection,
    client,
    pubsub,
    strings,
    generic,
    transactions,
    acl,
    cluster,
    introspection,
    info,
    config,
    monitor,
    scripting,
    asking,
    streams,
    stream_reading,
    stream_ranges,
    stream_claims,
    stream_groups,
)

COMMANDS = CommandTable(*(family.table for family in FAMILIES))
