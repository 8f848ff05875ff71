"""Worlds of fronts and the worker that has the shard: what is between them delays, is held and
ends, processes are killed, and what sessions had is asked for again. One seed, one world.

The sessions of fronts are the real ones at both ends: `RemoteRouter`, `FrontSessions`, remote
mailboxes and standings, over the bytes that they write. Clients, sockets, time and the store follow
from the seed. `python -m tests.simulation.front_worlds 20000` plays many.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, cast

from headgate.core.commands import (
    Command,
    Configure,
    Confirm,
    Disconnect,
    Drained,
    Open,
    Send,
    Tick,
)
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Deliver, Done, Effect, Receipt
from headgate.core.facts import Accepted, Confirmed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, MessageId, QueueId, SessionId
from headgate.core.model.interest import Interest
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.core.reader_commands import Block
from headgate.core.turn.handouts import handouts
from headgate.core.turn.inbox import Inbox
from headgate.core.turn.store_requests import Batch
from headgate.core.turn.turn import delivery_size
from headgate.errors import LimitReached, StoreError
from headgate.server.router_port import Outlet
from headgate.server.workers.front_sessions import FrontSessions
from headgate.server.workers.membership import WorkerRouter
from headgate.server.workers.remote_router import RemoteRouter
from headgate.store.memory import MemoryStore
from headgate.testing.clock import Clock
from headgate.testing.rig import Rig

SECONDS = 12.0
"""So long things go wrong."""
CALM_STEPS = 60_000
WORKERS = 3
QUEUE = QueueId(b"work/1")
DOMAIN = Domain("work", Mode.PRIORITY, max_delivery_attempts=2)
BODY_BYTES = (1, 60, 150)


class Broken(AssertionError):
    """A law that does not hold in a world."""


class SimulatedLoop:
    """As much of an event loop as the two ends of a lane ask for, in the time of the world."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def time(self) -> float:
        return self._clock.now

    def call_soon(self, call: Callable[..., object], *args: object) -> None:
        self.call_later(0.0, call, *args)

    def call_later(self, seconds: float, call: Callable[..., object], *args: object) -> None:
        self._clock.after(seconds, lambda: cast("None", call(*args)))


class FencedStore(MemoryStore):
    """The store of all lives of the worker that has the shard: the one that opened it last may
    write to it."""

    is_fenced = True

    def __init__(self, world: FrontWorld) -> None:
        super().__init__()
        self._world = world

    async def apply(self, batch: Batch) -> None:
        world = self._world
        assert world.writing is not None
        if world.writing is not world.home:
            if self.is_fenced:
                raise StoreError("another life has the store")
            raise Broken("one that is not the owner any more wrote")
        await super().apply(batch)


