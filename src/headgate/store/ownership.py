"""Ownership of a store for which several routers wait, as one of them knows it.

There is no I/O here: the store's thread writes what it learned, the loop reads it.
docs/design/standby.md explains why this is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

FREE = "free"
"""It had no owner."""
GONE = "gone"
"""Its owner's connection ended while this router waited."""
SILENT = "silent"
"""Its owner was silent, and its connection was ended for that."""

RELEASED = 0.0
"""The timeout of a former owner that ended in order."""

LEAVING_SECONDS = 5.0
"""Seconds for an owner that ends in order, and has recorded it, to close its connection."""

GIVE_WAY_SECONDS = 1.0
"""Seconds, at least, that a waiting router lets the owner go first after both lost their
connections."""

GRACE_SECONDS = 0.3
"""Seconds for an owner to come back whose connection was cut: usually it is alive."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of the lock, as the database shows it."""

    name: str
    backend: tuple[object, ...]
    """The server's process behind its connection, and when that began."""
    changed: object | None
    """When the backend last began or ended a statement, by the server's clock; None if we may not
    see it. It is only compared with itself."""
    works: bool
    """Whether it is carrying out a statement, and not waiting for its client."""
    timeout: float | None
    """Seconds of silence after which it may be ended; None if it may not."""


class Silence:
    """How long the holder of a lock has been silent, by the observer's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[object, ...] = ()
        self._since = 0.0

    def seconds(self, holder: Holder) -> float:
        """Seconds since the holder last changed; to be called again and again."""
        seen = (holder.backend, holder.changed)
        if holder.works or seen != self._seen:
            self._seen, self._since = seen, self._clock()
        return self._clock() - self._since

    def is_over(self, holder: Holder) -> bool:
        """Whether it was silent for longer than its timeout."""
        if holder.changed is None or holder.timeout is None:
            self._seen = ()
            return False
        most = LEAVING_SECONDS if holder.timeout == RELEASED else holder.timeout
        return self.seconds(holder) >= most


class Move(Enum):
    """The next move of a waiting router, after a look."""

    WAIT = "look again"
    END = "end the holder's backend"
    TAKE = "take the lock"


class Candidate:
    """Decides for a waiting router: which holder to end, and when to take a free store."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silence = Silence(clock)
        self._since: float | None = None
        """When it began to wait."""
        self._was_away = False
        """Whether the server was away while this router waited."""
        self._free_since: float | None = None
        """When the store was first seen to be free."""
        self.reason = FREE
        """The reason why it is free, if it is."""

    @property
    def waited(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since

    def connected(self) -> None:
        """Note a connection to wait with. If it is not the first, the server was away, and the
        owner, which lost its own, goes first."""
        self._was_away = self._since is not None
        self._since = self._clock() if self._since is None else self._since
        self._free_since = None

    def decide(self, holder: Holder | None, left: float | None = None) -> Move:
        """The move for this holder. If there is none, `left` is the timeout of the last owner, None
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
        """Seconds for the last owner to come back, or to find that it is cut off."""
        if left == RELEASED:
            return 0.0
        if self._was_away:
            return max(GIVE_WAY_SECONDS, left or 0.0)
        if self.reason == FREE:
            return left or 0.0
        # The server's kernel reported the end, if it lives; and a silent owner's timeout has
        # passed.
        return GRACE_SECONDS if self.reason == GONE else 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """How a router became the owner of the store."""

    name: str
    """Its name for other routers."""
    term: int
    reason: str
    """`FREE`, `GONE` or `SILENT`."""
    previous: str
    """The last owner; empty if there was none."""
    waited: float
    """Seconds of waiting."""
    mark: int
    """The number of the last batch in the store."""
    expected: int
    """The largest number of a batch that it knew of: if it is above `mark`, the store went back."""
    sealed: int
    """The number of the last sealed fact."""

    @property
    def went_back(self) -> bool:
        return self.mark < self.expected


@dataclass(frozen=True, slots=True)
class Survey:
    """A store as it is seen from outside."""

    owner: str | None
    """Its owner, if it has one."""
    fingerprint: bytes | None
    """The fingerprint by which SMP clients know the router, if it is stored."""
    warnings: tuple[str, ...]
    """Settings by which the database could lose committed data."""


class Ownership:
    """A router's right to the store, as far as it knows. Made together with the store, which keeps
    it up to date."""

    def __init__(
        self,
        timeout: float,
        clock: Callable[[], float],
        identify: Callable[[bytes | None, bool], bytes | None] = lambda known, mine: known,
        known_mark: int = 0,
    ) -> None:
        self.timeout = timeout
        """Seconds of silence after which the router may lose it."""
        self.clock = clock
        """Seconds since some moment; it never stops, not even in suspend."""
        self.identify = identify
        """Called with the stored fingerprint, and whether the store is ours now; returns the one to
        store. Raises if this router is not the one that clients expect."""
        self.mark = known_mark
        """The largest number of a batch that this router knows of."""
        self.rival = ""
        """The owner it waits for, or why it cannot wait; empty while it does not."""
        self.heard = -math.inf
        """When the last answered statement was sent."""
        self.socket: int | None = None
        """The socket of the connection with the lock."""
        self.taken: Taken | None = None
        self.lost: str | None = None
        """Why the store is not ours any more. From then on no effect may be sent."""

    @property
    def silence(self) -> float:
        """Seconds for which the store may not have heard from us."""
        return self.clock() - self.heard
