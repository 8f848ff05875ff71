"""Commands that outlive a restart: work at a router, for a connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from headgate.agent.model import ConnectionId, RouterId
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.store.sqlite.rows import Row

INFO: Final = "INFO"
CONNECTED: Final = "CONNECTED"
"""Commands that are events: kept until the application has read them."""

PAGE: Final = 1000
COLUMNS = "id, connection, router, kind, arguments, attempts"


@value
class CommandRecord:
    """A command, in the order of its number. Its arguments are the shell's; there may be keys among
    them."""

    id: int
    connection: ConnectionId
    router: RouterId
    kind: str
    arguments: bytes = field(repr=False)
    attempts: int


def add(
    tables: Database, connection: ConnectionId, router: RouterId, kind: str, arguments: bytes
) -> int:
    return tables.insert(
        "INSERT INTO commands (connection, router, kind, arguments, attempts)"
        " VALUES (?, ?, ?, ?, 0)",
        connection,
        router,
        kind,
        arguments,
    )


def get(tables: Database, id: int) -> CommandRecord | None:
    row = tables.one(f"SELECT {COLUMNS} FROM commands WHERE id = ?", id)
    return None if row is None else CommandRecord(*row)


def has(tables: Database, connection: ConnectionId, kind: str) -> bool:
    """Whether a command of this kind waits for a connection."""
    row = tables.one(
        "SELECT 1 FROM commands WHERE connection = ? AND kind = ? LIMIT 1", connection, kind
    )
    return row is not None


def of_connections(
    tables: Database, connections: Iterable[ConnectionId]
) -> dict[ConnectionId, list[CommandRecord]]:
    """The waiting commands of each of these connections, in order."""
    # S000-54: subscribing a connection continues its unfinished work.
    wanted = [(connection,) for connection in connections]
    found: dict[ConnectionId, list[CommandRecord]] = {connection: [] for (connection,) in wanted}
    rows: list[Row] = tables.ask_about(
        "WITH want(wanted) AS (VALUES {want})"
        f" SELECT {COLUMNS} FROM want CROSS JOIN commands ON connection = wanted",
        wanted,
    )
    for row in sorted(rows):
        found[row[1]].append(CommandRecord(*row))
    return found


def of_router(
    tables: Database, router: RouterId, after: int = 0, limit: int = PAGE
) -> list[CommandRecord]:
    """The waiting commands for a router, in order."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM commands WHERE router = ? AND id > ? ORDER BY id LIMIT ?",
        router,
        after,
        limit,
    )
    return [CommandRecord(*row) for row in rows]


def page(tables: Database, after: int = 0, limit: int = PAGE) -> list[CommandRecord]:
    """All waiting commands, in order."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM commands WHERE id > ? ORDER BY id LIMIT ?", after, limit
    )
    return [CommandRecord(*row) for row in rows]


def attempt(tables: Database, id: int) -> int:
    """Count an attempt; return how many there were. It is counted before the command is sent, so
    that one that ends the process is counted too."""
    tables.change("UPDATE commands SET attempts = attempts + 1 WHERE id = ?", id)
    row = tables.one("SELECT attempts FROM commands WHERE id = ?", id)
    attempts: int = 0 if row is None else row[0]
    return attempts


def remove(tables: Database, id: int) -> None:
    """Remove a command that is done, or given up."""
    tables.change("DELETE FROM commands WHERE id = ?", id)
