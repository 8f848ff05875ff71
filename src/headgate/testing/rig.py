"""A shard on a workbench: one turn per call, a clock that stands still, a store that answers
at once or fails on purpose."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from headgate.core.broker import Broker
from headgate.core.commands import Command, Disconnect
from headgate.core.effects import Deliver, Effect
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.shard import Shard
from headgate.core.turn.store_requests import Batch, Breath, Load, Loaded, Step, TurnOutcome
from headgate.errors import StoreError
from headgate.store.base import Store
from headgate.store.memory import MemoryStore

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waited")


class Rig:
    """A workbench: everything a test of the core needs, without I/O."""

    def __init__(
        self,
        *domains: Domain,
        limits: Limits | None = None,
        store: Store | None = None,
        now: float = 1000.0,
    ) -> None:
        self.store: Store = store or MemoryStore()
        last: Seq = at_once(self.store.open())
        self.broker = Broker({d.name: d for d in domains}, limits or Limits(), last)
        self.now = now
        self.facts: list[Fact] = []
        self.asked: list[Load | Batch] = []
        """Every load and batch that went to the store."""
        self.breaths = 0
        """How often a turn stopped so that others could be served."""
        self.fail_at: int | None = None
        """Let the store fail at its so-manieth call from now on, counted from 0."""

    @property
    def shard(self) -> Shard:
        return self.broker.shard

    def session(self, name: str = "") -> SessionId:
        session, fact = self.broker.open_session("test", name, self.now)
        self.facts.append(fact)
        return session.id

    def do(self, *commands: Command) -> list[Effect]:
        """One turn with these commands, and then the turns that the core asks for itself."""
        effects: list[Effect] = []
        again: Iterable[Command] = commands
        while batch := list(again):
            outcome = self.turn(batch)
            effects += outcome.effects
            again = outcome.again
        return effects

    def turn(self, commands: list[Command]) -> TurnOutcome:
        """Exactly one turn."""
        outcome = self.drive(self.shard.turn(commands, self.now))
        self.facts += outcome.facts
        return outcome

    def drive(self, step: Step) -> TurnOutcome:
        try:
            asked = next(step)
            while True:
                try:
                    answer = self._answer(asked)
                except StoreError as error:
                    asked = step.throw(error)
                else:
                    asked = step.send(answer)
        except StopIteration as done:
            outcome: TurnOutcome = done.value
            return outcome

    def leave(self, session: SessionId, *, lost: bool = True) -> list[Effect]:
        """A session ends, with or without a word."""
        fact = self.broker.close_session(session, "lost" if lost else "bye", self.now)
        if fact is not None:
            self.facts.append(fact)
        return self.do(Disconnect(session, lost))

    def take_facts(self, kind: type[T]) -> list[T]:
        """The facts of one kind so far; the rest stays."""
        taken: list[T] = [fact for fact in self.facts if isinstance(fact, kind)]
        self.facts = [fact for fact in self.facts if not isinstance(fact, kind)]
        return taken

    def _answer(self, asked: Load | Batch | Breath) -> Loaded | None:
        if isinstance(asked, Breath):
            self.breaths += 1
            return None
        self.asked.append(asked)
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at < 0:
                self.fail_at = None
                raise StoreError("on purpose")
        if isinstance(asked, Load):
            return at_once(self.store.load(asked))
        at_once(self.store.apply(asked))
        return None


def deliveries(
    effects: Iterable[Effect],
    session: SessionId | None = None,
    what: Callable[[Message], object] = lambda message: message.body,
) -> list[Any]:
    """The bodies of the messages delivered, to one session or to all."""
    return [
        what(effect.message)
        for effect in effects
        if isinstance(effect, Deliver) and session in (None, effect.session)
    ]
