"""Who owns a store that several routers wait for, as one of them knows it.

Nothing here talks to anybody: the store's thread writes down what it was told, the loop reads it.
docs/design/standby.md says why this is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FREE = "free"
"""Nobody had it."""
GONE = "gone"
"""Its owner's connection ended while this router waited."""
SILENT = "silent"
"""Its owner was not heard, and its connection was ended for that."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock, as the database shows it."""

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
    """What can be seen of a store from outside."""

    owner: str | None
    """Who has it, if anybody."""
    fingerprint: bytes | None
    """By what clients of SMP know the router, if it is written down."""
    warnings: tuple[str, ...]
    """Where the database could lose what it has committed."""


class Ownership:
    """What a router knows of its right to the store. Whoever makes the store makes it, and one
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
