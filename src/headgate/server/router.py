"""The running router without its listeners: broker, store and turns in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from itertools import count

from headgate.core.audience import Kind
from headgate.core.broker import Broker
from headgate.core.commands import Command, Disconnect, Expire, Reconfigure, Sealed, Tick
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Effect
from headgate.core.explaining import explain
from headgate.core.facts import Fact, RouterStarted, SegmentsExpired, TurnFailed
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.limits import Limits
from headgate.core.message import Message, Properties, check
from headgate.core.names import MessageId, QueueId, Seq, SessionId
from headgate.core.statistics import groups_of
from headgate.core.steps import Load, Outcome
from headgate.errors import LimitReached, Refused
from headgate.server.journal import Journal, JournalSettings
from headgate.server.turns import Turns
from headgate.store.base import Store
from headgate.wire.bmq.uris import parse_uri

NOBODY = SessionId(0)
"""Stands in a fact for a session that did not come to be."""

Outlet = Callable[[Sequence[Effect]], None]
"""Where a session's effects go."""

TICK_SECONDS = 1.0
EXPIRE_TICKS = 60
"""After so many ticks exclusive queues are searched for messages whose time is over."""
KNOWN_MAX = 20
"""Names of domains that are told to whoever named one that is not there."""
VERSION = version("headgate")


