"""The running router without its listeners: broker, store and turns in one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import count
from types import TracebackType

from headgate.core.broker import Broker
from headgate.core.commands import (
    Command,
    CountDomain,
    Disconnect,
    Drained,
    Expire,
    ExpireUnopened,
    Notify,
    Reconfigure,
    RemoveUnused,
    Sealed,
    Tick,
)
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Effect
from headgate.core.facts import (
    ChannelCounted,
    Fact,
    OwnershipTaken,
    OwnerSilent,
    RouterStarted,
    SegmentsExpired,
    StoreWentBack,
    TurnFailed,
)
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, Properties, check
from headgate.core.model.queue_uri import parse_uri
from headgate.core.reader_commands import Block
from headgate.core.shared.explain import Explanation, explain
from headgate.core.turn.handouts import handouts
from headgate.core.turn.slices import Slices, at_once, parts
from headgate.core.turn.store_requests import Load, TurnOutcome
from headgate.errors import LimitReached, Refused
from headgate.journal.sealer_process import Journal, JournalSettings
from headgate.server import status
from headgate.server.admin.pages import Table
from headgate.server.clock import Clock
from headgate.server.driver import TurnDriver
from headgate.server.mode_check import check_modes
from headgate.server.ownership_watch import OwnershipWatch
from headgate.server.router_port import NOBODY, Outlet
from headgate.server.store_health import StoreHealth
from headgate.store.base import OwnedStore, Store
from headgate.store.ownership import Ownership

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
EXPIRE_TICKS = 60
"""After so many ticks the store is searched for messages whose time is over, of exclusive queues
and of shared ones that nobody opened, and for queues that nobody uses."""
TURN_SECONDS = 5.0
"""A turn that has been under way for so long is a problem: nobody else gets one."""
KNOWN_MAX = 20
"""Names of domains that are told to whoever named one that is not there."""
VERSION = version("headgate")


def no_other_router(why: str) -> None:
    """Of a router whose store nobody else can get."""
    raise AssertionError(f"the store was lost: {why}")


class LimitRecording:
    """A block in which a session may reach a limit, which then is a fact. The router makes one
    for every connection and every batch of commands, so it is no generator."""

    __slots__ = ("_router", "_session")

    def __init__(self, router: Router, session: SessionId) -> None:
        self._router = router
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, LimitReached):
            router = self._router
            now = router.clock()
            router.announce([LimitReachedFact(now, error.name, error.limit, self._session)])


class Router:
    """The core in a process: takes commands of sessions, has turns driven, hands out their
    effects.

    `serve` opens one, and the listeners of the wires attach their sessions to it; they see it as a
    `RouterPort`. It knows no wire: a session is a name and somewhere to put effects.
    """

    def __init__(
        self,
        *,
        store: Store,
        domains: Mapping[str, Domain],
        limits: Limits,
        journal: JournalSettings | None = None,
        clock: Callable[[], float] | None = None,
        sure: Callable[[], float] | None = None,
        lost: Callable[[str], None] = no_other_router,
    ) -> None:
        self.store = store
        self.limits = limits
        self.clock: Callable[[], float] = Clock() if clock is None else clock
        self.sure = self.clock if sure is None else sure
        """The latest time beyond doubt."""
        self._domains = dict(domains)
        self._watchers: list[Callable[[Sequence[Fact]], None]] = []
        self._channel_watchers: list[Callable[[Sequence[ChannelCounted]], None]] = []
        self._outlets: dict[SessionId, Outlet] = {}
        self.pulse = StoreHealth(store.probe)
        self.ownership = store.ownership if isinstance(store, OwnedStore) else None
        """The right to the store; None if no other router can get it."""
        self.watch_of_ownership: OwnershipWatch | None = None
        self._lost = lost
        """Called if another router has the store, or may have it."""
        self.waits_for = ""
        """The part that a stop waits for, in words."""
        self._tasks: list[asyncio.Task[None]] = []
        self._journal_settings = journal
        self.journal: Journal | None = None
        self._broker: Broker | None = None
        self._turns: TurnDriver | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the router was not started"
        return self._broker

    @property
    def turns(self) -> TurnDriver:
        assert self._turns is not None, "the router was not started"
        return self._turns

    async def start(self) -> None:
        """Open the store, which may wait for another router, and take turns from then on; raise if
        a domain has another mode than its messages were taken in."""
        last = await self.store.open()
        try:
            await check_modes(self.store, self._domains)
        except BaseException:
            await self.store.close()
            raise
        self._broker = await self._make_broker(last)
        self._broker.shard.shared.sinks.adopt((await self.store.load(Load(sinks=True))).sinks)
        self.watch_of_ownership = self._make_watch()
        self._turns = TurnDriver(
            self._broker.shard,
            self.store,
            self.limits,
            self.clock,
            self.sure,
            self._settle,
            self.watch_of_ownership,
        )
        self._tasks = [
            asyncio.create_task(self._turns.run(), name="turns"),
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self.pulse.run(), name="pulse"),
        ]
        if self.watch_of_ownership is not None:
            watching = asyncio.create_task(self.watch_of_ownership.run(), name="ownership")
            self._tasks.append(watching)
        if self.journal is not None:
            self.journal.start()
        self.announce([RouterStarted(self.clock(), VERSION)])
        if self.ownership is not None:
            self._announce_ownership(self.ownership)

    def _make_watch(self) -> OwnershipWatch | None:
        store, ownership = self.store, self.ownership
        if ownership is None or not isinstance(store, OwnedStore):
            return None
        return OwnershipWatch(
            ownership,
            store.probe,
            store.current_term,
            self._lost,
            lambda seconds: self.announce([OwnerSilent(self.clock(), seconds)]),
        )

    def _announce_ownership(self, ownership: Ownership) -> None:
        """How the store became ours, and whether it is as it was known to be."""
        taken, now = ownership.taken, self.clock()
        assert taken is not None, "the store is open"
        self.announce(
            [
                OwnershipTaken(
                    now, taken.name, taken.previous, taken.reason, taken.term, taken.waited
                )
            ]
        )
        if taken.went_back:
            self.announce([StoreWentBack(now, taken.expected, taken.mark)])

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
            clock=self.clock,
            sure=self.sure,
            expired=self._segments_expired,
        )
        number = max(last_fact, self.journal.last, self._sealed_elsewhere())
        broker = Broker(self._domains, self.limits, last, number, journal=True)
        if size:
            broker.shard.outbox.found(number, size)
        return broker

    def _sealed_elsewhere(self) -> int:
        """The last fact that another router may have sealed."""
        ownership = self.ownership
        return 0 if ownership is None or ownership.taken is None else ownership.taken.sealed

    def _segments_expired(self, last: int, size: int) -> None:
        self.announce([SegmentsExpired(self.clock(), last, size)])

    async def stop(self) -> None:
        """Finish the turns that were asked for, then close the store."""
        if self._turns is not None:
            turning, *others = self._tasks
            for task in others:
                task.cancel()
            self._pass_time()  # facts that wait for a transaction get one
            self._turns.stop()
            self.waits_for = "the turns that were asked for"
            await asyncio.wait(others)
            await turning
        if self.journal is not None:
            self.waits_for = "the sealer"
            await self.journal.stop()
        self.waits_for = "the store"
        await self.store.close()
        self.waits_for = ""

    def abandon(self) -> None:
        """Let go of what a stop still waits for; the process is about to end. A command without a
        receipt may or may not be done, as after a crash."""
        for task in self._tasks:
            task.cancel()
        if self.journal is not None:
            self.journal.kill()

    def watch(self, callback: Callable[[Sequence[Fact]], None]) -> None:
        """Have a callback told the facts of each turn, after it is committed."""
        self._watchers.append(callback)

    def unwatch(self, callback: Callable[[Sequence[Fact]], None]) -> None:
        """Tell a callback nothing more."""
        self._watchers.remove(callback)

    def watch_channels(self, callback: Callable[[Sequence[ChannelCounted]], None]) -> None:
        """Have a callback given, every second, what was published on which channel."""
        self._channel_watchers.append(callback)

    # Sessions.

    def expect(self, wire: str) -> None:
        """Keep room for sessions of a wire that has a listener."""
        self.broker.expect(wire)

    def connect(self, wire: str, name: str, outlet: Outlet) -> SessionId:
        with self.recording_limits(NOBODY):
            session, fact = self.broker.open_session(wire, name, self.clock())
        self._outlets[session.id] = outlet
        self.announce([fact])
        return session.id

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        """Put a session's commands in line for the next turn."""
        try:
            self.turns.submit(commands)
        except LimitReached:
            with self.recording_limits(session):
                raise

    def submit_again(self, commands: Sequence[Command]) -> None:
        """Submit commands again that the inbox had no room for, which was counted then."""
        self.turns.submit(commands)

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        fact = self.broker.close_session(session, reason, self.clock())
        if fact is not None:
            del self._outlets[session]
            self.announce([fact])
            self.turns.insist([Disconnect(session, lost)])
            self.relieve(session)

    # Pressure.

    def record_pressure(self) -> None:
        """Tell who became slow and who caught up, if anybody did."""
        broker = self.broker
        if broker.budget.crossings:
            self.announce(broker.pressed(self.clock()))

    def relieve(self, session: SessionId | None = None) -> None:
        """Something left the mailbox of a session, or it is gone: have those go on who waited for
        that. All wires call this, since what any session holds may keep any publisher waiting."""
        self.record_pressure()
        broker = self.broker
        if broker.waiting:
            self._hand_out(broker.relieved(session))

    def drained(self, session: SessionId) -> None:
        """A session has room again: have those queues looked at that waited for it, if any did."""
        state = self.broker.shard.session_states.find(session)
        if state is not None and (state.waiting or state.sweep is not None or state.opened):
            self.turns.insist([Drained(session)])

    # What wires ask.

    def session(self, session: SessionId) -> Session | None:
        return self.broker.sessions.get(session)

    def stuck(self) -> list[tuple[SessionId, Mailbox]]:
        """The sessions whose socket took less than it was given, as of now."""
        return list(self.broker.budget.stuck.items())

    def domain(self, name: str) -> Domain | None:
        return self.broker.shard.domains.get(name)

    def is_subscribed(self, session: SessionId) -> bool:
        """Whether a session subscribes to a queue, watches one, or is of a service."""
        state = self.broker.shard.session_states.find(session)
        return state is not None and bool(state.queues or state.watched or state.membership)

    def notify(self) -> None:
        """Have notices sent that notifiers wait for, if there are any."""
        if self.broker.shard.exclusive.notifiers.has_news:
            self.turns.insist([Notify()])

    def reconfigure(self, domains: Mapping[str, Domain]) -> None:
        """Give domains new settings. One that is no longer named keeps what it had."""
        self.turns.insist([Reconfigure(domain) for domain in domains.values()])
        self._count_domains(domains)

    def _count_domains(self, domains: Mapping[str, Domain]) -> None:
        """Stored domains are shown, and judged, before anybody uses them."""
        shared = (name for name, domain in domains.items() if domain.mode is not Mode.EXCLUSIVE)
        self.turns.insist([CountDomain(name) for name in shared])

    # What others ask about it.

    def problems(self) -> list[str]:
        """The reasons why the router is not ready; none when it is."""
        if self._turns is None:
            return ["not started"]
        watch = self.watch_of_ownership
        problem = None if watch is None else watch.problem
        problem = problem or self._turns.problem or self.pulse.problem
        found = [] if problem is None else [f"store: {problem}"]
        seconds = self._turns.under_way
        if seconds >= TURN_SECONDS:
            found.append(f"turns: one has been under way for {seconds:.0f} s")
        if self.journal is not None and self.journal.problem is not None:
            found.append(f"journal: {self.journal.problem}")
        return found

    def gauges(self) -> dict[str, float]:
        """Numbers that the core keeps as it goes; the store is not asked."""
        return status.gauges(self)

    def status(self) -> dict[str, object]:
        """Plain data for people and programs."""
        found = self.tables()
        return {name: list(v) if isinstance(v, Table) else v for name, v in found.items()}

    def tables(self) -> dict[str, object]:
        """The status, with lists that make their rows when they are read."""
        return status.tables(self)

    def explain(self, queue: str, properties: Properties) -> dict[str, object]:
        """Explain the dispatch of a message that came to ``bmq://DOMAIN/NAME`` now."""
        return asdict(at_once(self.explaining(queue, properties)))

    def explaining(self, queue: str, properties: Properties) -> Slices[Explanation]:
        """Explain in slices, after a check of the question."""
        shard = self.broker.shard
        shared = {d.name: d for d in shard.domains.values() if d.mode is not Mode.EXCLUSIVE}
        uri = parse_uri(queue)
        if uri.domain not in shared:
            known = ", ".join(sorted(shared)[:KNOWN_MAX]) or "none"
            raise Refused(f"no domain {uri.domain} has shared queues; the router has {known}")
        check(Message(MessageId(b""), b"", 0.0, properties), self.limits)
        found = shard.shared.queues.get(QueueId(uri.canonical.encode()))
        readers = shard.shared.pulling.readers
        return explain(shared[uri.domain], found, properties, self.broker.sessions, readers)

    # Inside.

    def _settle(self, outcome: TurnOutcome) -> Iterator[None]:
        """Hand out what came of a turn, some at a time."""
        # A turn that failed could not write its own fact.
        self.broker.shard.record([f for f in outcome.facts if type(f) is TurnFailed])
        for part in parts(outcome.facts):
            self._log_facts(part)
            yield
        if outcome.spoken and self.broker.speaker is not None:
            self.broker.speaker(outcome.spoken)
        yield from self._handing_out(outcome.effects)

    def _hand_out(self, effects: Iterable[Effect]) -> None:
        """Give each session its effects, in order."""
        for _ in self._handing_out(effects):
            pass

    def _handing_out(self, effects: Iterable[Effect]) -> Iterator[None]:
        """The same, some at a time. A mistake of ours in what one is told costs nobody else
        anything."""
        for session, part in handouts(effects):
            outlet = self._outlets.get(session)
            if outlet is not None:
                try:
                    outlet(part)
                except Exception:
                    log.exception("what a turn has for a session was not taken")
            yield

    def recording_limits(self, session: SessionId) -> LimitRecording:
        """A limit that a session reaches outside of a turn is a fact as well."""
        return LimitRecording(self, session)

    def announce(self, facts: Sequence[Fact]) -> None:
        """Facts from outside of a turn."""
        self.broker.shard.record(facts)
        self._log_facts(facts)

    def _log_facts(self, facts: Sequence[Fact]) -> None:
        for watcher in self._watchers:
            try:
                watcher(facts)
            except Exception:
                log.exception("facts were not taken by somebody who watches")

    def count_channels(self, counted: Sequence[ChannelCounted]) -> None:
        """So much was published on these channels."""
        if self.journal is not None:
            self.broker.shard.record(counted)
        for watcher in self._channel_watchers:
            watcher(counted)

    async def _tick(self) -> None:
        self._count_domains(self.broker.shard.domains)
        for number in count():
            if number % EXPIRE_TICKS == 0:
                self.turns.insist([Expire(), ExpireUnopened(), RemoveUnused()])
            await asyncio.sleep(TICK_SECONDS)
            self._pass_time()

    def _pass_time(self) -> None:
        shard = self.broker.shard
        self.relieve()  # a net: everybody who may go on was woken when that came about
        self.count_channels(self.broker.channels.counted(self.clock()))
        if shard.shared.queues or shard.shared.sinks.records or self.journal is not None:
            self.turns.insist([Tick()])
