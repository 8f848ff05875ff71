"""The disk of a notification server: real tables in memory that outlive the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

from headgate.ntf_server.records import Records, Tables
from headgate.ntf_server.records.sqlite import NtfFile
from headgate.store.sqlite.sql import STATEMENTS_CACHED
from headgate.testing.agents.disk import DiskWriter
from headgate.testing.agents.loop import Process
from headgate.testing.agents.weather import AgentWeather

T = TypeVar("T")


class NtfDisk(NtfFile):
    """The file of a server. Closing it keeps what is in it, until the world ends."""

    _empty: bytes | None = None
    """A file with tables and nothing in them: making one anew takes milliseconds."""

    def __init__(self) -> None:
        super().__init__(Path("ntf in memory"))

    def open(self) -> None:
        if self._db is not None:
            return
        self._db = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=STATEMENTS_CACHED
        )
        if NtfDisk._empty is None:
            self.run(self._prepare)
            NtfDisk._empty = self._db.serialize()
        else:
            self._db.deserialize(NtfDisk._empty)

    def close(self) -> None:
        pass

    def end(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def find(self, job: Callable[[Tables], T]) -> T:
        """Read the disk as it is at this moment, without a server."""
        return job(Tables(self))

    def _make_durable(self) -> None:
        pass

    def _check_file(self) -> None:
        pass


class NtfDiskRecords(Records):
    """The records of one process, on a disk that was there before it."""

    def __init__(
        self, disk: NtfDisk, process: Process, random: Random, weather: AgentWeather
    ) -> None:
        super().__init__(disk)
        self._writer = DiskWriter(disk, Tables(disk), process, random, weather)

    async def start(self) -> None:
        await self._writer.open()
