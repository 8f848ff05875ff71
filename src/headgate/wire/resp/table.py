"""The commands: what they are called, what they take, and who carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headgate.wire.resp.replies import CommandError, Reply, text_of

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

Handler: TypeAlias = "Callable[[RespSession, list[bytes]], Reply]"
"""Carries a command out; it is given the arguments without the names of the command."""

Keys: TypeAlias = tuple[int, int, int]
"""The first key, the last (negative from the end), and the step; zeros for none."""

QUOTED_BYTES = 128
"""Of the arguments of an unknown command so many are quoted."""


@dataclass(frozen=True, slots=True)
class Entry:
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
    subcommands: dict[bytes, Entry] = field(default_factory=dict)
    """By their own names, in upper case."""

    def accepts(self, count: int) -> bool:
        return count == self.arity if self.arity >= 0 else count >= -self.arity


class Table:
    """Commands by name, in upper case."""

    def __init__(self, *parts: Table) -> None:
        self._entries: dict[bytes, Entry] = {}
        for part in parts:
            self._entries |= part._entries

    def family(
        self, name: str, arity: int, *, flags: tuple[str, ...], categories: tuple[str, ...]
    ) -> None:
        """Describe what has only subcommands, if it is not like its first one."""
        entry = Entry(name, arity, flags, categories, (0, 0, 0), None)
        self._entries[name.upper().encode()] = entry

    def command(
        self,
        name: str,
        arity: int,
        *,
        flags: tuple[str, ...] = ("fast",),
        categories: tuple[str, ...] = ("fast",),
        keys: Keys = (0, 0, 0),
    ) -> Callable[[Handler], Handler]:
        """Register a handler: ``ping`` or, for a subcommand, ``client|id``. What has
        subcommands is there as soon as its first subcommand is."""

        def register(run: Handler) -> Handler:
            entry = Entry(name, arity, flags, categories, keys, run)
            first, _, second = name.upper().encode().partition(b"|")
            if second:
                whole = self._entries.get(first)
                if whole is None:
                    whole = Entry(first.decode().lower(), -2, flags, categories, (0, 0, 0), None)
                    self._entries[first] = whole
                whole.subcommands[second] = entry
            else:
                self._entries[first] = entry
            return run

        return register

    def find(self, command: list[bytes]) -> Entry:
        """The entry of a request, or the error that Redis has for it."""
        entry = self._entries.get(command[0].upper())
        if entry is None:
            raise CommandError(_unknown(command))
        if entry.subcommands and len(command) > 1:
            part = entry.subcommands.get(command[1].upper())
            if part is None:
                name, typed = entry.name.upper(), _quoted(command[1])
                raise CommandError(f"ERR unknown subcommand '{typed}'. Try {name} HELP.")
            entry = part
        if entry.run is None or not entry.accepts(len(command)):
            raise CommandError(f"ERR wrong number of arguments for '{entry.name}' command")
        return entry

    def get(self, name: bytes) -> Entry | None:
        """The entry of a name such as ``get`` or ``client|id``, in any case."""
        first, _, second = name.upper().partition(b"|")
        entry = self._entries.get(first)
        return entry.subcommands.get(second) if entry is not None and second else entry

    def __iter__(self) -> Iterator[Entry]:
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


def _quoted(argument: bytes, most: int = QUOTED_BYTES) -> str:
    """As C prints it: up to a NUL."""
    return text_of(argument.partition(b"\0")[0][:most])
