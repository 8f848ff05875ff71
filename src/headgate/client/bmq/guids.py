"""Message ids, which the sender makes."""

from __future__ import annotations

import secrets
import time
from itertools import count

from headgate.wire.bmq.codec.control import GuidInfo

VERSION = 1
COUNTER_BITS, TICK_BITS, CLIENT_BITS = 22, 56, 48


class Guids:
    """Makes unique ids: of a client number drawn at random, the clock and a counter."""

    def __init__(self) -> None:
        self._client = secrets.randbits(CLIENT_BITS)
        self._counter = count()
        self._origin = time.time_ns()
        self._since = time.monotonic_ns()

    @property
    def info(self) -> GuidInfo:
        """The seed for the broker, by which it shows people which client made an id and when."""
        return GuidInfo(f"{self._client:012X}", self._origin)

    def make(self) -> bytes:
        """A new id. The clock never goes back, so that ids stay unique when the counter starts
        again after four million."""
        tick = time.monotonic_ns() - self._since
        number = VERSION << COUNTER_BITS | next(self._counter) % (1 << COUNTER_BITS)
        number = number << TICK_BITS | tick % (1 << TICK_BITS)
        return (number << CLIENT_BITS | self._client).to_bytes(16, "big")
