"""Periodic pushes: once a minute those are found whose time has come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headgate.errors import StoreError
from headgate.notify.tokens import Token, is_check_due, mark_checked
from headgate.ntf_server.records import Records, Tables, tokens

log = logging.getLogger("headgate.ntf")

LOOK_SECONDS: Final = 60.0
PAGE: Final = 1000


async def push_periodically(
    records: Records,
    push: Callable[[Token], None],
    clock: Callable[[], float],
    seconds: float = LOOK_SECONDS,
) -> None:
    """Look for tokens whose periodic push is due, for ever. A store that fails is asked again."""
    while True:
        try:
            await push_due(records, push, int(clock()))
        except StoreError as error:
            log.error("periodic pushes wait", extra={"fields": {"error": str(error)}})
        await asyncio.sleep(seconds)


async def push_due(records: Records, push: Callable[[Token], None], now: int) -> None:
    """Push to each token whose periodic push is due. That it was is in the records before, so that
    a restart does not push to all of them again."""
    after: bytes | None = b""
    while after is not None:
        due, after = await records.write(_take_due, after, now)
        for token in due:
            push(token)


def _take_due(tables: Tables, after: bytes, now: int) -> tuple[list[Token], bytes | None]:
    """The tokens of the next page that are due, and where the page after it begins."""
    page = tokens.with_interval(tables, after, PAGE)
    due = [mark_checked(token, now) for token in page if is_check_due(token, now)]
    for token in due:
        tokens.put(tables, token)
    return due, page[-1].id if len(page) == PAGE else None
