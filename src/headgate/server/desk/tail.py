"""Tails: messages as they come, for somebody who looks: some of them, and how many were left out.

While nobody looks this costs nothing. While somebody does, every publish is compared with a
pattern, and every message that a queue takes with a pattern and perhaps an expression.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.glob import Glob
from headgate.expr.predicate import Predicate
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import TailMessage, TailSkipped
from headgate.server.desk.asking import shown, shown_bytes
from headgate.server.desk.kept import domain_of, message_row

if TYPE_CHECKING:
    from headgate.server.router import Router

TAILS_MAX = 4
PER_SECOND = 20
PER_SECOND_ALL = 100
TAIL_SECONDS = 600.0
"""A tail ends by itself; whoever still looks asks again."""
BODY_BYTES = 2048


class Tail:
    """A tail: the messages that one viewer is shown."""

    def __init__(
        self, tails: Tails, pattern: bytes, where: Predicate | None, shows_bodies: bool
    ) -> None:
        self._tails = tails
        self._matches = Glob(pattern).matches
        self._where = where
        self._shows_bodies = shows_bodies
        self._line: deque[bytes] = deque(maxlen=2 * PER_SECOND)
        self._left = PER_SECOND
        self._skipped = 0

    def published(self, channel: bytes, bodies: Sequence[bytes]) -> None:
        if self._where is not None or not self._matches(channel):
            return
        for number, body in enumerate(bodies):
            if not self._take():
                self._skipped += len(bodies) - number
                return
            text = body[:BODY_BYTES].decode(errors="replace") if self._shows_bodies else None
            self._put(
                TailMessage(
                    at=time.time(),
                    channel=shown_bytes(channel),
                    queue=None,
                    size=len(body),
                    properties={},
                    body=None if text is None else shown(text, BODY_BYTES),
                )
            )

    def accepted(self, fact: f.Accepted) -> None:
        if not self._matches(fact.queue) or not domain_of(fact.queue):
            return
        if self._where is not None and not self._where.matches(fact.properties):
            return
        if not self._take():
            self._skipped += 1
            return
        row = message_row(fact.at, fact.message, fact.size, fact.properties)
        body = None
        if self._shows_bodies and fact.body is not None:
            body = shown(fact.body[:BODY_BYTES].decode(errors="replace"), BODY_BYTES)
        self._put(
            TailMessage(
                at=fact.at,
                channel=None,
                queue=shown_bytes(fact.queue, 400),
                size=fact.size,
                properties=row.properties,
                body=body,
            )
        )

    def _take(self) -> bool:
        """Whether one more may be shown in this second."""
        if self._left <= 0 or self._tails.left <= 0:
            return False
        self._left -= 1
        self._tails.left -= 1
        return True

    def _put(self, message: TailMessage) -> None:
        self._line.append(b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n")

    def second(self) -> bytes:
        """The messages of a second, and how many did not fit."""
        lines = b"".join(self._line)
        self._line.clear()
        skipped, self._skipped = self._skipped, 0
        self._left = PER_SECOND
        left_out = msgspec.json.encode(TailSkipped(count=skipped))
        return lines + b"event: skipped\ndata: " + left_out + b"\n\n"


class Tails:
    """The tails of all viewers. They watch the router only while there is one."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._tails: set[Tail] = set()
        self.left = PER_SECOND_ALL
        """Messages that may still be shown in this second."""
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tails)

    def pass_second(self) -> None:
        self.left = PER_SECOND_ALL

    def end(self) -> None:
        """End all streams."""
        self._ending.set()

    def check_room(self) -> None:
        if len(self._tails) >= TAILS_MAX:
            raise Refusal(
                503, f"{TAILS_MAX} tails are open", "too_many_viewers", "close one, or ask later"
            )

    async def stream(
        self, pattern: bytes, where: Predicate | None, *, shows_bodies: bool
    ) -> AsyncIterator[bytes]:
        """The messages that match a pattern from now on, second by second."""
        tail = Tail(self, pattern, where, shows_bodies)
        self._add(tail)
        end = time.monotonic() + TAIL_SECONDS
        try:
            yield b"retry: 2000\n\n"
            while time.monotonic() < end and not self._ending.is_set():
                try:
                    async with asyncio.timeout(1.0):
                        await self._ending.wait()
                except TimeoutError:
                    yield tail.second()
        finally:
            self._remove(tail)

    def _add(self, tail: Tail) -> None:
        if not self._tails:
            self._router.broker.channels.tap = self._published
            self._router.watch(self._observe)
        self._tails.add(tail)

    def _remove(self, tail: Tail) -> None:
        self._tails.discard(tail)
        if not self._tails:
            self._router.broker.channels.tap = None
            self._router.unwatch(self._observe)

    def _published(self, channel: bytes, bodies: Sequence[bytes]) -> None:
        for tail in self._tails:
            tail.published(channel, bodies)

    def _observe(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if type(fact) is f.Accepted:
                for tail in self._tails:
                    tail.accepted(fact)
