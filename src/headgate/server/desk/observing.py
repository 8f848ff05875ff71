"""Observers at the desk, handed the facts that they want: one look at each fact, whatever becomes
of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headgate.core.facts import Fact


class Observers:
    """Observers by the kinds of facts they take. The router hands it the facts of each turn."""

    def __init__(self) -> None:
        self._takers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def add(self, kinds: Iterable[type[Any]], take: Callable[[Any], None]) -> None:
        for kind in kinds:
            self._takers.setdefault(kind, []).append(take)

    def observe(self, facts: Sequence[Fact]) -> None:
        takers = self._takers
        for fact in facts:
            found = takers.get(type(fact))
            if found is not None:
                for take in found:
                    take(fact)