class Home:
    """The worker that has the shard, in one of its lives."""

    def __init__(self, world: FrontWorld) -> None:
        self.world = world
        self.rig = Rig(DOMAIN, limits=world.limits, store=world.store, now=world.clock.now)
        self.inbox = Inbox(world.limits, is_near=True)
        self.outlets: dict[SessionId, Outlet] = {}
        self.fronts: list[FrontSessions] = []
        self.is_alive = True
        self._is_planned = False
        self._tick()

    def _tick(self) -> None:
        """Time passes for the shard."""
        if self.is_alive:
            self.insist([Tick()])
            self.world.clock.after(1.0, self._tick)

    # The port that sessions of fronts have.

    @property
    def clock(self) -> Callable[[], float]:
        return lambda: self.world.clock.now

    @property
    def budget(self) -> Budget:
        return self.rig.broker.budget

    def admit(self, session: Session, outlet: Outlet) -> None:
        self.rig.broker.sessions.add(session)
        self.outlets[session.id] = outlet

    def release(self, session: SessionId, *, lost: bool) -> None:
        gone = self.rig.broker.sessions.remove(session)
        if gone is not None:
            gone.mailbox.close()
            del self.outlets[session]
            self.insist([Disconnect(session, lost)])

    def insist(self, commands: Sequence[Command | Block]) -> int:
        self.inbox.insist(commands)
        self._plan()
        return self.inbox.put

    def drained(self, session: SessionId) -> None:
        self.insist([Drained(session)])

    # Turns.

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self.world.clock.after(self.world.drawn(0.0, 0.05), self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        world = self.world
        if self is not world.home and not world.has_zombies:
            return
        if not self.inbox:
            return
        self.rig.now, world.writing = world.clock.now, self
        outcome = self.rig.turn(self.inbox.take())
        pause = self.inbox.settle(outcome, has_failed=False)
        if not self.is_alive:
            return  # whatever it says, nobody is linked to it
        world.turned(outcome.facts, outcome.effects)
        if world.chance(world.crash):
            world.kill_home()  # it is committed, and nobody was told
            return
        for session, effects in handouts(outcome.effects):
            if session in self.outlets:
                self.outlets[session](effects)
        for front in self.fronts:
            front.turned(self.inbox.taken)
        if self.inbox:
            world.clock.after(pause, self._plan)


class SimulatedLink:
    """The link of a front to one life of worker 0: two lines of bytes, each in its order."""

    def __init__(self, world: FrontWorld, front: Front, home: Home) -> None:
        self.world, self.front, self.home = world, front, home
        self._last = [0.0, 0.0]
        self._ends = [float("inf"), float("inf")]
        """When each end stops to hear the other."""
        with world.looped():
            self.sessions = FrontSessions(
                home, lambda blob: self._send(1, front.remote.receive, blob)
            )
        home.fronts.append(self.sessions)
        front.link = self
        front.remote.joined(lambda blob: self._send(0, self.sessions.receive, blob))

    def _send(self, way: int, receive: Callable[[bytes], None], blob: bytes) -> None:
        world = self.world
        held = world.drawn(0.2, 1.5) if world.chance(world.holding) else 0.0
        at = max(self._last[way], world.clock.now + held + world.drawn(0.0005, 0.03))
        self._last[way] = at

        def arrive() -> None:
            listens = self.front in world.fronts if way else self.home.is_alive
            if at <= self._ends[way] and listens:
                receive(blob)

        world.clock.at(at, arrive)

    def home_died(self) -> None:
        """The front reads what was still written, or a part of that, and then the end."""
        world = self.world
        end = self._ends[1] = world.clock.now + world.drawn(0.0, 0.05)

        def left() -> None:
            if self.front.link is self and self.front in world.fronts:
                self.front.link = None
                self.front.remote.left()

        world.clock.at(end, left)

    def front_died(self) -> None:
        """The same at the other end."""
        world = self.world
        end = self._ends[0] = world.clock.now + world.drawn(0.0, 0.05)

        def left() -> None:
            if self.home.is_alive:
                self.home.fronts.remove(self.sessions)
                self.sessions.close()

        world.clock.at(end, left)


class Local:
    """The front's own sessions and their mailboxes."""

    def __init__(self, world: FrontWorld) -> None:
        self.world = world
        self.limits = world.limits
        limits = world.limits
        self.budget = Budget(
            limits.budget_bytes, limits.mailbox_bytes_soft, limits.mailbox_bytes_hard
        )
        self.sessions: dict[SessionId, Session] = {}

    @property
    def clock(self) -> Callable[[], float]:
        return lambda: self.world.clock.now

    def connect(self, wire: str, name: str, outlet: Outlet) -> SessionId:
        id = SessionId(next(self.world.ids))
        mailbox = Mailbox(id, self.budget)
        self.sessions[id] = Session(id, wire, name, self.world.clock.now, mailbox)
        return id

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        gone = self.sessions.pop(session, None)
        if gone is not None:
            gone.mailbox.close()

    def session(self, session: SessionId) -> Session | None:
        return self.sessions.get(session)

    @contextmanager
    def recording_limits(self, session: SessionId) -> Iterator[None]:
        yield

    def record_pressure(self) -> None:
        self.budget.crossings.clear()


class Front:
    """A front in one of its lives, and its clients."""

    def __init__(self, world: FrontWorld) -> None:
        self.world = world
        self.local = Local(world)
        self.link: SimulatedLink | None = None
        self.clients: dict[SessionId, BmqClient] = {}
        with world.looped():
            self.remote = RemoteRouter(
                cast("WorkerRouter", self.local), {DOMAIN.name: DOMAIN}, WORKERS, self.end
            )

    def end(self, session: SessionId, reason: str) -> None:
        """Close a session: its client comes again."""
        client = self.clients.get(session)
        if client is not None:
            client.leave(reason)


class BmqClient:
    """A client of a front. It reads at its own pace, and comes again if it is sent away."""

    def __init__(self, world: FrontWorld, place: int) -> None:
        self.world = world
        self.place = place
        self.front: Front | None = None
        self.asked: dict[int, Command] = {}
        self.reading = world.random.choice((0.005, 0.02, 0.3))
        self.id = SessionId(0)
        self.is_open = False
        self.unread = 0
        """Bytes that worker 0 sent to this session and that were not read."""
        self.born: Home | None = None
        world.clock.after(world.drawn(0.0, 0.2), self._live)

    def begin(self) -> None:
        """It has a session."""

    def act(self) -> None:
        """Do something."""

    def answered(self, command: Command, effect: Effect) -> None:
        """A request was answered."""

    def delivered(self, effect: Deliver) -> None:
        """A message came."""

    def _live(self) -> None:
        world = self.world
        if self.front is None:
            self._connect()
        else:
            self._read()
            if self.front is not None and not self.asked:
                self.act()
        world.clock.after(world.drawn(0.5, 1.5) * self.reading, self._live)

    @property
    def is_done(self) -> bool:
        return self.front is not None and not self.asked and not len(self._mailbox)

    @property
    def _mailbox(self) -> Mailbox:
        assert self.front is not None
        return self.front.local.sessions[self.id].mailbox

    def _connect(self) -> None:
        front = self.world.fronts[self.place]
        self.front, self.asked, self.is_open, self.unread = front, {}, False, 0
        self.born = self.world.home
        self.id = front.remote.connect("bmq", "", self._take)
        front.clients[self.id] = self
        self.begin()

    def leave(self, reason: str) -> None:
        """Its session is over; it did not lose it."""
        if self.front is not None:
            self.front.clients.pop(self.id, None)
            self.front.remote.disconnect(self.id, reason, lost=False)
            self.front = None

    def crashed(self) -> None:
        self.front = None

    def ask(self, command: Command) -> None:
        assert self.front is not None
        ref: int = command.ref  # type: ignore[union-attr, assignment]
        self.asked[ref] = command
        try:
            self.front.remote.submit(self.id, [command])
        except LimitReached:
            del self.asked[ref]  # it tries again

    def _take(self, effects: Sequence[Effect]) -> None:
        """What its connection is given: it waits in the mailbox until the client reads."""
        for effect in effects:
            size = delivery_size(effect) if type(effect) is Deliver else 1
            self._mailbox.offer(effect, size, self.world.clock.now)
        assert self.front is not None
        self.front.remote.record_pressure()

    def _read(self) -> None:
        mailbox, front = self._mailbox, self.front
        assert front is not None
        had = len(mailbox)
        while (effect := mailbox.take(self.world.clock.now)) is not None:
            self._hear(cast("Effect", effect))
        if had and self.front is front:
            front.remote.drained(self.id)

    def _hear(self, effect: Effect) -> None:
        if type(effect) is Deliver:
            self.unread -= delivery_size(effect)
            self.delivered(effect)
            return
        command = self.asked.pop(cast("int", getattr(effect, "ref", 0)), None)
        if command is not None:
            self.answered(command, effect)


class SimulatedProducer(BmqClient):
    """Posts, and again under the same id until it has a receipt."""

    unsure: Message | None = None

    def begin(self) -> None:
        world = self.world
        self.ask(Open(self.id, next(world.refs), QUEUE, "work", WHOLE, False, True))

    def act(self) -> None:
        world = self.world
        if not self.is_open:
            self.begin()
            return
        if self.unsure is None and not world.is_calm:
            body = b"." * world.random.choice(BODY_BYTES)
            self.unsure = Message(MessageId(b"%d" % next(world.names)), body, world.clock.now, {})
        if self.unsure is not None:
            self.ask(Send(self.id, next(world.refs), QUEUE, self.unsure))

    def answered(self, command: Command, effect: Effect) -> None:
        if isinstance(command, Open):
            self.is_open = isinstance(effect, Done)
        elif isinstance(command, Send) and isinstance(effect, Receipt):
            if command.message.id not in self.world.accepted:
                raise Broken("a receipt for what was not accepted")
            self.unsure = None

    @property
    def is_done(self) -> bool:
        return super().is_done and self.unsure is None


class SimulatedConsumer(BmqClient):
    """Confirms what it is given, some of it late."""

    def __init__(self, world: FrontWorld, place: int) -> None:
        super().__init__(world, place)
        self.in_hand: dict[MessageId, None] = {}

    def begin(self) -> None:
        world = self.world
        self.in_hand.clear()
        interest = Interest(None, 0, Window(world.random.choice((1, 5, 100))))
        self.ask(Open(self.id, next(world.refs), QUEUE, "work", WHOLE, True, False, (interest,)))

    def act(self) -> None:
        world = self.world
        if not self.is_open:
            self.begin()
        elif self.in_hand:
            some = list(self.in_hand)[: world.random.randrange(1, len(self.in_hand) + 1)]
            self.ask(Confirm(self.id, next(world.refs), QUEUE, tuple(some), WHOLE))
        elif not world.is_calm and world.chance(0.02):
            interest = Interest(None, world.random.choice((0, 1)), Window(5))
            self.ask(Configure(self.id, next(world.refs), QUEUE, (interest,), WHOLE))

    def answered(self, command: Command, effect: Effect) -> None:
        if isinstance(command, Open):
            self.is_open = isinstance(effect, Done)
        elif isinstance(command, Confirm):
            # Refused is what this session does not have in hand any more: it comes again.
            for id in command.messages:
                self.in_hand.pop(id, None)

    def delivered(self, effect: Deliver) -> None:
        if effect.attempts > 0:
            raise Broken("an attempt was counted, and no client was lost")
        self.in_hand[effect.message.id] = None

    @property
    def is_done(self) -> bool:
        return super().is_done and not self.in_hand and not self.world.left


class FrontWorld:
    """Worker 0, two fronts and their clients, by a seed."""

    has_zombies = True
    """A worker 0 that was replaced goes on for a moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"fronts {seed}")
        self.clock = Clock()
        self.limits = Limits(
            turn_commands=self.random.choice((1, 4, 12)),
            mailbox_bytes_soft=self.random.choice((200, 1000)),
            mailbox_bytes_hard=1200,
            budget_bytes=5000,
            inbox_commands=self.random.choice((6, 100)),
        )
        self.crash = self.random.choice((0.0, 0.002, 0.01))
        self.holding = self.random.choice((0.0, 0.02))
        self.is_calm = False
        self.ids, self.refs, self.names = count(1), count(1), count(1)
        self.accepted: set[MessageId] = set()
        self.confirmed: set[MessageId] = set()
        self.deliveries = self.homes = self.deaths = 0
        self.store = self.make_store()
        self.writing: Home | None = None
        self.home: Home | None = None
        self.fronts = [Front(self) for _ in range(WORKERS - 1)]
        self._start_home()
        self.clients: list[BmqClient] = [
            kind(self, place)
            for kind in (SimulatedProducer, SimulatedConsumer)
            for place in (0, 1, 1)
        ]
        self._plan_fault()

    def make_store(self) -> FencedStore:
        return FencedStore(self)

    @contextmanager
    def looped(self) -> Iterator[None]:
        """What is made meanwhile has the world's time."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(cast("Any", SimulatedLoop(self.clock)))
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    def drawn(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

    def chance(self, share: float) -> bool:
        return self.random.random() < (0.0 if self.is_calm else share)

    @property
    def left(self) -> set[MessageId]:
        return self.accepted - self.confirmed

    # Faults.

    def _plan_fault(self) -> None:
        self.clock.after(self.drawn(0.3, 4.0), self._fault)

    def _fault(self) -> None:
        if self.is_calm:
            return
        if self.chance(0.5):
            self.kill_home()
        else:
            self.kill_front(self.random.randrange(len(self.fronts)))
        self._plan_fault()

    def kill_home(self) -> None:
        if self.home is None:
            return
        dead, self.home = self.home, None
        dead.is_alive = False
        for front in self.fronts:
            if front.link is not None and front.link.home is dead:
                front.link.home_died()
        self.clock.after(self.drawn(0.06, 0.5), self._start_home)

    def _start_home(self) -> None:
        self.homes += 1
        self.home = Home(self)
        for front in self.fronts:
            self._link_soon(front)

    def _link_soon(self, front: Front) -> None:
        home = self.home

        def link() -> None:
            if home is not None and home is self.home and front in self.fronts:
                SimulatedLink(self, front, home)

        self.clock.after(self.drawn(0.0, 0.1), link)

    def kill_front(self, place: int) -> None:
        self.deaths += 1
        dead = self.fronts[place]
        for client in dead.clients.values():
            client.crashed()
        if dead.link is not None and dead.link.home.is_alive:
            dead.link.front_died()
        dead.link = None
        self.fronts[place] = Front(self)
        self._link_soon(self.fronts[place])

    # Laws.

    def turned(self, facts: Iterable[object], effects: Iterable[Effect]) -> None:
        """A turn is committed."""
        for fact in facts:
            if isinstance(fact, Accepted):
                if fact.message in self.accepted:
                    raise Broken("a message was accepted twice")
                self.accepted.add(fact.message)
        by_session = {client.id: client for client in self.clients if client.front is not None}
        for effect in effects:
            if type(effect) is not Deliver:
                continue
            self.deliveries += 1
            if effect.message.id in self.confirmed:
                raise Broken("what was confirmed comes back")
            client = by_session.get(effect.session)
            if client is not None:
                client.unread += delivery_size(effect)
                most = self.limits.mailbox_bytes_soft + max(BODY_BYTES) + 100
                if client.born is self.home and client.unread > most:
                    raise Broken(f"{client.unread} bytes are under way to one client")
        self.confirmed |= {fact.message for fact in facts if isinstance(fact, Confirmed)}

    @property
    def _is_over(self) -> bool:
        """Whether everybody has finished, and all that sessions had was asked for again."""
        has_finished = all(client.is_done for client in self.clients)
        return has_finished and not any(front.remote._commands for front in self.fronts)

    def play(self) -> None:
        """Let things go wrong for a while, then let everybody finish."""
        end = self.clock.now + SECONDS
        while self.clock.now < end and self.clock.step():
            pass
        self.is_calm = True
        for client in self.clients:
            client.reading = 0.005
        steps = self.clock.steps + CALM_STEPS
        while self.clock.step():
            if self.clock.steps > steps or self._is_over:
                break
        if not all(client.is_done for client in self.clients):
            waiting = [type(each).__name__ for each in self.clients if not each.is_done]
            raise Broken(f"something is stuck: {waiting}, {len(self.left)} messages")
        for front in self.fronts:
            if front.remote._commands:
                raise Broken("commands that were taken are counted")


def play_all(kind: type[FrontWorld], seeds: Iterable[int]) -> list[FrontWorld]:
    worlds = deque[FrontWorld]()
    for seed in seeds:
        world = kind(seed)
        try:
            world.play()
        except Broken as broken:
            broken.add_note(f"seed {seed}")
            raise
        worlds.append(world)
    return list(worlds)


def main() -> None:
    """Play so many seeds, from a first one on."""
    many, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for start in range(first, first + many, 100):
        play_all(FrontWorld, range(start, min(start + 100, first + many)))
        print(f"{start + 100 - first} played", flush=True)


if __name__ == "__main__":
    main()
