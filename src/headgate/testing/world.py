"""Worlds: clients, a network, a store and the real core under one seed.

Nothing waits and nothing runs beside anything else: a world is one thing after another, in
virtual time. So a seed that fails once fails always, and its trace can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NoReturn, Protocol

from headgate.core.broker import Broker
from headgate.core.channels.audience import Kind
from headgate.core.commands import Command, Disconnect, Drained, Reconfigure, Tick
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import Channel, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.turn.handouts import handouts
from headgate.core.turn.inbox import Inbox
from headgate.core.turn.store_requests import Batch, Breath, Load, Step, TurnOutcome
from headgate.errors import StoreError
from headgate.expr.predicate import compile_expression
from headgate.testing.checkers import PASSED_OVER, Changes, Ledger, all_checkers
from headgate.testing.clients import Client, copies, newcomers, populate
from headgate.testing.clock import Clock
from headgate.testing.faults import AFTER, BEFORE, CALM, Answer, Fate, SlowStore, Weather, storm
from headgate.testing.network import Blob, Link
from headgate.testing.picture import snapshot
from headgate.testing.rig import at_once
from headgate.testing.trace import Trace, Violation

TICK_SECONDS = 1.0
RESTART_SECONDS = 0.3

DOMAINS = (
    Domain("smp", Mode.EXCLUSIVE, max_messages=12),
    Domain("work", Mode.PRIORITY, max_messages=40, message_ttl=60.0, max_idle_time=3.0),
    Domain(
        "news",
        Mode.FANOUT,
        apps=("a", "b", "c"),
        filters={"c": (compile_expression("x >= 2"),)},
        message_ttl=60.0,
    ),
    Domain("live", Mode.BROADCAST),
)


def narrow(random: Random) -> Limits:
    """Limits so narrow that every world reaches them, drawn."""
    return Limits(
        turn_commands=random.choice((1, 4, 12)),
        queues_per_session=4,
        backlogs=random.choice((1, 3, 100)),
        heads=random.choice((1, 2, 8)),
        remembered_ids=random.choice((4, 64)),
        bodies_bytes=random.choice((0, 256)),
        sweep_queues=random.choice((1, 2, 500)),
        expiries=3,
        turn_returns=2,
        mailbox_bytes_soft=random.choice((100, 200, 1000)),
        mailbox_bytes_hard=1200,
        budget_bytes=2500,
    )


@dataclass(slots=True)
class Taken:
    """One turn, as seen from outside."""

    number: int
    router: Router
    commands: list[Command]
    now: float
    fate: Fate
    before: Any
    """A picture of memory, if the turn may fail."""
    step: Step | None = None
    calls: int = 0
    failed: bool = False
    batch: Batch | None = None
    changes: Changes = field(default_factory=Changes)
    """What the store did of it."""
    outcome: TurnOutcome = field(default_factory=lambda: TurnOutcome([], [], []))


class Router:
    """The real broker, driven as the server drives it: one turn at a time, whatever arrives
    meanwhile is the next, and nobody hears of a turn before it is committed."""

    turns_at_once = 1

    def __init__(self, world: World, broker: Broker) -> None:
        self.world = world
        self.broker = broker
        self.alive = True
        self.links: dict[SessionId, Link] = {}
        self._inbox = Inbox(world.limits, is_near=True)
        self._under_way: list[Taken] = []
        self._pausing = False
        self._planned = False
        self._flushing = False

    # Sessions.

    def connect(self, client: Client) -> Link:
        session, fact = self.broker.open_session("world", client.name, self.world.clock.now)
        link = Link(self.world, client, self, session)
        self.links[session.id] = link
        self.world.trace.add(client.name, f"connects as #{session.id}")
        self.world.record([fact])
        return link

    def submit(self, link: Link, commands: Sequence[Command]) -> None:
        self.world.trace.add(link.client.name, "asks", *commands)
        self.world.each("asked", link, commands)
        self.insist(commands)

    def insist(self, commands: Sequence[Command]) -> None:
        self._inbox.insist(commands)
        self._plan()

    def disconnect(self, link: Link, reason: str, *, lost: bool) -> None:
        if not self.alive:
            return
        self.world.trace.add("router", f"learns that #{link.id} is gone: {reason}")
        fact = self.broker.close_session(link.id, reason, self.world.clock.now)
        self.links.pop(link.id, None)
        if fact is not None:
            self.world.record([fact])
            self.insist([Disconnect(link.id, lost)])
            self.relieve(link)

    def eased(self, link: Link, is_easy: bool) -> None:
        """Something left a mailbox."""
        if self.alive and not link.closed:
            if is_easy:
                self.insist([Drained(link.id)])
            self.relieve(link)

    # Channels: no turn, nothing stored.

    def publish(self, link: Link, channel: Channel, body: bytes) -> bool:
        """Publish, unless the publisher has to wait. What one pass of the loop publishes is
        written at its end."""
        channels = self.broker.channels
        blocker = channels.blocker(Kind.EXACT, channel, self.broker.budget)
        if blocker is not None:
            self.world.trace.add(link.client.name, f"waits for #{blocker} to publish to", channel)
            self.broker.waiting.wait(link.id, blocker, self.broker.budget)
            return False
        mailboxes = [
            other.session.mailbox
            for other in self.links.values()
            if copies(channels.of(other.id), channel)
        ]
        self.world.trace.add(link.client.name, "publishes to", channel)
        self.world.each("published", link, channel, body, mailboxes)
        channels.publish(Kind.EXACT, [(channel, body)])
        if not self._flushing:
            self._flushing = True
            self.world.clock.after(0.0, self.flush)
        return True

    def flush(self) -> None:
        self._flushing = False
        if not self.alive:
            return
        for blob, sessions, _ in self.broker.channels.take():
            for session in sessions:
                link = self.links.get(session)
                if link is not None:
                    link.deliver([Blob(blob)])
        self.world.each("flushed", self)

    def relieve(self, relieved: Link) -> None:
        """Have those go on who waited for what left this link's mailbox."""
        self.world.record(self.broker.pressed(self.world.clock.now))
        for effect in self.broker.relieved(relieved.id):
            link = self.links.get(effect.session)
            if link is not None:
                link.client.may_go_on(link)

    # Turns.

    @property
    def is_idle(self) -> bool:
        return not self._inbox and not self._under_way

    def _plan(self) -> None:
        """Begin a turn when everything of this moment has arrived."""
        if not self._planned and not self._pausing and self.alive:
            self._planned = True
            self.world.clock.after(0.0, self._begin)

    def _begin(self) -> None:
        self._planned = False
        if not self.alive or not self._inbox or len(self._under_way) >= self.turns_at_once:
            return
        world = self.world
        commands = self._inbox.take()
        fate = world.store.fate(world.weather)
        shard = self.broker.shard
        before = snapshot(shard, PASSED_OVER) if fate.may_fail else None
        world.turns += 1
        taken = Taken(world.turns, self, commands, world.clock.now, fate, before)
        taken.step = shard.turn(commands, taken.now)
        self._under_way.append(taken)
        world.trace.add("router", f"turn {taken.number}:", *commands)
        self._go_on(taken, None)
        if len(self._under_way) < self.turns_at_once and self._inbox:
            self._plan()

    def _go_on(self, taken: Taken, answer: Answer) -> None:
        """Give the turn its answer and see what it wants next."""
        if not self.alive:
            return
        step = taken.step
        assert step is not None, "a turn under way has a step"
        try:
            if isinstance(answer, StoreError):
                taken.failed = True
                asked = step.throw(answer)
            else:
                asked = step.send(answer)
        except StopIteration as done:
            taken.outcome = done.value
            self._end(taken)
            return
        except Violation:
            raise
        except Exception as error:
            self.world.violation("core", f"a turn raised {type(error).__name__}: {error}", error)
        if isinstance(asked, Breath):
            # Whatever was planned for this moment happens in between.
            self.world.clock.after(0.0, lambda: self._go_on(taken, None))
        else:
            self.asks(taken, asked)

    def asks(self, taken: Taken, asked: Load | Batch) -> None:
        world, fate, call = self.world, taken.fate, taken.calls
        taken.calls += 1
        if isinstance(asked, Batch):
            taken.batch = asked

        def done() -> None:
            if isinstance(asked, Batch):
                taken.changes = world.ledger.apply(asked, taken.number)
                world.each("applied", taken)
            if fate.crash_at == (call, AFTER):
                world.crash(self)

        def answered(answer: Answer) -> None:
            if isinstance(answer, StoreError) and fate.fail_at != call:
                world.violation("store", f"a turn was refused: {answer}")
            self._go_on(taken, answer)

        if fate.crash_at == (call, BEFORE):
            world.store.calls += 1
            world.crash(self)
            return
        world.store.ask(asked, world.weather, fate.fail_at == call, done, answered)

    def _end(self, taken: Taken) -> None:
        self._under_way.remove(taken)
        pause = self._inbox.settle(taken.outcome, has_failed=taken.failed)
        self.release(taken)
        if pause:
            self._pausing = True
            self.world.clock.after(pause, self._resume)
        else:
            self._plan()

    def _resume(self) -> None:
        self._pausing = False
        self._plan()

    def release(self, taken: Taken) -> None:
        """Let everybody know what came of a turn."""
        world = self.world
        result = "failed" if taken.failed else "is done"
        world.trace.add("router", f"turn {taken.number} {result}:", *taken.outcome.effects)
        world.each("turn", taken)
        for session, effects in handouts(taken.outcome.effects):
            link = self.links.get(session)
            if link is not None:
                link.deliver(effects)
        world.record(taken.outcome.facts)


