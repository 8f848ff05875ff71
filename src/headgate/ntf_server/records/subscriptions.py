"""Subscriptions in the tables: found by id, and by router and notifier.

Everything that makes, changes or removes a subscription goes through here, and changes the tally of
its router and the count of its token in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import Tally, name_of
from headgate.core.model.value import value
from headgate.core.ntf_facts import (
    NotifierAdded,
    NotifierEnded,
    NotifierRemoved,
    NotifiersActive,
    NotifiersLost,
)
from headgate.notify.subscriptions import (
    WANTED,
    NotifierSubscription,
    mark_sent,
    retry_service,
    tally_after,
)
from headgate.ntf_server.records import routers
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.tables import IDS, Row, Tables
from headgate.wire.ntf.statuses import SubscriptionStatus
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.codec.router_address import RouterAddress

PAGE: Final = 900
"""Subscriptions that are read, or subscribed to, at once."""

COLUMNS: Final = "id, token, address, notifier, notifier_key, status, error, assoc"

SET: Final = "UPDATE subscriptions SET status = ?, error = ?, assoc = ? WHERE id = ?"

Decision = Callable[[NotifierSubscription], NotifierSubscription]
"""A change of a subscription: a row of the table in `headgate.notify.subscriptions`."""


@value
class RemovedSubscription:
    """A subscription that was removed, for whoever has sessions with routers."""

    id: bytes
    router: RouterNumber
    notifier: bytes
    was_associated: bool


def get(tables: Tables, id: bytes) -> NotifierSubscription | None:
    row = tables.one(f"SELECT {COLUMNS} FROM subscriptions WHERE id = ?", id)
    return None if row is None else decode(row)


def of_notifier(
    tables: Tables, router: RouterNumber, notifier: bytes
) -> NotifierSubscription | None:
    question = f"SELECT {COLUMNS} FROM subscriptions WHERE router = ? AND notifier = ?"
    row = tables.one(question, router, notifier)
    return None if row is None else decode(row)


def of_notifiers(
    tables: Tables, router: RouterNumber, notifiers: Iterable[bytes]
) -> dict[bytes, NotifierSubscription]:
    """The subscriptions that exist, by their notifiers."""
    question = f"SELECT {COLUMNS} FROM subscriptions WHERE router = ? AND notifier {IDS}"
    found = map(decode, tables.ask_about(question, notifiers, router))
    return {each.notifier: each for each in found}


def held_by(tables: Tables, token: bytes) -> int:
    """The number of subscriptions that a token has."""
    return tables.number("SELECT held FROM tokens WHERE id = ?", token)


def put(tables: Tables, router: RouterNumber, subscription: NotifierSubscription) -> None:
    """Add a subscription of a token that is there, or keep what changed of it."""
    before = get(tables, subscription.id)
    if before is None:
        tables.change(
            f"INSERT INTO subscriptions ({COLUMNS}, router) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            subscription.id,
            subscription.token,
            subscription.router.encode(),
            subscription.notifier,
            subscription.notifier_key,
            *_state(subscription),
            router,
        )
        tables.change("UPDATE tokens SET held = held + 1 WHERE id = ?", subscription.token)
        _record_added(tables, subscription)
    else:
        tables.change(
            "UPDATE subscriptions SET address = ?, status = ?, error = ?, assoc = ? WHERE id = ?",
            subscription.router.encode(),
            *_state(subscription),
            subscription.id,
        )
        if not before.is_wanted and subscription.is_wanted:
            _record_added(tables, subscription)
    _retally(tables, router, [(before, subscription)])


def change(
    tables: Tables, router: RouterNumber, notifiers: Iterable[bytes], decide: Decision
) -> list[NotifierSubscription]:
    """Decide anew about the subscriptions of these notifiers; return those that changed, as they
    are now. Notifiers that nobody subscribed to are passed over."""
    before = of_notifiers(tables, router, notifiers).values()
    changes = [(old, new) for old in before if (new := decide(old)) is not old]
    tables.change_many(SET, ((*_state(new), new.id) for _, new in changes))
    _retally(tables, router, changes)
    if tables.keeps_facts:
        _record_changes(tables, changes)
    return [new for _, new in changes]


def change_one(tables: Tables, id: bytes, decide: Decision) -> None:
    """Decide anew about a subscription, if it is there."""
    row = tables.one("SELECT router, notifier FROM subscriptions WHERE id = ?", id)
    if row is not None:
        change(tables, row[0], [row[1]], decide)


def lose(tables: Tables, router: RouterNumber) -> int:
    """The session with a router is lost; see `headgate.notify.subscriptions.lose`. One statement,
    however many there are, and nothing of the router is written."""
    lost = tables.change(
        "UPDATE subscriptions SET status = ? WHERE router = ? AND status = ? AND NOT assoc",
        SubscriptionStatus.INACTIVE.value,
        router,
        SubscriptionStatus.ACTIVE.value,
    )
    record = routers.get(tables, router) if lost and tables.keeps_facts else None
    if record is not None:
        tables.record(NotifiersLost(tables.now(), routers.shown(record.address), lost))
    return lost


def retry_services(tables: Tables, router: RouterNumber) -> list[NotifierSubscription]:
    """A router was connected without a service, or knows ours again; see
    `headgate.notify.subscriptions.retry_service`. Returns those that are tried again."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM subscriptions WHERE router = ? AND status = ?",
        router,
        SubscriptionStatus.SERVICE.value,
    )
    notifiers = [each.notifier for each in map(decode, rows)]
    return change(tables, router, notifiers, retry_service)


