"""The queue of one provider: tokens, each with the kinds of push that it is to get.

The contents of a push are made when its turn comes, so a token that waits already has nothing to
add, and the queue is bounded by the number of tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from headgate.agent.tasks import Tasks
from headgate.notify.notices import WaitingPushes
from headgate.ntf_server.pushing.lanes import LANE_MAX, Lanes
from headgate.ntf_server.pushing.turns import PushKind, Turn, TurnKey

SIZE_MAX: Final = 100_000
"""Tokens that wait for one provider with one kind of push."""

UNDER_WAY_MAX: Final = 100
"""Pushes that one provider has not answered."""


class ProviderQueue:
    """The queue of one provider: a slow one holds up nobody else. `send` carries a turn out, and
    must not raise."""

    def __init__(
        self,
        send: Callable[[Turn], Awaitable[None]],
        *,
        size_max: int = SIZE_MAX,
        under_way_max: int = UNDER_WAY_MAX,
        lane_max: int = LANE_MAX,
    ) -> None:
        self._send = send
        self._size_max = size_max
        self._under_way_max = under_way_max
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._asked: dict[TurnKey, Turn] = {}
        """Codes and periodic pushes, in their order."""
        self._notices = WaitingPushes(size_max + under_way_max)
        self._second: dict[TurnKey, asyncio.TimerHandle] = {}
        """Turns that come again, because the provider asked for it, or the records failed."""
        self._notified: dict[bytes, bool] = {}
        """Tokens whose notices are under way, and whether others have come since."""
        self._lanes = Lanes(lane_max)
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many wait or are under way."""
        waiting = len(self._asked) + len(self._notices) + len(self._second) + len(self._lanes)
        return waiting + self._under_way

    def add(self, kind: PushKind, token: bytes) -> bool:
        """Let a token wait for a push of this kind. False if there is no room."""
        return self._add(Turn(kind, token))

    def add_later(self, turn: Turn, seconds: float) -> bool:
        """Let a turn that is under way come once more. False if there is no room for it."""
        key = turn.key
        if len(self._second) >= self._size_max:
            return False
        if key not in self._second:
            self._second[key] = self._loop.call_later(seconds, self._add_second, turn)
        return True

    def enter(self, lane: str, turn: Turn) -> bool:
        """Whether `send` may go on with a turn, now that it knows for which host it is. If not, it
        comes back when there is room; whoever entered leaves."""
        return self._lanes.enter(lane, turn)

    def leave(self, lane: str) -> None:
        turn = self._lanes.leave(lane)
        if turn is not None:
            self._asked.setdefault(turn.key, turn)
            self._go_on()

    async def close(self) -> None:
        """Begin nothing more. Waiting pushes are lost; the next notice brings them again."""
        if self._timer is not None:
            self._timer.cancel()
        for timer in self._second.values():
            timer.cancel()
        self._under_way_max = 0
        await self._tasks.close()

    def _add(self, turn: Turn) -> bool:
        if turn.kind is PushKind.NOTICES and not turn.is_second:
            has_room = self._add_notices(turn.token)
        else:
            has_room = len(self._asked) < self._size_max
            if has_room:
                self._asked.setdefault(turn.key, turn)
        self._go_on()
        return has_room

    def _add_notices(self, token: bytes) -> bool:
        key = PushKind.NOTICES, token
        if key in self._second or key in self._asked or key in self._lanes:
            # What is pushed then has this notice, too, and not before the provider wants it.
            return True
        if len(self._notices) >= self._size_max:
            return False
        if token in self._notified:
            # One push to a token at a time: a device that hangs takes one place of a hundred.
            self._notified[token] = True
            return True
        return self._notices.add(token, self._loop.time())

    def _add_second(self, turn: Turn) -> None:
        del self._second[turn.key]
        self._add(turn)

    def _go_on(self) -> None:
        """Begin whatever may begin now."""
        while self._under_way < self._under_way_max:
            turn = self._next()
            if turn is None:
                self._wait()
                return
            self._under_way += 1
            if turn.kind is PushKind.NOTICES:
                self._notified[turn.token] = False
            self._tasks.run(self._carry_out(turn), "pushing")

    def _next(self) -> Turn | None:
        if self._asked:
            return self._asked.pop(next(iter(self._asked)))
        token = self._notices.take(self._loop.time())
        return None if token is None else Turn(PushKind.NOTICES, token)

    def _wait(self) -> None:
        """Look again when the next token may be pushed to."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._notices.next_at
        if at is not None:
            self._timer = self._loop.call_at(at, self._go_on)

    async def _carry_out(self, turn: Turn) -> None:
        try:
            await self._send(turn)
        finally:
            self._under_way -= 1
            if turn.kind is PushKind.NOTICES and self._notified.pop(turn.token):
                self._add_notices(turn.token)
            self._go_on()
