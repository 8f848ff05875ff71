"""Worlds of routers that want one database: whatever is stopped, held, cut or killed, one acts.

The decisions are the real ones: `Candidate`, `Ownership`, `OwnershipWatch`. The database, the
network, the processes and their clocks follow from a seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from headgate.server.ownership_watch import HangUp, OwnershipWatch
from headgate.store.ownership import FREE, Candidate, Holder, Move, Ownership, Taken

SEEDS = 300
STEPS = 600
ROUTERS = 3


class TwoOwners(AssertionError):
    """A router acted for a database that is another's."""


@dataclass
class Backend:
    """The server's process behind a connection."""

    number: int
    changed: float
    is_alive: bool = True
    is_told: bool = False
    """Its client's kernel knows that it is over."""


@dataclass
class Server:
    """PostgreSQL, as far as it matters: a lock, a mark, the row of the owner."""

    wall: float = 0.0
    """How far its clock is from the real one."""
    backends: list[Backend] = field(default_factory=list)
    holder: Backend | None = None
    term: int = 0
    mark: int = 0
    timeout: float | None = None

    def connect(self, now: float) -> Backend:
        backend = Backend(len(self.backends), now + self.wall)
        self.backends.append(backend)
        return backend

    def end(self, backend: Backend) -> None:
        backend.is_alive = False
        if self.holder is backend:
            self.holder = None


class Network(HangUp):
    """Whether a router's kernel was told that its connection is over: not while it is held."""

    def __init__(self, router: SimulatedRouter) -> None:
        super().__init__()
        self._router = router

    def is_closed(self, socket: int | None) -> bool:
        backend = self._router.backend
        if backend is not None and not backend.is_alive and not self._router.is_held:
            backend.is_told = True
        return backend is None or backend.is_told


class SimulatedRouter:
    def __init__(self, world: World, timeout: float, offset: float) -> None:
        self.world = world
        self.timeout = timeout
        self.is_paused = False
        self.is_held = False
        self.offset = offset
        self.begin()

    def clock(self) -> float:
        return self.world.now + self.offset

    def begin(self) -> None:
        """A new process that remembers nothing."""
        self.candidate = self.world.make_candidate(self.clock)
        self.ownership = Ownership(self.timeout, self.clock)
        self.watch = self.world.make_watch(self.ownership)
        self.watch._hang_up = Network(self)
        self.backend: Backend | None = None
        self.is_owner = False
        self.mark = 0
        self.asking: float | None = None
        """When the heartbeat was sent that is under way."""
        self.is_heard = False
        """It has reached the server."""

    @property
    def server(self) -> Server:
        return self.world.server

    @property
    def term(self) -> int:
        assert self.ownership.taken is not None, "an owner"
        return self.ownership.taken.term

    # What a router that waits does.

    def look(self) -> None:
        if self.is_owner or self.is_held:
            return
        if self.backend is None or not self.backend.is_alive:
            self.backend = self.server.connect(self.world.now)
            self.candidate.connected()
        at, held = self.clock(), self.server.holder
        seen = None if held is None else self._seen(held)
        move = self.candidate.decide(seen, self.server.timeout)
        if move is Move.END and held is not None:
            self.server.end(held)
        elif move is Move.TAKE and self.server.holder is None:
            self._accede(self.backend, at)

    def _seen(self, held: Backend) -> Holder:
        return Holder("owner", (held.number,), held.changed, False, self.server.timeout)

    def _accede(self, backend: Backend, at: float) -> None:
        server = self.server
        server.holder, server.timeout = backend, self.timeout
        server.term += 1
        server.mark += 1
        self.mark, self.is_owner = server.mark, True
        backend.changed = self.world.now + server.wall
        self.ownership.taken = Taken("me", server.term, FREE, "", 0.0, 0, 0, 0)
        self.ownership.heard, self.ownership.socket = at, 0

    # What an owner does.

    def beat(self) -> None:
        """One of the three steps of a heartbeat: sent, at the server, answered."""
        if not self.is_owner or self.is_held or not self._has_connection():
            return
        assert self.backend is not None
        if self.asking is None:
            self.asking, self.is_heard = self.clock(), False
        elif not self.is_heard:
            self.backend.changed, self.is_heard = self.world.now + self.server.wall, True
        else:
            self.ownership.heard, self.asking = self.asking, None

    def write(self) -> None:
        """A batch, if the mark is as it was left."""
        if not self.is_owner or self.is_held or not self._has_connection():
            return
        if self.mark != self.server.mark:
            self.begin()
            return
        self._must_be_owner("wrote")
        self.server.mark += 1
        self.mark += 1

    def answer(self) -> None:
        """Something from memory."""
        if self.is_owner and self.watch.is_assured:
            self._must_be_owner("answered")
            self.world.answers += 1

    def _has_connection(self) -> bool:
        """Have one, or have lost the database."""
        assert self.backend is not None
        if self.backend.is_alive:
            return True
        self.asking = None
        if self.server.term != self.term:
            self.begin()
        elif self.server.holder is None:
            at = self.clock()
            self.backend = self.server.holder = self.server.connect(self.world.now)
            self.ownership.heard = at
        return False

    def _must_be_owner(self, what: str) -> None:
        if self.server.term != self.term:
            raise TwoOwners(f"a router of term {self.term} {what} in term {self.server.term}")


