"""Traits of a kind of fact, beside its fields: who takes it, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, dataclass_transform

from headgate.core.model.value import value

T = TypeVar("T")

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity, which costs nothing
class FactCounter:
    """A metric that facts are counted in."""

    name: str
    """Without `_total`."""
    help: str
    labels: tuple[str, ...] = ()
    """Fields of the fact whose values it is counted by."""
    adds: str = ""
    """The field that is added; without one it is 1 for each fact."""


@dataclass(frozen=True, slots=True)
class FactKind:
    """How the facts of a class are journalled, logged and counted."""

    is_rare: bool
    """No stored change goes with it. Usually there are few; a flood is counted instead."""
    log: LogLevel | None
    """How important its line is; None if there is no line."""
    counters: tuple[FactCounter, ...]
    """The metrics that it feeds."""
    per_queue: str | None
    """The name of its count in the statistics of a queue; None if it has none."""


FACT_KINDS: dict[type[Any], FactKind] = {}
"""Of every class of facts that was defined."""


@dataclass_transform(frozen_default=True)
def fact(
    *counters: FactCounter, rare: bool, log: LogLevel | None, per_queue: str | None = None
) -> Callable[[type[T]], type[T]]:
    """A class of facts. Whoever defines one has to say how it is taken."""

    def define(cls: type[T]) -> type[T]:
        made = value(cls)
        FACT_KINDS[made] = FactKind(rare, log, counters, per_queue)
        return made

    return define
