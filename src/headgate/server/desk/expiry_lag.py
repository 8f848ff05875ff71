"""The lag of expiry: how late messages are removed whose time is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headgate.core.facts import Expired
from headgate.core.model.domain import Domain, Mode
from headgate.server.desk.kept import domain_of

SECONDS = 10


class ExpiryLag:
    """The most that a message was late by, in each of the last seconds."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._now = 0.0
        self._seconds: deque[float] = deque(maxlen=SECONDS)

    def take(self, fact: Expired) -> None:
        ttl = self._ttl(fact)
        if ttl is not None:
            self._now = max(self._now, fact.seconds - ttl)

    def _ttl(self, fact: Expired) -> float | None:
        """Of the queue's domain. The id of an exclusive queue does not tell its domain: then the
        longest counts, which is never too strict."""
        if name := domain_of(fact.queue):
            found = self._domains.get(name)
            return None if found is None else found.message_ttl
        exclusive = (d.message_ttl for d in self._domains.values() if d.mode is Mode.EXCLUSIVE)
        return max((ttl for ttl in exclusive if ttl is not None), default=None)

    def pass_second(self) -> None:
        self._seconds.append(self._now)
        self._now = 0.0

    @property
    def seconds(self) -> float:
        """By how much, at most, in the last ten seconds."""
        return max(self._seconds, default=0.0)
