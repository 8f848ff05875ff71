"""The journal of a notification server: the sealer at work on its outbox, and what is counted.

Facts of stored changes are written with these changes (`records/fact_box.py`). Events of every
message are counted as they happen, for the metrics; these counts are read here once a second, and
the difference is a fact.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

from headgate.core.facts import SegmentsExpired
from headgate.core.model.value import value
from headgate.core.ntf_facts import (
    AnyFact,
    DriftsCounted,
    NoticesCounted,
    NtfStarted,
    PushesCounted,
)
from headgate.errors import StoreError
from headgate.journal.sealer_process import Journal, JournalSettings
from headgate.ntf_server.pushing.pusher import Pusher
from headgate.ntf_server.records import Records, outbox
from headgate.ntf_server.routers.intake import NoticeIntake
from headgate.ntf_server.routers.shell import NotifierShell
from headgate.server.router import VERSION

K = TypeVar("K", bound=Hashable)

COUNT_SECONDS: Final = 1.0


@value
class NtfJournalSettings:
    """Settings of the journal: where it is, and which time its segments age by."""

    segments: JournalSettings
    clock: Callable[[], float]
    sure: Callable[[], float]
    """The latest time beyond doubt: what is too old is too old by it."""


class NtfJournal:
    """The journal of a server, which owns it, over records that it does not own. It ends before
    they do, when nobody changes anything any more."""

    def __init__(
        self,
        records: Records,
        source: str,
        settings: NtfJournalSettings,
        failed: Callable[[Exception], None],
    ) -> None:
        self._records = records
        self._clock = settings.clock
        self._failed = failed
        self._counting: asyncio.Task[None] | None = None
        self._counts: Counts | None = None
        self.sealer = Journal(
            source,
            settings.segments,
            watermark=lambda: records.box.watermark,
            sealed=self._sealed,
            expired=self._expired,
            clock=settings.clock,
            sure=settings.sure,
        )

    @classmethod
    async def open(
        cls,
        records: Records,
        source: str,
        settings: NtfJournalSettings,
        failed: Callable[[Exception], None],
    ) -> NtfJournal:
        """Have facts recorded from here on. Raises `ConfigError` if the folder cannot be read."""
        journal = cls(records, source, settings, failed)
        records.box.clock = settings.clock
        await records.keep_facts(journal.sealer.last)
        journal.sealer.start()
        journal.record(NtfStarted(settings.clock(), VERSION))
        return journal

    @property
    def problem(self) -> str | None:
        """Why facts are not sealed, or not even kept, if that is so."""
        if self._records.box.is_full:
            return "there is no room for facts, so there are none; what is sealed makes room"
        return self.sealer.problem

    def count(self, intake: NoticeIntake, pusher: Pusher, notifiers: NotifierShell) -> None:
        """Make facts of what these count."""
        self._counts = Counts(intake, pusher, notifiers)
        self._counting = asyncio.create_task(self._keep_counting(), name="counting facts")

    async def close(self) -> None:
        """Record what was counted last, and have everything sealed."""
        if self._counting is not None:
            self._counting.cancel()
            with suppress(asyncio.CancelledError):
                await self._counting
        self._record_counts()
        with suppress(StoreError):
            await self._records.probe()  # what was to be written before is written
        await self.sealer.stop()

    async def _keep_counting(self) -> None:
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            self._record_counts()

    def _record_counts(self) -> None:
        if self._counts is not None:
            self.record(*self._counts.facts(self._clock()))

    def record(self, *facts: AnyFact) -> None:
        """Facts that no change goes with. A crash may lose those of the last second."""
        if facts:
            self._records.write(outbox.add, *facts).add_done_callback(self._look_at)

    def _sealed(self, last: int) -> None:
        self._records.box.sealed(last)
        self._records.write(outbox.remove_sealed, last).add_done_callback(self._look_at)

    def _expired(self, last: int, size: int) -> None:
        self.record(SegmentsExpired(self._clock(), last, size))

    def _look_at(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Exception):
            self._failed(error)


class Counts:
    """Counts up to the last look."""

    def __init__(self, intake: NoticeIntake, pusher: Pusher, notifiers: NotifierShell) -> None:
        self._fates = Since(intake.fates)
        self._outcomes = Since(pusher.outcomes)
        self._drifts = Since(notifiers.drifts)

    def facts(self, at: float) -> Iterator[AnyFact]:
        """The facts about the difference since the last call."""
        for fate, count in self._fates.look():
            yield NoticesCounted(at, fate.value, count)
        for (provider, kind, outcome), count in self._outcomes.look():
            yield PushesCounted(at, provider.name.lower(), kind.value, outcome, count)
        for drift, count in self._drifts.look():
            yield DriftsCounted(at, drift, count)


class Since(Generic[K]):
    """A counter, and what it had at the last look."""

    def __init__(self, counter: Counter[K]) -> None:
        self._counter = counter
        self._before: Counter[K] = Counter()

    def look(self) -> list[tuple[K, int]]:
        """The difference since the last call."""
        more = self._counter - self._before
        self._before = self._counter.copy()
        return list(more.items())