def wanted(
    tables: Tables,
    router: RouterNumber,
    after: bytes = b"",
    limit: int = PAGE,
    *,
    associated: bool | None = None,
) -> list[NotifierSubscription]:
    """Subscriptions of a router that are wanted, in the order of their notifiers: all, or only
    those that are associated, or only those that are not."""
    which = {None: "", True: " AND assoc", False: " AND NOT assoc"}[associated]
    found: list[NotifierSubscription] = []
    # One walk in the index for each status, so that those that ended cost nothing.
    for status in WANTED:
        rows = tables.ask(
            f"SELECT {COLUMNS} FROM subscriptions WHERE router = ? AND status = ? AND notifier > ?"
            f"{which} ORDER BY notifier LIMIT ?",
            router,
            status.value,
            after,
            limit,
        )
        found += map(decode, rows)
    return sorted(found, key=lambda each: each.notifier)[:limit]


def send(
    tables: Tables, router: RouterNumber, notifiers: Sequence[bytes]
) -> dict[bytes, NotifierSubscription]:
    """The wanted ones of these subscriptions, by their notifiers: NSUB of them is being sent."""
    change(tables, router, notifiers, mark_sent)
    found = of_notifiers(tables, router, notifiers)
    return {notifier: each for notifier, each in found.items() if each.is_wanted}


def routers_wanted(tables: Tables) -> list[RouterNumber]:
    """The routers that have to be connected. A refused service is tried again in every session, so
    there has to be one."""
    statuses = [*WANTED, SubscriptionStatus.SERVICE]
    return [
        record.number
        for record in routers.everyone(tables)
        if any(_has(tables, record.number, status) for status in statuses)
    ]


def remove(tables: Tables, id: bytes) -> RemovedSubscription | None:
    """Remove one with its notice; return it, if there was one."""
    row = tables.one(f"SELECT {COLUMNS}, router FROM subscriptions WHERE id = ?", id)
    if row is None:
        return None
    *columns, router = row
    subscription = decode(tuple(columns))
    tables.change("DELETE FROM notices WHERE subscription = ?", id)
    tables.change("DELETE FROM subscriptions WHERE id = ?", id)
    tables.change("UPDATE tokens SET held = held - 1 WHERE id = ?", subscription.token)
    _retally(tables, router, [(subscription, None)])
    name = name_of(QueueId(subscription.notifier))
    tables.record(NotifierRemoved(tables.now(), name, routers.shown(subscription.router)))
    return RemovedSubscription(id, router, subscription.notifier, subscription.is_associated)


