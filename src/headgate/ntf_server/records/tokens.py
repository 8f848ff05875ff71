"""Tokens in the tables: found by id, and by device."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import name_of
from headgate.core.ntf_facts import TokenChanged, TokenRegistered, TokenRemoved
from headgate.notify.tokens import Token
from headgate.ntf_server.records import subscriptions
from headgate.ntf_server.records.subscriptions import RemovedSubscription
from headgate.ntf_server.records.tables import Row, Tables
from headgate.wire.ntf.devices import Device, Provider, read_device
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from headgate.wire.smp.codec.encoding import FieldReader

COLUMNS = (
    "id, device, verify_key, private, key, code, status, reason, interval_minutes, checked_at,"
    " used_day"
)

PUT = f"""
INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET device = excluded.device, code = excluded.code,
    status = excluded.status, reason = excluded.reason,
    interval_minutes = excluded.interval_minutes, checked_at = excluded.checked_at,
    used_day = excluded.used_day
"""
"""Id and keys of a token stay as they are, and `held` is counted elsewhere."""


def get(tables: Tables, id: bytes) -> Token | None:
    return _token(tables.one(f"SELECT {COLUMNS} FROM tokens WHERE id = ?", id))


def of_device(tables: Tables, device: Device, verify_key: bytes) -> Token | None:
    """The token of this device that this key signs for."""
    question = f"SELECT {COLUMNS} FROM tokens WHERE device = ? AND verify_key = ?"
    return _token(tables.one(question, device.encode(), verify_key))


def all_of_device(tables: Tables, device: Device) -> list[Token]:
    rows = tables.ask(f"SELECT {COLUMNS} FROM tokens WHERE device = ?", device.encode())
    return [decode(row) for row in rows]


def put(tables: Tables, token: Token) -> None:
    """Add a token, or keep what changed of it."""
    tables.change(
        PUT,
        token.id,
        token.device.encode(),
        token.verify_key,
        token.private,
        token.key,
        token.code,
        token.status.value,
        None if token.reason is None else token.reason.value,
        token.interval_minutes,
        token.checked_at,
        token.used_day,
    )


def change(tables: Tables, id: bytes, decide: Callable[[Token], Token]) -> Token | None:
    """Decide anew about a token, if it is there; return it as it is now."""
    before = get(tables, id)
    if before is None:
        return None
    token = decide(before)
    if token is not before:
        put(tables, token)
        record(tables, before, token)
    return token


def record(tables: Tables, before: Token | None, token: Token) -> None:
    """The fact of a token that was put, if it is one."""
    name, provider = name_of(QueueId(token.id)), token.device.provider.name.lower()
    if before is None:
        tables.record(TokenRegistered(tables.now(), name, provider))
    elif (before.status, before.device) != (token.status, token.device):
        reason = "" if token.reason is None else f",{token.reason.value}"
        status = token.status.value + reason
        tables.record(TokenChanged(tables.now(), name, provider, status))


def remove(tables: Tables, id: bytes) -> list[RemovedSubscription]:
    """Remove a token with its subscriptions, which are returned, and their notices."""
    removed = subscriptions.remove_of(tables, id)
    if tables.change("DELETE FROM tokens WHERE id = ?", id):
        tables.record(TokenRemoved(tables.now(), name_of(QueueId(id)), len(removed)))
    return removed


def with_interval(tables: Tables, after: bytes, limit: int) -> list[Token]:
    """Tokens that want periodic pushes, in the order of their ids."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM tokens WHERE interval_minutes > 0 AND id > ? ORDER BY id LIMIT ?",
        after,
        limit,
    )
    return [decode(row) for row in rows]


def counts(tables: Tables) -> dict[TokenStatus, int]:
    """How many tokens are in each status. This reads them all."""
    rows = tables.ask("SELECT status, count(*) FROM tokens GROUP BY status")
    return {TokenStatus(status): count for status, count in rows}


def counts_by_provider(tables: Tables) -> dict[tuple[Provider, TokenStatus], int]:
    """The number of tokens in each status for each provider, which a device begins with."""
    rows = tables.ask(
        "SELECT substr(device, 1, 2), status, count(*) FROM tokens GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return {
        (Provider(bytes(provider)), TokenStatus(status)): count for provider, status, count in rows
    }


def decode(row: Row) -> Token:
    id, device, verify_key, private, key, code, status, reason, *rest = row
    return Token(
        id,
        read_device(FieldReader(device)),
        verify_key,
        private,
        key,
        code,
        TokenStatus(status),
        None if reason is None else InvalidReason(reason),
        *rest,
    )


def _token(row: Row | None) -> Token | None:
    return None if row is None else decode(row)
