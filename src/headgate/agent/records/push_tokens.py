"""Devices registered at notification servers, with their keys."""

from __future__ import annotations

from dataclasses import field, fields

from headgate.agent.records.database import Database
from headgate.core.model.value import value


@value
class PushTokenRecord:
    """A device at a server. It has an id and a key for pushes once the server has answered, and is
    verified once the server accepted the pushed code."""

    server: str
    device: bytes = field(repr=False)
    sign_key: bytes = field(repr=False)
    """A key of Ed25519, raw."""
    dh_private: bytes = field(repr=False)
    token: bytes | None = None
    push_key: bytes | None = field(default=None, repr=False)
    """The key that opens pushes: agreed with the server, after HSalsa20."""
    verified: bool = False


NAMES = [each.name for each in fields(PushTokenRecord)]
COLUMNS = ", ".join(NAMES)


def keep(tables: Database, fresh: PushTokenRecord) -> PushTokenRecord:
    """Store a new one before its keys are used; return the existing one, if there is one."""
    found = get(tables, fresh.server, fresh.device)
    if found is not None:
        return found
    places = ", ".join("?" * len(NAMES))
    values = [getattr(fresh, name) for name in NAMES]
    tables.change(f"INSERT INTO push_tokens ({COLUMNS}) VALUES ({places})", *values)
    return fresh


def get(tables: Database, server: str, device: bytes) -> PushTokenRecord | None:
    row = tables.one(
        f"SELECT {COLUMNS} FROM push_tokens WHERE server = ? AND device = ?", server, device
    )
    if row is None:
        return None
    server, device, sign_key, dh_private, token, push_key, verified = row
    return PushTokenRecord(server, device, sign_key, dh_private, token, push_key, bool(verified))


def put_registered(
    tables: Database, server: str, device: bytes, token: bytes, push_key: bytes
) -> None:
    """Store the server's answer."""
    tables.change(
        "UPDATE push_tokens SET token = ?, push_key = ? WHERE server = ? AND device = ?",
        token,
        push_key,
        server,
        device,
    )


def put_verified(tables: Database, server: str, device: bytes, verified: bool) -> None:
    """Store whether the server has accepted the code, and considers the device alive since."""
    tables.change(
        "UPDATE push_tokens SET verified = ? WHERE server = ? AND device = ?",
        verified,
        server,
        device,
    )


def remove(tables: Database, server: str, device: bytes) -> None:
    tables.change("DELETE FROM push_tokens WHERE server = ? AND device = ?", server, device)
