"""Worlds: clients, a network, a store and the real core under one seed.

Nothing waits and nothing runs beside anything else: a world is one thing after another, in
virtual time. So a seed that fails once fails always, and its trace can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from random import Random
from typing import Any, NoReturn

from headgate.core.broker import Broker
from headgate.core.commands import Reconfigure
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.expr.predicate import compile_expression
from headgate.testing.actors import Actor, Operator, Ticker
from headgate.testing.checkers import Ledger, all_checkers
from headgate.testing.clients.client import Client
from headgate.testing.clients.population import newcomers, populate
from headgate.testing.clock import Clock
from headgate.testing.faults import CALM, SlowStore, Weather, storm
from headgate.testing.rig import at_once
from headgate.testing.simulated_router import Router
from headgate.testing.trace import Trace, Violation

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


class World:
    """A world: everything, under one seed."""

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
