"""The agent's file: as the router's, with the agent's own schema; or none, in memory.

A file belongs to one agent at a time. The lock is released with the process, however that ends, and
a second agent is refused with advice. Files are 0600, new folders 0700.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from headgate.store.sqlite.file import Owner
from headgate.store.sqlite.job_file import JobFile
from headgate.store.sqlite.sql import STATEMENTS_CACHED

AGENT: Final = Owner("agent", 0x48474147, "headgate.agent.records")
BUSY_SECONDS: Final = 5.0
"""How long a commit waits for a lock of another program, such as a backup."""


class AgentFile(JobFile):
    """A file on a disk."""

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        super().__init__(path.absolute(), busy_seconds, AGENT)


class AgentMemory(AgentFile):
    """The tables of an agent without a file: they end with `close`."""

    def __init__(self) -> None:
        super().__init__(Path("agent in memory"))
        self.path = Path("agent in memory")

    def open(self) -> None:
        self._db = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=STATEMENTS_CACHED
        )
        self.run(self._prepare)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _make_durable(self) -> None:
        pass

    def _check_file(self) -> None:
        pass
