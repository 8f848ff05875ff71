"""Drives a shard: inbox, turn, effects."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from headgate.core.commands import Command, Send
from headgate.core.limits import Limits
from headgate.core.shard import Shard
from headgate.core.steps import Batch, Outcome
from headgate.errors import HeadgateError, LimitReached, StoreError
from headgate.store.base import Store

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses after failed turns in a row. Requests are answered with the error at once; the pause
keeps what the core tries again, such as the clean-up after a session, from spinning."""


class Turns:
    """One turn at a time; whatever arrives meanwhile is the next one."""

    def __init__(
        self,
        shard: Shard,
        store: Store,
        limits: Limits,
        clock: Callable[[], float],
        settle: Callable[[Outcome], None],
    ) -> None:
        self._shard = shard
        self._store = store
        self._limits = limits
        self._clock = clock
        self._settle = settle
        """Told what came of each turn, after it is committed."""
        self._inbox: deque[Command] = deque()
        self._inbox_bytes = 0
        self._arrived = asyncio.Event()
        self._stopping = False
        self._failures = 0
        self.count = 0
        self.commands = 0
        self.seconds = 0.0
        self.problem: str | None = None
        """Why the last turn failed; none after one that did not."""

    def submit(self, commands: Sequence[Command]) -> None:
        """Put a session's commands in line, all of them or, beyond a limit, none."""
        size = sum(map(_size, commands))
        if self._inbox and len(self._inbox) + len(commands) > self._limits.inbox_commands:
            raise LimitReached("inbox_commands", self._limits.inbox_commands)
        if self._inbox and self._inbox_bytes + size > self._limits.inbox_bytes:
            raise LimitReached("inbox_bytes", self._limits.inbox_bytes)
        self.insist(commands)

    def insist(self, commands: Sequence[Command]) -> None:
        """Put commands in line that must not be refused: a session is gone, time passed."""
        self._inbox.extend(commands)
        self._inbox_bytes += sum(map(_size, commands))
        self._arrived.set()

    def __len__(self) -> int:
        return len(self._inbox)

    async def run(self) -> None:
        """Take turns until `stop`, and then until the inbox is empty."""
        while True:
            await self._arrived.wait()
            while self._inbox:
                await self._turn(self._take())
                # A turn without the store has waited for nothing; others get their turn here.
                await asyncio.sleep(0)
                if self._failures:
                    if self._stopping:
                        return
                    pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS)) - 1]
                    await asyncio.sleep(pause)
            self._arrived.clear()
            if self._stopping:
                return

    def stop(self) -> None:
        self._stopping = True
        self._arrived.set()

    def _take(self) -> list[Command]:
        """The next turn's commands, bounded in number and bytes, at least one."""
        limits = self._limits
        commands = [self._inbox.popleft()]
        size, proofs = _size(commands[0]), _proofs(commands[0])
        while self._inbox and len(commands) < limits.turn_commands:
            size += _size(self._inbox[0])
            proofs += _proofs(self._inbox[0])
            if size > limits.turn_bytes or proofs > limits.turn_proofs:
                break
            commands.append(self._inbox.popleft())
        self._inbox_bytes -= sum(map(_size, commands))
        return commands

    async def _turn(self, commands: list[Command]) -> None:
        started = self._clock()
        try:
            outcome = await self._drive(commands, started)
        except Exception as error:
            outcome = await self._isolate(commands, error)
        self.count += 1
        self.commands += len(commands)
        self.seconds += self._clock() - started
        self.insist(outcome.again)
        self._settle(outcome)

    async def _drive(self, commands: list[Command], now: float) -> Outcome:
        step = self._shard.turn(commands, now)
        failures, self._failures = self._failures, 0
        self.problem = None
        try:
            asked = next(step)
            while True:
                try:
                    if isinstance(asked, Batch):
                        await self._store.apply(asked)
                        asked = step.send(None)
                    else:
                        asked = step.send(await self._store.load(asked))
                except StoreError as error:
                    self._failures = failures + 1
                    self.problem = str(error)
                    asked = step.throw(error)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome

    async def _isolate(self, commands: list[Command], error: Exception) -> Outcome:
        """A mistake of ours in one command must not cost the others theirs: the turn left no
        trace, so its commands are carried out one by one, and only the guilty one fails."""
        if len(commands) == 1:
            kind = type(commands[0]).__name__
            log.error("a %s command failed: %s", kind, type(error).__name__, exc_info=error)
            outcome = self._shard.failed(commands, HeadgateError("internal error"), self._clock())
            outcome.again.clear()
            return outcome
        whole = Outcome([], [], [])
        for command in commands:
            try:
                part = await self._drive([command], self._clock())
            except Exception as cause:
                part = await self._isolate([command], cause)
            whole.effects += part.effects
            whole.facts += part.facts
            whole.again += part.again
        return whole


def _proofs(command: Command) -> int:
    return getattr(command, "proof", None) is not None


def _size(command: Command) -> int:
    return len(command.message.body) if isinstance(command, Send) else 0
