"""Actors in the background of a world: time, and an operator."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Protocol

from headgate.core.commands import Tick
from headgate.core.model.domain import Domain, Mode

if TYPE_CHECKING:
    from headgate.testing.world import World

TICK_SECONDS = 1.0


class Actor(Protocol):
    """An actor in the background of a world, such as a sealer."""

    def begin(self, world: World) -> None:
        """Plan the first thing to do."""

    def crashed(self, world: World) -> None:
        """The router is gone; what was done with it is over."""

    def ended(self, world: World) -> None:
        """The world is at rest: raise a violation if something is not as it should be."""


class Ticker:
    """The ticker of a world: time passes for the router once a second, if it has shared queues."""

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
    """An operator, who gives domains new settings now and then."""

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
