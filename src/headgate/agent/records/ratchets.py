"""Ratchets: the state for sealing and opening a connection's messages, and the keys of skipped
messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from headgate.agent.model import ConnectionId
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.errors import StoreError

SKIPPED_MAX: Final = 2048
"""Skipped keys of a connection; beyond that the oldest are dropped."""


@value
class RatchetRecord:
    """The ratchet of one connection; every part of it is secret. The keys of the handshake exist
    before the state."""

    x3dh_1: bytes | None = field(default=None, repr=False)
    x3dh_2: bytes | None = field(default=None, repr=False)
    kem_secret: bytes | None = field(default=None, repr=False)
    state: bytes | None = field(default=None, repr=False)
    joiner_params: bytes | None = field(default=None, repr=False)


@value
class SkippedKey:
    """The key that opens message `n` of the chain with this header key, once."""

    header_key: bytes = field(repr=False)
    n: int
    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)


def put(tables: Database, connection: ConnectionId, ratchet: RatchetRecord) -> None:
    """Store a ratchet, in place of any earlier one."""
    tables.change(
        "INSERT OR REPLACE INTO ratchets"
        " (connection, x3dh_1, x3dh_2, kem_secret, state, joiner_params) VALUES (?, ?, ?, ?, ?, ?)",
        connection,
        ratchet.x3dh_1,
        ratchet.x3dh_2,
        ratchet.kem_secret,
        ratchet.state,
        ratchet.joiner_params,
    )


def get(tables: Database, connection: ConnectionId) -> RatchetRecord | None:
    row = tables.one(
        "SELECT x3dh_1, x3dh_2, kem_secret, state, joiner_params FROM ratchets"
        " WHERE connection = ?",
        connection,
    )
    return None if row is None else RatchetRecord(*row)


def skipped(tables: Database, connection: ConnectionId) -> list[SkippedKey]:
    """The keys of skipped messages, oldest first."""
    rows = tables.ask(
        "SELECT header_key, n, key, iv FROM skipped_keys WHERE connection = ? ORDER BY number",
        connection,
    )
    return [SkippedKey(*row) for row in rows]


def step(
    tables: Database,
    connection: ConnectionId,
    state: bytes,
    skipped: Iterable[SkippedKey] = (),
    used: Iterable[SkippedKey] = (),
) -> None:
    """Store the state after a message, add the keys that it skipped, and delete those it used."""
    changed = tables.change("UPDATE ratchets SET state = ? WHERE connection = ?", state, connection)
    if not changed:
        raise StoreError("no ratchet for this connection")
    gone = [(connection, key.header_key, key.n) for key in used]
    if gone:
        tables.change_many(
            "DELETE FROM skipped_keys WHERE connection = ? AND header_key = ? AND n = ?", gone
        )
    added = [(connection, key.header_key, key.n, key.key, key.iv) for key in skipped]
    if added:
        tables.change_many(
            "INSERT INTO skipped_keys (connection, header_key, n, key, iv) VALUES (?, ?, ?, ?, ?)",
            added,
        )
        tables.change(
            "DELETE FROM skipped_keys WHERE connection = ? AND number <= (SELECT number"
            " FROM skipped_keys WHERE connection = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            connection,
            connection,
            SKIPPED_MAX,
        )
