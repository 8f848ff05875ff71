"""The ids of messages, which their sender makes."""

from __future__ import annotations

import secrets
import time
from itertools import count

from headgate.wire.bmq.codec.control import GuidInfo

VERSION = 1
COUNTER_BITS, TICK_BITS, CLIENT_BITS = 22, 56, 48


class Guids:
    """Ids that nobody else makes: of a client drawn at random, its clock and its counter."""

    def __init__(self) -> None:
        self._client = secrets.randbits(CLIENT_BITS)
        self._counter = count()
        self._origin = time.time_ns()
        self._since = time.monotonic_ns()

    @property
    def info(self) -> GuidInfo:
        """What a broker is told, to tell people which client made an id and when."""
        return GuidInfo(f"{self._client:012X}", self._origin)

    def make(self) -> bytes:
        """The clock is one that never goes back, so that a counter which begins anew after four
        million ids does not make one of them again."""
        tick = time.monotonic_ns() - self._since
        number = VERSION << COUNTER_BITS | next(self._counter) % (1 << COUNTER_BITS)
        number = number << TICK_BITS | tick % (1 << TICK_BITS)
        return (number << CLIENT_BITS | self._client).to_bytes(16, "big")