class Actor(Protocol):
    """Something that goes on in the background of a world, such as a sealer."""

    def begin(self, world: World) -> None:
        """Plan the first thing to do."""

    def crashed(self, world: World) -> None:
        """The router is gone; what was done with it is over."""

    def ended(self, world: World) -> None:
        """The world is at rest: raise a violation if something is not as it should be."""


class Ticker:
    """Time passes for the router once a second, if it has shared queues."""

    def begin(self, world: World) -> None:
        def tick() -> None:
            router = world.router
            if router is not None and router.broker.shard.shared.queues:
                router.insist([Tick()])
            if not world.resting:
                world.clock.after(TICK_SECONDS, tick)

        world.clock.after(TICK_SECONDS, tick)

    def crashed(self, world: World) -> None:
        """It has nothing of the router's."""

    def ended(self, world: World) -> None:
        """It promises nothing."""


class Operator:
    """Gives domains new settings now and then."""

    def begin(self, world: World) -> None:
        def change() -> None:
            if world.resting:
                return
            if world.router is not None and not world.is_calm:
                name = world.random.choice(("work", "news"))
                world.reconfigure(self._drawn(world.domains[name], world.random))
            world.clock.after(world.random.uniform(2.0, 12.0), change)

        world.clock.after(world.random.uniform(2.0, 12.0), change)

    def crashed(self, world: World) -> None:
        """It has nothing of the router's."""

    def ended(self, world: World) -> None:
        """It promises nothing."""

    @staticmethod
    def _drawn(domain: Domain, random: Random) -> Domain:
        domain = replace(
            domain,
            max_messages=random.choice((10, 40, None)),
            message_ttl=random.choice((3.0, 60.0, None)),
            max_delivery_attempts=random.choice((0, 0, 2, 3)),
        )
        if domain.mode is Mode.FANOUT:
            apps = random.choice((("a", "b"), ("a", "b", "c"), ("b", "c")))
            domain = replace(domain, apps=apps)
        return domain


