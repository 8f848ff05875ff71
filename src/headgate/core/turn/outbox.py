"""Facts on their way to the journal: named, numbered, and held until a turn is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from headgate.core.facts import KINDS, Accepted, Fact, FactsCounted
from headgate.core.model.fact_kind import FACT_KINDS
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.value import value

FactTuple: TypeAlias = tuple[Any, ...]
"""A fact as the journal has it: the name of its kind, then its fields in order."""

FACT_BYTES = 64
"""Bytes that a fact takes in the store besides a body, about."""


def _encoder_of(kind: type[Any]) -> tuple[bool, bool, Callable[[Any, bytes | None], FactTuple]]:
    """Whether a kind of fact is rare, whether it names a queue, and a function that makes a tuple
    of a fact and the name of its queue. Generated, so that it makes one tuple and no copies."""
    names = [field.name for field in fields(kind)]
    parts = ", ".join("queue" if name == "queue" else f"fact.{name}" for name in names)
    source = f"lambda fact, queue: ({kind.__name__!r}, {parts})"
    return FACT_KINDS[kind].is_rare, "queue" in names, eval(source)


ENCODERS = {kind: _encoder_of(kind) for kind in KINDS}


@value
class OutboxRow:
    """The facts of one transaction. The first has this number, and the others follow."""

    first: int
    facts: Sequence[FactTuple]
    size: int

    @property
    def last(self) -> int:
        return self.first + len(self.facts) - 1


class Outbox:
    """Facts that wait for the next transaction, and the next number.

    When a turn fails, its numbers stay unused and its facts are dropped: they did not happen. Facts
    that were waiting before it go on waiting.
    """

    def __init__(
        self,
        last: int,
        limits: Limits,
        name_of: Callable[[QueueId], bytes],
        shared: Container[QueueId],
    ) -> None:
        self.last = last
        """The largest number given to a fact so far."""
        self._limits = limits
        self._name_of = name_of
        self._shared = shared
        self._waiting: list[FactTuple] = []
        self.recorded = 0
        """Facts recorded to wait for a transaction, since the start."""
        self.stored = 0
        """Number of those that are in the store. They are stored in order."""
        self._taken = 0
        self._bodies = 0
        self._second = 0
        self._counts: dict[type[Any], int] = {}
        self._unsealed: deque[tuple[int, int]] = deque()
        self.watermark = last
        """All facts up to this number are committed or dropped, and may be sealed. With one turn at
        a time it is the last committed row."""
        self.bytes = 0
        """Bytes in the store that are not sealed yet, about."""

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._limits.outbox_bytes

    def __len__(self) -> int:
        """Facts that wait for a transaction."""
        return len(self._waiting)

    def record(self, facts: Iterable[Fact]) -> None:
        """Record facts without a transaction of their own: they wait for the next one."""
        tuples = self.tuples(facts)
        self.recorded += len(tuples)
        self._waiting += tuples

    def row(self, facts: Sequence[FactTuple]) -> OutboxRow | None:
        """The row for a transaction: the facts that waited, then those of the turn."""
        self._taken = len(self._waiting)
        tuples = [*self._waiting, *facts]
        if not tuples:
            return None
        row = OutboxRow(self.last + 1, tuples, FACT_BYTES * len(tuples) + self._bodies)
        self._bodies = 0
        self.last = row.last
        return row

    def committed(self, row: OutboxRow) -> None:
        """Note that a row is in the store, and the waiting facts with it."""
        del self._waiting[: self._taken]
        self.stored += self._taken
        self.found(row.last, row.size)

    def found(self, last: int, size: int) -> None:
        """Note what the store held at the start: unsealed facts of this size, up to this number."""
        self._unsealed.append((last, size))
        self.bytes += size
        self.watermark = last

    def sealed(self, last: int) -> None:
        """Note that all facts up to this number are in a segment."""
        while self._unsealed and self._unsealed[0][0] <= last:
            self.bytes -= self._unsealed.popleft()[1]

    def tuples(self, facts: Iterable[Fact]) -> list[FactTuple]:
        """Facts as the journal has them.

        An exclusive queue is named by the digest that its service's tally uses: the ids of both
        ends must not become a map of who talks to whom.
        """
        tuples: list[FactTuple] = []
        shared, name_of = self._shared, self._name_of
        fact: Any
        for fact in facts:
            kind = type(fact)
            is_rare, has_queue, encode = ENCODERS[kind]
            if is_rare and self._is_flood(kind, fact.at, tuples):
                continue
            name = None
            if has_queue:
                name = fact.queue if fact.queue in shared else name_of(fact.queue)
            if kind is Accepted and fact.body is not None:
                self._bodies += len(fact.body)
            tuples.append(encode(fact, name))
        return tuples

    def _is_flood(self, kind: type[Any], at: float, tuples: list[FactTuple]) -> bool:
        """Whether there are too many facts of a kind in this second. When the flood ends, one fact
        gives the number that was left out."""
        second = int(at)
        most = self._limits.journal_facts_per_second
        if second != self._second:
            for flooding, count in self._counts.items():
                if count > most:
                    tuples.append(
                        (
                            FactsCounted.__name__,
                            float(self._second),
                            flooding.__name__,
                            count - most,
                        )
                    )
            self._counts.clear()
            self._second = second
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind] > most
