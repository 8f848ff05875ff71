"""The disk of a program: real records in memory that are slow, fail, and outlive their process."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from headgate.agent.records import Records
from headgate.agent.records.database import Database
from headgate.agent.records.file import AgentMemory
from headgate.errors import StoreError
from headgate.store.writer import GROUP_MAX, Job, Tables, Transactions, Writer
from headgate.testing.agents.loop import Process
from headgate.testing.agents.weather import AgentWeather

T = TypeVar("T")
D = TypeVar("D", bound=Tables)


class DiskFile(Transactions, Protocol):
    """A file that is on a disk of a world."""

    path: Path


class Disk(AgentMemory):
    """The file of an agent. Closing it keeps what is in it, until the world ends."""

    _empty: bytes | None = None
    """A file with tables and nothing in them: making one anew takes milliseconds."""

    def open(self) -> None:
        if self._db is not None:
            return
        if Disk._empty is None:
            super().open()
            assert self._db is not None, "it was just opened"
            Disk._empty = self._db.serialize()
            return
        self._db = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        self._db.deserialize(Disk._empty)

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()

    def find(self, job: Callable[[Database], T]) -> T:
        """Read the disk as it is at this moment, without an agent."""
        return job(Database(self))


class DiskWriter(Writer[D]):
    """A writer that does jobs as the thread of the records does, but in the loop: what was asked
    while the disk was busy is one commit, and whoever asked learns of it a while later."""

    def __init__(
        self, disk: DiskFile, tables: D, process: Process, random: Random, weather: AgentWeather
    ) -> None:
        super().__init__(str(disk.path), disk, tables)
        self._disk = disk
        self._process = process
        self._random = random
        self._weather = weather
        self._waiting: deque[Job[D]] = deque()
        self._is_open = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        self._disk.open()
        self._is_open = True

    def submit(self, do: Callable[[D], T], *, is_writing: bool) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        if not self._process.is_alive:
            return waiting
        if not self._is_open:
            waiting.set_exception(StoreError("it is closed; open it again"))
            return waiting
        self._waiting.append(Job(do, is_writing, waiting))
        if self._idle.is_set():
            self._idle.clear()
            loop.call_later(self._delay(), self._commit_group)
        return waiting

    async def close(self) -> None:
        self._is_open = False
        await self._idle.wait()

    def _delay(self) -> float:
        return self._random.uniform(0.0, self._weather.disk_seconds)

    def _commit_group(self) -> None:
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_MAX))]
        if self._random.random() < self._weather.disk_failure:
            for job in group:
                job.error = StoreError("the disk is full; make room and it goes on by itself")
        else:
            self._do(group)
        if not self._weather.disk_seconds:
            self._report(group)
            return
        # A process that is killed in between never learns that it was done.
        asyncio.get_running_loop().call_later(self._delay(), self._report, group)

    def _report(self, group: list[Job[D]]) -> None:
        for job in group:
            job.report()
        if self._waiting:
            self._commit_group()
        else:
            self._idle.set()


class DiskRecords(Records):
    """The records of one process, on a disk that was there before it."""

    def __init__(self, disk: Disk, process: Process, random: Random, weather: AgentWeather) -> None:
        super().__init__(disk)
        self._writer = DiskWriter(disk, Database(disk), process, random, weather)

    async def start(self) -> Records:
        await self._writer.open()
        return self
