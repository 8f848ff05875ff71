"""Records of a notification server between runs: tables, and the one thread that writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from headgate.ntf_server.records import outbox
from headgate.ntf_server.records.fact_box import FactBox, FactRow
from headgate.ntf_server.records.places import open_place
from headgate.ntf_server.records.tables import Place, Tables
from headgate.store.written_tables import WrittenTables

P = ParamSpec("P")
T = TypeVar("T")


class Records(WrittenTables[Tables]):
    """The store of one notification server. Owned by it; nobody else may use the place.

    The nouns are modules beside this one, with a function for each operation. Every function gets
    the tables first, and a call of `write` is one transaction::

        token = await records.read(tokens.get, id)
        await records.write(tokens.put, verify(token, code))
    """

    def __init__(self, place: Place) -> None:
        self.name = place.name
        """Where it is, as people are shown it."""
        self.box = FactBox()
        """Facts for the journal, which are written with what they say."""
        super().__init__(place.name, place, Tables(place, self.box))

    @classmethod
    async def open(cls, url: str, directory: Path = Path()) -> Records:
        """Open what the URL names, or make it; raise `StoreError` if another server has it."""
        records = cls(open_place(url, directory))
        await records._writer.open()
        return records

    async def probe(self) -> None:
        """See that the place answers, or raise `StoreError`."""
        await self.read(Tables.probe)

    async def keep_facts(self, sealed: int) -> None:
        """Record facts from here on; in segments are those up to this number."""
        last, size = await self.read(outbox.unsealed)
        self.box.start(max(last, sealed), size)

    def write(
        self, job: Callable[Concatenate[Tables, P], T], *args: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Take a job that changes tables, and with it write down the facts that it noted."""
        if not self.box.is_on:
            return super().write(job, *args, **named)
        written: list[FactRow] = []

        def work(tables: Tables) -> T:
            written.clear()
            tables.facts.clear()
            result = job(tables, *args, **named)
            row = self.box.row(tables.facts) if tables.facts else None
            if row is not None:
                outbox.put(tables, row)
                written.append(row)
            return result

        def stored(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                for row in written:
                    self.box.stored(row)

        waiting = self._writer.submit(work, is_writing=True)
        waiting.add_done_callback(stored)
        return waiting