class World:
    """Everything, under one seed."""

    def __init__(
        self,
        seed: int,
        *,
        weather: Weather | None = None,
        limits: Limits | None = None,
        domains: Iterable[Domain] = DOMAINS,
        build: Callable[..., Broker] = Broker,
        drive: type[Router] = Router,
        people: Callable[[World], list[Client]] = populate,
        actors: Sequence[Actor] | None = None,
        watch: Container[str] | None = None,
    ) -> None:
        """Weather and limits are drawn unless they are given. `build` and `drive` make the
        broker and what drives it, `people` who lives there; `watch` names the checkers that
        look on, else all do."""
        self.seed = seed
        self.random = Random(seed)
        self.clock = Clock()
        self.trace = Trace(self.clock)
        self.weather = weather or storm(self.random)
        self.limits = limits or narrow(self.random)
        self.domains = {domain.name: domain for domain in domains}
        self.store = SlowStore(self.clock, self.random, self.trace)
        self.ledger = Ledger()
        self.checkers = [c for c in all_checkers(self) if watch is None or c.name in watch]
        self.turns = 0
        self.crashes = 0
        self.counts: Counter[str] = Counter()
        """Facts by kind."""
        self.is_calm = False
        """Clients do nothing new, and finish what they began."""
        self.resting = False
        """Background actors stop."""
        self._build = build
        self._drive = drive
        self._links = 0
        self._names = 0
        self._watchers: dict[str, list[Callable[..., None]]] = {}
        self.router: Router | None = None
        self._start()
        self.actors: list[Actor] = list(actors) if actors is not None else [Ticker(), Operator()]
        for actor in self.actors:
            actor.begin(self)
        self.clients = people(self)

    # Running.

    def run(self, steps: int) -> None:
        """Let so many things happen."""
        end = self.clock.steps + steps
        while self.clock.steps < end and self.clock.step():
            pass

    def finish(self, steps_max: int = 50_000) -> None:
        """Calm down, let everybody finish, then let newcomers take all that is left; look at
        what must hold at rest after each."""
        self.weather = CALM
        self.is_calm = True
        self.trace.add("world", "is calm")
        for client in list(self.clients):
            client.calm()
        self._settle(steps_max)
        self.each("calmed", self)
        for client in list(self.clients):
            client.leave()
        self._settle(steps_max)
        self.trace.add("world", "lets newcomers take what is left")
        self.clients += newcomers(self)
        self._settle(steps_max)
        self.each("ended", self)
        for actor in self.actors:
            actor.ended(self)

    def _settle(self, steps_max: int) -> None:
        self.resting = True
        end = self.clock.steps + steps_max
        while self.clock.step():
            if self.clock.steps >= end:
                self.violation("rest", f"not at rest after {steps_max} steps")

    def summary(self) -> str:
        return (
            f"{self.clock.steps} steps, {self.turns} turns, {self.crashes} crashes,"
            f" {self.store.failures} store failures, {self.counts['Accepted']} messages,"
            f" {self.counts['Delivered']} deliveries, {self.counts['Confirmed']} confirms"
        )

    # What happens to the router.

    def crash(self, router: Router) -> None:
        """The router is gone, with all it had in memory; the store is not."""
        if not router.alive:
            return
        self.crashes += 1
        self.trace.add("world", "the router crashes")
        router.alive = False
        self.router = None
        for link in list(router.links.values()):
            link.crashed()
        self.each("crashed")
        for actor in self.actors:
            actor.crashed(self)
        self.clock.after(self.random.uniform(0.0, RESTART_SECONDS), self._start)

    def _start(self) -> None:
        last = at_once(self.store.inner.open())
        broker = self._build(self.domains, self.limits, last)
        self.router = self._drive(self, broker)
        self.trace.add("world", "the router starts")

    def reconfigure(self, domain: Domain) -> None:
        assert self.router is not None, "a router that is not there has no settings"
        self.domains[domain.name] = domain
        self.trace.add("operator", f"gives {domain.name} new settings")
        self.router.insist([Reconfigure(domain)])
        self.each("reconfigured")

    def domain_of(self, queue: QueueId) -> Domain:
        return self.domains[self.ledger.records[queue].domain]

    # Watching.

    def each(self, event: str, *args: Any) -> None:  # noqa: ANN401
        """Tell the checkers that have something to say to an event."""
        watching = self._watchers.get(event)
        if watching is None:
            watching = [getattr(c, event) for c in self.checkers if hasattr(c, event)]
            self._watchers[event] = watching
        for watch in watching:
            watch(*args)

    def record(self, facts: Sequence[Fact]) -> None:
        self.counts.update(type(fact).__name__ for fact in facts)

    def violation(self, checker: str, what: str, cause: BaseException | None = None) -> NoReturn:
        """Something happened that must not."""
        raise Violation(checker, what, self.seed, self.trace.lines()) from cause

    def next_link(self) -> int:
        self._links += 1
        return self._links

    def next_message(self) -> bytes:
        self._names += 1
        return b"m%d" % self._names


def play(seed: int, steps: int = 600, **settings: Any) -> World:  # noqa: ANN401
    """Make a world, run it, let it come to rest; raise a `Violation` if there is one."""
    world = World(seed, **settings)
    world.run(steps)
    world.finish()
    return world
