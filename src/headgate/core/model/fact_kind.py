"""The traits of each kind of fact, beside its fields: where it goes, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, dataclass_transform

from headgate.core.model.value import value

T = TypeVar("T")

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity, which costs nothing
class FactCounter:
    """A metric that counts facts."""

    name: str
    """Without `_total`."""
    help: str
    labels: tuple[str, ...] = ()
    """Fields of the fact that become its labels."""
    adds: str = ""
    """The field that is added; without one, 1 for each fact."""


@dataclass(frozen=True, slots=True)
class FactKind:
    """How the facts of a class are journalled, logged and counted."""

    is_rare: bool
    """It comes without a stored change. Usually there are few; a flood is counted instead."""
    log: LogLevel | None
    """The level of its log line; None for no line."""
    counters: tuple[FactCounter, ...]
    """The metrics that it feeds."""
    per_queue: str | None
    """The name of its count in the statistics of a queue; None if it is not counted there."""


FACT_KINDS: dict[type[Any], FactKind] = {}
"""The traits of every class of facts."""


@dataclass_transform(frozen_default=True)
def fact(
    *counters: FactCounter, rare: bool, log: LogLevel | None, per_queue: str | None = None
) -> Callable[[type[T]], type[T]]:
    """Declare a class of facts, with its traits."""

    def define(cls: type[T]) -> type[T]:
        made = value(cls)
        FACT_KINDS[made] = FactKind(rare, log, counters, per_queue)
        return made

    return define
