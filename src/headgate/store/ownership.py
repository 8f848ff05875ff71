"""Ownership of a store that several routers wait for, as one of them knows it.

Nothing here talks to anybody: the store's thread writes down what it was told, the loop reads it.
docs/design/standby.md says why this is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

FREE = "free"
"""Nobody had it."""
GONE = "gone"
"""Its owner's connection ended while this router waited."""
SILENT = "silent"
"""Its owner was not heard, and its connection was ended for that."""

RELEASED = 0.0
"""The timeout of an owner that is none any more, and has said so."""

GIVE_WAY_SECONDS = 1.0
"""So long at least who waits lets the owner go first, after both lost their connections."""

GRACE_SECONDS = 0.3
"""So long it lets an owner come back whose connection was cut: as a rule it is alive."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of the lock, as the database shows it."""

    name: str
    backend: tuple[object, ...]
    """The server's process behind its connection, and when that began."""
    changed: object | None
    """When the backend last began or ended a statement, by the server's clock; None if it is not
    shown to us. It is compared with itself only."""
    works: bool
    """It carries out a statement, and does not wait for its client."""
    timeout: float | None
    """After so long a silence it may be ended; None if it may not."""


class Silence:
    """How long the holder of a lock has said nothing, by the clock of who looks at it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[object, ...] = ()
        self._since = 0.0

    def seconds(self, holder: Holder) -> float:
        """Since when it looks like this; to be asked again and again."""
        seen = (holder.backend, holder.changed)
        if holder.works or seen != self._seen:
            self._seen, self._since = seen, self._clock()
        return self._clock() - self._since

    def is_over(self, holder: Holder) -> bool:
        """Whether it was silent for longer than it said that it would be."""
        if holder.changed is None or holder.timeout is None:
            self._seen = ()
            return False
        return self.seconds(holder) >= holder.timeout


class Move(Enum):
    """The next move of a router that waits, after a look."""

    WAIT = "look again"
    END = "end the holder's backend"
    TAKE = "take the lock"


class Candidate:
    """Decides for one that waits: whom to end, and when to take what is free."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silence = Silence(clock)
        self._since: float | None = None
        """When it began to wait."""
        self._was_away = False
        """The server was, while this one waited."""
        self._free_since: float | None = None
        """When it was first seen that nobody has it."""
        self.reason = FREE
        """Why it is free, if it is."""

    @property
    def waited(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since

    def connected(self) -> None:
        """There is a connection to wait with. If it is not the first, the server was away, and the
        owner, who lost its own, goes first."""
        self._was_away = self._since is not None
        self._since = self._clock() if self._since is None else self._since
        self._free_since = None

    def decide(self, holder: Holder | None, left: float | None = None) -> Move:
        """What to do about who has it. If nobody has: `left` is the timeout of its last owner, None
        if that gave none, and `RELEASED` if it ended in order."""
        if holder is None:
            return self._decide_free(left)
        self.reason, self._free_since, self._was_away = GONE, None, False
        if not self._silence.is_over(holder):
            return Move.WAIT
        self.reason = SILENT
        return Move.END

    def _decide_free(self, left: float | None) -> Move:
        now = self._clock()
        if self._free_since is None:
            self._free_since = now
        return Move.TAKE if now - self._free_since >= self._grace(left) else Move.WAIT

    def _grace(self, left: float | None) -> float:
        """How long its last owner may come back, or has to find out that it is cut off."""
        if left == RELEASED:
            return 0.0
        if self._was_away:
            return max(GIVE_WAY_SECONDS, left or 0.0)
        if self.reason == FREE:
            return left or 0.0
        # The server told its kernel, if it lives; and who was silent has counted its time out.
        return GRACE_SECONDS if self.reason == GONE else 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """How a router came to own the store."""

    name: str
    """How others know this router."""
    term: int
    reason: str
    """`FREE`, `GONE` or `SILENT`."""
    previous: str
    """Who had it before; empty if nobody ever had."""
    waited: float
    """For how many seconds it waited."""
    mark: int
    """The number of the last batch that it found."""
    expected: int
    """The largest number of a batch that it knew of: above `mark`, the store went back."""
    sealed: int
    """The number of the last fact that anybody sealed."""

    @property
    def went_back(self) -> bool:
        return self.mark < self.expected


@dataclass(frozen=True, slots=True)
class Survey:
    """A store as it can be seen from outside."""

    owner: str | None
    """Who has it, if anybody."""
    fingerprint: bytes | None
    """By what clients of SMP know the router, if it is written down."""
    warnings: tuple[str, ...]
    """Where the database could lose what it has committed."""


class Ownership:
    """A router's right to the store, as far as it knows. Whoever makes the store makes it, and one
    store keeps it true."""

    def __init__(
        self,
        timeout: float,
        clock: Callable[[], float],
        identify: Callable[[bytes | None, bool], bytes | None] = lambda known, mine: known,
        known_mark: int = 0,
    ) -> None:
        self.timeout = timeout
        """Who was not heard for so many seconds may lose it."""
        self.clock = clock
        """Seconds since some moment; it only runs, asleep or not."""
        self.identify = identify
        """Told the fingerprint that the store knows, and whether it is ours now; returns the one to
        be known from now on. Raises if this router is not the one that clients expect."""
        self.mark = known_mark
        """The largest number of a batch that this router knows of."""
        self.rival = ""
        """Whom it waits for, or why it cannot; empty while it does not wait."""
        self.heard = -math.inf
        """When the last statement was sent that was answered."""
        self.socket: int | None = None
        """Of the connection that has the lock."""
        self.taken: Taken | None = None
        self.lost: str | None = None
        """Why the store is not ours any more. From then on nothing may leave."""

    @property
    def silence(self) -> float:
        """For how many seconds the store may not have heard us."""
        return self.clock() - self.heard
