"""A census: how many tokens and subscriptions are in each status, counted now and then.

Counting reads them all, so it is not done when somebody asks, and not while nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from headgate.errors import StoreError
from headgate.ntf_server.records import Records, subscriptions, tokens
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus

log = logging.getLogger("headgate.ntf")

CENSUS_SECONDS: Final = 5.0

PAUSES: Final = 50
"""So many times as long as it takes to count, at least: others have to write."""


class Census:
    """The last counts. A store that fails leaves them as they were."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._commits = -1
        """Of the records, when they were counted."""
        self.tokens: dict[TokenStatus, int] = {}
        self.subscriptions: dict[SubscriptionStatus, int] = {}

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            began = time.monotonic()
            await self.take()
            await asyncio.sleep(max(CENSUS_SECONDS, (time.monotonic() - began) * PAUSES))

    async def take(self) -> None:
        commits = self._records.commits
        if commits == self._commits:
            return
        try:
            self.tokens = await self._records.read(tokens.counts)
            self.subscriptions = await self._records.read(subscriptions.counts)
            self._commits = commits
        except StoreError as error:
            log.error("nothing was counted", extra={"fields": {"error": str(error)}})
