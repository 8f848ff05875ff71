"""Routers: what makes two addresses one, and the service that we are there.

The tally of a router is that of its associated subscriptions. It is changed with them, in
`subscriptions`, and cleared here when the service is given up.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, NewType

from headgate.core.model.ids import ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.model.value import value
from headgate.core.ntf_facts import ServiceForgotten
from headgate.notify.subscriptions import router_key
from headgate.ntf_server.records.tables import Row, Tables
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.codec.router_address import RouterAddress

RouterNumber = NewType("RouterNumber", int)

COLUMNS: Final = "number, address, certificate, private_key, fingerprint, service_id, count, xor"


@value
class ServiceCredentials:
    """The certificate by which a router knows us, and its key."""

    certificate: bytes = field(repr=False)
    private_key: bytes = field(repr=False)
    fingerprint: bytes


@value
class RouterRecord:
    """A router with subscriptions, and our service there."""

    number: RouterNumber
    address: RouterAddress
    """As an app wrote it last."""
    credentials: ServiceCredentials | None
    """Made on the first connection as a service."""
    service_id: ServiceId | None
    """The id that the router gave us; none before the first handshake."""
    tally: Tally
    """Of the subscriptions that are associated with the service."""


def shown(address: RouterAddress) -> str:
    """A router as people know it, without its fingerprint."""
    return f"{address.hosts[0]}:{address.port}"


def number_of(tables: Tables, address: RouterAddress) -> RouterNumber:
    """The number of a router, which is new if nobody named the router before. Its other hosts may
    be written differently, and the last who wrote them is believed."""
    host, port, key_hash = router_key(address)
    return RouterNumber(
        tables.insert(
            "INSERT INTO routers (host, port, key_hash, address) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (host, port, key_hash) DO UPDATE SET address = excluded.address"
            " RETURNING number",
            host,
            port,
            key_hash,
            address.encode(),
        )
    )


def find(tables: Tables, address: RouterAddress) -> RouterNumber | None:
    """The number of a router that somebody named before."""
    row = tables.one(
        "SELECT number FROM routers WHERE host = ? AND port = ? AND key_hash = ?",
        *router_key(address),
    )
    return None if row is None else row[0]


def get(tables: Tables, number: RouterNumber) -> RouterRecord | None:
    row = tables.one(f"SELECT {COLUMNS} FROM routers WHERE number = ?", number)
    return None if row is None else _record(row)


def everyone(tables: Tables) -> list[RouterRecord]:
    return [_record(row) for row in tables.ask(f"SELECT {COLUMNS} FROM routers ORDER BY number")]


def put_credentials(tables: Tables, number: RouterNumber, credentials: ServiceCredentials) -> None:
    """Have a certificate to show to a router that we have shown none."""
    # S001-89: each router has a certificate of its own, made when it is needed.
    tables.change(
        "UPDATE routers SET certificate = ?, private_key = ?, fingerprint = ? WHERE number = ?",
        credentials.certificate,
        credentials.private_key,
        credentials.fingerprint,
        number,
    )


def put_service_id(
    tables: Tables, number: RouterNumber, id: ServiceId, *, clear: bool = False
) -> None:
    """Keep what the router called us; with `clear`, what was associated with another id is not any
    more."""
    tables.change("UPDATE routers SET service_id = ? WHERE number = ?", id, number)
    if clear:
        clear_associations(tables, number)


def put_tally(tables: Tables, number: RouterNumber, tally: Tally) -> None:
    tables.change(
        "UPDATE routers SET count = ?, xor = ? WHERE number = ?", tally.count, tally.hash, number
    )


def forget_service(tables: Tables, number: RouterNumber) -> None:
    """The router does not know the service, or calls it otherwise: credentials, id, tally and all
    flags go together, and subscriptions are single from now on."""
    record = get(tables, number) if tables.keeps_facts else None
    if record is not None and record.credentials is not None:
        tables.record(ServiceForgotten(tables.now(), shown(record.address), record.tally.count))
    # S001-91: one transaction, so that no flag outlives the service.
    clear_associations(tables, number)
    tables.change(
        "UPDATE routers SET certificate = NULL, private_key = NULL, fingerprint = NULL,"
        " service_id = NULL WHERE number = ?",
        number,
    )


def clear_associations(tables: Tables, number: RouterNumber) -> None:
    """The router has none of what was associated with the service."""
    tables.change("UPDATE subscriptions SET assoc = ? WHERE router = ? AND assoc", False, number)
    put_tally(tables, number, NOTHING)


def _record(row: Row) -> RouterRecord:
    number, address, certificate, private_key, fingerprint, service_id, count, xor = row
    return RouterRecord(
        number,
        RouterAddress.read(FieldReader(address)),
        None if certificate is None else ServiceCredentials(certificate, private_key, fingerprint),
        service_id,
        Tally.parse(count, xor),
    )
