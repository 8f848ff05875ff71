"""The commands: what they are called, what they take, and who carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.channels.audience import Kind
from headgate.wire.resp.codec.replies import CommandError, Reply, text_of

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

Handler: TypeAlias = "Callable[[RespSession, list[bytes]], Reply]"
"""Carries a command out; it is given the arguments without the names of the command."""

Keys: TypeAlias = tuple[int, int, int]
"""The first key, the last (negative from the end), and the step; zeros for none."""

KeysIn: TypeAlias = Callable[[list[bytes]], list[bytes]]
"""Finds the keys of a whole command, its name included."""

Weigh: TypeAlias = "Callable[[RespSession, list[bytes]], int]"
"""Tells beforehand what a command will come to; it is given the arguments as the handler is."""

QUOTED_BYTES = 128
"""Of the arguments of an unknown command so many are quoted."""


class ChannelUse(Enum):
    """The use that a command makes of the channels that it names, for access rules."""

    USES = "uses"
    """It publishes or subscribes: the user has to have a right to each."""
    PATTERNS = "patterns"
    """The same of patterns, which have to be allowed as they stand."""
    LEAVES = "leaves"
    """A client may unsubscribe from any name."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its names, what it takes, what it may cost, and who carries it out."""

    name: str
    """In lower case; of a subcommand ``client|setname``."""
    arity: int
    """With the names; negative for at least so many."""
    flags: tuple[str, ...]
    categories: tuple[str, ...]
    """Of access rules, without the @."""
    keys: Keys
    run: Handler | None
    """None if it takes a subcommand."""
    each: int = 1
    """Steps for each of its arguments; see `command_cost.py`."""
    steps: Weigh | int = 0
    """Steps besides; a function tells them if they depend on what there is."""
    answer: Weigh | None = None
    """Bytes of the answer, about, if they may be many."""
    is_sliced: bool = False
    """It answers in parts, and is not bounded by its steps unless in a transaction."""
    publishes: Kind | None = None
    """It publishes to the channel that is its first argument: it waits for slow subscribers."""
    channels: ChannelUse | None = None
    """Its arguments, or the first if it publishes, are channels; else access rules look at keys."""
    is_confirmed: bool = False
    """Its answers confirm subscriptions, and CLIENT REPLY does not silence them."""
    while_subscribed: bool = False
    """A subscriber of RESP2 may ask for it."""
    is_queued: bool = True
    """A transaction keeps it for EXEC."""
    needs_login: bool = True
    """The client has to be known first."""
    find_keys: KeysIn | None = None
    """Finds its keys, where their places depend on the words before them."""
    subcommands: dict[bytes, CommandEntry] = field(default_factory=dict)
    """By their own names, in upper case."""

    @property
    def takes_turns(self) -> bool:
        """Whether it is about streams, which the core carries out in turns."""
        return self.name.startswith("x")

    def accepts(self, count: int) -> bool:
        return count == self.arity if self.arity >= 0 else count >= -self.arity


class CommandTable:
    """Commands by name, in upper case, each with its traits.

    The modules of commands fill it when they are imported; nothing changes it later.
    """

    def __init__(self, *parts: CommandTable) -> None:
        self._entries: dict[bytes, CommandEntry] = {}
        for part in parts:
            self._entries |= part._entries

    def family(
        self, name: str, arity: int, *, flags: tuple[str, ...], categories: tuple[str, ...]
    ) -> None:
        """Describe what has only subcommands, if it is not like its first one."""
        entry = CommandEntry(name, arity, flags, categories, (0, 0, 0), None)
        self._entries[name.upper().encode()] = entry

    def command(
        self,
        name: str,
        arity: int,
        *,
        flags: tuple[str, ...] = ("fast",),
        categories: tuple[str, ...] = ("fast",),
        keys: Keys = (0, 0, 0),
        each: int = 1,
        steps: Weigh | int = 0,
        answer: Weigh | None = None,
        is_sliced: bool = False,
        publishes: Kind | None = None,
        channels: ChannelUse | None = None,
        is_confirmed: bool = False,
        while_subscribed: bool = False,
        is_queued: bool = True,
        find_keys: KeysIn | None = None,
    ) -> Callable[[Handler], Handler]:
        """Register a handler: ``ping`` or, for a subcommand, ``client|id``. A command with
        subcommands exists as soon as its first one is registered."""

        def register(run: Handler) -> Handler:
            entry = CommandEntry(
                name,
                arity,
                flags,
                categories,
                keys,
                run,
                each,
                steps,
                answer,
                is_sliced,
                publishes,
                channels,
                is_confirmed,
                while_subscribed,
                is_queued,
                needs_login="no_auth" not in flags,
                find_keys=find_keys,
            )
            first, _, second = name.upper().encode().partition(b"|")
            if second:
                whole = self._entries.get(first)
                if whole is None:
                    whole = CommandEntry(
                        first.decode().lower(), -2, flags, categories, (0, 0, 0), None
                    )
                    self._entries[first] = whole
                whole.subcommands[second] = entry
            else:
                self._entries[first] = entry
            return run

        return register

    def find(self, command: list[bytes]) -> CommandEntry:
        """The entry of a request, or the error that Redis has for it."""
        entry = self._entries.get(command[0].upper())
        if entry is None:
            # RESP-12: quoted in one line, and the session goes on.
            raise CommandError(_unknown(command))
        if entry.subcommands and len(command) > 1:
            part = entry.subcommands.get(command[1].upper())
            if part is None:
                name, typed = entry.name.upper(), _quoted(command[1])
                raise CommandError(f"ERR unknown subcommand '{typed}'. Try {name} HELP.")
            entry = part
        # S002-82, RESP-38: refused before anything is carried out.
        if entry.run is None or not entry.accepts(len(command)):
            raise CommandError(f"ERR wrong number of arguments for '{entry.name}' command")
        return entry

    def get(self, name: bytes) -> CommandEntry | None:
        """The entry of a name such as ``get`` or ``client|id``, in any case."""
        first, _, second = name.upper().partition(b"|")
        entry = self._entries.get(first)
        return entry.subcommands.get(second) if entry is not None and second else entry

    def __iter__(self) -> Iterator[CommandEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _unknown(command: list[bytes]) -> str:
    quoted = ""
    for argument in command[1:]:
        if len(quoted) >= QUOTED_BYTES:
            break
        quoted += f"'{_quoted(argument, QUOTED_BYTES - len(quoted))}' "
    return f"ERR unknown command '{_quoted(command[0])}', with args beginning with: {quoted}"


def quoted(argument: bytes, most: int = QUOTED_BYTES) -> str:
    """The beginning of what a client named, for an error: it may have named megabytes."""
    return text_of(argument[:most])


def _quoted(argument: bytes, most: int = QUOTED_BYTES) -> str:
    """As C prints it: up to a NUL."""
    return text_of(argument.partition(b"\0")[0][:most])