def remove_of(tables: Tables, token: bytes) -> list[RemovedSubscription]:
    """Remove all of a token, and return them."""
    rows = tables.ask(
        "SELECT id, router, notifier, assoc FROM subscriptions WHERE token = ?", token
    )
    gone = [RemovedSubscription(*row) for row in rows]
    leaving: dict[RouterNumber, list[QueueId]] = {}
    for each in gone:
        if each.was_associated:
            leaving.setdefault(each.router, []).append(QueueId(each.notifier))
    tables.change("DELETE FROM notices WHERE token = ?", token)
    tables.change("DELETE FROM subscriptions WHERE token = ?", token)
    tables.change("UPDATE tokens SET held = 0 WHERE id = ?", token)
    for router, notifiers in leaving.items():
        record = routers.get(tables, router)
        assert record is not None, "a subscription has a router"
        kept, less = record.tally, Tally.of(notifiers)
        left = Tally(kept.count - less.count, kept.xor ^ less.xor)
        routers.put_tally(tables, router, left)
    return gone


def counts(tables: Tables) -> dict[SubscriptionStatus, int]:
    """How many are in each status. This reads them all."""
    rows = tables.ask("SELECT status, count(*) FROM subscriptions GROUP BY status")
    return {SubscriptionStatus(status): count for status, count in rows}


def counts_by_router(tables: Tables) -> dict[tuple[RouterNumber, SubscriptionStatus], int]:
    """The number of subscriptions in each status at each router."""
    rows = tables.ask("SELECT router, status, count(*) FROM subscriptions GROUP BY router, status")
    return {(router, SubscriptionStatus(status)): count for router, status, count in rows}


def decode(row: Row) -> NotifierSubscription:
    id, token, address, notifier, key, status, error, assoc = row
    return NotifierSubscription(
        id,
        token,
        RouterAddress.read(FieldReader(address)),
        notifier,
        key,
        SubscriptionStatus(status),
        error.decode("utf-8", "surrogateescape"),
        bool(assoc),
    )


def _state(subscription: NotifierSubscription) -> Row:
    return (
        subscription.status.value,
        subscription.error.encode("utf-8", "surrogateescape"),
        subscription.is_associated,
    )


def _record_added(tables: Tables, added: NotifierSubscription) -> None:
    names = name_of(QueueId(added.notifier)), name_of(QueueId(added.token))
    tables.record(NotifierAdded(tables.now(), *names, routers.shown(added.router)))


def _record_changes(
    tables: Tables, changes: Sequence[tuple[NotifierSubscription, NotifierSubscription]]
) -> None:
    """One fact for each that is over. Of those that are active now there is one for all: after a
    restart they are as many as there are."""
    active: Counter[str] = Counter()
    for before, after in changes:
        if before.status is after.status:
            continue
        router = routers.shown(after.router)
        if after.status is SubscriptionStatus.ACTIVE:
            active[router] += 1
        elif not after.is_wanted:
            name = name_of(QueueId(after.notifier))
            tables.record(NotifierEnded(tables.now(), name, router, after.status.value))
    for router, count in active.items():
        tables.record(NotifiersActive(tables.now(), router, count))


def _retally(
    tables: Tables,
    router: RouterNumber,
    changes: Sequence[tuple[NotifierSubscription | None, NotifierSubscription | None]],
) -> None:
    """Keep the tally of a router after these changes, if they matter to it."""
    record = routers.get(tables, router) if changes else None
    if record is None:
        return
    tally = record.tally
    for before, after in changes:
        tally = tally_after(tally, before, after)
    if tally != record.tally:
        # S001-92: the kept tally follows every change, in its transaction.
        routers.put_tally(tables, router, tally)


def _has(tables: Tables, router: RouterNumber, status: SubscriptionStatus) -> bool:
    question = "SELECT 1 FROM subscriptions WHERE router = ? AND status = ? LIMIT 1"
    return tables.one(question, router, status.value) is not None
