"""Status of a running router: gauges for metrics, tables for people and programs.

Each section is a function of the part of the router that it is about. Nothing asks the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from headgate.core.broker import Broker
from headgate.core.channels.audience import Kind
from headgate.core.delivery.sessions import Session
from headgate.core.facts import SessionClosed
from headgate.core.model.domain import Domain
from headgate.core.shard import Shard
from headgate.core.shared.queue import DomainState, SharedQueue
from headgate.core.shared.statistics import groups_of
from headgate.core.turn.slices import Slices
from headgate.journal.sealer_process import Journal
from headgate.server.admin.pages import Table
from headgate.server.driver import TurnDriver
from headgate.store.ownership import Ownership

if TYPE_CHECKING:
    from headgate.server.router import Router


# Gauges.


def gauges(router: Router) -> dict[str, float]:
    """All of them, by the names that metrics.py describes. The core keeps them as it goes: what
    they cost does not grow with sessions and queues."""
    shard = router.broker.shard
    return {
        **session_gauges(router.broker),
        **exclusive_gauges(shard),
        **channel_gauges(router.broker),
        **shared_gauges(shard),
        **unconfirmed_gauges(shard, router.clock()),
        **turn_gauges(router.turns),
        **journal_gauges(shard, router.journal),
        **ownership_gauges(router.ownership),
        "clock_difference_seconds": time.time() - router.clock(),
        "store_statements": router.store.statements,
    }


def session_gauges(broker: Broker) -> dict[str, float]:
    """Sessions and their mailboxes."""
    return {
        "sessions": broker.sessions.counts.total(),
        "sessions_slow": len(broker.budget.slow),
        "publishers_waiting": len(broker.waiting),
        "mailbox_bytes": broker.budget.bytes,
    }


def exclusive_gauges(shard: Shard) -> dict[str, float]:
    """The gauges of subscriptions to exclusive queues."""
    return {
        "queues_subscribed": len(shard.exclusive.holders.subscribers),
        "services_subscribed": len(shard.exclusive.services.subscribers),
        "service_queues_subscribed": shard.exclusive.services.queues,
        "notifiers_subscribed": len(shard.exclusive.notifiers.subscribers),
        "notices_waiting": shard.exclusive.notifiers.count,
    }


def channel_gauges(broker: Broker) -> dict[str, float]:
    """Channels, and what was published on them."""
    channels = broker.channels
    published, deliveries = channels.totals()
    return {
        "channels": channels.count(Kind.EXACT) + channels.count(Kind.SHARDED),
        "patterns": channels.count(Kind.PATTERN),
        "channel_messages": published,
        "channel_deliveries": deliveries,
    }


def shared_gauges(shard: Shard) -> dict[str, float]:
    """The backlog of shared queues, and their sinks."""
    states = shard.shared.states.values()
    return {
        "backlog_messages": sum(state.meter.messages for state in states),
        "backlog_bytes": sum(state.meter.bytes for state in states),
        "sinks": len(shard.shared.sinks.records),
    }


def unconfirmed_gauges(shard: Shard, now: float) -> dict[str, float]:
    """How many deliveries are not confirmed, and how old the oldest of exclusive queues is."""
    exclusive = shard.session_states.unconfirmed
    oldest = exclusive.oldest()
    return {
        "deliveries_unconfirmed": exclusive.count + shard.shared.totals.unconfirmed,
        "oldest_unconfirmed_seconds": 0.0 if oldest is None else max(0.0, now - oldest),
    }


def domain_gauges(shard: Shard) -> list[tuple[str, dict[str, float]]]:
    """Of each domain whose shared queues were used."""
    unconfirmed = shard.shared.totals.unconfirmed_by_domain
    return [
        (
            name,
            {
                "messages": state.meter.messages,
                "bytes": state.meter.bytes,
                "unconfirmed": unconfirmed[name],
                "queues": state.queues,
                "quota": state.meter.share(
                    state.domain.domain_max_messages, state.domain.domain_max_bytes
                ),
            },
        )
        for name, state in shard.shared.states.items()
    ]


def turn_gauges(turns: TurnDriver) -> dict[str, float]:
    """Turns taken, and commands that wait for one."""
    return {
        "inbox_commands": len(turns),
        "turns": turns.count,
        "turn_commands": turns.commands,
        "turn_seconds": turns.seconds,
    }


def journal_gauges(shard: Shard, journal: Journal | None) -> dict[str, float]:
    """Facts that are sealed, and that are not yet."""
    return {
        "outbox_bytes": shard.outbox.bytes,
        "journal_number": journal.last if journal is not None else 0,
        "journal_lag": journal.lag if journal is not None else 0,
    }


def ownership_gauges(ownership: Ownership | None) -> dict[str, float]:
    """Whether this router serves, and what it knows of its right to the store."""
    if ownership is None or ownership.taken is None:
        return {"owner": 1, "owner_term": 0, "owner_silence_seconds": 0}
    return {
        "owner": 1,
        "owner_term": ownership.taken.term,
        "owner_silence_seconds": ownership.silence,
    }


# Tables.


def tables(router: Router) -> dict[str, object]:
    """The contents of ``/status.json``. Lists make their rows when they are read."""
    shard = router.broker.shard
    return {
        "sessions": session_table(router.broker),
        "closed": closed_table(router.broker),
        "domains": domain_table(shard),
        "queues": queue_table(shard),
        "turns": turn_status(router.turns),
        "store": {"kind": router.store.kind} | ownership_status(router.ownership),
        "journal": None if router.journal is None else journal_status(shard, router.journal),
    }


def session_table(broker: Broker, wire: str = "") -> Table[Session]:
    """All sessions, or those of one wire."""
    waits_for = dict(broker.waiting)
    columns: dict[str, Callable[[Session], object]] = {
        "session": lambda session: session.id,
        "worker": lambda session: broker.sessions.worker_of(session.id),
        "wire": lambda session: session.wire,
        "name": lambda session: session.name,
        "opened": lambda session: session.opened,
        "mailbox_bytes": lambda session: session.mailbox.bytes,
        "pressure": lambda session: session.mailbox.pressure.name.lower(),
        "slow_since": lambda session: session.mailbox.slow_since,
        "waits_for": lambda session: waits_for.get(session.id),
        "subscriptions": lambda session: len(broker.channels.of(session.id)),
    }
    sessions = broker.sessions.listed()
    return Table([each for each in sessions if not wire or each.wire == wire], columns)


def closed_table(broker: Broker) -> Table[SessionClosed]:
    """The last that closed first."""
    columns: dict[str, Callable[[SessionClosed], object]] = {
        name: attrgetter(name) for name in ("session", "wire", "name", "reason", "at")
    }
    return Table(list(reversed(broker.closed)), columns)


def domain_table(shard: Shard) -> Table[Domain]:
    states = shard.shared.states
    columns: dict[str, Callable[[Domain], object]] = {
        "domain": lambda domain: domain.name,
        "mode": lambda domain: domain.mode.value,
        "queues": lambda domain: states[domain.name].queues if domain.name in states else 0,
        **{name: partial(_of_meter, states, name) for name in ("messages", "bytes", "capacity")},
    }
    return Table(list(shard.domains.values()), columns)


def _of_meter(states: Mapping[str, DomainState], name: str, domain: Domain) -> object:
    """A number of a domain's meter, of one that nobody used yet too."""
    state = states.get(domain.name)
    if name == "capacity":
        return state.meter.capacity.value if state is not None else "normal"
    return getattr(state.meter, name) if state is not None else 0


