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
"""About what a fact takes in the store, besides a body."""


def _encoder_of(kind: type[Any]) -> tuple[bool, bool, Callable[[Any, bytes | None], FactTuple]]:
    """Whether a kind is rare, whether it names a queue, and a function that makes a tuple of a
    fact and the name of its queue. Generated, so that it is one tuple and no copies."""
    names = [field.name for field in fields(kind)]
    parts = ", ".join("queue" if name == "queue" else f"fact.{name}" for name in names)
    source = f"lambda fact, queue: ({kind.__name__!r}, {parts})"
    return FACT_KINDS[kind].is_rare, "queue" in names, eval(source)


ENCODERS = {kind: _encoder_of(kind) for kind in KINDS}


@value
class OutboxRow:
    """The facts of one transaction; the first has this number, and the others follow it."""

    first: int
    facts: Sequence[FactTuple]
    size: int

    @property
    def last(self) -> int:
        return self.first + len(self.facts) - 1


class Outbox:
    """Facts that wait for the next transaction, and the number that comes next.

    Numbers of a turn that failed stay unused, and its facts are given up: they did not happen.
    What had waited since before goes on waiting.
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
        """Facts that were to wait for a transaction, since the start."""
        self.stored = 0
        """Of these, those that are in the store, in their order."""
        self._taken = 0
        self._bodies = 0
        self._second = 0
        self._counts: dict[type[Any], int] = {}
        self._unsealed: deque[tuple[int, int]] = deque()
        self.watermark = last
        """Everything up to here that was not given up is committed, and may be sealed. With one
        turn at a time that is the last committed row."""
        self.bytes = 0
        """About how much is in the store and not sealed yet."""

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._limits.outbox_bytes

    def __len__(self) -> int:
        """Facts that wait for a transaction."""
        return len(self._waiting)

    def record(self, facts: Iterable[Fact]) -> None:
        """Facts without a transaction of their own: they wait for the next one."""
        tuples = self.tuples(facts)
        self.recorded += len(tuples)
        self._waiting += tuples

    def row(self, facts: Sequence[FactTuple]) -> OutboxRow | None:
        """The row for a transaction: what waited, then the facts of the turn."""
        self._taken = len(self._waiting)
        tuples = [*self._waiting, *facts]
        if not tuples:
            return None
        row = OutboxRow(self.last + 1, tuples, FACT_BYTES * len(tuples) + self._bodies)
        self._bodies = 0
        self.last = row.last
        return row

    def committed(self, row: OutboxRow) -> None:
        """The row is in the store, and what waited is in it."""
        del self._waiting[: self._taken]
        self.stored += self._taken
        self.found(row.last, row.size)

    def found(self, last: int, size: int) -> None:
        """So much is in the store up to this number, and not sealed."""
        self._unsealed.append((last, size))
        self.bytes += size
        self.watermark = last

    def sealed(self, last: int) -> None:
        """Take note that everything up to this number is in a segment."""
        while self._unsealed and self._unsealed[0][0] <= last:
            self.bytes -= self._unsealed.popleft()[1]

    def tuples(self, facts: Iterable[Fact]) -> list[FactTuple]:
        """Facts as the journal has them.

        An exclusive queue is named by the digest that its service's tally uses: ids of both
        ends of a queue must not become a map of who talks to whom.
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
        """Whether there were too many of a kind in this second. When it is over, one fact says
        how many more there were."""
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
