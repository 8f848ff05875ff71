"""Services: a user's identity at a router, the queues that belong to it, and their tally.

Only `change` changes the flags `assoc` and `deleted` of receive queues, with the tally of their
service, in the same transaction. A deleted queue belongs to no service. Without a record there is
no tally, so nothing can be associated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

from headgate.agent.model import RouterId, UserId
from headgate.agent.records import users
from headgate.agent.records.database import Database
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import Tally
from headgate.core.model.value import value

PAGE: Final = 1350
"""Queues that are read, or subscribed, at once: ten blocks of SUBs."""

FLAGS = """
WITH want(router, id) AS (VALUES {want})
SELECT recipient_id, user, assoc, deleted
FROM want CROSS JOIN receive_queues ON receive_queues.router = want.router AND recipient_id = id
"""
SET_FLAGS = "UPDATE receive_queues SET assoc = ?, deleted = ? WHERE router = ? AND recipient_id = ?"


@value
class Credentials:
    """The certificate by which a router knows a service, and its key."""

    certificate: bytes = field(repr=False)
    private_key: bytes = field(repr=False)
    fingerprint: bytes


@value
class Service:
    """The record of one user at one router."""

    user: UserId
    router: RouterId
    credentials: Credentials
    service_id: ServiceId | None
    """The router's id for it; None before the first handshake."""
    tally: Tally
    """The tally of its associated queues."""


def put_credentials(
    tables: Database, user: UserId, router: RouterId, credentials: Credentials
) -> None:
    """Make the record, or change its certificate."""
    # S001-87: the router does not know the new certificate, so the old id goes with the old one.
    tables.change(
        "INSERT INTO services (user, router, certificate, private_key, fingerprint)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (user, router) DO UPDATE SET"
        " certificate = excluded.certificate, private_key = excluded.private_key,"
        " fingerprint = excluded.fingerprint, service_id = NULL",
        user,
        router,
        credentials.certificate,
        credentials.private_key,
        credentials.fingerprint,
    )


def get(tables: Database, user: UserId, router: RouterId) -> Service | None:
    row = tables.one(
        "SELECT certificate, private_key, fingerprint, service_id, count, xor"
        " FROM services WHERE user = ? AND router = ?",
        user,
        router,
    )
    if row is None:
        return None
    certificate, private_key, fingerprint, service_id, count, xor = row
    credentials = Credentials(certificate, private_key, fingerprint)
    return Service(user, router, credentials, service_id, Tally.parse(count, xor))


def of_user(tables: Database, user: UserId) -> list[RouterId]:
    """The routers at which a user has a record."""
    question = "SELECT router FROM services WHERE user = ? ORDER BY router"
    return [router for (router,) in tables.ask(question, user)]


def put_service_id(tables: Database, user: UserId, router: RouterId, service_id: ServiceId) -> bool:
    """Store the id that the router gave. Returns whether it replaced another one; then nothing is
    associated any more."""
    service = get(tables, user, router)
    if service is None or service.service_id == service_id:
        # S001-77: the same id changes nothing.
        return False
    tables.change(
        "UPDATE services SET service_id = ? WHERE user = ? AND router = ?",
        service_id,
        user,
        router,
    )
    if service.service_id is None:
        return False
    # S001-78: the router has no queues under the new id.
    clear(tables, user, router)
    return True


def associate(
    tables: Database, user: UserId, router: RouterId, queues: Iterable[bytes], *, on: bool = True
) -> int:
    """Put queues of this user into its service at the router, or take them out of it; return how
    many changed. Without a record none does."""
    if get(tables, user, router) is None:
        return 0
    return change(tables, router, queues, assoc=on, user=user)


def clear(tables: Database, user: UserId, router: RouterId) -> int:
    """Remove all queues of this user from its service at the router; return how many."""
    cleared = 0
    # S004-20: of this router only.
    for page in _associated(tables, user, router):
        cleared += change(tables, router, page, assoc=False)
    return cleared


def remove(tables: Database, user: UserId, router: RouterId) -> int:
    """Delete the record, and remove all queues from it; return how many."""
    # S001-79, S001-84: one transaction, so that no flag outlives the record.
    cleared = clear(tables, user, router)
    tables.change("DELETE FROM services WHERE user = ? AND router = ?", user, router)
    return cleared


def switch_off(tables: Database, user: UserId) -> list[RouterId]:
    """Switch services off for a user, and delete all its records; return the routers where it had
    one. Its queues are single ones from now on."""
    # S004-21: no flag is left, so that each queue is subscribed singly.
    found = of_user(tables, user)
    for router in found:
        remove(tables, user, router)
    users.switch_services(tables, user, on=False)
    return found


def change(
    tables: Database,
    router: RouterId,
    queues: Iterable[bytes],
    *,
    assoc: bool | None = None,
    deleted: bool | None = None,
    user: UserId | None = None,
) -> int:
    """Set the flags of queues, of one user or of any, and change tallies by the difference; return
    how many queues changed. Queues are found by their key; missing ones are skipped."""
    wanted = [(router, queue) for queue in dict.fromkeys(queues)]
    changes: list[tuple[bool, bool, RouterId, bytes]] = []
    joined: dict[UserId, list[QueueId]] = {}
    left: dict[UserId, list[QueueId]] = {}
    # S004-25: by primary key, so that a bigger table does not cost more.
    for queue, owner, was_assoc, was_deleted in tables.ask_about(FLAGS, wanted):
        is_deleted = bool(was_deleted if deleted is None else deleted)
        is_assoc = bool(was_assoc if assoc is None else assoc) and not is_deleted
        if user not in (None, owner) or (is_assoc, is_deleted) == (was_assoc, was_deleted):
            continue
        changes.append((is_assoc, is_deleted, router, queue))
        if is_assoc != was_assoc:
            (joined if is_assoc else left).setdefault(owner, []).append(QueueId(queue))
    if changes:
        tables.change_many(SET_FLAGS, changes)
    for owner in joined.keys() | left.keys():
        # S001-86: the kept tally follows every change, in bulk too.
        _add(tables, owner, router, joined.get(owner, ()), left.get(owner, ()))
    return len(changes)


def _add(
    tables: Database,
    user: UserId,
    router: RouterId,
    joined: Sequence[QueueId],
    left: Sequence[QueueId],
) -> None:
    row = tables.one("SELECT count, xor FROM services WHERE user = ? AND router = ?", user, router)
    if row is None:  # only in a file that another program has changed
        return
    kept, more, less = Tally.parse(*row), Tally.of(joined), Tally.of(left)
    tally = Tally(kept.count + more.count - less.count, kept.xor ^ more.xor ^ less.xor)
    tables.change(
        "UPDATE services SET count = ?, xor = ? WHERE user = ? AND router = ?",
        tally.count,
        tally.hash,
        user,
        router,
    )


def _associated(tables: Database, user: UserId, router: RouterId) -> Iterator[list[bytes]]:
    """The queues of a service, page by page."""
    after = b""
    question = (
        "SELECT recipient_id FROM receive_queues INDEXED BY receive_queue_pages"
        " WHERE user = ? AND router = ? AND assoc = 1 AND deleted = 0 AND recipient_id > ?"
        " ORDER BY recipient_id LIMIT ?"
    )
    while rows := tables.ask(question, user, router, after, PAGE):
        yield [queue for (queue,) in rows]
        after = rows[-1][0]
