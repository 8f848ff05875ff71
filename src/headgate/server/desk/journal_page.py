"""The journal as the API shows it. Files are looked at in a thread, once in five seconds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headgate.journal.segments import segments
from headgate.server.config.sections import Journal as JournalConfig
from headgate.server.desk.answers import JournalAnswer

if TYPE_CHECKING:
    from headgate.server.router import Router

FRESH_SECONDS = 5.0
RATE_SECONDS = 60.0


class Files(NamedTuple):
    """Totals of the segments in the folder of a journal."""

    files: int = 0
    bytes: int = 0
    oldest_at: float | None = None


class JournalPage:
    """Answers about the journal, with how fast facts were sealed and what the folder last had in
    it."""

    def __init__(self, router: Router, clock: Callable[[], float]) -> None:
        self._router = router
        self._clock = clock
        self._sealed: deque[tuple[float, int]] = deque()
        self._files = Files()
        self._looked_at = 0.0

    def pass_second(self) -> None:
        journal = self._router.journal
        if journal is not None:
            now = self._clock()
            self._sealed.append((now, journal.last))
            while now - self._sealed[0][0] > RATE_SECONDS:
                self._sealed.popleft()

    async def answer(self, config: JournalConfig) -> JournalAnswer:
        journal = self._router.journal
        if journal is not None and self._clock() - self._looked_at > FRESH_SECONDS:
            self._looked_at = self._clock()
            self._files = await asyncio.to_thread(_files, journal.directory)
        return JournalAnswer(
            enabled=journal is not None,
            directory=None if journal is None else str(journal.directory),
            sealed=0 if journal is None else journal.last,
            lag=0 if journal is None else journal.lag,
            outbox_bytes=self._router.broker.shard.outbox.bytes,
            segments=self._files.files,
            bytes=self._files.bytes,
            max_bytes=config.max_bytes,
            keep=config.keep,
            oldest_at=self._files.oldest_at,
            sealed_per_s=self._rate(),
            sealer_starts=0 if journal is None else journal.starts,
            problem=None if journal is None else journal.problem,
        )

    def _rate(self) -> float:
        if len(self._sealed) < 2:
            return 0.0
        (first, before), (last, after) = self._sealed[0], self._sealed[-1]
        return (after - before) / (last - first) if last > first else 0.0


def _files(directory: Path) -> Files:
    try:
        found = segments(directory)
        oldest = min((s.path.stat().st_mtime for s in found), default=None)
    except OSError:
        return Files()
    return Files(len(found), sum(s.bytes for s in found), oldest)
