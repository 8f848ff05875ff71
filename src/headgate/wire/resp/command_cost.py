"""The cost of a command, charged before it is carried out.

A step is about a microsecond of work, in which nobody else is served. The table knows how many a
command takes: some for each argument and, where it depends on what there is, a number that its
entry tells. It knows what may be large among the answers, too. A command that would exceed it is
refused before it begins, with an error that names the limit.

A command whose parts stand for themselves, as the names of a SUBSCRIBE do, is not bounded: it
answers in parts, and others get their turn in between. A transaction is one command here, since
nobody may see a half of it: all of its commands share one allowance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from headgate.core.model.glob import Glob
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached
from headgate.wire.resp.codec.replies import NOTHING, CommandError, Reply, Several, array_of
from headgate.wire.resp.commands.table import CommandEntry

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

COMMAND_STEPS = 2
"""Of any command."""
HELP_STEPS = 15
"""Of a text of some dozen lines."""
FEW = 3
"""Words of a command that needs no look: one value may be as long as an argument, and an answer
has room for two of those."""

PORTION = 64
"""Names that are handled in a row: a fraction of a millisecond, if nothing is dear about them."""
GLOB_WEIGHT = 64
"""Classes between stars of a pattern that names are looked for with."""
NAME_BYTES = 32
"""Bytes of an answer that each name adds to its own."""

ADVICE = {
    "command_steps": "send it in several commands, or use SCAN for KEYS",
    "reply_bytes": "ask for less in one command or transaction",
    "name_bytes": "use a shorter name",
    "slow_patterns": "use patterns with more plain text in them",
    "slow_patterns_per_session": "use patterns with more plain text in them",
}
"""Advice, where the name of the limit does not give it."""


T = TypeVar("T")


def portions(items: Sequence[T], size: int = PORTION) -> Iterator[Sequence[T]]:
    """The items in the portions that an answer in parts makes."""
    return (items[start : start + size] for start in range(0, len(items), size))


def glob_of(session: RespSession, pattern: bytes) -> Glob:
    """A pattern to look for names with, unless reading it or looking would take too long."""
    longest = session.hub.broker.limits.name_bytes
    if len(pattern) > longest:
        raise LimitReached("name_bytes", longest)
    glob = Glob(pattern)
    if glob.weigh() > GLOB_WEIGHT:
        raise CommandError(f"ERR more than {GLOB_WEIGHT} classes between the stars of a pattern")
    return glob


def listed(names: Sequence[bytes], glob: Glob | None) -> Iterator[Reply]:
    """The names that match, as an answer in parts."""
    if glob is not None:
        found: list[bytes] = []
        for portion in portions(names):
            found += filter(glob.matches, portion)
            yield NOTHING
        names = found
    yield array_of(len(names))
    for portion in portions(names):
        yield Several(portion)


def names_in(session: RespSession, names: Sequence[bytes]) -> int:
    """The bytes of an answer with these names in it."""
    return sum(map(len, names)) + NAME_BYTES * len(names)


def steps_of(session: RespSession, entry: CommandEntry, command: list[bytes]) -> int:
    """The steps of a command, as far as they can be known before."""
    steps = COMMAND_STEPS + entry.each * len(command)
    if isinstance(entry.steps, int):
        return steps + entry.steps
    return steps + entry.steps(session, arguments_of(entry, command))


def arguments_of(entry: CommandEntry, command: list[bytes]) -> list[bytes]:
    return command[2 if "|" in entry.name else 1 :]


def charge(session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
    """Refuse a command that would hold everybody up, or answer too much. One of few words whose
    steps do not depend on what there is needs no look."""
    if not entry.is_sliced:
        Allowance(session.hub.broker.limits).take(session, entry, command)


def refusal(session: RespSession, reached: LimitReached) -> CommandError:
    """The answer to what is beyond a limit."""
    session.hub.record_limit(session.id, reached)
    advice = ADVICE.get(reached.name)
    return CommandError(f"ERR {reached}" + (f": {advice}" if advice else ""))


class Allowance:
    """The allowance that is left for one command or one transaction."""

    __slots__ = ("_limits", "bytes", "steps")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.steps = limits.command_steps
        self.bytes = limits.reply_bytes

    def take(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
        """Charge a command, or refuse it. One with too many words is not looked at."""
        if COMMAND_STEPS + entry.each * len(command) <= self.steps:
            self.steps -= steps_of(session, entry, command)
        else:
            self.steps = -1
        if self.steps < 0:
            raise LimitReached("command_steps", self._limits.command_steps)
        size = 0
        if entry.answer is not None:
            size = entry.answer(session, arguments_of(entry, command))
        if size > self.bytes:
            raise LimitReached("reply_bytes", self._limits.reply_bytes)

    def answered(self, size: int) -> None:
        """So many bytes are made."""
        self.bytes -= size
