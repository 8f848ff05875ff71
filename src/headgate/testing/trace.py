"""A trace of a world: one line per step, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Protocol

from headgate.core.model.message import Message
from headgate.core.turn.store_requests import Batch, Load

LINES_SHOWN = 40
"""Lines of the trace that a violation carries."""


class Violation(AssertionError):
    """The error that a checker saw something that must not happen."""

    def __init__(self, checker: str, what: str, seed: int, lines: list[str]) -> None:
        super().__init__(checker, what, seed, lines)
        self.checker = checker
        self.what = what
        self.seed = seed
        self.lines = lines

    def __str__(self) -> str:
        shown = "\n".join(self.lines[-LINES_SHOWN:])
        return f"seed {self.seed}: {self.checker}: {self.what}\n{shown}"


class Watch(Protocol):
    """The clock of a world, as its trace reads it."""

    @property
    def now(self) -> float: ...


class Trace:
    """The trace of a world. Lines are written down as what they are made of, and become text when
    somebody reads them: most worlds end well, and nobody does."""

    def __init__(self, clock: Watch) -> None:
        self._clock = clock
        self._lines: list[tuple[float, str, str, tuple[object, ...]]] = []

    def add(self, who: str, what: str, *about: object) -> None:
        """One step: its actor and its action; `about` follows, briefly."""
        self._lines.append((self._clock.now, who, what, about))

    def lines(self, last: int | None = None) -> list[str]:
        chosen = self._lines if last is None else self._lines[-last:]
        return [
            " ".join([f"{at:9.3f}  {who:<18} {what}", *(brief(part) for part in about)])
            for at, who, what, about in chosen
        ]

    def __len__(self) -> int:
        return len(self._lines)


def brief(thing: object) -> str:
    """A command, an effect or a batch in a few words."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, bytes):
        return thing.decode(errors="backslashreplace")
    if isinstance(thing, Message):
        return thing.id.decode(errors="backslashreplace")
    if isinstance(thing, list | tuple):
        return f"[{', '.join(brief(part) for part in thing)}]"
    if isinstance(thing, Batch | Load):
        return _asked(thing)
    if isinstance(thing, BaseException):
        return f"({thing})"
    if hasattr(thing, "__dataclass_fields__"):
        return f"{type(thing).__name__}({', '.join(_parts(thing))})"
    return str(thing)


HIDDEN = {"ref", "at", "membership", "domain", "expected", "tally", "attempts"}
"""Fields that say little to somebody who reads a trace."""


def _parts(thing: Any) -> Iterable[str]:  # noqa: ANN401
    for field in fields(thing):
        item = getattr(thing, field.name)
        if field.name in HIDDEN or item in (None, "", (), False):
            continue
        yield f"#{item}" if field.name == "session" else brief(item)


def _asked(asked: Batch | Load) -> str:
    parts = []
    for field in fields(asked):
        item = getattr(asked, field.name)
        if item:
            many = len(item) if hasattr(item, "__len__") else 1
            parts.append(f"{field.name} {many}")
    return f"{type(asked).__name__.lower()}: {', '.join(parts) or 'nothing'}"
