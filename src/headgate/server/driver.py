"""The driver of a shard: inbox, turn, effects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from headgate.core.commands import Command
from headgate.core.model.limits import Limits
from headgate.core.reader_commands import Block
from headgate.core.shard import Shard
from headgate.core.turn.inbox import Inbox
from headgate.core.turn.store_requests import Batch, Breath, TurnOutcome
from headgate.errors import HeadgateError, StoreError
from headgate.server.ownership_watch import OwnershipWatch
from headgate.store.base import Store

log = logging.getLogger(__name__)

MISTAKE_SECONDS = 5.0
"""Seconds until a command is tried again that met an error of ours and that no client waits for: a
closed session has to be cleaned up, or its messages stay with it."""

SLICE_SECONDS = 0.01
"""Seconds of working on a turn, or handing out its effects, before others are served."""


class TurnDriver:
    """Runs one turn at a time; commands that arrive meanwhile are the next one's.

    Owned by the router, which submits commands and gets the outcomes. A turn that failed changed
    nothing.
    """

    def __init__(
        self,
        shard: Shard,
        store: Store,
        limits: Limits,
        clock: Callable[[], float],
        sure: Callable[[], float],
        settle: Callable[[TurnOutcome], Iterator[None]],
        watch: OwnershipWatch | None = None,
    ) -> None:
        self._shard = shard
        self._store = store
        self._clock = clock
        self._sure = sure
        self._settle = settle
        """Called with the outcome of each committed turn, in slices."""
        self._watch = watch
        """Whether the outcome of a turn may be sent; None if the store cannot be taken over by
        another router."""
        self._loop = asyncio.get_running_loop()
        self._served = self._loop.time()
        """When others were last served."""
        self._mistaken: list[Command] = []
        """Commands to try again later."""
        self.inbox = Inbox(limits, is_near=not store.is_distant)
        self._arrived = asyncio.Event()
        self._stopping = False
        self.count = 0
        self.commands = 0
        self.seconds = 0.0
        self.problem: str | None = None
        """The reason why the last turn failed that is over; None if it did not."""
        self._has_failed = False
        """Whether the present turn failed, as far as it got."""
        self._began: float | None = None
        """When the present turn began."""
        self._steps = 0
        """Number of steps completed: an answer of the store, a breath, a whole turn."""
        self._steps_seen = 0

    def submit(self, commands: Sequence[Command | Block]) -> None:
        """Put a session's commands in line, all of them or, beyond a limit, none."""
        self.inbox.submit(commands)
        self._arrived.set()

    def insist(self, commands: Sequence[Command | Block]) -> None:
        """Put commands in line that must not be refused, as when a session is gone or time has
        passed."""
        self.inbox.insist(commands)
        self._arrived.set()

    @property
    def under_way(self) -> float:
        """Seconds since the present turn began; 0 between turns."""
        return 0.0 if self._began is None else self._clock() - self._began

    def has_moved(self) -> bool:
        """Whether turns made progress since the last call, or no command waits for one. A long turn
        whose store answers makes progress; one whose store hangs does not."""
        seen, self._steps_seen = self._steps_seen, self._steps
        is_idle = self._began is None and not self.inbox
        return is_idle or seen != self._steps

    def __len__(self) -> int:
        return len(self.inbox)

    async def run(self) -> None:
        """Take turns until `stop`, and then until the inbox is empty."""
        while True:
            await self._arrived.wait()
            while self.inbox:
                pause = await self._turn(self.inbox.take())
                # A turn without the store has waited for nothing; others get a turn here.
                await asyncio.sleep(0)
                if pause:
                    if self._stopping:
                        return
                    await asyncio.sleep(pause)
            self._arrived.clear()
            if self._stopping:
                return

    def stop(self) -> None:
        self._stopping = True
        self._arrived.set()

    async def _turn(self, commands: list[Command]) -> float:
        """Run a turn; return the seconds until the next."""
        self._has_failed = False
        started = self._began = self._clock()
        self._served = self._loop.time()
        try:
            outcome = await self._drive(commands, started)
        except Exception as error:
            outcome = await self._isolate(commands, error)
        finally:
            self._began = None
        self._steps += 1
        self.count += 1
        self.commands += len(commands)
        self.seconds += self._clock() - started
        if not self._has_failed:
            self.problem = None
        pause = self.inbox.settle(outcome, has_failed=self._has_failed)
        if self._watch is not None:
            await self._may_leave(self._watch)
        for _ in self._settle(outcome):
            if self._watch is not None and self._watch.is_late:
                await self._watch.assured()  # the process was stopped in between
            if self._is_long:
                await self._breathe()
        return pause

    async def _may_leave(self, watch: OwnershipWatch) -> None:
        """Wait until the store is certainly still ours. A failed turn has only errors to send,
        which are true unless another router is known to have the store."""
        has_failed = self._has_failed and watch.ownership.lost is None
        if not has_failed and not watch.is_assured:
            await watch.assured()

    @property
    def _is_long(self) -> bool:
        """Whether this turn has taken so long since others were served that they should be."""
        return self._loop.time() - self._served > SLICE_SECONDS

    async def _breathe(self) -> None:
        """Let others be served."""
        await asyncio.sleep(0)
        self._served = self._loop.time()

    async def _drive(self, commands: list[Command], now: float) -> TurnOutcome:
        step = self._shard.turn(commands, now, self._sure())
        try:
            asked = next(step)
            while True:
                try:
                    if isinstance(asked, Breath):
                        if self._is_long:
                            await self._breathe()
                        asked = step.send(None)
                    elif isinstance(asked, Batch):
                        await self._store.apply(asked)
                        asked = step.send(None)
                    else:
                        asked = step.send(await self._store.load(asked))
                    self._steps += 1
                except StoreError as error:
                    self.problem, self._has_failed = str(error), True
                    asked = step.throw(error)
        except StopIteration as done:
            outcome: TurnOutcome = done.value
            if outcome.mistake is not None:
                log.error("a turn was committed and then failed", exc_info=outcome.mistake)
            return outcome

    async def _isolate(self, commands: list[Command], error: Exception) -> TurnOutcome:
        """Carry out the commands of a failed turn one by one, so that an error of ours costs only
        the command that caused it. The turn has left no trace."""
        if len(commands) == 1:
            kind = type(commands[0]).__name__
            log.error("a %s command failed: %s", kind, type(error).__name__, exc_info=error)
            outcome = self._shard.failed(commands, HeadgateError("internal error"), self._clock())
            for each in outcome.again:
                self._try_later(each)
            outcome.again.clear()
            return outcome
        whole = TurnOutcome([], [], [])
        for command in commands:
            try:
                part = await self._drive([command], self._clock())
            except Exception as cause:
                part = await self._isolate([command], cause)
            whole.effects += part.effects
            whole.facts += part.facts
            whole.again += part.again
            whole.spoken += part.spoken
        return whole

    def _try_later(self, command: Command) -> None:
        """Not at once: it may fail again, and other commands wait."""
        if command in self._mistaken:
            return  # another tick, for example

        def again() -> None:
            self._mistaken.remove(command)
            self.insist([command])

        self._mistaken.append(command)
        self._loop.call_later(MISTAKE_SECONDS, again)
