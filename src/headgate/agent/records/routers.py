"""Routers that the agent has used, by host, port and key hash."""

from __future__ import annotations

from headgate.agent.model import RouterId, UserId
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.store.sqlite.rows import Row
from headgate.wire.smp.codec.router_address import RouterAddress

COLUMNS = "id, hosts, written_port, key_hash, password"
FIND = "SELECT id FROM routers WHERE host = ? AND port = ? AND key_hash = ?"


@value
class Router:
    """A router and its number, by which all other tables name it."""

    id: RouterId
    address: RouterAddress


def keep(tables: Database, address: RouterAddress) -> RouterId:
    """The number of a router. A known one takes over the other hosts, and the password if there is
    one, of the last given address."""
    # S004-16: the key hash is part of the key, so one address with two of them is two routers.
    key = _key(address)
    tables.change(
        "INSERT INTO routers (host, port, key_hash, hosts, written_port, password)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (host, port, key_hash) DO UPDATE"
        " SET hosts = excluded.hosts, password = ifnull(excluded.password, password)",
        *key,
        ",".join(address.hosts),
        address.written_port,
        address.password,
    )
    return tables.number(FIND, *key)


def find(tables: Database, address: RouterAddress) -> RouterId | None:
    """The number of a router, if it is known."""
    row = tables.one(FIND, *_key(address))
    return None if row is None else row[0]


def get(tables: Database, router: RouterId) -> Router | None:
    row = tables.one(f"SELECT {COLUMNS} FROM routers WHERE id = ?", router)
    return None if row is None else _router(row)


def everything(tables: Database) -> list[Router]:
    """All routers; there are few."""
    return [_router(row) for row in tables.ask(f"SELECT {COLUMNS} FROM routers ORDER BY id")]


def of_user(tables: Database, user: UserId) -> list[RouterId]:
    """The routers at which a user has queues. Each is one step in the index of pages, however many
    queues there are."""
    found: list[RouterId] = []
    question = (
        "SELECT router FROM receive_queues INDEXED BY receive_queue_pages"
        " WHERE user = ? AND deleted = 0 AND router > ? ORDER BY router LIMIT 1"
    )
    while row := tables.one(question, user, found[-1] if found else 0):
        found.append(row[0])
    return found


def _key(address: RouterAddress) -> tuple[str, int, bytes]:
    return address.hosts[0].lower(), address.port, address.key_hash


def _router(row: Row) -> Router:
    id, hosts, written_port, key_hash, password = row
    return Router(id, RouterAddress(tuple(hosts.split(",")), written_port, key_hash, password))
