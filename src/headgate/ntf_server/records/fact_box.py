"""Facts on their way to the journal: numbered where they are written, known when they are stored.

A job of the records writes its facts in its own transaction, so a fact is there exactly if what it
says happened. All jobs are done by one thread, one commit after the other: whatever a reader of the
table sees, nothing with a smaller number comes after it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from headgate.core.model.limits import MiB
from headgate.core.model.value import value
from headgate.core.ntf_facts import AnyFact
from headgate.journal.codec import encode_facts

BYTES_MAX: Final = 256 * MiB
"""Facts that are stored and not sealed. Above it there are no more of them: an app is not refused
because a journal cannot be written."""


@value
class FactRow:
    """The facts of one job; the first has this number, and the others follow it."""

    first: int
    last: int
    facts: bytes


class FactBox:
    """The numbers of facts, and what is not sealed. Owned by the records; off until somebody keeps
    a journal. Numbers of a job that failed stay unused."""

    def __init__(
        self, clock: Callable[[], float] = time.time, *, bytes_max: int = BYTES_MAX
    ) -> None:
        self.clock = clock
        """For whoever records a fact."""
        self.is_on = False
        self.last = 0
        """The largest number that was given."""
        self.watermark = 0
        """Everything up to here that was not given up is stored."""
        self.bytes = 0
        """About how much is stored and not sealed."""
        self.dropped = 0
        """Facts for which there was no room."""
        self._bytes_max = bytes_max
        self._unsealed: deque[tuple[int, int]] = deque()

    def start(self, last: int, unsealed: int) -> None:
        """Keep facts from here on. The largest number so far is this one, and so many bytes wait to
        be sealed."""
        self.is_on = True
        self.last = self.watermark = last
        if unsealed:
            self._unsealed.append((last, unsealed))
            self.bytes = unsealed

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._bytes_max

    def row(self, facts: Sequence[AnyFact]) -> FactRow | None:
        """Number the facts of a job, in the thread that does it."""
        if self.is_full:
            self.dropped += len(facts)
            return None
        first = self.last + 1
        self.last += len(facts)
        return FactRow(first, self.last, encode_facts([_tuple(fact) for fact in facts]))

    def stored(self, row: FactRow) -> None:
        """A row is stored."""
        self._unsealed.append((row.last, len(row.facts)))
        self.bytes += len(row.facts)
        self.watermark = max(self.watermark, row.last)

    def sealed(self, last: int) -> None:
        """Everything up to this number is in a segment."""
        while self._unsealed and self._unsealed[0][0] <= last:
            self.bytes -= self._unsealed.popleft()[1]


def _tuple(fact: AnyFact) -> tuple[Any, ...]:
    """As the journal has it: the name of its kind, then its fields in order."""
    return (type(fact).__name__, *(getattr(fact, each.name) for each in fields(fact)))
