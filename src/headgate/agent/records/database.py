"""Tables as a transaction uses them: reads, changes, and changes of many rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.agent.records.file import AgentFile
from headgate.store.sqlite.rows import Row


class Database:
    """The tables, for one job in the writer's thread.

    A job is a function that gets a `Database` first. It is one transaction: all of it happens or
    nothing. It must change nothing but tables, since it may be run a second time when its group
    failed.
    """

    def __init__(self, file: AgentFile) -> None:
        self._file = file
        self.is_writing = False

    def ask(self, question: str, *values: object) -> list[Row]:
        return self._file.all(question, values)

    def ask_named(self, question: str, values: Mapping[str, object]) -> list[Row]:
        """Query with values by name."""
        return self._file.all(question, values)

    def one(self, question: str, *values: object) -> Row | None:
        """The only row of the answer, or None."""
        return next(iter(self.ask(question, *values)), None)

    def number(self, question: str, *values: object) -> int:
        """The only value of the answer."""
        [(number,)] = self.ask(question, *values)
        found: int = number
        return found

    def ask_about(self, question: str, wanted: Iterable[Row], *more: object) -> list[Row]:
        """The answers about many rows, which replace ``{want}`` in the question."""
        return self._file.ask(question, wanted, *more)

    def change(self, change: str, *values: object) -> int:
        """Change rows; return how many were changed."""
        return self.change_many(change, [values])

    def change_many(self, change: str, rows: Iterable[tuple[Any, ...]]) -> int:
        assert self.is_writing, "a job that changes something goes through write()"
        return self._file.many(change, rows)

    def insert(self, insert: str, *values: object) -> int:
        """Insert one row; return its number."""
        assert self.is_writing, "a job that changes something goes through write()"
        return self._file.insert(insert, values)
