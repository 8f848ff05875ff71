"""Notices that came and are not stored yet.

A notice that comes while another of its notifier waits takes its place: it says the same. Waiting
notices go into the records in one transaction, and to the pusher after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final

from headgate.agent.tasks import Tasks
from headgate.errors import StoreError
from headgate.notify.notices import NoticeFate
from headgate.notify.tokens import Token
from headgate.ntf_server.records import Records, notices
from headgate.ntf_server.records.notices import RouterNotice
from headgate.ntf_server.records.routers import RouterNumber

WAITING_MAX: Final = 100_000
"""Notices that wait, of all routers: one may send them for notifiers that nobody has."""

BATCH: Final = 1000
"""Notices that are stored in one transaction."""

RETRY_SECONDS: Final = 2.0
"""After which notices that the records refused are tried again."""


class NoticeIntake:
    """The intake of notices of all routers. `push` is called with each token that has a new one,
    and `failed` with each error of the records; both return at once."""

    def __init__(
        self,
        records: Records,
        push: Callable[[Token], None],
        failed: Callable[[Exception], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._records = records
        self._push = push
        self._failed = failed
        self._retry_seconds = retry_seconds
        self._tasks = Tasks(failed)
        self._waiting: dict[tuple[RouterNumber, bytes], RouterNotice] = {}
        self._is_storing = False
        self.fates: Counter[NoticeFate] = Counter()
        """Outcomes of notices since the start, counted."""
        self.dropped = 0
        """Notices for which there was no room, or no time at the end."""

    def take(self, router: RouterNumber, notice: RouterNotice) -> None:
        """A router sent this."""
        key = router, notice.notifier
        if key in self._waiting:
            del self._waiting[key]
        elif len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting[key] = notice
        if not self._is_storing:
            self._is_storing = True
            self._tasks.run(self._store(), "storing notices", to_end=True)

    async def close(self) -> None:
        """Store what is left; what the records refuse now is counted."""
        await self._tasks.close()
        self.dropped += len(self._waiting)

    async def _store(self) -> None:
        try:
            while self._waiting:
                router = next(iter(self._waiting))[0]
                batch = list(islice((key for key in self._waiting if key[0] == router), BATCH))
                taken = [self._waiting.pop(key) for key in batch]
                try:
                    kept = await self._records.write(notices.keep, router, taken)
                except StoreError as error:
                    self._failed(error)
                    # Newer ones of the same notifiers may have come meanwhile.
                    for key, notice in zip(batch, taken, strict=True):
                        self._waiting.setdefault(key, notice)
                    if self._tasks.is_closed:
                        return
                    await asyncio.sleep(self._retry_seconds)
                    continue
                self.fates.update(each.fate for each in kept)
                for each in dict.fromkeys(found.token for found in kept if found.token):
                    self._push(each)
        finally:
            self._is_storing = False
