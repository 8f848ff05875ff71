"""Tables as a transaction uses them: ask, change, and change many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from headgate.core.ntf_facts import AnyFact
from headgate.ntf_server.records.fact_box import FactBox
from headgate.store.writer import Transactions

Row: TypeAlias = tuple[Any, ...]

IDS: Final = "{ids}"
"""Stands in a question for the condition that a column is one of many ids."""


class Place(Transactions, Protocol):
    """A file or a database with the tables. Statements are the same in both; values stand where
    they have a ``?``."""

    @property
    def name(self) -> str:
        """As people are shown it."""
        ...

    def ask(self, question: str, values: Sequence[object]) -> list[Row]: ...

    def probe(self) -> None:
        """See that it answers."""
        ...

    def ask_about(self, question: str, ids: Sequence[bytes], values: Sequence[object]) -> list[Row]:
        """A question with `IDS` in it, and values before that."""
        ...

    def change_many(self, change: str, rows: Sequence[Row]) -> int:
        """How many rows were changed."""
        ...


class Tables:
    """The tables, as one job in the writer's thread sees them.

    A job is a function that gets `Tables` first. It is one transaction: all of it happens or
    nothing. It must change nothing outside of the tables, since it may be run a second time.
    """

    def __init__(self, place: Place, box: FactBox | None = None) -> None:
        self._place = place
        self.is_writing = False
        self._box = FactBox() if box is None else box
        self.facts: list[AnyFact] = []
        """The facts that the present job has recorded."""

    @property
    def keeps_facts(self) -> bool:
        """Whether anybody wants them; they may take a question."""
        return self._box.is_on

    def now(self) -> float:
        """For facts."""
        return self._box.clock()

    def record(self, fact: AnyFact) -> None:
        """This happens with the job."""
        assert self.is_writing, "a job that records something goes through write()"
        if self._box.is_on:
            self.facts.append(fact)

    def probe(self) -> None:
        """See that the place answers."""
        self._place.probe()

    def ask(self, question: str, *values: object) -> list[Row]:
        return self._place.ask(question, values)

    def one(self, question: str, *values: object) -> Row | None:
        """The only row of the answer, or none."""
        return next(iter(self.ask(question, *values)), None)

    def number(self, question: str, *values: object) -> int:
        """The only value of the answer."""
        [(number,)] = self.ask(question, *values)
        found: int = number
        return found

    def ask_about(self, question: str, ids: Iterable[bytes], *values: object) -> list[Row]:
        """The answers about many ids, which stand in for `IDS` behind the values."""
        wanted = list(dict.fromkeys(ids))
        return self._place.ask_about(question, wanted, values) if wanted else []

    def change(self, change: str, *values: object) -> int:
        """Change rows; return how many were changed."""
        return self.change_many(change, [values])

    def change_many(self, change: str, rows: Iterable[Row]) -> int:
        assert self.is_writing, "a job that changes something goes through write()"
        changes = list(rows)
        return self._place.change_many(change, changes) if changes else 0

    def insert(self, insert: str, *values: object) -> int:
        """Insert one row; return what the statement returns of it."""
        assert self.is_writing, "a job that changes something goes through write()"
        return self.number(insert, *values)