def queue_table(shard: Shard) -> Table[SharedQueue]:
    """Shared queues, with their apps."""
    columns: dict[str, Callable[[SharedQueue], object]] = {
        "queue": lambda queue: queue.id.decode(errors="backslashreplace"),
        "domain": lambda queue: queue.domain.name,
        "messages": lambda queue: queue.meter.messages,
        "bytes": lambda queue: queue.meter.bytes,
        "capacity": lambda queue: queue.meter.capacity.value,
    }
    return Table(list(shard.shared.queues.values()), columns, partial(app_rows, shard))


def app_rows(shard: Shard, queue: SharedQueue) -> Slices[dict[str, object]]:
    """The counts of a queue, and its apps."""
    counts = shard.statistics.by_app(queue.id)
    apps = []
    for app in list(queue.apps.values()):
        apps.append(
            {
                "app": app.id,
                "consumers": len(app.consumers),
                "looked_at": app.groups.looked_at,
                "undelivered": app.undelivered(),
                "put_aside": app.put_aside(),
                "to_redeliver": len(app.redelivery.returned),
                "held_until": app.redelivery.spared[1]
                if app.redelivery.spared is not None
                else None,
                "unconfirmed": len(app.outstanding),
                "stuck": app.stuck,
                "counts": counts.get(app.id, {}),
                "expressions": len(app.groups),
                "groups": (yield from groups_of(app)),
            }
        )
        yield 2
    return {"counts": counts.get(None, {}), "apps": apps}


def turn_status(turns: TurnDriver) -> dict[str, object]:
    return {
        "count": turns.count,
        "commands": turns.commands,
        "inbox": len(turns),
        "problem": turns.problem,
    }


def ownership_status(ownership: Ownership | None) -> dict[str, object]:
    """How the store became ours, if it may become another's."""
    if ownership is None or ownership.taken is None:
        return {}
    taken = ownership.taken
    return {
        "owner": taken.name,
        "term": taken.term,
        "previous": taken.previous,
        "reason": taken.reason,
        "waited_seconds": taken.waited,
        "silence_seconds": ownership.silence,
    }


def journal_status(shard: Shard, journal: Journal) -> dict[str, object]:
    return {
        "directory": str(journal.directory),
        "sealed": journal.last,
        "lag": journal.lag,
        "outbox_bytes": shard.outbox.bytes,
        "sealer_starts": journal.starts,
    }
