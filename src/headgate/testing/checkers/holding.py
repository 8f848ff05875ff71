"""A message is in the hands of one consumer of an app, whatever kind of consumer that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headgate.core import facts as f
from headgate.core.commands import Tick
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.testing.checkers.base import Checker, is_broadcast, is_exclusive

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World

Held: TypeAlias = tuple[QueueId, AppId, MessageId]

REST_TICKS = 100
"""After so many seconds of calm nobody is waited for who does not fetch, and what lost readers held
is in line."""


class Holding(Checker):
    """The law of holding, by the facts: nobody is given what somebody has, and nobody gives back or
    confirms what another one has. When a world with readers is calm it has time pass for those who
    are gone."""

    name = "holding"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._held: dict[Held, SessionId] = {}

    def turn(self, taken: Taken) -> None:
        if taken.failed:
            return
        for fact in taken.outcome.facts:
            self._follow(fact)

    def _follow(self, fact: f.Fact) -> None:
        match fact:
            case f.Delivered():
                if is_exclusive(fact.queue) or is_broadcast(fact.queue):
                    return
                key = (fact.queue, fact.app, fact.message)
                if key in self._held:
                    self.fail(f"{fact} while {self._held[key]} has it")
                self._held[key] = fact.session
            case f.Claimed():
                self._held[fact.queue, fact.app, fact.message] = fact.session
            case f.Returned():
                key = (fact.queue, fact.app, fact.message)
                if self._held.pop(key, None) != fact.session:
                    self.fail(f"{fact} of what it does not have")
            case f.Confirmed() | f.Poisoned():
                self._held.pop((fact.queue, fact.app, fact.message), None)
            case f.Expired() | f.Purged():
                self._drop(fact.queue, message=fact.message)
            case f.AppRemoved() | f.GroupDropped():
                self._drop(fact.queue, app=fact.app)
            case f.QueueDeleted():
                self._drop(fact.queue)

    def _drop(
        self, queue: QueueId, *, app: AppId | None = None, message: MessageId | None = None
    ) -> None:
        self._held = {
            key: session
            for key, session in self._held.items()
            if not (key[0] == queue and app in (None, key[1]) and message in (None, key[2]))
        }

    def crashed(self) -> None:
        self._held.clear()

    def calmed(self, world: World) -> None:
        router = world.router
        has_readers = router is not None and router.broker.shard.shared.has_readers
        for seconds in range(REST_TICKS if has_readers else 0):
            world.clock.after(float(seconds), lambda: self._tick(world))

    @staticmethod
    def _tick(world: World) -> None:
        if world.router is not None:
            world.router.insist([Tick()])
