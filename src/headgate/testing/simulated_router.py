"""The router of a world: the real broker, and a turn of it as seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headgate.core.broker import Broker
from headgate.core.channels.audience import Kind
from headgate.core.commands import Command, Disconnect, Drained
from headgate.core.model.ids import Channel, SessionId
from headgate.core.turn.handouts import handouts
from headgate.core.turn.inbox import Inbox
from headgate.core.turn.store_requests import Batch, Breath, Load, Step, TurnOutcome
from headgate.errors import StoreError
from headgate.testing.checkers import PASSED_OVER, Changes
from headgate.testing.clients.client import Client
from headgate.testing.clients.listening import copies
from headgate.testing.faults import AFTER, BEFORE, Answer, Fate
from headgate.testing.network import Blob, Link
from headgate.testing.picture import snapshot
from headgate.testing.trace import Violation

if TYPE_CHECKING:
    from headgate.testing.world import World


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
    """The part of it that the store did."""
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
        """Publish, unless the publisher has to wait. Messages published in one pass of the loop are
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