class Router:
    def __init__(
        self,
        *,
        store: Store,
        domains: Mapping[str, Domain],
        limits: Limits,
        journal: JournalSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.limits = limits
        self.clock = clock
        self._domains = dict(domains)
        self._watchers: list[Callable[[Sequence[Fact]], None]] = []
        self._outlets: dict[SessionId, Outlet] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._journal_settings = journal
        self.journal: Journal | None = None
        self._broker: Broker | None = None
        self._turns: Turns | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the router was not started"
        return self._broker

    @property
    def turns(self) -> Turns:
        assert self._turns is not None, "the router was not started"
        return self._turns

    async def start(self) -> None:
        """Open the store and take turns from here on."""
        last = await self.store.open()
        self._broker = await self._make_broker(last)
        self._broker.shard.sinks.adopt((await self.store.load(Load(sinks=True))).sinks)
        self._turns = Turns(self._broker.shard, self.store, self.limits, self.clock, self._settle)
        self._tasks = [
            asyncio.create_task(self._turns.run(), name="turns"),
            asyncio.create_task(self._tick(), name="tick"),
        ]
        if self.journal is not None:
            self.journal.start()
        self.announce([RouterStarted(self.clock(), VERSION)])

    async def _make_broker(self, last: Seq) -> Broker:
        """With a journal, numbers go on after whatever is in the outbox or in a segment."""
        source = self.store.source
        if self._journal_settings is None or source is None:
            return Broker(self._domains, self.limits, last)
        last_fact, size = await self.store.unsealed()
        self.journal = Journal(
            source,
            self._journal_settings,
            watermark=lambda: self.broker.shard.outbox.watermark,
            sealed=lambda number: self.turns.insist([Sealed(number)]),
            expired=self._segments_expired,
        )
        number = max(last_fact, self.journal.last)
        broker = Broker(self._domains, self.limits, last, number, journal=True)
        if size:
            broker.shard.outbox.found(number, size)
        return broker

    def _segments_expired(self, last: int, size: int) -> None:
        self.announce([SegmentsExpired(self.clock(), last, size)])

    async def stop(self) -> None:
        """Finish the turns that were asked for, then close the store."""
        if self._turns is not None:
            turning, ticking = self._tasks
            ticking.cancel()
            self._pass_time()  # facts that wait for a transaction get one
            self._turns.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking
            await turning
        if self.journal is not None:
            await self.journal.stop()
        await self.store.close()

    def watch(self, callback: Callable[[Sequence[Fact]], None]) -> None:
        """Have a callback told the facts of each turn, after it is committed."""
        self._watchers.append(callback)

    # Sessions.

    def connect(self, wire: str, name: str, outlet: Outlet) -> SessionId:
        with self.telling_limits(NOBODY):
            session, fact = self.broker.open_session(wire, name, self.clock())
        self._outlets[session.id] = outlet
        self.announce([fact])
        return session.id

    def submit(self, session: SessionId, commands: Sequence[Command]) -> None:
        """Put a session's commands in line for the next turn."""
        with self.telling_limits(session):
            self.turns.submit(commands)

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        fact = self.broker.close_session(session, reason, self.clock())
        if fact is not None:
            del self._outlets[session]
            self.announce([fact])
            self.turns.insist([Disconnect(session, lost)])

    def reconfigure(self, domains: Mapping[str, Domain]) -> None:
        """Give domains new settings. One that is no longer named keeps what it had."""
        self.turns.insist([Reconfigure(domain) for domain in domains.values()])

    # What others ask about it.

    def problems(self) -> list[str]:
        """What keeps the router from being ready; nothing when it is."""
        if self._turns is None:
            return ["not started"]
        if self._turns.problem is not None:
            return [f"store: {self._turns.problem}"]
        return []

    def gauges(self) -> dict[str, float]:
        """Numbers that the core keeps as it goes; the store is not asked."""
        broker, shard = self.broker, self.broker.shard
        states = shard.sharing.states.values()
        in_flight = sum(len(seat.gates) for _, seat in shard.seats.items())
        in_flight += sum(
            len(app.outstanding)
            for queue in shard.sharing.queues.values()
            for app in queue.apps.values()
        )
        return {
            "sessions": len(broker.sessions),
            "queues_subscribed": len(shard.queues.subscribers),
            "services_subscribed": len(shard.services.subscribers),
            "service_queues_subscribed": shard.services.queues,
            "notifiers_subscribed": len(shard.watchers.subscribers),
            "notices_waiting": shard.watchers.count,
            "channels": broker.channels.count(Kind.EXACT) + broker.channels.count(Kind.SHARDED),
            "patterns": broker.channels.count(Kind.PATTERN),
            "sessions_slow": len(broker.budget.slow),
            "publishers_waiting": len(broker.waiting),
            "channel_messages": broker.channels.published,
            "channel_deliveries": broker.channels.deliveries,
            "backlog_messages": sum(state.meter.messages for state in states),
            "backlog_bytes": sum(state.meter.bytes for state in states),
            "inbox_commands": len(self.turns),
            "deliveries_unconfirmed": in_flight,
            "oldest_unconfirmed_seconds": self._oldest_unconfirmed(),
            "mailbox_bytes": broker.budget.bytes,
            "sinks": len(shard.sinks.records),
            "outbox_bytes": shard.outbox.bytes,
            "journal_number": self.journal.last if self.journal is not None else 0,
            "journal_lag": self.journal.lag if self.journal is not None else 0,
            "turns": self.turns.count,
            "turn_commands": self.turns.commands,
            "turn_seconds": self.turns.seconds,
            "store_statements": self.store.statements,
        }

    def _oldest_unconfirmed(self) -> float:
        """Of exclusive queues. The first gate of a seat is its oldest: each delivery makes a new
        one, at the end."""
        firsts = [
            next(iter(seat.gates.values())).oldest()
            for _, seat in self.broker.shard.seats.items()
            if seat.gates
        ]
        oldest = min((at for at in firsts if at is not None), default=None)
        return 0.0 if oldest is None else max(0.0, self.clock() - oldest)

    def status(self) -> dict[str, object]:
        """Plain data for people and programs."""
        broker, shard = self.broker, self.broker.shard
        waits_for = dict(broker.waiting)
        return {
            "sessions": [
                {
                    "session": session.id,
                    "wire": session.wire,
                    "name": session.name,
                    "opened": session.opened,
                    "mailbox_bytes": session.mailbox.bytes,
                    "pressure": session.mailbox.pressure.name.lower(),
                    "slow_since": session.mailbox.slow_since,
                    "waits_for": waits_for.get(session.id),
                    "subscriptions": len(broker.channels.of(session.id)),
                }
                for session in broker.sessions
            ],
            "closed": [
                {
                    "session": fact.session,
                    "wire": fact.wire,
                    "name": fact.name,
                    "reason": fact.reason,
                    "at": fact.at,
                }
                for fact in reversed(broker.closed)
            ],
            "domains": [
                {
                    "domain": domain.name,
                    "mode": domain.mode.value,
                    "queues": state.queues if state else 0,
                    "messages": state.meter.messages if state else 0,
                    "bytes": state.meter.bytes if state else 0,
                    "capacity": state.meter.capacity.value if state else "normal",
                }
                for domain in shard.domains.values()
                for state in [shard.sharing.states.get(domain.name)]
            ],
            "queues": [
                {
                    "queue": queue.id.decode(errors="backslashreplace"),
                    "domain": queue.domain.name,
                    "messages": queue.meter.messages,
                    "bytes": queue.meter.bytes,
                    "capacity": queue.meter.capacity.value,
                    "counts": shard.statistics.of(queue.id),
                    "apps": [
                        {
                            "app": app.id,
                            "consumers": len(app.consumers),
                            "looked_at": app.groups.looked_at,
                            "undelivered": app.undelivered(),
                            "put_aside": app.put_aside(),
                            "to_redeliver": len(app.returned),
                            "held_until": app.held[1] if app.held is not None else None,
                            "unconfirmed": len(app.outstanding),
                            "stuck": app.stuck,
                            "counts": shard.statistics.of(queue.id, app.id),
                            "expressions": len(app.groups),
                            "groups": groups_of(app),
                        }
                        for app in queue.apps.values()
                    ],
                }
                for queue in shard.sharing.queues.values()
            ],
            "turns": {
                "count": self.turns.count,
                "commands": self.turns.commands,
                "inbox": len(self.turns),
                "problem": self.turns.problem,
            },
            "store": {"kind": self.store.kind},
            "journal": {
                "directory": str(self.journal.directory),
                "sealed": self.journal.last,
                "lag": self.journal.lag,
                "outbox_bytes": shard.outbox.bytes,
                "sealer_starts": self.journal.starts,
            }
            if self.journal is not None
            else None,
        }

    def explain(self, queue: str, properties: Properties) -> dict[str, object]:
        """What would become of a message that came to ``bmq://DOMAIN/NAME`` now, and why."""
        shard = self.broker.shard
        shared = {d.name: d for d in shard.domains.values() if d.mode is not Mode.EXCLUSIVE}
        uri = parse_uri(queue)
        if uri.domain not in shared:
            known = ", ".join(sorted(shared)[:KNOWN_MAX]) or "none"
            raise Refused(f"no domain {uri.domain} has shared queues; the router has {known}")
        check(Message(MessageId(b""), b"", 0.0, properties), self.limits)
        found = shard.sharing.queues.get(QueueId(uri.canonical.encode()))
        return asdict(explain(shared[uri.domain], found, properties, self.broker.sessions))

    # Inside.

    def _settle(self, outcome: Outcome) -> None:
        by_session: dict[SessionId, list[Effect]] = {}
        for effect in outcome.effects:
            by_session.setdefault(effect.session, []).append(effect)
        for session, effects in by_session.items():
            outlet = self._outlets.get(session)
            if outlet is not None:
                outlet(effects)
        # A turn that failed could not write its own fact.
        self.broker.shard.tell([f for f in outcome.facts if type(f) is TurnFailed])
        self._tell(outcome.facts)

    @contextmanager
    def telling_limits(self, session: SessionId) -> Iterator[None]:
        """A limit that a session reaches outside of a turn is a fact as well."""
        try:
            yield
        except LimitReached as error:
            fact = LimitReachedFact(self.clock(), error.name, error.limit, session)
            self.announce([fact])
            raise

    def announce(self, facts: Sequence[Fact]) -> None:
        """Facts from outside of a turn."""
        self.broker.shard.tell(facts)
        self._tell(facts)

    def _tell(self, facts: Sequence[Fact]) -> None:
        for watcher in self._watchers:
            watcher(facts)

    async def _tick(self) -> None:
        for number in count(1):
            await asyncio.sleep(TICK_SECONDS)
            self._pass_time()
            if number % EXPIRE_TICKS == 0:
                self.turns.insist([Expire()])

    def _pass_time(self) -> None:
        shard = self.broker.shard
        if self.journal is not None:
            shard.tell(self.broker.channels.counted(self.clock()))
        if shard.sharing.queues or shard.sinks.records or self.journal is not None:
            self.turns.insist([Tick()])
