"""The inbox of a shard: commands in line, the share of the next turn, and pauses after failures.

It does no I/O and knows no clock: the server's driver and the simulator's worlds both use it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headgate.core.commands import Command, Confirm, Send
from headgate.core.model.limits import Limits
from headgate.core.reader_commands import Acknowledge, Add, Block, Feed, RemoveMessages
from headgate.core.turn.store_requests import TurnOutcome
from headgate.errors import LimitReached

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses after failed turns in a row. Requests are answered with the error at once; the pause keeps
commands that the core repeats, such as the clean-up after a session, from spinning."""

NEAR_COMMANDS = 512
"""Most commands of a turn where the store is near: the data of the turn is then still in the
processor's caches when it is written and handed out. Turns of 2,000 take 6 % more for each
command."""

CONFIRMS = frozenset((Confirm, Acknowledge, RemoveMessages))


class Inbox:
    """Commands that wait for a turn, in order.

    Sessions `submit`, within limits; `insist` puts in commands that must not be refused. The driver
    of the shard takes the commands of each turn, and calls `settle` with its outcome.
    """

    def __init__(self, limits: Limits, *, is_near: bool) -> None:
        self._limits = limits
        self._most = min(limits.turn_commands, NEAR_COMMANDS) if is_near else limits.turn_commands
        self._commands: deque[Command | Block] = deque()
        self._bytes = 0
        self.put = 0
        """Number of commands and blocks ever put in line."""
        self.failures = 0
        """Turns that failed in a row."""

    def __len__(self) -> int:
        return len(self._commands)

    def submit(self, commands: Sequence[Command | Block]) -> None:
        """Put a session's commands in line, all of them or, beyond a limit, none."""
        size = sum(map(size_of, commands))
        if self._commands and len(self._commands) + len(commands) > self._limits.inbox_commands:
            raise LimitReached("inbox_commands", self._limits.inbox_commands)
        if self._commands and self._bytes + size > self._limits.inbox_bytes:
            raise LimitReached("inbox_bytes", self._limits.inbox_bytes)
        self._commands.extend(commands)
        self._bytes += size
        self.put += len(commands)

    def insist(self, commands: Sequence[Command | Block]) -> None:
        """Put commands in line that must not be refused, as when a session is gone or time has
        passed."""
        self._commands.extend(commands)
        self._bytes += sum(map(size_of, commands))
        self.put += len(commands)

    @property
    def taken(self) -> int:
        """Number of commands and blocks ever taken; they leave in the order in which they came."""
        return self.put - len(self._commands)

    def take(self) -> list[Command]:
        """The next turn's commands, at least one, within the limits of a turn."""
        limits, waiting = self._limits, self._commands
        taken: list[Command | Block] = []
        size = proofs = confirms = 0
        while waiting and len(taken) < self._most:
            first = waiting[0]
            more = size_of(first)
            proofs += getattr(first, "proof", None) is not None
            if type(first) in CONFIRMS:
                confirms += len(first.messages)  # type: ignore[arg-type, union-attr]
            if taken and (
                size + more > limits.turn_bytes
                or proofs > limits.turn_proofs
                or confirms > limits.turn_confirms
            ):
                break
            size += more
            taken.append(waiting.popleft())
        self._bytes -= size
        return _unpacked(taken)

    def settle(self, outcome: TurnOutcome, *, has_failed: bool) -> float:
        """Put back the commands that a turn wants repeated; return the seconds until the next
        turn."""
        self.insist(outcome.again)
        if not has_failed:
            self.failures = 0
            return 0.0
        self.failures += 1
        return RETRY_SECONDS[min(self.failures, len(RETRY_SECONDS)) - 1]


def _unpacked(taken: list[Command | Block]) -> list[Command]:
    """The commands one by one. The commands of a block stay together, in one turn."""
    commands: list[Command] = []
    for each in taken:
        if type(each) is Block:
            commands += each.commands
        else:
            commands.append(each)  # type: ignore[arg-type]
    return commands


def size_of(command: Command | Block) -> int:
    """The bytes that a command counts for."""
    if type(command) is Send or type(command) is Add:
        return len(command.message.body)
    if type(command) is Feed:
        return len(command.body) * len(command.parts)
    return sum(map(size_of, command.commands)) if type(command) is Block else 0