class World:
    """All of them, and what happens to them by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"owners {seed}")
        self.now = 0.0
        self.answers = 0
        self.server = Server()
        self.routers = [
            SimulatedRouter(self, self.draw.choice((1.0, 3.0)), self.draw.uniform(-1e6, 1e6))
            for _ in range(ROUTERS)
        ]

    def make_candidate(self, clock: object) -> Candidate:
        return Candidate(clock)  # type: ignore[arg-type]

    def make_watch(self, ownership: Ownership) -> OwnershipWatch:
        return OwnershipWatch(ownership, None, None, None, None)  # type: ignore[arg-type]

    def play(self) -> None:
        for _ in range(STEPS):
            self.now += self.draw.expovariate(8)
            happens = self.draw.random()
            router = self.draw.choice(self.routers)
            if happens < 0.03:
                router.is_paused = not router.is_paused
            elif happens < 0.05:
                router.watch._hang_up.is_closed(None)  # what came before the hold has come
                router.is_held = not router.is_held
            elif happens < 0.09 and router.backend is not None and not router.is_held:
                self.server.end(router.backend)
            elif happens < 0.10:
                for backend in self.server.backends:
                    self.server.end(backend)
            elif happens < 0.11:
                self.server.wall += self.draw.uniform(-100, 100)
            elif happens < 0.12:
                router.begin()  # killed
                self._ended(router)
            elif not router.is_paused:
                self.draw.choice((router.look, router.beat, router.write, router.answer))()

    def _ended(self, router: SimulatedRouter) -> None:
        """Its kernel has closed what it had."""
        router.is_paused = False
        mine = {id(each.backend) for each in self.routers if each.backend is not None}
        for backend in self.server.backends:
            if id(backend) not in mine:
                self.server.end(backend)


def play_all(kind: type[World]) -> list[World]:
    worlds = [kind(seed) for seed in range(SEEDS)]
    for world in worlds:
        world.play()
    return worlds


def test_one_router_acts_whatever_happens() -> None:
    worlds = play_all(World)
    assert sum(world.server.term for world in worlds) > 3 * SEEDS, "owners change"
    assert sum(world.answers for world in worlds) > 5 * SEEDS, "and answer"


class WithoutTime(World):
    """Owners that do not look how long ago they were heard."""

    def make_watch(self, ownership: Ownership) -> OwnershipWatch:
        ownership.timeout, known = 1e9, ownership.timeout
        watch = super().make_watch(ownership)
        assert known < ownership.timeout
        return watch


class WithoutHangUps(World):
    """Owners that do not look whether their connection was closed."""

    def make_watch(self, ownership: Ownership) -> OwnershipWatch:
        class Blind(OwnershipWatch):
            @property
            def is_assured(self) -> bool:
                return self.ownership.silence < self.ownership.timeout

        return Blind(ownership, None, None, None, None)  # type: ignore[arg-type]


class Hasty(World):
    """Who waits takes what is free at once, after a restart too."""

    def make_candidate(self, clock: object) -> Candidate:
        class Taking(Candidate):
            def decide(self, holder: Holder | None, left: float | None = None) -> Move:
                return Move.TAKE if holder is None else super().decide(holder, left)

        return Taking(clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [WithoutTime, WithoutHangUps, Hasty])
def test_a_rule_that_is_left_out_makes_two_owners(broken: type[World]) -> None:
    with pytest.raises(TwoOwners):
        play_all(broken)
