"""The host of a notification server's parts: the clock, the limits, and facts for metrics and
log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headgate.core.facts import Fact
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached


class NtfHost:
    """The host of a server's parts; implements `server.net.endpoint.EndpointServer`."""

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.clock = clock
        self._watchers: list[Callable[[Sequence[Fact]], None]] = []

    def watch(self, callback: Callable[[Sequence[Fact]], None]) -> None:
        """Have a callback called with all facts."""
        self._watchers.append(callback)

    def announce(self, facts: Sequence[Fact]) -> None:
        for watcher in self._watchers:
            watcher(facts)

    @contextmanager
    def recording_limits(self, session: SessionId) -> Iterator[None]:
        try:
            yield
        except LimitReached as error:
            fact = LimitReachedFact(self.clock(), error.name, error.limit, session)
            self.announce([fact])
            raise

    def expect(self, wire: str) -> None:
        """There is one wire, and all room is for it."""
