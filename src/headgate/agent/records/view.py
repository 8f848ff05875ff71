"""A read-only view of an agent's file, also while an agent uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.agent.records.database import Database
from headgate.agent.records.file import AgentFile
from headgate.store.sqlite.viewed_file import ViewedFile


class ViewedAgentFile(ViewedFile, AgentFile):
    """The file, opened for reading."""

    upgrade = "headgate agent listen"


@contextmanager
def view(path: Path) -> Iterator[Database]:
    """The tables at this moment. Raises `StoreError` if there is no such file or it is not an
    agent's."""
    file = ViewedAgentFile(path)
    file.open()
    try:
        yield Database(file)
    finally:
        file.close()
